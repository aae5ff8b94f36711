"""From a labelled folder to directions that the engine opens, by a real encoder and checkpoint."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.engine import Engine
from engine.request import Emotion, SpeechRequest
from engine.speaker.ecapa import EcapaConfig, EcapaTdnn
from engine.speaker.encoder import open_speaker_encoder
from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import declared_controls
from engine.zonos2.emotion import EmotionDirections
from training.emotion_corpus import CorpusJudge, make_from_corpus, speaker_spaces, usable
from training.emotion_directions import directions_of, embed_corpus, read_corpus

RATE_HZ = 24_000
VOICES_HZ = {"ann": 220.0, "bob": 120.0}
# How loud an emotion is, and how steeply its harmonics fall: natural logarithms of amplitude.
MANNERS = {"neutral": (0.0, 0.0), "happy": (0.7, 0.7), "sad": (-1.0, 0.0)}
ENCODER_SIZES = {
    "mel_dim": 32, "enc_dim": 96, "enc_channels": [8, 8, 8, 8, 16], "enc_res2net_scale": 2,
    "enc_attention_channels": 8, "enc_se_channels": 4,
}  # fmt: skip


def voiced(voice: str, manner: tuple[float, float], seed: int) -> np.ndarray:
    """1.1 s of a buzz with a few harmonics, spoken in a manner, never twice quite alike."""
    random = np.random.default_rng(seed)
    loudness, brightness = manner
    time_s = np.arange(round(1.1 * RATE_HZ)) / RATE_HZ
    buzz = sum(
        h ** (brightness - 1.5) * np.sin(2 * np.pi * h * VOICES_HZ[voice] * time_s)
        for h in range(1, 20)
    )
    level = 0.1 * np.exp(loudness + random.normal(0, 0.05))
    return (level * (buzz + 0.03 * random.standard_normal(len(time_s)))).astype(np.float32)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("corpus")
    for speaker in VOICES_HZ:
        for emotion, manner in MANNERS.items():
            folder = root / f"{speaker}_{emotion}"
            folder.mkdir()
            for seed in range(4):
                clip = voiced(speaker, manner, seed)
                soundfile.write(folder / f"{seed}.flac", clip, RATE_HZ)
            soundfile.write(folder / "too short.flac", clip[:2000], RATE_HZ)
    return root


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden 5-layer checkpoint with a small speaker encoder of the release's kind."""
    folder = tmp_path_factory.mktemp("checkpoint")
    packed = Path(__file__).parents[1] / "golden" / "tiny_checkpoint"
    (folder / "model.pth").write_bytes(lzma.decompress((packed / "model.pth.xz").read_bytes()))
    shutil.copy(packed / "params.json", folder)
    (folder / "speaker_encoder").mkdir()
    (folder / "speaker_encoder" / "config.json").write_text(json.dumps(ENCODER_SIZES))
    torch.manual_seed(0)
    network = EcapaTdnn(EcapaConfig.from_dict(ENCODER_SIZES))
    save_file(network.state_dict(), folder / "speaker_encoder" / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def config(checkpoint: Path) -> Zonos2Config:
    return Zonos2Config.load(checkpoint)


@pytest.fixture(scope="module")
def model(checkpoint: Path, config: Zonos2Config) -> Backbone:
    return load_backbone(checkpoint, config, "cpu", torch.float32)


@pytest.mark.parametrize("space", ["raw", "lda", "proj"])
def test_one_step_moves_a_speakers_neutral_mean_to_the_emotions_mean(
    corpus: Path,
    checkpoint: Path,
    config: Zonos2Config,
    model: Backbone,
    tmp_path: Path,
    space: str,
) -> None:
    clips = {e: [str(corpus / f"ann_{e}" / f"{n}.flac") for n in range(4)] for e in MANNERS}
    listed = {emotion: {"ann": paths} for emotion, paths in clips.items()}
    (tmp_path / "manifest.json").write_text(json.dumps(listed))
    make_from_corpus(tmp_path, checkpoint, tmp_path / "out", space)
    directions = EmotionDirections.open(tmp_path / "out", config)
    assert (directions.names, directions.axes) == (("happy", "sad"), ("valence", "arousal"))
    assert not directions.is_calibrated

    encoder = open_speaker_encoder(checkpoint)
    assert encoder is not None
    means = {
        emotion: torch.stack(
            [encoder.encode(*soundfile.read(p, dtype="float32")) for p in paths]
        ).mean(0)
        for emotion, paths in clips.items()
    }
    neutral = means["neutral"]
    for name in directions.names:
        row = directions.steer(model, neutral, Emotion(sliders={name: 1.0}), None)
        if space == "raw":
            expected = model.project_speaker(means[name] * neutral.norm() / means[name].norm())
        elif space == "lda":
            plain, image = (model.speaker_lda_projection(v) for v in (neutral, means[name]))
            expected = model.speaker_projection(image * plain.norm() / image.norm())
        else:
            expected = model.project_speaker(means[name])
        torch.testing.assert_close(row, expected, atol=1e-3, rtol=0)
        assert float((row - model.project_speaker(neutral)).abs().max()) > 0.1


def test_the_projected_space_is_the_models_own(checkpoint: Path, model: Backbone) -> None:
    vectors = torch.randn(5, 96, generator=torch.Generator().manual_seed(0))
    project, matrices = speaker_spaces(checkpoint, "proj")
    assert matrices is None
    expected = model.project_speaker(vectors)
    torch.testing.assert_close(project(vectors), expected, atol=1e-4, rtol=0)
    to_lda, matrices = speaker_spaces(checkpoint, "lda")
    assert matrices is not None
    image = to_lda(vectors)
    expected = model.speaker_lda_projection(vectors)
    torch.testing.assert_close(image, expected, atol=1e-4, rtol=0)
    back = (image - matrices["bias"]) @ matrices["pinv"].T
    torch.testing.assert_close(to_lda(back), image, atol=1e-3, rtol=0)


def test_a_model_that_cannot_serve_is_told(corpus: Path, checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no space 'polar'"):
        make_from_corpus(corpus, checkpoint, tmp_path / "out", "polar")
    with pytest.raises(ValueError, match="has no speaker encoder"):
        make_from_corpus(corpus, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_judge_knows_the_corpuss_own_steps(corpus: Path, checkpoint: Path) -> None:
    encoder = open_speaker_encoder(checkpoint)
    assert encoder is not None
    encode = usable(encoder)
    embeddings = embed_corpus(read_corpus(corpus), encode)
    judge = CorpusJudge(embeddings, encode)
    plain = voiced("ann", MANNERS["neutral"], seed=7), RATE_HZ
    for emotion in ("happy", "sad"):
        spoken = voiced("ann", MANNERS[emotion], seed=8), RATE_HZ
        other = "sad" if emotion == "happy" else "happy"
        assert judge(spoken, plain, emotion) > 0.8 > 0.2 > judge(spoken, plain, other)
        assert judge(plain, plain, emotion) < 0.2
    assert judge((np.zeros(48_000, np.float32), RATE_HZ), plain, "sad") == 0.0
    assert set(directions_of(embeddings)) == {"happy", "sad"}


class FakeEngine:
    """Is as happy as the corpus at strength 4 and as sad at strength 3, and more beyond."""

    def __init__(self, config: Zonos2Config) -> None:
        self.voices: dict[str, Tensor] = {}
        self.family = SimpleNamespace(controls=declared_controls(config))
        self.requests: list[SpeechRequest] = []

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def submit(self, request: SpeechRequest) -> Any:
        self.requests.append(request)
        manner = MANNERS["neutral"]
        if request.emotion is not None:
            ((name, _),) = request.emotion.sliders.items()
            share = request.emotion.strength / (4.0 if name == "happy" else 3.0)
            manner = tuple(share * part for part in MANNERS[name])
        audio = voiced("ann", manner, seed=len(request.text)), RATE_HZ
        return SimpleNamespace(read=lambda: audio)


def test_the_engine_is_calibrated_on_the_corpuss_voices(
    corpus: Path, checkpoint: Path, config: Zonos2Config, tmp_path: Path
) -> None:
    engine = FakeEngine(config)
    opened_with: list[bool] = []

    def open_engine() -> Engine:
        opened_with.append(EmotionDirections.open(tmp_path / "out", config).is_calibrated)
        return cast(Engine, engine)

    make_from_corpus(corpus, checkpoint, tmp_path / "out", "proj", open_engine)
    assert opened_with == [False]
    assert EmotionDirections.open(tmp_path / "out", config).is_calibrated
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert set(found["by_speaker"]) == {"ann", "bob"}
    assert found["by_speaker"]["ann"]["happy"] in (3.0, 4.0, 5.0)
    assert found["by_speaker"]["ann"]["sad"] in (2.0, 3.0, 4.0)
    assert engine.requests[0].delivery.quality_buckets == dict.fromkeys(config.quality_buckets)
    assert {request.seed for request in engine.requests} == {1234}
    assert all(request.voice_id is None for request in engine.requests)
