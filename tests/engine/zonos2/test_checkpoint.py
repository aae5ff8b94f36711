"""Opening checkpoints: every spelling of the released layout, and every way to be broken."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import CheckpointError
from engine.weights import read_tensors, shapes_of
from engine.zonos2.checkpoint import (
    canonical_names,
    empty_backbone,
    load_backbone,
)
from engine.zonos2.config import Zonos2Config
from tests.shadow.release import RELEASE_PARAMS


def open_(folder: Path) -> object:
    return load_backbone(folder, Zonos2Config.load(folder), "cpu", torch.float32)


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint that a test may break."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "checkpoint"))


@pytest.fixture
def tensors(tiny_folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(tiny_folder / "model.pth")


def test_the_release_has_its_507_names_and_shapes() -> None:
    shapes = shapes_of(empty_backbone(Zonos2Config.from_dict(RELEASE_PARAMS)))
    assert len(shapes) == 507
    assert sum(torch.Size(shape).numel() for shape in shapes.values()) == 7_668_118_208
    moe, last = "layers.3.feed_forward.", "layers.26.feed_forward."
    assert shapes["layers.0.attention.wkv.weight"] == (2, 512, 2048)
    assert shapes["layers.2.feed_forward.w_in.weight"] == (2, 3072, 2048)
    assert shapes[moe + "experts.w13"] == (16, 6144, 2048)
    assert shapes[moe + "experts.w2"] == (16, 2048, 3072)
    assert moe + "router.router_states_scale" not in shapes
    assert shapes[last + "router.router_states_scale"] == (128,)
    assert shapes["multi_embedder.embedders.9.weight"] == (520, 2048)
    assert shapes["speaker_lda_projection.weight"] == (1024, 2048)


def test_every_tensor_arrives_unchanged(tiny_folder: Path, golden_folder: Path) -> None:
    listed = json.loads((golden_folder / "tiny_checkpoint" / "tensors.json").read_text())
    model = load_backbone(tiny_folder, Zonos2Config.load(tiny_folder), "cpu", torch.bfloat16)
    state = model.state_dict()
    for entry in listed["tensors"]:
        stored = state[entry["key"]].to(torch.bfloat16).contiguous()
        assert list(stored.shape) == entry["shape"]
        raw = stored.view(torch.uint8).numpy().tobytes()
        assert hashlib.sha256(raw).hexdigest() == entry["sha256_le_rowmajor"], entry["key"]
    assert len(listed["tensors"]) == len(state) == 90


def test_other_spellings_are_the_same_checkpoint(
    folder: Path, tensors: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    def respell(style: str) -> dict[str, torch.Tensor]:
        spelled: dict[str, torch.Tensor] = {}
        for name, tensor in tensors.items():
            prefix, _, leaf = name.rpartition(".")
            if leaf == "w13":
                gate, up = tensor[:, 0::2].contiguous(), tensor[:, 1::2].contiguous()
                if style == "unfused":
                    spelled[prefix + ".w1.weight"], spelled[prefix + ".w3.weight"] = gate, up
                else:
                    spelled[prefix + ".gate_up_proj"] = torch.cat([gate, up], dim=1)
            elif leaf == "w2" and style == "unfused":
                spelled[prefix + ".w2.weight"] = tensor
            elif leaf == "w2":
                spelled[prefix + ".down_proj"] = tensor
            elif name == "out_norm.weight":
                spelled["out_norm.parametrizations.weight.original"] = tensor
            else:
                spelled[name] = tensor
        spelled["layers.1.feed_forward.router.ent_denom"] = torch.ones(1)
        return spelled

    expected = canonical_names(tensors)
    for style in ("unfused", "joined"):
        found = canonical_names(respell(style))
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    (folder / "model.pth").unlink()
    torch.save({"model": respell("unfused")}, folder / "model.pt")
    open_(folder)
    (folder / "model.pt").unlink()
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors")
    open_(folder)


def test_missing_extra_and_misshapen_tensors_are_all_named(
    folder: Path, tensors: dict[str, torch.Tensor]
) -> None:
    del tensors["out_norm.weight"]
    tensors["layers.0.attention.temp"] = torch.ones(1, 5, 1)
    tensors["layers.9.attention.temp"] = torch.ones(1)
    torch.save(tensors, folder / "model.pth")
    with pytest.raises(CheckpointError) as caught:
        open_(folder)
    told = caught.value.message
    assert "1 missing: out_norm.weight" in told
    assert "1 unexpected: layers.9.attention.temp" in told
    assert "layers.0.attention.temp is [1, 5, 1], must be [1, 4, 1]" in told


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(
    folder: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    torch.save({"out_norm.weight": Bomb(canary)}, folder / "model.pth")
    with pytest.raises(CheckpointError, match=r"model\.pth .*refused"):
        open_(folder)
    (folder / "model.pth").write_bytes(pickle.dumps(Bomb(canary)))
    with pytest.raises(CheckpointError, match=r"model\.pth"):
        open_(folder)
    assert not canary.exists()


@pytest.mark.parametrize("name", ["model.pth", "model.safetensors"])
@pytest.mark.parametrize("keep", [0, 7, 5000])
def test_a_truncated_file_is_damaged(
    folder: Path, tensors: dict[str, torch.Tensor], name: str, keep: int
) -> None:
    if name.endswith("safetensors"):
        (folder / "model.pth").unlink()
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / name)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:keep])
    with pytest.raises(CheckpointError, match=name):
        open_(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dim": None}, "unusable value"),
        ({"silence_frames": [[1, 2]]}, "silence_frames must hold 9 codes"),
        ({"quality_num_buckets": 3}, "quality_num_buckets"),
        ({"moe_balancing_strategy": "auction"}, "auction"),
    ],
)
def test_a_contradictory_configuration_is_named(
    folder: Path, change: dict[str, object], told: str
) -> None:
    path = folder / "params.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=told):
        open_(folder)


def test_a_folder_lacking_a_file_or_a_key_is_named(folder: Path) -> None:
    params = json.loads((folder / "params.json").read_text())
    del params["head_dim"]
    (folder / "params.json").write_text(json.dumps(params))
    with pytest.raises(CheckpointError, match="lacks the key 'head_dim'"):
        open_(folder)
    (folder / "params.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"params\.json cannot be read"):
        open_(folder)
    (folder / "params.json").unlink()
    with pytest.raises(CheckpointError, match=r"no params\.json"):
        open_(folder)


def test_a_folder_without_weights_says_what_it_may_hold(folder: Path) -> None:
    (folder / "model.pth").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors, .*, model\.pth"):
        open_(folder)


def test_a_scale_without_its_matrix_is_named(
    folder: Path, tensors: dict[str, torch.Tensor]
) -> None:
    (folder / "model.pth").unlink()
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()}
        | {"nothing.weight.row_scale": torch.ones(3, 1)},
        folder / "model.safetensors",
    )
    with pytest.raises(CheckpointError, match=r"nothing\.weight\.row_scale"):
        open_(folder)
