"""What can be opened, and how everything else is refused: by name, in one sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import engine.memory
from engine import CheckpointError, Engine
from engine.zonos3.facts import MISSING_FACTS
from tests.engine.zonos3.conftest import SMALL
from tests.engine.zonos3.random_checkpoint import PARAMS, TEXT, make_checkpoint


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def refusal(model: Path | str) -> str:
    with pytest.raises(CheckpointError) as caught:
        Engine.open(model, device="cpu")
    message = caught.value.message
    assert message.startswith("model: ") and message.endswith(".") and "\n" not in message
    return message


@pytest.mark.parametrize(
    "name", ["Zyphra/ZONOS3-Mini", "zyphra/zonos3-mini", "Zyphra/ZONOS3-Mini-hf"]
)
def test_the_release_is_refused_with_all_that_is_missing(name: str) -> None:
    message = refusal(name)
    assert name in message and len(MISSING_FACTS) == 12
    for number, fact in enumerate(MISSING_FACTS, 1):
        assert f"({number}) {fact}" in message


def foreign_tensors(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    renamed = {f"model.{name}": tensor for name, tensor in tensors.items()}
    save_file(renamed, folder / "model.safetensors")
    (folder / "codec.json").unlink()  # a foreign folder has no codec of ours either


def foreign_params(folder: Path) -> None:
    (folder / "params.json").write_text(json.dumps({"model_type": "zonos3", "d_model": 1024}))
    foreign_tensors(folder)


@pytest.mark.parametrize("make_foreign", [foreign_tensors, foreign_params])
def test_a_folder_in_another_layout_has_its_tensors_listed(
    copy: Path, make_foreign: Callable[[Path], None]
) -> None:
    make_foreign(copy)
    message = refusal(copy)
    names = sorted(load_file(copy / "model.safetensors"))
    assert "unresolved tensors: " + names[0] in message
    assert f"{names[11]} [" in message and f"and {len(names) - 12} more" in message
    assert all(fact in message for fact in MISSING_FACTS)


def test_keys_that_lack_are_all_named(copy: Path) -> None:
    params = {key: value for key, value in PARAMS.items() if key not in ("dim", "eos_id")}
    (copy / "params.json").write_text(json.dumps(params | SMALL))
    assert "params.json lacks the keys dim, eos_id;" in refusal(copy)


def test_a_tensor_of_another_shape_is_named(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    tensors["out_norm.weight"] = torch.ones(31)
    del tensors["layers.1.mixer.conv"]
    save_file(tensors, copy / "model.safetensors")
    message = refusal(copy)
    assert "1 missing: layers.1.mixer.conv" in message
    assert "out_norm.weight is [31], must be [32]" in message


def rewrite(file: Path, **changed: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


def clip(folder: Path, name: str, codes: torch.Tensor) -> None:
    save_file({name: codes}, folder / "voice_clips.safetensors")


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "has no tokenizer.json"),
    "no tokenizer at all": (
        lambda f: (f / "tokenizer.json").write_text("<html>"),
        "tokenizer.json cannot be read",
    ),
    "another tokenizer": (
        lambda f: rewrite(f / "tokenizer.json", added_tokens=[]) or _fewer_tokens(f),
        "tokenizer.json has 263 tokens",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no weights"),
    "damaged weights": (
        lambda f: (f / "model.safetensors").write_bytes(b"\0" * 99),
        "model.safetensors is damaged",
    ),
    "a fraction of a head": (
        lambda f: rewrite(f / "params.json", n_heads=4.5),
        "n_heads in params",
    ),
    "heads that do not divide": (
        lambda f: rewrite(f / "params.json", n_kv_heads=3),
        "n_heads must be a multiple",
    ),
    "edges that fall": (
        lambda f: rewrite(f / "params.json", condition_edges={"lufs": [3, 2]}),
        "condition_edges must ascend",
    ),
    "a temperature of 9": (
        lambda f: rewrite(
            f / "params.json", sampling_defaults=PARAMS["sampling_defaults"] | {"temperature": 9}
        ),
        "sampling_defaults in params.json: temperature: 9",
    ),
    "a sampling without top_k": (
        lambda f: rewrite(f / "params.json", sampling_defaults={"temperature": 1}),
        "'top_k' is missing",
    ),
    "a clip of nobody": (
        lambda f: clip(f, "eve", torch.zeros(3, 10, dtype=torch.int16)),
        "the clip 'eve' in voice_clips.safetensors belongs to no voice",
    ),
    "a clip of nine codebooks": (
        lambda f: clip(f, "ben", torch.zeros(3, 9, dtype=torch.int16)),
        "1 to 900 frames of 10 codes",
    ),
    "a clip of other codes": (
        lambda f: clip(f, "ben", torch.full((3, 10), 64, dtype=torch.int16)),
        "codes outside 0 to 63",
    ),
    "a codec of another size": (
        lambda f: rewrite(f / "codec.json", n_codebooks=9),
        "do not fit",
    ),
}


def _fewer_tokens(folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    del content["model"]["vocab"]["</s>"]
    (folder / "tokenizer.json").write_text(json.dumps(content))


@pytest.mark.parametrize("name", FAULTS)
def test_a_damaged_checkpoint_is_told(copy: Path, name: str) -> None:
    damage, says = FAULTS[name]
    damage(copy)
    assert says in refusal(copy)


def test_a_checkpoint_too_large_for_the_memory_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.memory, "available_bytes", lambda device: 1000)
    assert "of memory are missing on cpu" in refusal(folder)


def test_emotion_directions_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="this model follows none"):
        Engine.open(folder, device="cpu", emotion_directions=tmp_path)


def test_two_checkpoints_of_one_seed_are_one(folder: Path, tmp_path: Path) -> None:
    again = make_checkpoint(tmp_path / "again", **SMALL)
    with Engine.open(folder, device="cpu") as first, Engine.open(again, device="cpu") as second:
        one, two = (engine.speak(TEXT, seed=3, max_new_frames=14) for engine in (first, second))
        assert (one.read()[0] == two.read()[0]).all()


def test_narrow_experts_are_for_the_other_family(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="choose --dtype bfloat16"):
        Engine.open(folder, device="cpu", dtype=torch.int8)
