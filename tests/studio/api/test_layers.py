"""Fields in layers: the nearer one wins, by whatever name."""

from __future__ import annotations

import pytest

from studio.api.layers import field_of, layered


@pytest.mark.parametrize(
    ("far", "near", "merged"),
    [
        ({"voice": "a", "seed": 1}, {"seed": 2}, {"voice": "a", "seed": 2}),
        ({"voice": "a"}, {"voice": None}, {"voice": "a"}),
        ({"voice": "a"}, {"speaker": "b"}, {"speaker": "b"}),
        ({"response_format": "mp3"}, {"format": "wav"}, {"format": "wav"}),
        ({"voice": "a"}, {"ref_audio": "x"}, {"ref_audio": "x"}),
        ({"blend": {"a": 1, "b": 2}}, {"voice_id": "c"}, {"voice_id": "c"}),
        ({"speed": 2}, {"speaking_rate": 15}, {"speaking_rate": 15}),
        ({"mode": "accurate"}, {"accurate_mode": False}, {"accurate_mode": False}),
        ({"extra_params": {"seed": 1}}, {}, {"extra_params": {"seed": 1}}),
    ],
)
def test_what_the_nearer_layer_sets_replaces_what_the_farther_one_says(far, near, merged):
    assert layered(far, near) == merged


def test_a_name_stands_for_its_field():
    assert field_of("lang") == "language" and field_of("anything") == "anything"
