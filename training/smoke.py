"""``python -m training --smoke``: every stage in seconds, on tones instead of teachers.

The sound source below is synthetic and declared as such: each letter is a buzz with one formant.
It shows that the recipe is whole, that its files fit each other and that the engine opens what
comes out; nobody is meant to understand it.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from engine.weights import read_json
from training.codec import fit_codec, write_codec
from training.decoder import train_decoder
from training.emotion import make_directions
from training.encode import encode_speech
from training.evaluate import evaluate
from training.export import export, save_speaker
from training.lm import FROM_SCRATCH, Recipe, train
from training.pack import pack
from training.quantizer import Quantizer
from training.report import write_curves
from training.speaker import train_speaker
from training.speech import render_batches
from training.teacher import PHONEMES, SAMPLE_RATE_HZ, TICK_SAMPLES, Spoken
from training.templates import Templates
from training.voices import FIRST_FOLDED, HEART, MOODS, voice_of
from training.work import Work

NANO = Path(__file__).parents[1] / "assets" / "nano"
NUM_TEXTS = 260
NUM_CODEBOOKS, CODEBOOK_SIZE = 4, 32
EMBEDDING_DIM = 16
TICKS_PER_LETTER = 5
MINUTES = 0.02
TINY_CODEC = {"width": 16, "hidden": 32}
TINY_SPEAKER = {
    "lin_neurons": EMBEDDING_DIM,
    "embedding_dim": EMBEDDING_DIM,
    "channels": [16, 16, 16, 16, 48],
    "attention_channels": 8,
    "se_channels": 8,
}
TINY_MODEL = {
    "n_layers": 4,
    "dim": 32,
    "head_dim": 16,
    "n_heads": 2,
    "n_kv_heads": 1,
    "multiple_of": 16,
    "moe_router_dim": 8,
    "max_seqlen": 1400,
    "n_codebooks": NUM_CODEBOOKS,
    "codebook_size": CODEBOOK_SIZE,
    "eoa_id": CODEBOOK_SIZE,
    "audio_pad_id": CODEBOOK_SIZE + 1,
    "speaker_embedding_dim": EMBEDDING_DIM,
}


def smoke(folder: Path | None = None) -> int:
    """Run all stages in ``folder`` (a temporary one by default) -> 0."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return smoke(Path(temporary))
    work, base = Work.at(folder), folder / "base"
    base.mkdir(exist_ok=True)
    write_tiny_configs(base)
    templates = Templates(random.Random(0), ["Lisbon"])
    texts = [{"text": templates.sentence(), "kind": "template"} for _ in range(NUM_TEXTS)]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    render_batches(work, buzz, hours=1.0, draw=draw_of_few)
    codec = fit_codec(work, base, hours=1.0)
    shutil.copyfile(codec / "codec.safetensors", base / "codec.safetensors")
    declare_silence(base, json.loads((codec / "silence.json").read_text(encoding="utf-8")))
    state = train_decoder(work, base, MINUTES, from_weights=True, hours=0.1)
    write_codec(base, Quantizer.load(base), read_state(state)["decoder"])
    state = train_speaker(work, base, MINUTES, 1.0, "speaker", from_scratch=True)
    save_speaker(base, state)
    train_speaker(work, base, MINUTES / 2, 1.0, "speaker-robust", from_scratch=False)
    encode_speech(work, base, base)
    shards = sorted(work.folder("shards").glob("*.npz"))
    pack(shards, work.folder("packed"), max_mib=1.0)
    packed = sorted(work.folder("packed").glob("*.npz"))
    recipe = Recipe(minutes=2 * MINUTES, batch_rows=1200, journal_every=2, **FROM_SCRATCH)
    state = train(work, recipe, start=None, params=base, shards=packed, device=_cpu())
    evaluate(work, base, state, packed)
    make_directions(packed, folder / "emotion")
    export(base, folder / "export", lm=state, decoder=None, speaker=None, shards=packed)
    write_curves(work, folder / "report")
    print(f"smoke: every stage ran; the engine opened and spoke {folder / 'export'}")
    return 0


def _cpu() -> Any:
    import torch

    return torch.device("cpu")


def read_state(path: Path) -> dict[str, Any]:
    """A training state: tensors and numbers only."""
    import torch

    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def write_tiny_configs(base: Path) -> None:
    """The embedded checkpoint's JSON files with small sizes."""
    codec = read_json(NANO / "codec.json")
    codec |= {"n_codebooks": NUM_CODEBOOKS, "codebook_size": CODEBOOK_SIZE}
    codec["decoder"] |= TINY_CODEC
    params = read_json(NANO / "params.json") | TINY_MODEL
    speaker = read_json(NANO / "speaker_encoder.json") | TINY_SPEAKER
    for name, content in (("codec", codec), ("params", params), ("speaker_encoder", speaker)):
        (base / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    declare_silence(base, [0] * NUM_CODEBOOKS)


def declare_silence(base: Path, codes: list[int]) -> None:
    """Put the codec's silence into ``params.json``."""
    params = read_json(base / "params.json")
    params["silence_frames"] = [codes] * len(params["silence_frames"])
    (base / "params.json").write_text(json.dumps(params), encoding="utf-8")


def draw_of_few(rng: np.random.Generator) -> int:
    """Heart and deep, else one of three pseudo-speakers in any mood."""
    if rng.random() < 0.2:
        return HEART
    return FIRST_FOLDED + int(rng.integers(1, 5)) * len(MOODS) + int(rng.integers(len(MOODS)))


def buzz(text: str, speaker: int, speed: float, rng: np.random.Generator) -> Spoken:
    """A stand-in for a teacher: letters as phonemes, a pulse train through one resonance each."""
    voice, _ = voice_of(speaker)
    letters = [c if c in PHONEMES else "ə" for c in text.lower()]
    ticks = max(2, round(TICKS_PER_LETTER / speed / voice.pace))
    pieces = [np.zeros(TICK_SAMPLES * ticks)]
    time_s = np.arange(TICK_SAMPLES * ticks) / SAMPLE_RATE_HZ
    for letter in letters:
        f0 = 200 * voice.f0_scale
        formant = (300 + 90 * (ord(letter) % 32)) * voice.formant_scale
        partials = f0 * np.arange(1, int(5000 / f0))
        gains = 1 / (1 + ((partials - formant) / 200) ** 2)
        tone = (np.sin(2 * np.pi * np.outer(time_s, partials)) * gains).sum(1)
        pieces.append(tone * (0.02 if letter in " .,?!" else 1.0))
    pieces.append(np.zeros(SAMPLE_RATE_HZ))
    samples = np.concatenate(pieces) + 1e-3 * rng.standard_normal(sum(map(len, pieces)))
    ends = tuple(ticks * (i + 1) for i in range(len(letters) + 1))
    return Spoken(samples.astype(np.float32), ends[-1] * TICK_SAMPLES, "".join(letters), ends)
