"""Stage ``export``: what training made as a checkpoint folder that the engine opens.

- Whatever is not given anew comes from the base folder.
- Matrices of the language model are stored as int8 with one scale per row, which the engine's
  loader expands (``engine.weights``); vectors and what chooses experts stay as they are.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import soxr
import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file
from torch import Tensor

from engine import Engine
from engine.weights import ROW_SCALE, store_rows
from training.codec import write_codec
from training.evaluate import load_teacher
from training.quantizer import Quantizer
from training.shards import read_shards
from training.voices import DEEP, FIRST_DEEP, HEART
from training.work import replacing

COPIED = ("params.json", "codec.json", "speaker_encoder.json", "NOTICE", "README.md")
WEIGHTS = (
    "model.safetensors",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "codec.safetensors",
    "speaker_encoder.safetensors",
    "voices.safetensors",
)
# Routers choose, and a choice is knife-edge: their small matrices are not worth rounding.
KEPT_EXACT = (".router.",)
MIN_ROUNDED_NUMBERS = 4096
MAX_FILE_BYTES = 9 * 2**20
MIN_VOICE_S = 1.8
CHECKED_FRAMES = 40
# Name -> speakers of the corpus (``training.voices``): the teacher, its deep variant in both
# renderings, and six pseudo-speakers from low to high.
DEFAULT_VOICES = {
    "heart": (HEART,),
    "deep": (FIRST_DEEP, DEEP),
    "calm": (326,),
    "warm": (557,),
    "clear": (101,),
    "soft": (481,),
    "lively": (479,),
    "bright": (563,),
}
PREVIEW_TEXT = "Hello, this is my voice. I hope you like how it sounds."
PREVIEW_SEED, PREVIEW_RATE_HZ = 1, 48_000


def export(
    base: Path,
    folder: Path,
    *,
    lm: Path | None,
    decoder: Path | None,
    speaker: Path | None,
    shards: list[Path],
) -> None:
    """Write the checkpoint to ``folder`` and open it once; ``lm`` etc. are training states."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*COPIED, *WEIGHTS):
        if (base / name).exists() and not (folder / name).exists():
            shutil.copyfile(base / name, folder / name)
    if lm is not None:
        save_language_model(folder, rounded(load_teacher(base, lm)[0].model.state_dict()))
    if decoder is not None:
        weights = torch.load(decoder, weights_only=True)["decoder"]
        write_codec(folder, Quantizer.load(base), weights)
    if speaker is not None:
        save_speaker(folder, speaker)
    if shards:
        write_default_voices(folder, shards)
    with Engine.open(folder, device="cpu", num_slots=1) as engine:
        engine.speak("This box speaks.", seed=1, max_new_frames=CHECKED_FRAMES).read()


def save_language_model(
    folder: Path, stored: dict[str, Tensor], max_file_bytes: int = MAX_FILE_BYTES
) -> None:
    """Write the weights in files that a Space's plain git takes, with their index if several."""
    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    save_torch_state_dict(stored, folder, max_shard_size=max_file_bytes)


def rounded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Large matrices as int8 and row scales; the rest as bfloat16, router biases as float32."""
    stored: dict[str, Tensor] = {}
    for name, value in state.items():
        if name.endswith("balancing_biases"):
            stored[name] = value.float().contiguous()
        elif (
            value.dim() < 2
            or value.numel() < MIN_ROUNDED_NUMBERS
            or any(k in name for k in KEPT_EXACT)
        ):
            stored[name] = value.bfloat16().contiguous()
        else:
            matrix, scale = store_rows(value)
            stored[name], stored[name + ROW_SCALE] = matrix.contiguous(), scale.contiguous()
    return stored


def save_speaker(folder: Path, state: Path) -> None:
    """Write ``speaker_encoder.safetensors`` from a training state, as float16."""
    weights = torch.load(state, weights_only=True)["encoder"]
    halves = {n: v.half() if v.is_floating_point() else v for n, v in weights.items()}
    with replacing(folder / "speaker_encoder.safetensors") as temporary:
        save_file({n: v.contiguous() for n, v in halves.items()}, temporary)


def write_default_voices(folder: Path, shards: list[Path]) -> None:
    """``voices.safetensors``: the mean embedding of every default voice that the shards hold."""
    names = {speaker: name for name, own in DEFAULT_VOICES.items() for speaker in own}
    vectors: dict[str, list[Tensor]] = {}
    for utterance in read_shards(shards):
        if utterance.speaker in names and utterance.speech_s > MIN_VOICE_S:
            vector = torch.from_numpy(utterance.embedding).float()
            vectors.setdefault(names[utterance.speaker], []).append(vector)
    if vectors:
        means = {name: torch.stack(all_of).mean(0).half() for name, all_of in vectors.items()}
        with replacing(folder / "voices.safetensors") as temporary:
            save_file(means, temporary)


def write_previews(checkpoint: Path, folder: Path) -> None:
    """``NAME.ogg`` of every voice of a checkpoint: what it sounds like before it is chosen."""
    import soundfile

    folder.mkdir(parents=True, exist_ok=True)
    with Engine.open(checkpoint, device="cpu", num_slots=1) as engine:
        for name in engine.voices:
            samples, rate = engine.speak(PREVIEW_TEXT, voice=name, seed=PREVIEW_SEED).read()
            half = soxr.resample(samples, rate, PREVIEW_RATE_HZ).clip(-1, 1)
            path = folder / f"{name}.ogg"
            soundfile.write(path, half, PREVIEW_RATE_HZ, format="OGG", subtype="OPUS")
