"""DAC files as people have them: three spellings of one decoder, and what is wrong with some."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.codec.base import open_codec
from engine.codec.dac import DacCodec
from engine.codec.dac_files import DacConfig
from engine.compat import ensure_torchaudio
from engine.errors import CheckpointError

DESCRIPT_FILE = "weights_44khz_8kbps_0.0.1.pth"
TINY = {
    "encoder_hidden_size": 2,
    "downsampling_ratios": [2, 4],
    "decoder_hidden_size": 8,
    "n_codebooks": 3,
    "codebook_size": 16,
    "codebook_dim": 4,
    "sampling_rate": 8000,
}


def transformers_dac(**sizes: Any) -> Any:
    ensure_torchaudio()
    from transformers import DacConfig as TheirConfig
    from transformers import DacModel

    torch.manual_seed(0)
    model = DacModel(TheirConfig(**sizes)).eval().requires_grad_(False)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def tiny_codes() -> Tensor:
    return torch.randint(0, 16, (2, 11, 3), generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def oracle() -> Any:
    return transformers_dac(**TINY)


@pytest.fixture(scope="module")
def expected(oracle: Any) -> Tensor:
    samples: Tensor = oracle.decode(audio_codes=tiny_codes().mT).audio_values
    assert samples.shape == (2, 88) and float(samples.abs().mean()) > 0.05
    return samples


@pytest.fixture
def checkpoint(oracle: Any, tmp_path: Path) -> Path:
    """A checkpoint folder with transformers' two files in its subfolder."""
    oracle.save_pretrained(tmp_path / "dac_44khz")
    return tmp_path


def descript_content(oracle: Any) -> dict[str, Any]:
    """The same weights as descript's package would save them."""
    tensors = {name: tensor.clone() for name, tensor in oracle.state_dict().items()}
    names = {
        "decoder.conv1": "decoder.model.0",
        "decoder.snake1": "decoder.model.3",
        "decoder.conv2": "decoder.model.4",
    }
    for block in (0, 1):
        names[f"decoder.block.{block}.snake1"] = f"decoder.model.{block + 1}.block.0"
        names[f"decoder.block.{block}.conv_t1"] = f"decoder.model.{block + 1}.block.1"
        for unit in (1, 2, 3):
            for part, name in enumerate(("snake1", "conv1", "snake2", "conv2")):
                theirs = f"decoder.block.{block}.res_unit{unit}.{name}"
                names[theirs] = f"decoder.model.{block + 1}.block.{unit + 1}.block.{part}"
    renamed = {}
    for name, tensor in tensors.items():
        module, _, leaf = name.rpartition(".")
        renamed[f"{names.get(module, module)}.{leaf}"] = tensor
    sizes = {
        "encoder_dim": 2,
        "encoder_rates": [2, 4],
        "latent_dim": None,
        "decoder_dim": 8,
        "decoder_rates": [4, 2],
        "n_codebooks": 3,
        "codebook_size": 16,
        "codebook_dim": 4,
        "quantizer_dropout": False,
        "sample_rate": 8000,
    }
    return {"state_dict": renamed, "metadata": {"kwargs": sizes}}


def with_weight_norm(tensors: dict[str, Tensor], length: str, direction: str) -> dict[str, Tensor]:
    """Every convolution as length and direction, the direction at another scale."""
    split = {}
    for name, tensor in tensors.items():
        if name.endswith(".weight") and tensor.ndim == 3:
            prefix = name.removesuffix(".weight")
            split[prefix + length] = torch.linalg.vector_norm(tensor, dim=(1, 2), keepdim=True)
            split[prefix + direction] = 3 * tensor
        else:
            split[name] = tensor
    return split


def assert_told(action: Callable[[], Any], *parts: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        action()
    message = caught.value.message
    assert "\n" not in message and message.startswith("model: ")
    for part in parts:
        assert part in message


def test_transformers_files_in_the_subfolder_are_found(checkpoint: Path, expected: Tensor) -> None:
    codec = open_codec(checkpoint, "cpu")
    assert (codec.sample_rate_hz, codec.hop, codec.num_codebooks) == (8000, 8, 3)
    torch.testing.assert_close(codec.decode(tiny_codes()), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("subfolder", ["", "dac_44khz"])
@pytest.mark.parametrize(
    ("length", "direction"),
    [
        (".weight_g", ".weight_v"),
        (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
    ],
)
def test_descripts_file_is_found_in_every_spelling(
    oracle: Any, expected: Tensor, tmp_path: Path, subfolder: str, length: str, direction: str
) -> None:
    content = descript_content(oracle)
    content["state_dict"] = with_weight_norm(content["state_dict"], length, direction)
    (tmp_path / subfolder).mkdir(exist_ok=True)
    torch.save(content, tmp_path / subfolder / DESCRIPT_FILE)
    samples = open_codec(tmp_path, "cpu").decode(tiny_codes())
    torch.testing.assert_close(samples, expected, atol=1e-5, rtol=0)


def test_weight_norm_under_transformers_names_is_folded_too(
    checkpoint: Path, expected: Tensor
) -> None:
    path = checkpoint / "dac_44khz" / "model.safetensors"
    save_file(with_weight_norm(load_file(path), ".weight_g", ".weight_v"), path)
    samples = open_codec(checkpoint, "cpu").decode(tiny_codes())
    torch.testing.assert_close(samples, expected, atol=1e-5, rtol=0)


def test_codec_json_of_type_dac_is_opened(checkpoint: Path, expected: Tensor) -> None:
    (checkpoint / "codec.json").write_text(json.dumps({"codec_type": "dac", **TINY}))
    shutil.move(checkpoint / "dac_44khz" / "model.safetensors", checkpoint / "codec.safetensors")
    shutil.rmtree(checkpoint / "dac_44khz")
    samples = open_codec(checkpoint, "cpu").decode(tiny_codes())
    torch.testing.assert_close(samples, expected, atol=1e-5, rtol=0)


def test_the_encoders_half_may_be_absent_and_half_precision_is_computed_in_float32(
    checkpoint: Path, expected: Tensor
) -> None:
    path = checkpoint / "dac_44khz" / "model.safetensors"
    tensors = {
        name: tensor.half()
        for name, tensor in load_file(path).items()
        if not name.startswith("encoder.") and ".in_proj." not in name
    }
    save_file(tensors, path)
    samples = open_codec(checkpoint, "cpu").decode(tiny_codes())
    assert samples.dtype == torch.float32
    torch.testing.assert_close(samples, expected, atol=0.05, rtol=0)


def test_without_any_codec_it_is_said_what_to_fetch_and_where_to_put_it(tmp_path: Path) -> None:
    told = "no codec.json and no DAC codec", "descript/dac_44khz", DESCRIPT_FILE, "subfolder"
    assert_told(lambda: open_codec(tmp_path, "cpu"), *told)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_an_absent_or_damaged_file_is_named(checkpoint: Path, name: str) -> None:
    path = checkpoint / "dac_44khz" / name
    path.write_bytes(path.read_bytes()[:60])
    assert_told(lambda: open_codec(checkpoint, "cpu"), name)
    path.unlink()
    assert_told(lambda: open_codec(checkpoint, "cpu"), f"'dac_44khz' has no {name}")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"decoder_hidden_size": 16}, "decoder.model.0.weight is [8, 8, 7], must be [16, 8, 7]"),
        ({"decoder_hidden_size": 6}, "width 6 cannot be halved 2 times"),
        ({"downsampling_ratios": [2, 5]}, "strides [5, 2]; only even ones"),
        ({"downsampling_ratios": []}, "strides []"),
        ({"codebook_dim": "wide"}, "sizes cannot be used"),
        ({"sampling_rate": None}, "lacks the key 'sampling_rate'"),
    ],
)
def test_a_wrong_size_is_told(checkpoint: Path, change: dict[str, Any], told: str) -> None:
    path = checkpoint / "dac_44khz" / "config.json"
    content = json.loads(path.read_text()) | change
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    assert_told(lambda: open_codec(checkpoint, "cpu"), told)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"decoder.conv2.bias": None}, "decoder.model.4.bias"),
        ({"decoder.extra": torch.zeros(2)}, "decoder.extra"),
        ({"decoder.conv1.weight_g": torch.ones(8, 1, 1)}, "decoder.model.0.weight_g"),
        ({"quantizer.quantizers.1.codebook.weight": torch.zeros(15, 4)}, "must be [16, 4]"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    checkpoint: Path, change: dict[str, Tensor | None], told: str
) -> None:
    path = checkpoint / "dac_44khz" / "model.safetensors"
    tensors = load_file(path) | change
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)
    assert_told(lambda: open_codec(checkpoint, "cpu"), told)


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Path.touch, (Path("exploded"),)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"state_dict": {}}, "lacks descript's state_dict or metadata"),
        ({"metadata": {"kwargs": {}}}, "lacks descript's state_dict or metadata"),
        ({"state_dict": {}, "metadata": {"kwargs": {}}}, "missing: decoder.model.0.bias"),
        ([1, 2], "lacks descript's state_dict or metadata"),
        ({"state_dict": {}, "metadata": {"kwargs": {"decoder_rates": 8}}}, "cannot be used"),
        ({"state_dict": {}, "metadata": Bomb()}, "is refused"),
    ],
)
def test_another_file_under_descripts_name_is_refused(
    tmp_path: Path, content: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, tmp_path / DESCRIPT_FILE)
    assert_told(lambda: open_codec(tmp_path, "cpu"), told)
    assert not (tmp_path / "exploded").exists()


def test_a_truncated_descript_file_is_told(oracle: Any, tmp_path: Path) -> None:
    path = tmp_path / DESCRIPT_FILE
    torch.save(descript_content(oracle), path)
    path.write_bytes(path.read_bytes()[:-2000])
    assert_told(lambda: open_codec(tmp_path, "cpu"), DESCRIPT_FILE, "damaged")


def test_sizes_left_out_of_descripts_file_are_its_constructors() -> None:
    release = DacConfig.from_descript({})
    assert release == DacConfig(44_100, 9, 1024, 8, 1024, 1536, (8, 8, 4, 2))
    with torch.device("meta"):
        num_tensors = len(DacCodec(release).state_dict())
    assert num_tensors == 9 * 3 + 2 * 2 + 1 + 4 * (1 + 2 + 3 * 6)
