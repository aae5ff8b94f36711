"""Chunks of any size: when the sound leaves, never what it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import ChunkFrames, Engine, InvalidRequest, SpeechRequest
from engine.text.markup import Pause, Spoken
from tests.engine.scripted import HOP, RATE_HZ, ScriptedCodec, ScriptedFamily

LINES = ["The boat is tied up, now and then, it is", "Two men stand there and look.", "Nobody."]
NANO = Path(__file__).parents[2] / "assets" / "nano"
NANO_TEXTS = (
    "Why?",
    "The old house on the hill has a bright red door.",
    "The ship sailed into the harbor just before sunset, and nobody was there to see it. " * 3,
)
SINGLE = SpeechRequest(LINES[0], seed=1)
# Segments with a pause between two, the second of which is made again.
PIECES = (Spoken(LINES[0]), Spoken(LINES[1].replace("men", "men%")), Pause(40), Spoken(LINES[2]))
LONG = SpeechRequest("whatever", pieces=PIECES, seed=4)


def open_engine(chunks: ChunkFrames) -> Engine:
    return Engine(ScriptedFamily(), ScriptedCodec(), None, {}, num_slots=1, chunks=chunks)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def usual() -> Iterator[list[np.ndarray]]:
    with open_engine(ChunkFrames()) as engine:
        stream = engine.submit(LONG)
        samples = stream.read()[0]
        assert stream.repairs
        yield [engine.submit(SINGLE).read()[0], samples]


@pytest.mark.parametrize("case", range(5))
def test_samples_are_the_same_whatever_the_sizes(usual: list[np.ndarray], case: int) -> None:
    draw = random.Random(case)
    first, largest = sorted(draw.choices(range(1, 60), k=2))
    with open_engine(ChunkFrames(first, largest)) as engine:
        for request, expected in zip((SINGLE, LONG), usual, strict=True):
            assert np.array_equal(engine.submit(request).read()[0], expected)


@pytest.mark.slow
def test_the_embedded_voice_is_the_same_whatever_the_sizes() -> None:
    heard = []
    for chunks in (ChunkFrames(), ChunkFrames(1, 3), ChunkFrames(first=31), ChunkFrames(5, 12)):
        with Engine.open(NANO, device="cpu", chunks=chunks) as engine:
            streams = [engine.speak(text, seed=7) for text in NANO_TEXTS]
            heard.append([stream.read()[0] for stream in streams])
            assert not any(stream.repairs for stream in streams)
    for others in heard[1:]:
        assert all(map(np.array_equal, others, heard[0]))


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (ChunkFrames(), [3, 6, 12]),  # 0.16 s, doubling: windows of their own
        (ChunkFrames(first=1), [1, 2, 4, 8]),
        (ChunkFrames(first=5, largest=6), [5, 4, 6, 6]),  # the second ends with a window
        (ChunkFrames(first=2, largest=2), [2] * 12),
        (ChunkFrames(largest=1), [1] * 24),
    ],
)
def test_chunks_grow_from_the_first_to_the_largest(
    chunks: ChunkFrames, expected: list[int]
) -> None:
    with open_engine(chunks) as engine:  # without a silence, which would be held back
        pieces = list(engine.submit(SpeechRequest("Thisisawordthatneverstopsatall", seed=1)))
    sizes = [len(piece) // HOP for piece in pieces]
    assert sizes[: len(expected)] == expected
    assert all(len(piece) % HOP == 0 for piece in pieces)


def test_the_first_chunk_leaves_as_soon_as_its_frames_and_their_context_are_there() -> None:
    rows = {}
    for first in (1, 12):
        with open_engine(ChunkFrames(first=first)) as engine:
            made: list[int] = []
            loop = engine._loop
            hand_out = loop._hand_out

            def noted(jobs, hand_out=hand_out, made=made):  # type: ignore[no-untyped-def]
                before = [job.stream.spoken_s for job in jobs]
                hand_out(jobs)
                for job, spoken_s in zip(jobs, before, strict=True):
                    if not spoken_s and job.stream.spoken_s:
                        made.append(job.stream.timings.num_frames)

            loop._hand_out = noted  # type: ignore[method-assign]
            engine.submit(SINGLE).read()
            rows[first] = made
    context = ScriptedCodec.context_right
    assert rows == {1: [1 + context], 12: [12 + context]}


def test_sound_rises_from_silence_as_slowly_in_short_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.outlet.RAMP_S", 3.5 * HOP / RATE_HZ)
    whole = []
    for chunks in (ChunkFrames(first=9), ChunkFrames(first=1, largest=1)):
        with open_engine(chunks) as engine:
            whole.append(engine.submit(SINGLE).read()[0])
    assert np.array_equal(*whole)


sizes = st.none() | st.integers(1, 1000)


@given(sizes, sizes)
def test_sizes_that_are_left_out_give_way(first: int | None, largest: int | None) -> None:
    if first and largest and first > largest:
        with pytest.raises(InvalidRequest) as caught:
            ChunkFrames(first, largest)
        assert caught.value.message == (
            f"--first-chunk-frames: {first} is more than --chunk-frames {largest}; give at most"
            f" {largest}, or leave one of them out."
        )
        return
    codec = ScriptedCodec()
    own_first, own_largest = ChunkFrames(first, largest).of(codec)  # type: ignore[arg-type]
    assert 1 <= own_first <= own_largest
    assert first in (None, own_first) and largest in (None, own_largest)
    assert ChunkFrames().of(codec) == (3, 19)  # type: ignore[arg-type]
