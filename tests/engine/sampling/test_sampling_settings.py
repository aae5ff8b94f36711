"""Settings of one request: defaults filled in, limits kept, errors that help."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidRequest
from engine.request import Sampling
from engine.sampling import SAMPLING_RANGES, ResolvedSampling, resolve
from engine.zonos2.config import RELEASE_SAMPLING


def test_the_checkpoints_defaults_fill_what_was_not_asked() -> None:
    assert resolve(Sampling(), RELEASE_SAMPLING) == ResolvedSampling(1.15, 106, 0, 0.18, 1.2, 50, 8)
    own = {**RELEASE_SAMPLING, "temperature": 0.3}
    assert resolve(Sampling(min_p=0.0), own) == ResolvedSampling(0.3, 106, 0, 0, 1.2, 50, 8)


@pytest.mark.parametrize("top_k", [0, -1])
def test_top_k_below_one_keeps_1024(top_k: int) -> None:
    assert resolve(Sampling(top_k=top_k), RELEASE_SAMPLING).top_k == 1024


@pytest.mark.parametrize("top_p", [0, 1, 0.0, 1.0])
def test_top_p_zero_and_one_are_off(top_p: float) -> None:
    assert resolve(Sampling(top_p=top_p), RELEASE_SAMPLING).top_p == 0.0


@pytest.mark.parametrize("field", SAMPLING_RANGES)
def test_both_ends_of_a_range_are_allowed_and_beyond_is_refused(field: str) -> None:
    limits = SAMPLING_RANGES[field]
    beyond = 1 if limits.is_integer else 1e-9
    for value in (limits.minimum, limits.maximum):
        resolve(Sampling(**{field: value}), RELEASE_SAMPLING)
    for value in (limits.minimum - beyond, limits.maximum + beyond):
        with pytest.raises(InvalidRequest) as caught:
            resolve(Sampling(**{field: value}), RELEASE_SAMPLING)
        assert caught.value.field == field
        for part in (field, repr(value), f"{limits.minimum:g} to {limits.maximum:g}", "give a"):
            assert part in caught.value.message


@pytest.mark.parametrize("field", SAMPLING_RANGES)
@pytest.mark.parametrize(
    "value",
    [True, math.nan, math.inf, -math.inf, "1", [1], 1 + 0j, 10**400, 10**5000, np.True_],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_finite_number_is_refused_in_a_short_sentence(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        resolve(Sampling(**{field: value}), RELEASE_SAMPLING)
    assert caught.value.field == field
    assert len(caught.value.message) < 200


def test_whole_numbers_may_come_as_floats_but_not_broken_ones() -> None:
    settings = resolve(Sampling(top_k=50.0, repetition_window=np.int64(3)), RELEASE_SAMPLING)  # type: ignore[arg-type]
    assert (settings.top_k, settings.repetition_window) == (50, 3)
    assert type(settings.top_k) is int
    with pytest.raises(InvalidRequest, match=r"top_k: 1\.5 .*whole number"):
        resolve(Sampling(top_k=1.5), RELEASE_SAMPLING)  # type: ignore[arg-type]
