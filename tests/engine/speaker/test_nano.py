"""nano's speaker encoder against its recorded output, its behaviour and its loading."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from engine.errors import CheckpointError, InvalidReference
from engine.speaker import nano as nano_module
from engine.speaker.encoder import open_speaker_encoder
from engine.speaker.nano import NanoSpeakerEncoder
from engine.speaker.reference import resampled
from engine.speaker.voices import load_voices

ROOT = Path(__file__).parents[3]
NANO = ROOT / "assets" / "nano"


def likeness(first: torch.Tensor, second: torch.Tensor) -> float:
    return float(F.cosine_similarity(first, second, dim=0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("speaker_encoder.json", "speaker_encoder.safetensors"):
        shutil.copy(NANO / name, tmp_path / name)
    return tmp_path


def test_the_embedding_equals_the_recorded_one(encoder: NanoSpeakerEncoder) -> None:
    check = np.load(ROOT / "tests" / "golden" / "nano_check.npz")
    embedding = encoder.embed(torch.from_numpy(check["speaker_features"])[None])[0]
    np.testing.assert_allclose(embedding.numpy(), check["speaker_embedding"], atol=1e-3, rtol=0)


def test_a_recording_is_most_like_its_own_voice(
    encoder: NanoSpeakerEncoder, spoken: np.ndarray
) -> None:
    embedding, voices = encoder.encode(spoken, 24_000), load_voices(NANO)
    assert embedding.shape == (encoder.dim,) and embedding.dtype == torch.float32
    assert likeness(embedding, voices["heart"]) > 0.7
    assert likeness(embedding, voices["deep"]) < 0.3


def test_level_and_silence_around_do_not_change_the_voice(
    encoder: NanoSpeakerEncoder, spoken: np.ndarray
) -> None:
    embedding = encoder.encode(spoken, 24_000)
    assert likeness(encoder.encode(0.05 * spoken, 24_000), embedding) > 0.9999
    assert likeness(encoder.encode(np.pad(spoken, 48_000), 24_000), embedding) > 0.99


def test_the_same_recording_at_another_rate_is_the_same_voice(
    encoder: NanoSpeakerEncoder, spoken: np.ndarray
) -> None:
    embedding = encoder.encode(spoken, 24_000)
    for rate_hz in (44_100, 48_000):
        higher = resampled(spoken, 24_000, rate_hz).numpy()
        assert likeness(encoder.encode(higher, rate_hz), embedding) > 0.95


def test_every_moment_of_a_long_recording_counts(encoder: NanoSpeakerEncoder) -> None:
    features = torch.randn(1000, 80, generator=torch.Generator().manual_seed(0))
    stretches = encoder._windows(features)
    assert stretches.shape == (16, 120, 80)
    assert torch.equal(stretches[1, 0], features[60])
    assert torch.equal(stretches[-1], features[-120:])
    assert encoder._windows(features[:120]).shape == (1, 120, 80)
    assert encoder._windows(features[:121]).shape == (2, 120, 80)


@pytest.mark.parametrize("name", ["AmericanFemale", "AmericanMale", "BritishFemale"])
def test_halves_of_a_human_recording_are_one_voice_and_other_people_are_not(
    encoder: NanoSpeakerEncoder, shared_folder: Path, name: str
) -> None:
    halves = {}
    for path in sorted((shared_folder / "voices").glob("*.mp3")):
        samples, rate_hz = soundfile.read(path, dtype="float32")
        halves[path.stem] = [
            encoder.encode(half, rate_hz) for half in np.array_split(samples.mean(1), 2)
        ]
    first, second = halves.pop(name)
    others = [likeness(first, other) for pair in halves.values() for other in pair]
    assert likeness(first, second) > 0.6 > 0.35 > max(others)


def test_a_bad_recording_is_refused(encoder: NanoSpeakerEncoder) -> None:
    with pytest.raises(InvalidReference, match="silent"):
        encoder.encode(np.zeros(48_000, np.float32), 24_000)


def test_threads_that_come_first_together_build_one_network(
    folder: Path, spoken: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = open_speaker_encoder(folder)
    assert encoder is not None
    build = mock.Mock(wraps=nano_module._ecapa_class)
    monkeypatch.setattr(nano_module, "_ecapa_class", build)
    results: list[torch.Tensor] = []
    threads = [
        threading.Thread(target=lambda: results.append(encoder.encode(spoken, 24_000)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert build.call_count == 1
    assert len(results) == 4 and all(torch.equal(result, results[0]) for result in results)


def test_opening_imports_neither_speechbrain_nor_torchaudio() -> None:
    program = (
        "import sys; from pathlib import Path;"
        "from engine.speaker.encoder import open_speaker_encoder;"
        f"open_speaker_encoder(Path({str(NANO)!r}));"
        "sys.exit(any(name in sys.modules for name in ('speechbrain', 'torchaudio', 'librosa')))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=240)


def test_loading_leaves_no_module_that_fails_when_looked_at(encoder: NanoSpeakerEncoder) -> None:
    encoder.warm()
    for name, module in sys.modules.copy().items():
        if name.startswith("speechbrain"):
            assert getattr(module, "anything_at_all", None) is None


def test_without_speechbrain_the_error_names_the_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = open_speaker_encoder(folder)
    assert encoder is not None
    monkeypatch.setitem(sys.modules, "speechbrain.lobes.models.ECAPA_TDNN", None)
    with pytest.raises(CheckpointError, match="package speechbrain"):
        encoder.warm()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"type": "x_vector"}, "type 'x_vector'; known are ecapa_tdnn"),
        ({"embedding_dim": 64}, "embedding_dim 64 is not lin_neurons"),
        ({"mel_scale": "htk"}, "mel_scale 'htk' is not 'slaney'"),
        ({"channels": None}, "lacks the key 'channels'"),
    ],
)
def test_a_wrong_configuration_is_told_by_key(folder: Path, change: dict, told: str) -> None:
    path = folder / "speaker_encoder.json"
    content = json.loads(path.read_text()) | change
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    with pytest.raises(CheckpointError) as caught:
        open_speaker_encoder(folder)
    assert told in caught.value.message


def test_a_tensor_that_does_not_fit_is_named_at_first_use(folder: Path) -> None:
    tensors = load_file(folder / "speaker_encoder.safetensors")
    del tensors["fc.conv.bias"]
    save_file(tensors, folder / "speaker_encoder.safetensors")
    encoder = open_speaker_encoder(folder)
    assert encoder is not None
    with pytest.raises(CheckpointError, match=r"fc\.conv\.bias"):
        encoder.warm()
