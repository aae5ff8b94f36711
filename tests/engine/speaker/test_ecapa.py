"""The release's speaker encoder against a slow implementation in numpy and transformers' own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.compat import ensure_torchaudio
from engine.errors import CheckpointError, InvalidReference
from engine.speaker.ecapa import EcapaConfig, EcapaSpeakerEncoder, EcapaTdnn
from engine.speaker.encoder import open_speaker_encoder

RELEASE = EcapaConfig.from_dict({})
SMALL = {
    "mel_dim": 12,
    "enc_dim": 10,
    "enc_channels": [8, 8, 8, 8, 14],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 6,
    "enc_res2net_scale": 4,
    "enc_se_channels": 5,
    "sample_rate": 24_000,
}


def random_network(config: EcapaConfig) -> EcapaTdnn:
    torch.manual_seed(0)
    return EcapaTdnn(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def small() -> EcapaTdnn:
    return random_network(EcapaConfig.from_dict(SMALL))


@pytest.fixture
def checkpoint(small: EcapaTdnn, tmp_path: Path) -> Path:
    """A checkpoint folder with a small encoder as it is published: bfloat16 in its subfolder."""
    folder = tmp_path / "speaker_encoder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL | {"architectures": ["Ecapa"]}))
    tensors = {name: tensor.bfloat16() for name, tensor in small.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    return tmp_path


@pytest.fixture
def encoder(checkpoint: Path) -> EcapaSpeakerEncoder:
    encoder = open_speaker_encoder(checkpoint)
    assert isinstance(encoder, EcapaSpeakerEncoder)
    return encoder


class Slow:
    """Spec section 7.1 in numpy, one output at a time, on a table of published names."""

    def __init__(self, network: EcapaTdnn) -> None:
        self.tensors = {name: t.double().numpy() for name, t in network.state_dict().items()}

    def conv(self, name: str, x: np.ndarray, dilation: int = 1) -> np.ndarray:
        weight, bias = self.tensors[name + ".weight"], self.tensors[name + ".bias"]
        outputs, _, size = weight.shape
        last = x.shape[1] - 1
        y = np.zeros((outputs, x.shape[1]))
        for t in range(x.shape[1]):
            for tap in range(size):
                position = abs(t + dilation * (tap - size // 2))
                position = last - abs(last - position)  # mirrored at both ends
                y[:, t] += weight[:, :, tap] @ x[:, position]
        return y + bias[:, None]

    def tdnn(self, name: str, x: np.ndarray, dilation: int = 1) -> np.ndarray:
        return np.maximum(self.conv(name + ".conv", x, dilation), 0)

    def stage(self, number: int, x: np.ndarray, dilation: int, scale: int) -> np.ndarray:
        prefix = f"blocks.{number}."
        groups = np.split(self.tdnn(prefix + "tdnn1", x), scale)
        done = [groups[0]]
        for j in range(1, scale):
            fed = groups[j] if j == 1 else groups[j] + done[j - 1]
            done.append(self.tdnn(f"{prefix}res2net_block.blocks.{j - 1}", fed, dilation))
        y = self.tdnn(prefix + "tdnn2", np.concatenate(done))
        squeezed = np.maximum(self.conv(prefix + "se_block.conv1", y.mean(1, keepdims=True)), 0)
        gate = 1 / (1 + np.exp(-self.conv(prefix + "se_block.conv2", squeezed)))
        return x + y * gate

    def embed(self, features: np.ndarray, dilations: list[int], scale: int) -> np.ndarray:
        x = self.tdnn("blocks.0", features.T, dilations[0])
        outputs = []
        for number in (1, 2, 3):
            x = self.stage(number, x, dilations[number], scale)
            outputs.append(x)
        h = self.tdnn("mfa", np.concatenate(outputs), dilations[4])
        mean, deviation = h.mean(1), np.sqrt(np.maximum(h.var(1), 1e-12))
        context = [h, *(np.repeat(s[:, None], h.shape[1], 1) for s in (mean, deviation))]
        scores = self.conv("asp.conv", np.tanh(self.tdnn("asp.tdnn", np.concatenate(context))))
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        mean = (weights * h).sum(1)
        variance = (weights * (h - mean[:, None]) ** 2).sum(1)
        pooled = np.concatenate([mean, np.sqrt(np.maximum(variance, 1e-12))])
        return self.conv("fc", pooled[:, None])[:, 0]


def published_shapes() -> dict[str, tuple[int, ...]]:
    """Every tensor of the released file, from the table of spec section 7.1."""
    weights = {
        "blocks.0.conv": (512, 128, 5),
        "mfa.conv": (1536, 1536, 1),
        "asp.tdnn.conv": (128, 4608, 1),
        "asp.conv": (1536, 128, 1),
        "fc": (2048, 3072, 1),
    }
    for block in (1, 2, 3):
        for part in ("tdnn1", "tdnn2"):
            weights[f"blocks.{block}.{part}.conv"] = (512, 512, 1)
        for j in range(7):
            weights[f"blocks.{block}.res2net_block.blocks.{j}.conv"] = (64, 64, 3)
        weights[f"blocks.{block}.se_block.conv1"] = (128, 512, 1)
        weights[f"blocks.{block}.se_block.conv2"] = (512, 128, 1)
    biases = {f"{name}.bias": shape[:1] for name, shape in weights.items()}
    return {f"{name}.weight": shape for name, shape in weights.items()} | biases


def test_the_release_has_the_published_76_tensors_and_12_million_numbers() -> None:
    with torch.device("meta"):
        tensors = EcapaTdnn(RELEASE).state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    assert shapes == published_shapes() and len(shapes) == 76
    assert sum(tensor.numel() for tensor in tensors.values()) == pytest.approx(12.0e6, rel=0.001)


def test_the_embedding_is_that_of_the_slow_implementation(small: EcapaTdnn) -> None:
    features = torch.randn(2, 23, 12, generator=torch.Generator().manual_seed(1)) - 4
    embeddings = small(features)
    for clip, embedding in zip(features, embeddings, strict=True):
        expected = Slow(small).embed(clip.double().numpy(), SMALL["enc_dilations"], 4)
        np.testing.assert_allclose(embedding.numpy(), expected, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_the_release_is_the_network_that_transformers_has_in_another_model() -> None:
    ensure_torchaudio()
    from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import ECAPA_TimeDelayNet

    sizes = SimpleNamespace(
        mel_dim=RELEASE.num_mels,
        enc_dim=RELEASE.dim,
        enc_channels=list(RELEASE.channels),
        enc_kernel_sizes=list(RELEASE.kernel_sizes),
        enc_dilations=list(RELEASE.dilations),
        enc_attention_channels=RELEASE.attention_channels,
        enc_res2net_scale=RELEASE.res2net_scale,
        enc_se_channels=RELEASE.se_channels,
    )
    theirs = ECAPA_TimeDelayNet(sizes).eval().requires_grad_(False)
    ours = random_network(RELEASE)
    theirs.load_state_dict(ours.state_dict())
    features = torch.randn(1, 300, 128, generator=torch.Generator().manual_seed(1)) - 4
    torch.testing.assert_close(ours(features), theirs(features), atol=1e-5, rtol=0)


def test_the_front_end_has_librosas_filters_on_windows_of_the_mirrored_clip(
    encoder: EcapaSpeakerEncoder, spoken: np.ndarray
) -> None:
    librosa_filters = pytest.importorskip("librosa").filters
    mirrored = np.pad(spoken.astype(np.float64), 384, mode="reflect")
    starts = range(0, len(mirrored) - 1023, 256)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    magnitude = np.abs([np.fft.rfft(mirrored[start : start + 1024] * hann) for start in starts])
    filters = librosa_filters.mel(sr=24_000, n_fft=1024, n_mels=12, fmin=0, fmax=12_000)
    expected = np.log(np.maximum(magnitude @ filters.T, 1e-5))
    features = encoder._log_mel(torch.from_numpy(spoken)).numpy()
    assert features.shape == (len(spoken) // 256, 12)
    np.testing.assert_allclose(features, expected, atol=2e-4, rtol=0)


def test_a_recording_is_resampled_as_the_reference_does_and_left_at_its_level(
    encoder: EcapaSpeakerEncoder, small: EcapaTdnn, spoken: np.ndarray
) -> None:
    ensure_torchaudio()
    from torchaudio.transforms import MelSpectrogram, Resample

    recording = 0.3 * Resample(24_000, 44_100)(torch.from_numpy(spoken)) + 0.01
    at_24_khz = Resample(44_100, 24_000)(recording)
    mirrored = torch.nn.functional.pad(at_24_khz[None], (384, 384), mode="reflect")
    mel = MelSpectrogram(
        24_000, n_fft=1024, hop_length=256, f_max=12_000.0, n_mels=12, power=1.0, center=False,
        norm="slaney", mel_scale="slaney",
    )  # fmt: skip
    features = mel(mirrored).clamp(min=1e-5).log().mT
    network = EcapaTdnn(EcapaConfig.from_dict(SMALL)).eval()
    rounded = {name: tensor.bfloat16().float() for name, tensor in small.state_dict().items()}
    network.load_state_dict(rounded)
    embedding = encoder.encode(recording.numpy(), 44_100)
    assert embedding.dtype == torch.float32 and embedding.shape == (encoder.dim,) == (10,)
    torch.testing.assert_close(embedding, network(features)[0].detach(), atol=1e-6, rtol=0)


def test_a_bad_recording_is_refused(encoder: EcapaSpeakerEncoder) -> None:
    with pytest.raises(InvalidReference, match="silent"):
        encoder.encode(np.zeros(48_000, np.float32), 24_000)
    with pytest.raises(InvalidReference, match="at least 1"):
        encoder.encode(np.ones(300, np.float32), 24_000)


def test_keys_that_the_file_leaves_out_are_the_releases(checkpoint: Path) -> None:
    path = checkpoint / "speaker_encoder" / "config.json"
    content = json.loads(path.read_text())
    del content["sample_rate"], content["enc_dilations"]
    path.write_text(json.dumps(content))
    encoder = open_speaker_encoder(checkpoint)
    assert encoder is not None and encoder.sample_rate_hz == 24_000
    assert RELEASE.dim == 2048


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"enc_dim": "large"}, "config.json has an unusable value"),
        ({"enc_channels": [8, 8, 8, 14]}, "differ in length"),
        ({"enc_channels": [8, 8, 12, 8, 14]}, "must be one multiple of enc_res2net_scale 4"),
        ({"enc_res2net_scale": 0}, "unusable value"),
        ({"enc_kernel_sizes": [4, 3, 3, 3, 1]}, "must be odd"),
        ({"enc_dim": 11}, "fc.weight is [10, 28, 1], must be [11, 28, 1]"),
    ],
)
def test_a_wrong_configuration_is_told(checkpoint: Path, change: dict[str, Any], told: str) -> None:
    path = checkpoint / "speaker_encoder" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError) as caught:
        open_speaker_encoder(checkpoint)
    assert told in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["asp.conv.bias", "blocks.2.res2net_block.blocks.1.conv.weight"])
def test_a_missing_tensor_is_named(checkpoint: Path, name: str) -> None:
    path = checkpoint / "speaker_encoder" / "model.safetensors"
    tensors = load_file(path)
    del tensors[name]
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=f"speaker_encoder/model.safetensors.*{name}"):
        open_speaker_encoder(checkpoint)
