"""Declared controls and their resolution, against the golden data and our own rules."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CheckpointError, InvalidRequest
from engine.family import Control
from engine.request import Delivery
from engine.zonos2.buckets import bucket_of_rate, bucket_of_value, neutral_rate, parse_buckets
from engine.zonos2.buckets import rate_buckets as parse_rate_buckets
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import declared_controls, resolve_controls

_GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "conditioning.json").read_text(encoding="utf-8")
)
_RATES = tuple(_GOLDEN["release_speaking_rate_buckets"])
_QUALITY = {name: tuple(labels) for name, labels in _GOLDEN["release_quality_buckets"].items()}
_NO_QUALITY_CHOSEN = dict.fromkeys(_QUALITY)
_DEFAULT_QUALITY = {**_NO_QUALITY_CHOSEN, "trailing_silence_s": 3}


def make_config(**changes: Any) -> Zonos2Config:
    """A small configuration with the release's controls; ``changes`` replace single keys."""
    params = {
        "n_layers": 2,
        "dim": 64,
        "head_dim": 32,
        "ffn_dim_multiplier": 1.5,
        "multiple_of": 64,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_seqlen": 512,
        "n_codebooks": 9,
        "codebook_size": 1024,
        "eoa_id": 1024,
        "audio_pad_id": 1025,
        "text_vocab": 519,
        "loss_softcap": 15.0,
        "speaker_enabled": True,
        "speaker_embedding_dim": 16,
        "speaker_background_token_enabled": True,
        "accurate_mode_token_enabled": True,
        "speaking_rate_num_buckets": 8,
        "speaking_rate_buckets": list(_RATES),
        "quality_num_buckets": 60,
        "quality_features": list(_QUALITY),
        "quality_buckets": {name: list(labels) for name, labels in _QUALITY.items()},
    }
    return Zonos2Config.from_dict({**params, **changes})


RELEASE = make_config()
BARE = make_config(
    speaker_background_token_enabled=False,
    accurate_mode_token_enabled=False,
    speaking_rate_num_buckets=0,
    speaking_rate_buckets=[],
    quality_num_buckets=0,
    quality_features=[],
    text_vocab=448,
)


def _rate(**fields: Any) -> int | None:
    return resolve_controls(RELEASE, Delivery(**fields), has_speaker=False).rate_bucket


def _quality(config: Zonos2Config = RELEASE, **fields: Any) -> dict[str, int | None]:
    return dict(resolve_controls(config, Delivery(**fields), has_speaker=False).quality)


def test_the_release_declares_its_ten_controls() -> None:
    controls = declared_controls(RELEASE)
    assert [control.name for control in controls] == [
        "speaking_rate",
        *_GOLDEN["quality_feature_order"],
        "clean_speaker_background",
        "accurate_mode",
    ]
    assert controls[0] == Control("speaking_rate", "rate", "bytes/s", _RATES, None)
    units = [control.unit for control in controls[1:7]]
    assert units == ["LUFS", "dB", "s", "Hz", "s", "s"]
    assert [control.default for control in controls[1:]] == [None] * 5 + [3, False, True]
    assert [control.kind for control in controls[7:]] == ["flag", "flag"]


def test_a_checkpoint_without_controls_declares_none() -> None:
    assert declared_controls(BARE) == ()
    resolved = resolve_controls(BARE, Delivery(), has_speaker=True)
    assert resolved.rate_bucket is None and resolved.quality == {}
    assert resolved.background is None and not resolved.accurate


@pytest.mark.parametrize(
    ("field", "cases"),
    [
        ("speaking_rate", _GOLDEN["bytes_per_second"]),
        ("speed", _GOLDEN["speed"] + [[s, bucket] for _, s, bucket in _GOLDEN["speed_at_edges"]]),
        ("speaking_rate_bucket", _GOLDEN["bucket_passthrough"]),
    ],
)
def test_golden_rates(field: str, cases: list[Any]) -> None:
    for value, expected in cases:
        if isinstance(expected, dict):
            with pytest.raises(InvalidRequest) as caught:
                _rate(**{field: value})
            assert caught.value.field == field and repr(value) in caught.value.message
        else:
            assert _rate(**{field: value}) == expected, value


def test_golden_rate_ranges() -> None:
    expected = [(low, math.inf if high is None else high) for low, high in _parsed_rates()]
    assert [(b.low, b.high) for b in parse_rate_buckets(_RATES)] == expected
    assert neutral_rate(_RATES) == _GOLDEN["neutral_bytes_per_second"]
    for other in _GOLDEN["other_range_sets"]:
        labels = tuple(other["buckets"])
        assert neutral_rate(labels) == other["neutral"]
        for speed, bucket in other["speed"]:
            assert bucket_of_rate(speed * neutral_rate(labels), labels, len(labels)) == bucket
    for labels, _ in _GOLDEN["invalid_range_sets"]:
        with pytest.raises(CheckpointError):
            parse_rate_buckets(tuple(labels))


def _parsed_rates() -> list[list[float]]:
    return _GOLDEN["parsed_speaking_rate_ranges"]


def test_golden_rates_of_unlabelled_buckets() -> None:
    golden = _GOLDEN["no_ranges_21_buckets"]
    config = make_config(
        speaking_rate_num_buckets=21, speaking_rate_buckets=[], text_vocab=519 + 13
    )
    for field, key in (("speaking_rate", "bytes_per_second"), ("speed", "speed")):
        for value, bucket in golden[key]:
            resolved = resolve_controls(config, Delivery(**{field: value}), has_speaker=False)
            assert resolved.rate_bucket == bucket, value
    assert declared_controls(config)[0].buckets == tuple(map(str, range(21)))


def test_absurd_speeds_clamp_to_the_ends() -> None:
    assert _rate(speed=1e308) == 7 and _rate(speaking_rate=5e-324) == 0


@pytest.mark.parametrize("value", [True, "1", math.nan, math.inf, 10**400])
@pytest.mark.parametrize("field", ["speaking_rate_bucket", "speaking_rate", "speed"])
def test_a_rate_that_is_no_finite_number_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=field):
        _rate(**{field: value})


def test_golden_rate_rules() -> None:
    # The gate `speaking_rate_enabled` belongs to the routes: closed, they pass no rate at all.
    for rule in _GOLDEN["rate_rules"]:
        asked = {k: v for k, v in rule["args"].items() if k != "speaking_rate_enabled"}
        if rule["args"]["speaking_rate_enabled"] is False:
            continue
        if rule["rule"].startswith("model without buckets"):
            # Upstream ignores `speed` there; a control the checkpoint lacks is refused by us.
            with pytest.raises(InvalidRequest, match="no control for a speaking rate"):
                resolve_controls(BARE, Delivery(**asked), has_speaker=False)
        elif rule["result"] is None:
            assert _rate(**asked) is None
        else:
            with pytest.raises(InvalidRequest, match="send one of them only") as caught:
                _rate(**asked)
            assert caught.value.code == "conflicting_fields"


@pytest.mark.parametrize("name", _QUALITY)
def test_golden_quality_values(name: str) -> None:
    parsed = [(b.low, b.high) for b in parse_buckets(_QUALITY[name])]
    golden = [
        (low, math.inf if high is None else high)
        for _, low, high in _GOLDEN["parsed_quality"][name]
    ]
    assert parsed == golden
    for value, bucket in _GOLDEN["quality_values"][name]:
        assert bucket_of_value(value, _QUALITY[name]) == bucket, value
        assert _quality(quality_values={name: value})[name] == bucket


def test_golden_bucket_labels() -> None:
    example = _GOLDEN["quality_exact_bucket_example"]
    for value, bucket in example["values"]:
        assert bucket_of_value(value, tuple(example["buckets"])) == bucket, value
    for label, expected in _GOLDEN["quality_spec_parse"]:
        if isinstance(expected, dict):
            with pytest.raises(CheckpointError, match="is no range"):
                parse_buckets((label,))
        else:
            kind, low, high = expected
            end = low if kind == "exact" else math.inf if high is None else high
            (bucket,) = parse_buckets((label,))
            assert (bucket.low, bucket.high) == (low, end)


def _in_feature_order(given: Any) -> Any:
    """Upstream's list form by name, as our routes translate it: longer lists are cut."""
    return dict(zip(_QUALITY, given, strict=False)) if isinstance(given, list) else given


def test_golden_quality_rules() -> None:
    # Upstream's buckets replace its default as a whole; ours keep it for features not named, so
    # the comparison runs on a checkpoint without a default. Upstream drops unknown features.
    config = dataclasses.replace(RELEASE, default_quality={})
    for rule in _GOLDEN["quality_rules"]:
        args = {k: _in_feature_order(v) for k, v in rule["args"].items() if k != "quality_enabled"}
        if not rule["args"]["quality_enabled"]:
            continue
        if isinstance(rule["result"], dict) or rule["rule"] == "unknown key":
            with pytest.raises(InvalidRequest):
                _quality(config, **args)
        else:
            expected = rule["result"] or [None] * 6
            assert list(_quality(config, **args).values()) == expected, rule["rule"]
    assert list(_quality().values()) == _GOLDEN["default_quality_resolved"]


def test_golden_measurements_that_failed_condition_nothing() -> None:
    for value in (math.nan, math.inf, -math.inf, None):
        assert _quality(quality_values={"lufs": value})["lufs"] is None
    # Upstream reads numbers out of text and ignores other text; here text is a fault.
    for value in ("abc", "-20", True):
        with pytest.raises(InvalidRequest, match=r"quality_values\.lufs"):
            _quality(quality_values={"lufs": value})


def test_the_default_bucket_gives_way_and_is_no_conflict() -> None:
    assert _quality() == _DEFAULT_QUALITY
    assert _quality(quality_values={"trailing_silence_s": 0.07})["trailing_silence_s"] == 1
    assert _quality(quality_values={"lufs": -20.0}) == {**_DEFAULT_QUALITY, "lufs": 7}
    assert _quality(quality_buckets={"lufs": 2}) == {**_DEFAULT_QUALITY, "lufs": 2}
    assert _quality(quality_buckets={"trailing_silence_s": None}) == _NO_QUALITY_CHOSEN
    both = _quality(quality_buckets={"lufs": 2}, quality_values={"max_pause": 0.7})
    assert both == {**_DEFAULT_QUALITY, "lufs": 2, "max_pause": 1}


def test_the_same_feature_twice_is_a_conflict() -> None:
    with pytest.raises(InvalidRequest, match="'lufs'") as caught:
        _quality(quality_buckets={"lufs": 2}, quality_values={"lufs": -20.0})
    assert caught.value.code == "conflicting_fields"
    # An explicit null is no choice, so the measurement decides.
    assert _quality(quality_buckets={"lufs": None}, quality_values={"lufs": -20.0})["lufs"] == 7


@pytest.mark.parametrize("field", ["quality_buckets", "quality_values"])
def test_an_unknown_feature_is_answered_with_those_that_exist(field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        _quality(**{field: {"loudness": 3}})
    assert caught.value.field == field
    assert "'loudness'" in caught.value.message
    assert all(name in caught.value.message for name in _QUALITY)
    with pytest.raises(InvalidRequest, match="it has: none"):
        _quality(BARE, **{field: {"lufs": 3}})


def test_a_bucket_beyond_the_last_is_answered_with_the_labels() -> None:
    with pytest.raises(InvalidRequest, match=r"12 .*from 0 to 11 .*-5\+") as caught:
        _quality(quality_buckets={"lufs": 12})
    assert caught.value.field == "quality_buckets.lufs"


@pytest.mark.parametrize("accurate", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_markers_need_a_voice(accurate: bool, clean: bool) -> None:
    delivery = Delivery(accurate_mode=accurate, clean_speaker_background=clean)
    voiced = resolve_controls(RELEASE, delivery, has_speaker=True)
    assert (voiced.background, voiced.accurate) == ("clean" if clean else "noisy", accurate)
    plain = resolve_controls(RELEASE, delivery, has_speaker=False)
    assert (plain.background, plain.accurate) == (None, False)


def test_flags_the_checkpoint_lacks_are_refused_unless_left_at_their_default() -> None:
    for field, value in (("accurate_mode", False), ("clean_speaker_background", True)):
        for has_speaker in (True, False):
            with pytest.raises(InvalidRequest, match="leave the field out") as caught:
                resolve_controls(BARE, Delivery(**{field: value}), has_speaker)
            assert caught.value.field == field and caught.value.code == "unsupported_parameter"


def test_a_default_bucket_that_does_not_exist_is_the_checkpoints_fault() -> None:
    config = make_config(default_quality_buckets={"lufs": 12})
    with pytest.raises(CheckpointError, match=r"bucket 12 for 'lufs'"):
        declared_controls(config)
