"""Emotion directions against the golden data, in a real prefill, and in damaged folders."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.errors import CheckpointError, InvalidRequest
from engine.family import Prompt
from engine.request import Emotion
from engine.zonos2.backbone import Backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.emotion import Calibration, EmotionDirections
from engine.zonos2.family import Zonos2Runner

GOLDEN = Path(__file__).parents[2] / "golden"
RECORD = json.loads((GOLDEN / "emotion.json").read_text())
CASES: dict[str, dict[str, Any]] = {case["name"]: case["args"] for case in RECORD["cases"]}
NAMES = ("happy", "sad", "angry", "surprised", "valence", "arousal")
SPACES = ("raw", "lda", "proj")
# The reference skips an unknown emotion; here it is refused.
REFUSED = ("unknown_ignored",)
# The reference's library can leave the length free, its server never does; here it is always kept.
LENGTH_NOT_KEPT = ("no_preserve_norm",)
MATCHED = [name for name in CASES if name not in REFUSED + LENGTH_NOT_KEPT]


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN / "emotion.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


@pytest.fixture
def write(golden: dict[str, Tensor], tmp_path: Path) -> Callable[..., Path]:
    """Write the golden directions of one space as a folder, the calibration if asked for."""

    def write(space: str, calibrated: bool = False, names: tuple[str, ...] = NAMES) -> Path:
        directions = {}
        for name in names:
            np.save(tmp_path / f"{name}.npy", golden[f"dir_{space}_{name}"].numpy())
            kind = "axis" if name in ("valence", "arousal") else "named"
            directions[name] = {"file": f"{name}.npy", "kind": kind, "norm": 1.0}
        manifest = {
            "dim": RECORD["dims"][space],
            "ref_base_norm": 9.0,
            "neutral": "neutral",
            "space": space,
            "directions": directions,
        }
        if space == "lda":
            manifest["lda"] = {part: f"lda_{part}.npy" for part in ("weight", "bias", "pinv")}
            for part, file in manifest["lda"].items():
                np.save(tmp_path / file, golden[f"lda_{part}"].numpy())
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        if calibrated:
            (tmp_path / "calibration.json").write_text(json.dumps(RECORD["calibration"]))
        return tmp_path

    return write


def asked(args: dict[str, Any]) -> Emotion:
    return Emotion(**{key: value for key, value in args.items() if key != "preserve_norm"})


def moved(directions: EmotionDirections, base: Tensor, emotion: Emotion) -> Tensor:
    """What reaches the projection: an embedding in raw and lda space."""
    unprojected = SimpleNamespace(project_speaker=lambda speaker: speaker)
    return directions.steer(cast(Backbone, unprojected), base, emotion, None)


@pytest.mark.parametrize("case", MATCHED)
@pytest.mark.parametrize("space", ["raw", "lda"])
def test_embeddings_are_moved_as_golden(
    write: Callable[..., Path],
    golden: dict[str, Tensor],
    tiny_config: Zonos2Config,
    space: str,
    case: str,
) -> None:
    directions = EmotionDirections.open(write(space), tiny_config)
    for base, expected in zip(golden["base_embeddings"], golden[f"{space}_{case}"], strict=True):
        result = moved(directions, base, asked(CASES[case]))
        torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("case", MATCHED + list(LENGTH_NOT_KEPT))
def test_the_projected_row_is_moved_as_golden(
    write: Callable[..., Path],
    golden: dict[str, Tensor],
    tiny_config: Zonos2Config,
    tiny: Backbone,
    case: str,
) -> None:
    directions, emotion = EmotionDirections.open(write("proj"), tiny_config), asked(CASES[case])
    delta = golden.get(f"proj_{case}")
    assert (delta is not None) == emotion.has_effect
    for base in golden["base_embeddings"]:
        expected = tiny.project_speaker(base) + (0 if delta is None else delta)
        row = directions.steer(tiny, base, emotion, None)
        torch.testing.assert_close(row, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("space", ["raw", "lda"])
def test_unlike_the_references_library_the_length_is_always_kept(
    write: Callable[..., Path], golden: dict[str, Tensor], tiny_config: Zonos2Config, space: str
) -> None:
    directions = EmotionDirections.open(write(space), tiny_config)
    base, emotion = golden["base_embeddings"][1], asked(CASES["no_preserve_norm"])
    result, free = moved(directions, base, emotion), golden[f"{space}_no_preserve_norm"][1]
    weight, bias = golden["lda_weight"], golden["lda_bias"]
    if space == "lda":
        base, result, free = (weight @ vector + bias for vector in (base, result, free))
    torch.testing.assert_close(result.norm(), base.norm(), atol=1e-4, rtol=0)
    torch.testing.assert_close(result, free * (base.norm() / free.norm()), atol=1e-4, rtol=0)
    assert float((result - free).abs().max()) > 0.1


@pytest.mark.parametrize("space", SPACES)
def test_unlike_the_reference_an_unknown_emotion_is_refused(
    write: Callable[..., Path], golden: dict[str, Tensor], tiny_config: Zonos2Config, space: str
) -> None:
    directions = EmotionDirections.open(write(space), tiny_config)
    for args in (CASES["unknown_ignored"], {"sliders": {"bored": 0.0}, "strength": 0.0}):
        with pytest.raises(InvalidRequest) as caught:
            moved(directions, golden["base_embeddings"][0], asked(args))
        assert caught.value.field == "emotion_sliders"
        assert "'bored'; choose from happy, sad, angry, surprised, valence" in caught.value.message


def test_a_missing_axis_is_refused(
    write: Callable[..., Path], golden: dict[str, Tensor], tiny_config: Zonos2Config
) -> None:
    directions = EmotionDirections.open(write("raw", names=("happy", "valence")), tiny_config)
    assert (directions.names, directions.axes) == (("happy",), ("valence",))
    base = golden["base_embeddings"][0]
    moved(directions, base, Emotion(valence=0.5))
    with pytest.raises(InvalidRequest, match="no axis 'arousal'") as caught:
        moved(directions, base, Emotion(arousal=0.5))
    assert caught.value.field == "emotion_arousal"


@pytest.mark.parametrize("field", ["sliders", "valence", "arousal", "strength"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(
    write: Callable[..., Path], tiny_config: Zonos2Config, field: str, value: float
) -> None:
    directions = EmotionDirections.open(write("proj"), tiny_config)
    change = {"sliders": {"happy": value}} if field == "sliders" else {field: value}
    with pytest.raises(InvalidRequest, match=f"emotion_{field}: .* no finite number"):
        directions.delta(dataclasses.replace(Emotion(), **change), None)


def test_calibration_is_looked_up_as_golden() -> None:
    calibration = Calibration.from_dict(RECORD["calibration"])
    for voice_id, name, strength in RECORD["calibration"]["lookups"]:
        assert calibration.strength(voice_id, name) == strength
    assert Calibration().strength("spkA", "happy") == 1.0


@pytest.mark.parametrize("space", ["raw", "proj"])
def test_a_calibrated_request_is_golden(
    write: Callable[..., Path], golden: dict[str, Tensor], tiny_config: Zonos2Config, space: str
) -> None:
    record = RECORD["calibration"]
    emotion = asked(record["folded_request"])
    directions = EmotionDirections.open(write(space, calibrated=True), tiny_config)
    assert directions.is_calibrated
    base = golden["base_embeddings"][0]
    unprojected = cast(Backbone, SimpleNamespace(project_speaker=lambda speaker: speaker))
    if space == "raw":
        result = directions.steer(unprojected, base, emotion, record["speaker"])
    else:
        result = directions.delta(emotion, record["speaker"])
    torch.testing.assert_close(result, golden[f"calibrated_{space}"], atol=1e-5, rtol=0)
    other = directions.delta(emotion, "another voice")
    assert other is not None and not torch.allclose(other, directions.delta(emotion, "spkA"))


def test_without_a_calibration_every_strength_is_one(
    write: Callable[..., Path], golden: dict[str, Tensor], tiny_config: Zonos2Config
) -> None:
    directions = EmotionDirections.open(write("proj"), tiny_config)
    assert not directions.is_calibrated
    delta = directions.delta(Emotion(sliders={"sad": 1.0}), "spkA")
    torch.testing.assert_close(delta, golden["dir_proj_sad"])


def test_a_steered_row_gives_the_golden_logits(
    tiny: Backbone,
    tiny_config: Zonos2Config,
    golden_forward: dict[str, Tensor],
    tmp_path: Path,
) -> None:
    np.save(tmp_path / "joy.npy", golden_forward["e_emotion_delta"].numpy())
    manifest = {"dim": 128, "space": "proj", "directions": {"joy": {"file": "joy.npy"}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    directions = EmotionDirections.open(tmp_path, tiny_config)
    speaker, rows = golden_forward["speaker_embeddings"][0], golden_forward["a_input_ids"][:33]
    row = directions.steer(tiny, speaker, Emotion(sliders={"joy": 1.0}), None)
    runner = Zonos2Runner(tiny, 1, torch.device("cpu"))
    logits = runner.prefill(0, Prompt(rows.long(), row))[0]  # of row 32
    torch.testing.assert_close(logits, golden_forward["e_logits"][32 // 8], atol=2e-4, rtol=0)


@pytest.mark.parametrize(
    ("emotion", "expected"),
    [
        (Emotion(), False),
        (Emotion(sliders={"happy": 0.0}), False),
        (Emotion(sliders={"happy": 1.0}, strength=0.0), False),
        (Emotion(sliders={"happy": -0.1}), True),
        (Emotion(arousal=0.1), True),
        (Emotion(sliders={"valence": 0.5}, valence=-0.5), False),
    ],
)
def test_an_emotion_that_moves_nothing_has_no_effect(emotion: Emotion, expected: bool) -> None:
    assert emotion.has_effect is expected


def edit(folder: Path, change: dict[str, Any]) -> None:
    content = json.loads((folder / "manifest.json").read_text()) | change
    kept = {key: value for key, value in content.items() if value is not None}
    (folder / "manifest.json").write_text(json.dumps(kept))


def assert_told(folder: Path, config: Zonos2Config, told: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        EmotionDirections.open(folder, config)
    assert told in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dim": None}, "lacks the key 'dim'"),
        ({"dim": "wide"}, "unusable value"),
        ({"dim": 2048}, "2048 wide in space proj, but this model has 128"),
        ({"space": "polar"}, "space 'polar'; known are raw, lda, proj"),
        ({"space": "lda"}, "lacks the key 'lda'"),
        ({"directions": ["happy"]}, "unusable value"),
        ({"directions": {"happy": {"kind": "named"}}}, "lacks the key 'file'"),
        ({"directions": {"happy": {"file": "absent.npy"}}}, "has no absent.npy"),
        ({"directions": {"happy": {"file": "../happy.npy"}}}, "'../happy.npy'; it must lie beside"),
        ({"directions": {"happy": {"file": ""}}}, "must lie beside"),
    ],
)
def test_a_wrong_manifest_is_told(
    write: Callable[..., Path], tiny_config: Zonos2Config, change: dict[str, Any], told: str
) -> None:
    folder = write("proj")
    edit(folder, change)
    assert_told(folder, tiny_config, told)


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros(127, np.float32), "shape [127]; it must hold finite numbers of shape [128]"),
        (np.full(128, np.nan, np.float32), "finite numbers"),
        (np.array(["a"] * 128), "no array of numbers"),
        (np.array([{}] * 128, dtype=object), "no array of numbers"),
    ],
)
def test_a_wrong_array_is_told_and_nothing_in_it_is_executed(
    write: Callable[..., Path], tiny_config: Zonos2Config, array: np.ndarray, told: str
) -> None:
    folder = write("proj")
    np.save(folder / "sad.npy", array, allow_pickle=array.dtype == object)
    assert_told(folder, tiny_config, told)
    assert_told(folder, tiny_config, "sad.npy")


@pytest.mark.parametrize("name", ["manifest.json", "sad.npy"])
def test_a_damaged_or_absent_file_is_named(
    write: Callable[..., Path], tiny_config: Zonos2Config, name: str
) -> None:
    folder = write("proj")
    (folder / name).write_bytes((folder / name).read_bytes()[:40])
    assert_told(folder, tiny_config, name)
    (folder / name).unlink()
    assert_told(folder, tiny_config, name)


@pytest.mark.parametrize(
    "content",
    [
        {"default": {"happy": "much"}},
        {"default": ["happy"]},
        {"by_speaker": {"a": 3}},
        {"global_default": float("inf")},
    ],
)
def test_a_wrong_calibration_is_told(
    write: Callable[..., Path], tiny_config: Zonos2Config, content: dict[str, Any]
) -> None:
    folder = write("proj")
    (folder / "calibration.json").write_text(json.dumps(content))
    assert_told(folder, tiny_config, "calibration.json")


def test_a_model_without_voices_has_no_emotions(
    write: Callable[..., Path], tiny_config: Zonos2Config
) -> None:
    voiceless = dataclasses.replace(tiny_config, speaker_dim=None, speaker_lda_dim=None)
    assert_told(write("proj"), voiceless, "without voices")


def test_directions_in_a_space_that_the_model_lacks_are_refused(
    write: Callable[..., Path], tiny_config: Zonos2Config
) -> None:
    without_lda = dataclasses.replace(tiny_config, speaker_lda_dim=None)
    assert_told(write("lda"), without_lda, "no such space")
