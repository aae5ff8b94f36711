"""The fade at the end: the reference's numbers, the same in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.media.fade import faded

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "misc.npz"


def fade(pieces: list[np.ndarray], fade_out_ms: float) -> list[np.ndarray]:
    async def source() -> AsyncIterator[np.ndarray]:
        for piece in pieces:
            yield piece

    async def collect() -> list[np.ndarray]:
        return [piece async for piece in faded(source(), fade_out_ms, 44_100)]

    return asyncio.run(collect())


@pytest.mark.parametrize("fade_out_ms", [0.0, 1.0, 10.0, 50.0, 1000.0])
def test_the_last_milliseconds_are_the_references(fade_out_ms: float) -> None:
    with np.load(GOLDEN) as golden:
        pcm, expected = golden["fade_in_pcm"], golden[f"fade_out_{fade_out_ms}ms"]
    np.testing.assert_allclose(np.concatenate(fade([pcm], fade_out_ms)), expected, atol=1e-5)


@given(st.lists(st.integers(0, 900), max_size=8), st.sampled_from([0.0, 1.0, 10.0, 40.0]))
def test_pieces_are_the_whole(sizes: list[int], fade_out_ms: float) -> None:
    whole = np.linspace(0.1, 1.0, sum(sizes), dtype=np.float32)
    pieces = np.split(whole, np.cumsum(sizes)[:-1]) if sizes else []
    nothing = [np.zeros(0, np.float32)]
    one = np.concatenate([*nothing, *fade([whole], fade_out_ms)])
    assert np.array_equal(np.concatenate([*nothing, *fade(pieces, fade_out_ms)]), one)
    assert len(one) == len(whole)
