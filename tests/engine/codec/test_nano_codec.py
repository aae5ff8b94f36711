"""The nano codec against its recorded output, and its loading."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.codec.base import Codec, open_codec
from engine.codec.nano import NanoCodec
from engine.errors import CheckpointError

ROOT = Path(__file__).parents[3]
NANO = ROOT / "assets" / "nano"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("codec.json", "codec.safetensors"):
        shutil.copy(NANO / name, tmp_path / name)
    return tmp_path


def edit_json(folder: Path, change: dict) -> None:
    content = json.loads((folder / "codec.json").read_text())
    content["decoder"].update(change.pop("decoder", {}))
    (folder / "codec.json").write_text(json.dumps(content | change))


def edit_tensors(folder: Path, change: dict[str, torch.Tensor | None]) -> None:
    tensors = load_file(folder / "codec.safetensors") | change
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "codec.safetensors")


def test_decoding_equals_the_recorded_samples(nano: NanoCodec) -> None:
    check = np.load(ROOT / "tests" / "golden" / "nano_check.npz")
    codes = torch.from_numpy(check["codes"].astype(np.int64))
    samples = nano.decode(codes[None])[0]
    assert samples.shape == (40 * 1764,)
    np.testing.assert_allclose(samples.numpy(), check["pcm"], atol=1e-4, rtol=0)


def test_open_codec_gives_a_codec_with_its_facts() -> None:
    codec: Codec = open_codec(NANO, "cpu")
    facts = codec.sample_rate_hz, codec.hop, codec.num_codebooks, codec.codebook_size
    assert facts == (44_100, 1764, 9, 1024)
    assert codec.decode(torch.zeros(1, 1, 9, dtype=torch.int64)).dtype == torch.float32


def test_no_frames_give_no_samples(nano: NanoCodec) -> None:
    assert nano.decode(torch.zeros(2, 0, 9, dtype=torch.int64)).shape == (2, 0)


def test_a_code_outside_its_codebook_is_not_read_from_the_next(nano: NanoCodec) -> None:
    with pytest.raises(IndexError):
        nano.decode(torch.full((1, 2, 9), 1024))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"codec_type": "opus"}, "codec_type 'opus'; known are nano"),
        ({"hop": 1700}, "hop must be 4 times istft_hop"),
        ({"hop": "many"}, "unusable value"),
        ({"decoder": {"context_frames_left": 10}}, "declares a context of (10, 3) frames"),
        ({"decoder": {"width": 104}}, "decoder.inp.weight"),
    ],
)
def test_a_wrong_codec_json_is_told_by_key(folder: Path, change: dict, told: str) -> None:
    edit_json(folder, change)
    with pytest.raises(CheckpointError) as caught:
        open_codec(folder, "cpu")
    assert told in caught.value.message and "\n" not in caught.value.message


def test_a_missing_key_is_named(folder: Path) -> None:
    content = json.loads((folder / "codec.json").read_text())
    del content["latent_dim"]
    (folder / "codec.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="lacks the key 'latent_dim'"):
        open_codec(folder, "cpu")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"decoder.out.bias": None}, "decoder.out.bias"),
        ({"decoder.extra": torch.zeros(2)}, "decoder.extra"),
        ({"encoder.unheard_of": torch.zeros(2)}, "encoder.unheard_of"),
        ({"quantizer.codebooks": torch.zeros(9, 1024, 71)}, "quantizer.codebooks"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(folder: Path, change: dict, told: str) -> None:
    edit_tensors(folder, change)
    with pytest.raises(CheckpointError) as caught:
        open_codec(folder, "cpu")
    assert told in caught.value.message and "\n" not in caught.value.message


def test_the_waveform_encoder_may_be_absent(folder: Path) -> None:
    names = ("mean", "projection", "first_projection", "first_centroids")
    edit_tensors(folder, {f"encoder.{name}": None for name in names})
    assert open_codec(folder, "cpu").hop == 1764


@pytest.mark.parametrize("name", ["codec.json", "codec.safetensors"])
def test_an_absent_or_damaged_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:50])
    with pytest.raises(CheckpointError, match=name):
        open_codec(folder, "cpu")
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"has no {name}"):
        open_codec(folder, "cpu")
