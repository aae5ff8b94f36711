"""GGUF files of zonos2.cpp: opened, they are the same model; broken, they say in which way."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import engine.memory
import engine.zonos2.gguf
from engine import CheckpointError, Engine
from engine.hub import CODEC_REPOSITORY, ENCODER_REPOSITORY, locate
from engine.zonos2.attention import causal_attend
from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.family import Zonos2Family
from engine.zonos2.footprint import footprint
from tests.shadow.gguf import (
    PARAMS,
    metadata,
    read_gguf,
    release_tensors,
    stored_tensors,
    write_gguf,
)
from tests.shadow.release import make_codec, make_encoder, random_weights

pytest.importorskip("gguf")

CPU = torch.device("cpu")
FACTS = metadata(PARAMS)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    made = random_weights(PARAMS, ends=False)
    for name, tensor in made.items():
        if name.endswith("temp"):
            tensor[:, ::2] *= -1  # a file holds the absolute value
    return made


@pytest.fixture(scope="module")
def tensors(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return stored_tensors(weights, PARAMS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the codec beside which files are written."""
    folder = tmp_path_factory.mktemp("gguf")
    make_codec(folder / "dac_44khz")
    return folder


@pytest.fixture(scope="module")
def f16(place: Path, tensors: dict[str, Tensor]) -> Path:
    return write_gguf(place / "zonos2-f16.gguf", tensors, FACTS)


@pytest.fixture(scope="module")
def q4_k(place: Path, tensors: dict[str, Tensor]) -> Path:
    return write_gguf(place / "zonos2-q4_k.gguf", tensors, FACTS, kind="Q8_0", experts="Q4_K")


@pytest.fixture(scope="module")
def folder(place: Path, weights: dict[str, Tensor]) -> Path:
    """The same model as the release keeps it."""
    return as_folder(place / "release", weights)


@pytest.fixture(scope="module")
def wide(place: Path, q4_k: Path) -> Path:
    """The weights of the quantised file, dequantised, as the release keeps its own."""
    return as_folder(place / "wide", release_tensors(read_gguf(q4_k), PARAMS))


@pytest.fixture(scope="module")
def meant(folder: Path) -> Tensor:
    """The logits of the release's own weights."""
    return logits(opened(folder))


def as_folder(folder: Path, weights: dict[str, Tensor]) -> Path:
    folder.mkdir()
    (folder / "params.json").write_text(json.dumps(PARAMS))
    save_file(
        {name: tensor.contiguous() for name, tensor in weights.items()},
        folder / "model.safetensors",
    )
    (folder / "dac_44khz").symlink_to(folder.parent / "dac_44khz")
    return folder


def opened(path: Path, experts_dtype: torch.dtype | None = None) -> Backbone:
    return load_backbone(path, Zonos2Config.load(path), CPU, torch.float32, experts_dtype)


@torch.inference_mode()
def logits(model: Backbone) -> Tensor:
    config = model.config
    generator = torch.Generator().manual_seed(7)
    codes = torch.randint(config.audio_vocab, (2, 24, config.num_codebooks), generator=generator)
    text = torch.randint(config.text_vocab, (2, 24, 1), generator=generator)
    speaker = torch.randn(2, config.speaker_dim or 0, generator=generator)
    x = model.embed(torch.cat([codes, text], dim=-1), model.project_speaker(speaker))
    return model.head(model(x, torch.arange(24)[None], causal_attend))


def refusal(path: Path | str) -> str:
    with pytest.raises(CheckpointError) as caught:
        Engine.open(path, device="cpu", num_slots=1)
    message = caught.value.message
    assert message.startswith("model: ")
    assert "\n" not in message
    return message


# The same model -----------------------------------------------------------------------------


def test_metadata_and_the_controls_of_the_release_are_its_params(f16: Path, folder: Path) -> None:
    found, meant = Zonos2Config.load(f16), Zonos2Config.load(folder)
    assert replace(found, extra={}) == replace(meant, extra={})
    assert found.moe_topk == (1, 1, 1, 1, 2, 1)


def test_f16_computes_what_the_release_does(f16: Path, meant: Tensor) -> None:
    model = opened(f16)
    assert model.layers[4].feed_forward.router.balancing_biases.dtype is torch.float32
    # bfloat16 fits into float16, but for numbers below 2^-14.
    torch.testing.assert_close(logits(model), meant, atol=1e-4, rtol=0)


def test_q8_0_stays_near_it(tensors: dict[str, Tensor], meant: Tensor, tmp_path: Path) -> None:
    found = logits(opened(write_gguf(tmp_path / "q8.gguf", tensors, FACTS, kind="Q8_0")))
    # Logits spread by 3. Where the two best experts are near each other another one may be chosen,
    # so a few rows are far off; of the others it is a hundredth.
    apart = (found - meant).square().mean(dim=(-1, -2)).sqrt()
    assert apart.median() < 0.06
    assert (found.argmax(-1) == meant.argmax(-1)).float().mean() > 0.94


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_narrow_experts_are_those_of_the_same_weights_in_a_folder(
    q4_k: Path, wide: Path, dtype: torch.dtype
) -> None:
    found, meant = opened(q4_k, dtype), opened(wide, dtype)
    for (name, tensor), other in zip(
        found.state_dict().items(), meant.state_dict().values(), strict=True
    ):
        assert torch.equal(tensor.float(), other.float()), name
    for layer in (3, 4):
        one, other = (model.layers[layer].feed_forward.experts for model in (found, meant))
        assert all(map(torch.equal, one.scales, other.scales))


def test_a_spoken_request_is_that_of_the_dequantised_weights(q4_k: Path, wide: Path) -> None:
    heard = []
    for model in (q4_k, wide):
        with Engine.open(model, device="cpu", num_slots=1) as speaking:
            heard.append(speaking.speak("Hello.", seed=3, max_new_frames=12).read()[0])
            assert speaking.name == model.stem
    # The samples are the codes, each 512 of them: one other code would be heard.
    np.testing.assert_array_equal(*heard)
    assert np.abs(heard[0]).max() > 0.01


@pytest.mark.parametrize(
    ("kind", "block", "number"),
    [
        # (scale 2 x 4-bit 3) x 0.5 - (offset 1) x 0.25, all scales and offsets alike
        ("Q4_K", [0x00, 0x38, 0x00, 0x34, *[2] * 4, *[1] * 4, *[0x12] * 4, *[0x33] * 128], 2.75),
        # (6-bit 0 - 32) x (scale 3) x 0.5
        ("Q6_K", [*[0] * 192, *[3] * 16, 0x00, 0x38], -48.0),
    ],
)
def test_k_quantisations_are_read_in_the_order_of_torch(
    tensors: dict[str, Tensor], tmp_path: Path, kind: str, block: list[int], number: float
) -> None:
    from gguf import GGUFReader

    file = write_gguf(tmp_path / "k.gguf", tensors, FACTS, experts=kind)
    # The second block of row 5 of expert 2: numbers 256 to 511 of ffn_down_exps [4, 256, 512].
    name = "blk.3.ffn_down_exps.weight"
    down = next(tensor for tensor in GGUFReader(file, "r+").tensors if tensor.name == name)
    down.data[2, 5, len(block) :] = block
    w2 = opened(file).layers[3].feed_forward.experts.w2
    assert (w2[2, 5, 256:] == number).all()
    assert not (w2[2, 5, :256] == number).any()
    assert not (w2[2, 4, 256:] == number).any()


# What is beside it --------------------------------------------------------------------------


def test_a_folder_is_its_one_model_whatever_else_of_zonos2_cpp_lies_in_it(
    f16: Path, tensors: dict[str, Tensor], tmp_path: Path
) -> None:
    make_codec(tmp_path / "dac_44khz")
    make_encoder(tmp_path / "speaker_encoder")
    alone = Path(shutil.copy(f16, tmp_path / "mine.gguf"))
    write_gguf(tmp_path / "dac.gguf", {}, {}, architecture="dac")
    files = locate(tmp_path)
    assert files.checkpoint == alone
    assert (files.name, files.encoder_folder) == ("mine", tmp_path)
    shutil.copy(f16, tmp_path / "other.gguf")
    assert "has 2 ZONOS2 models (mine.gguf, other.gguf); give the path" in refusal(tmp_path)
    assert locate(alone).checkpoint == alone
    for file in ("mine.gguf", "other.gguf"):
        (tmp_path / file).unlink()
    assert "dac.gguf has the architecture 'dac'; only 'zonos2'" in refusal(tmp_path)
    write_gguf(tmp_path / "spk-encoder.gguf", {}, {}, architecture="spk")
    assert "no ZONOS2 model among its GGUF files" in refusal(tmp_path)


def test_companions_come_from_the_cache_of_the_hub_or_are_named(
    f16: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    cache = tmp_path / "cache"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    bare = tmp_path / "bare"
    bare.mkdir()
    alone = Path(shutil.copy(f16, bare))
    said = refusal(alone)
    assert "zonos2-f16.gguf has no codec; fetch it with `hf download descript/dac_44khz" in said

    def in_cache(repository: str, make: Callable[[Path], Path]) -> Path:
        kept = cache / f"models--{repository.replace('/', '--')}"
        (kept / "refs").mkdir(parents=True)
        (kept / "refs" / "main").write_text("c" * 40)
        return make(kept / "snapshots" / ("c" * 40))

    codec = in_cache(CODEC_REPOSITORY, make_codec)
    told: list[str] = []
    assert locate(alone, progress=told.append).encoder_folder is None
    assert ENCODER_REPOSITORY in told[0]
    encoder = in_cache(ENCODER_REPOSITORY, make_encoder)
    files = locate(alone)
    assert (files.codec_folder, files.encoder_folder) == (codec, encoder)
    with Engine.open(alone, device="cpu", num_slots=1) as speaking:
        assert speaking.encoder is not None
        assert speaking.codec.sample_rate_hz == 44_100


def test_of_the_repository_one_file_is_chosen() -> None:
    assert "--local-dir FOLDER` and open FOLDER/zonos2-q8_0.gguf" in refusal("Zyphra/zonos2-gguf")


def test_other_control_ids_need_their_params(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    text = torch.cat([tensors["text_embd.weight"], torch.zeros(2, PARAMS["dim"])])
    tensors = tensors | {"text_embd.weight": text}
    file = write_gguf(tmp_path / "other.gguf", tensors, FACTS | {"text_vocab": 521})
    assert "has text_vocab 521 and the release's is 519, so what its control ids" in refusal(file)
    beside = tmp_path / "params.json"
    beside.write_text(json.dumps(PARAMS))
    assert "and the params.json beside it says 519" in refusal(file)
    ten = [f"{low}-{low + 5}" for low in range(0, 45, 5)] + ["45+"]
    changes = {"text_vocab": 521, "speaking_rate_buckets": ten, "speaking_rate_num_buckets": 10}
    beside.write_text(json.dumps({"model": PARAMS | changes | {"default_voice": "ada", "dim": 8}}))
    family = Zonos2Family.open(file, CPU, None)
    assert family.config.rate_buckets == tuple(ten)
    assert (family.default_voice, family.config.dim) == ("ada", 256)


# Memory -------------------------------------------------------------------------------------


def test_memory_is_told_before_it_is_taken(f16: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Zonos2Config.load(f16)
    held = sum(tensor.nbytes for tensor in opened(f16).state_dict().values())
    told = footprint(config, torch.float32)
    assert told.weights == held
    monkeypatch.setattr(engine.memory, "available_bytes", lambda device: told.total(1) - 1_000_000)
    assert "1.0 MB of memory are missing on cpu: weights 43.5 MB" in refusal(f16)


def test_one_matrix_at_a_time_is_beside_the_weights(
    q4_k: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    wide = engine.zonos2.gguf._wide

    def counted(*asked: Any) -> Tensor:
        made = wide(*asked)
        sizes.append(made.numel())
        return made

    monkeypatch.setattr(engine.zonos2.gguf, "_wide", counted)
    model = opened(q4_k)
    experts = 4 * 2 * 3  # experts, layers with them, matrices of each
    assert sizes.count(512 * 256) >= experts
    assert max(sizes) == model.multi_output.weight.numel()
    assert max(sizes) * 4 < footprint(model.config, torch.float32).working


# Refusals -----------------------------------------------------------------------------------


Tensors = dict[str, Tensor]
Facts = dict[str, Any]
FAULTS: dict[str, tuple[Callable[[Tensors, Facts], object], str]] = {
    "missing": (
        lambda t, f: [t.pop("blk.4.router_eda_scale"), t.pop("blk.1.attn_k.weight")],
        "(2 missing: blk.1.attn_k.weight, blk.4.router_eda_scale)",
    ),
    "extra": (
        lambda t, f: t.update({"blk.3.router_eda_scale": torch.ones(32)}),
        "(1 unexpected: blk.3.router_eda_scale)",
    ),
    "misshapen": (
        lambda t, f: t.update({"blk.0.attn_v.weight": torch.ones(256, 128)}),
        "(1 misshapen: blk.0.attn_v.weight is [256, 128], must be [128, 256])",
    ),
    "pruned in one layer": (
        lambda t, f: t.update({"blk.4.ffn_up_exps.weight": torch.ones(3, 512, 256)}),
        "blk.4.ffn_up_exps.weight is [3, 512, 256], must be [4, 512, 256]",
    ),
    "no router": (lambda t, f: t.pop("blk.3.router_down.weight"), "blk.3.router_down.weight"),
    "a key less": (
        lambda t, f: f.pop("attention.head_count_kv"),
        "lacks the metadata zonos2.attention.head_count_kv.",
    ),
    "a list for a number": (
        lambda t, f: f.update(head_dim=[64, 64]),
        "unusable zonos2.head_dim ([64, 64])",
    ),
    **{
        title: (lambda t, f, used=used: f.update(expert_used_count_per_layer=used), str(used))
        for title, used in (
            ("experts here and there", [0, 1, 0, 1, 2, 0]),
            ("more experts than there are", [0, 0, 0, 1, 5, 0]),
        )
    },
    "another vocabulary": (lambda t, f: f.update(audio_vocab=1024), "zonos2.audio_vocab (1024)"),
    "another norm": (
        lambda t, f: f.update({"attention.qk_norm_epsilon": 1e-5}),
        "zonos2.attention.qk_norm_epsilon (1e-05)",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_is_named(
    place: Path, tensors: dict[str, Tensor], tmp_path: Path, fault: str
) -> None:
    (tmp_path / "dac_44khz").symlink_to(place / "dac_44khz")
    changed, facts = dict(tensors), dict(FACTS)
    change, told = FAULTS[fault]
    change(changed, facts)
    said = refusal(write_gguf(tmp_path / "broken.gguf", changed, facts))
    assert told in said
    assert "broken.gguf" in said


def test_a_file_that_is_cut_or_none_is_refused(place: Path, f16: Path, tmp_path: Path) -> None:
    (tmp_path / "dac_44khz").symlink_to(place / "dac_44khz")
    cut = Path(shutil.copy(f16, tmp_path / "cut.gguf"))
    for size in (cut.stat().st_size - 1000, 2000, 30, 0):
        os.truncate(cut, size)
        assert "cut.gguf is damaged or no GGUF file (" in refusal(cut)
    cut.write_bytes(b"PK" * 500)
    assert "no GGUF file (GGUF magic invalid); copy or download it again." in refusal(cut)
    assert "there is no file" in refusal(tmp_path / "none.gguf")


def test_a_type_that_cannot_be_read_back_is_named(
    place: Path, tensors: dict[str, Tensor], tmp_path: Path
) -> None:
    from gguf import GGMLQuantizationType, GGUFReader

    (tmp_path / "dac_44khz").symlink_to(place / "dac_44khz")
    file = write_gguf(tmp_path / "odd.gguf", tensors, FACTS)
    odd = next(t for t in GGUFReader(file, "r+").tensors if t.name == "blk.0.attn_q.weight")
    odd.field.parts[4][0] = GGMLQuantizationType.I16
    said = refusal(file)
    assert "blk.0.attn_q.weight in odd.gguf is stored as I16, which the package gguf cannot" in said


def test_without_the_package_it_says_what_to_install(
    f16: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert "needs the package gguf; install it with `pip install gguf`." in refusal(f16)
