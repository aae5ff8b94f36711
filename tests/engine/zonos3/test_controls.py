"""Three controls: their buckets in words, a request's choice as indices, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.errors import InvalidRequest
from engine.request import Delivery
from engine.zonos3.config import Zonos3Config
from engine.zonos3.controls import declared_controls, resolve_controls
from tests.engine.zonos3.random_checkpoint import PARAMS

CONFIG = Zonos3Config.from_dict(PARAMS)
UNKNOWN = {"lufs": 10, "bandwidth_hz": 10, "speaking_rate": 30}


def test_three_controls_are_declared_with_ten_ten_and_thirty_buckets() -> None:
    controls = {control.name: control for control in declared_controls(CONFIG)}
    assert [len(control.buckets) for control in controls.values()] == [10, 10, 30]
    assert [control.kind for control in controls.values()] == ["quality", "quality", "rate"]
    assert [control.unit for control in controls.values()] == ["LUFS", "Hz", "bytes/s"]
    assert {control.default for control in controls.values()} == {None}
    loudness = controls["lufs"].buckets
    assert (loudness[0], loudness[1], loudness[-1]) == ("below -45", "-45--40", "-14+")
    assert controls["speaking_rate"].buckets[0] == "0-4"


@pytest.mark.parametrize(
    ("delivery", "changed"),
    [
        ({}, {}),
        ({"quality_buckets": {"lufs": None}}, {}),
        ({"quality_buckets": {"lufs": 3, "bandwidth_hz": 9}}, {"lufs": 3, "bandwidth_hz": 9}),
        ({"quality_values": {"lufs": -100}}, {"lufs": 0}),
        ({"quality_values": {"lufs": -45}}, {"lufs": 1}),  # an edge is the upper bucket's
        ({"quality_values": {"lufs": -45.001}}, {"lufs": 0}),
        ({"quality_values": {"lufs": 0}}, {"lufs": 9}),
        ({"quality_values": {"lufs": math.nan}}, {}),
        ({"speaking_rate_bucket": 29}, {"speaking_rate": 29}),
        ({"speaking_rate": 3.9}, {"speaking_rate": 0}),
        ({"speaking_rate": 400}, {"speaking_rate": 29}),
        ({"speed": 1.0}, {"speaking_rate": 15}),  # the middle bucket
        ({"speed": 2.0}, {"speaking_rate": 29}),
    ],
)
def test_what_is_not_chosen_is_unknown(delivery: dict[str, Any], changed: dict[str, int]) -> None:
    assert resolve_controls(CONFIG, Delivery(**delivery)) == UNKNOWN | changed


@pytest.mark.parametrize(
    ("delivery", "field", "says"),
    [
        ({"accurate_mode": False}, "accurate_mode", "no control for the expressive mode"),
        ({"clean_speaker_background": True}, "clean_speaker_background", "no control for the"),
        (
            {"quality_buckets": {"estimated_snr": 1}},
            "quality_buckets",
            "it has: lufs, bandwidth_hz",
        ),
        ({"quality_buckets": {"speaking_rate": 1}}, "quality_buckets", "no quality feature"),
        ({"quality_buckets": 7}, "quality_buckets", "give a number per feature"),
        ({"quality_buckets": {"lufs": 10}}, "quality_buckets.lufs", "from 0 to 9"),
        ({"quality_values": {"lufs": "loud"}}, "quality_values.lufs", "give a number of LUFS"),
        ({"speaking_rate_bucket": 30}, "speaking_rate_bucket", "from 0 to 29"),
        ({"speaking_rate": 0}, "speaking_rate", "above 0, UTF-8 bytes per second"),
        ({"speed": -1}, "speed", "above 0, a multiple of the usual"),
        ({"speed": 1.5, "speaking_rate": 9}, "speed", "contradict each other"),
        (
            {"quality_values": {"lufs": -20}, "quality_buckets": {"lufs": 1}},
            "quality_values",
            "contradict each other",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(
    delivery: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says) as caught:
        resolve_controls(CONFIG, Delivery(**delivery))
    assert caught.value.field == field


def test_a_checkpoint_without_a_rate_has_none() -> None:
    config = Zonos3Config.from_dict(PARAMS | {"condition_edges": {"lufs": [-30]}})
    assert [control.name for control in declared_controls(config)] == ["lufs"]
    with pytest.raises(InvalidRequest, match="no control for a speaking rate"):
        resolve_controls(config, Delivery(speed=1.5))
    assert resolve_controls(config, Delivery()) == {"lufs": 2}
