"""A long text at its limits: its noise, its memory, a full context, and every way it may end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Cancelled, Engine, FinishReason, GenerationFailed, Guidance, InvalidRequest
from engine import job as job_module
from engine.job import Job
from engine.longform import plan_speech
from engine.outlet import MAX_CHUNK_S
from engine.repair import MAX_REPAIRS
from engine.request import SpeechRequest
from engine.stream import SpeechStream
from engine.text.markup import Pause, Spoken
from engine.validate import MAX_TEXT_CHARS
from tests.engine.scripted import HOP, RATE_HZ, Clock, ScriptedCodec, ScriptedFamily, script

LINES = ["The boat is tied up, now.", "Two men stand there and look.", "Nobody says a word."]
LONG = " ".join(LINES)


def open_engine(num_slots: int = 2, **family: Any) -> Engine:
    """Its clock stands still: whose turn is over follows from what was spoken alone."""
    parts = ScriptedFamily(**family), ScriptedCodec(), None, {}
    return Engine(*parts, num_slots=num_slots, clock=Clock())  # type: ignore[arg-type]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with open_engine() as opened:
        yield opened


def ask(text: str, *pieces: Spoken | Pause, seed: int = 1, **more: object) -> SpeechRequest:
    return SpeechRequest(text, pieces=pieces, seed=seed, **more)  # type: ignore[arg-type]


# Noise -------------------------------------------------------------------------------------------

PLACES = st.tuples(
    st.integers(0, MAX_TEXT_CHARS), st.integers(0, MAX_REPAIRS), st.integers(0, 200_000)
)


def key(segment: int, attempt: int, row: int) -> int:
    job = object.__new__(Job)
    job._segment, job._row, job._branches = segment, row, [0] * (attempt + 1)
    return job.noise_row


@given(PLACES, PLACES)
def test_no_two_rows_of_a_text_of_any_length_share_their_noise(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    assert (key(*one) == key(*other)) == (one == other)
    assert 0 <= key(*one) < 2**47  # with 16 bits for the codebook it stays a positive int64


def test_rows_before_a_repair_keep_the_noise_they_had() -> None:
    job = object.__new__(Job)
    job._segment, job._branches = 3, [0, 40, 20]
    rows = {}
    for row in (0, 19, 20, 39, 40, 50):
        job._row = row
        rows[row] = job.noise_row
    assert [rows[row] == key(3, 0, row) for row in rows] == [True, True] + [False] * 4
    assert all(rows[row] == key(3, 2, row) for row in (20, 39, 40, 50))


# What is checked at the door ---------------------------------------------------------------------


def test_the_heaviest_segment_is_the_one_that_is_tried() -> None:
    family = ScriptedFamily()
    heavy = "今天天气很好我们去公园。"
    plan_speech(ask("x"), f"{LINES[0]}\n\n{heavy}", family, 2)
    assert family.asked[-1][0] == heavy
    with contextlib.suppress(UnicodeEncodeError):
        plan_speech(ask("x"), f"{LONG}\n\nSo \ud800.", family, 2)
    assert family.asked[-1][0] == "So \ud800."


def test_only_pauses_or_signs_are_refused(engine: Engine) -> None:
    for pieces in [(Pause(300),), (Pause(1), Spoken("…"), Pause(2))]:
        with pytest.raises(InvalidRequest, match="input: nothing of the text"):
            engine.submit(ask("x", *pieces))


# What it keeps -----------------------------------------------------------------------------------


def test_of_a_long_text_only_what_is_needed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(LINES * 30)
    kept: list[tuple[int, int, int, int]] = []
    settle = Job.settle

    def noted(job: Job) -> None:
        was_ended = job._is_ended
        settle(job)
        if was_ended:
            outlet = job._outlet
            frames = sum(map(len, job._spoken.values()))
            codes = len(outlet._codec_stream._frames)
            kept.append((len(job._spoken), frames, len(outlet._held), codes))

    monkeypatch.setattr(Job, "settle", noted)
    with open_engine(continues=True) as engine:
        samples, _ = engine.submit(ask(text)).read()
    assert len(samples) == sum(len(script(line)) for line in LINES) * 30 * HOP
    assert len(kept) == 90
    most_segments, most_frames, most_held, most_codes = (
        max(column) for column in zip(*kept, strict=True)
    )
    assert most_segments == 2 and most_frames <= 2 * max(len(script(line)) for line in LINES)
    window = round(MAX_CHUNK_S * RATE_HZ / HOP)  # one that the next sentence goes on with
    context = ScriptedCodec.context_left + ScriptedCodec.context_right
    assert most_held == 0 and most_codes < window + context


@pytest.mark.parametrize(("max_rows", "heard"), [(4000, [0, 1]), (100, [1])])
def test_what_it_goes_on_from_leaves_half_of_the_context(
    monkeypatch: pytest.MonkeyPatch, max_rows: int, heard: list[int]
) -> None:
    monkeypatch.setattr(ScriptedFamily, "max_rows", max_rows)
    with open_engine(continues=True) as engine:
        engine.submit(ask(LONG)).read()
    _, _, context = engine.family.asked[-1]  # type: ignore[attr-defined]
    assert context.text == " ".join(LINES[at] for at in heard)
    assert len(context.frames) == sum(len(script(LINES[at])) for at in heard)


def test_a_long_pause_comes_in_pieces_of_a_second(engine: Engine) -> None:
    pieces = list(engine.submit(ask("x", Pause(2500), Spoken(LINES[0]), Pause(1700))))
    assert max(map(len, pieces)) <= RATE_HZ
    assert sum(map(len, pieces)) == round(4.2 * RATE_HZ) + len(script(LINES[0])) * HOP
    assert not any(piece.any() for piece in (*pieces[:3], *pieces[-2:]))


# Where it ends -----------------------------------------------------------------------------------


def test_a_full_context_is_a_fault_of_one_segment_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ScriptedFamily, "max_rows", 110)
    lines = [LINES[0], LINES[1].replace("stand", "stand~&"), LINES[2]]
    with open_engine() as engine:
        stream = engine.submit(ask(" ".join(lines)))
        samples, _ = stream.read()
    assert [repair[:2] for repair in stream.repairs] == [(1, "budget")] * MAX_REPAIRS
    assert stream.finish_reason is FinishReason.LENGTH
    assert [chunk.text for chunk in stream.chunks_spoken] == lines
    assert len(samples) / HOP <= len(script(LINES[0])) + 110 + len(script(LINES[2]))


def test_a_sentence_that_came_out_silent_is_made_again(engine: Engine) -> None:
    told = []
    for seed in range(8):
        pieces = (Spoken(LINES[0]), Pause(9), Spoken("No more@ now."))
        stream = engine.submit(ask("x", *pieces, seed=seed))
        samples, _ = stream.read()
        told += stream.repairs
        _, begin, end = stream.chunks_spoken[1]
        is_heard = np.abs(samples[begin:end]).max() > 0.01
        assert is_heard == (stream.finish_reason is FinishReason.STOP)
    assert told and {repair[:2] for repair in told} == {(1, "empty")}


def test_the_callers_limit_counts_all_segments(engine: Engine) -> None:
    whole = engine.submit(ask(LONG)).read()[0]
    num_rows = [len(script(line)) + 4 for line in LINES]  # two late codes, two after the end
    for limit in (num_rows[0] - 1, num_rows[0], num_rows[0] + 7, sum(num_rows) - 1):
        stream = engine.submit(ask(LONG, max_new_frames=limit))
        samples, _ = stream.read()
        assert stream.finish_reason is FinishReason.LENGTH and not stream.repairs
        assert len(samples) == stream.timings.num_frames * HOP <= limit * HOP
        # Up to the last frame's context it is what it would have been.
        same = len(samples) - 2 * HOP
        np.testing.assert_allclose(samples[:same], whole[:same], atol=1e-6)
    assert engine.submit(ask(LONG, max_new_frames=sum(num_rows))).read()[0].size == whole.size


# Whoever leaves, or fails, leaves alone ----------------------------------------------------------


def at_the_call(
    monkeypatch: pytest.MonkeyPatch, name: str, number: int, act: Any, owner: str = "it"
) -> None:
    """Do ``act(job)`` before the ``number``-th call of a method of one owner's job.

    Calls of ``settle`` count where a segment has ended.
    """
    plain, calls = getattr(Job, name), [0]

    def acting(job: Job, *values: Any, **named: Any) -> Any:
        if job.owner == owner and (name != "settle" or job._is_ended):
            calls[0] += 1
            if calls[0] == number:
                act(job)
        return plain(job, *values, **named)

    monkeypatch.setattr(Job, name, acting)


def beside(engine: Engine) -> SpeechStream:
    return engine.submit(ask(LONG, seed=5, owner="beside"))


def assert_left_alone(engine: Engine, other: SpeechStream, alone: np.ndarray) -> None:
    assert np.array_equal(other.read()[0], alone)
    assert engine.drain(60.0)
    assert not engine._loop._last_codes and len(engine._scheduler._free) == engine.num_slots


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("next_plan", 1),  # about to be prefilled
        ("take_row", 5),  # in the first sentence
        ("take_samples", 2),
        ("settle", 1),  # where a sentence ends
        ("next_plan", 2),  # between two
        ("_branch", 1),  # where one has gone wrong
        ("next_plan", 3),  # and is to be made again
    ],
)
def test_it_can_be_cancelled_in_any_phase(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    alone = beside(engine).read()[0]
    at_the_call(monkeypatch, name, number, lambda job: job.stream.cancel())
    other = beside(engine)
    stream = engine.submit(ask(LONG.replace("stand", "stand~%"), owner="it"))
    with pytest.raises(Cancelled):
        stream.read()
    assert stream.finish_reason is FinishReason.CANCELLED
    assert_left_alone(engine, other, alone)


@pytest.mark.parametrize(
    ("name", "number"), [("next_plan", 2), ("take_samples", 1), ("take_samples", 4), ("settle", 2)]
)
def test_a_fault_in_one_job_ends_it_and_no_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    alone = beside(engine).read()[0]

    def fail(job: Job) -> None:
        raise RuntimeError("made to fail")

    at_the_call(monkeypatch, name, number, fail)
    other = beside(engine)
    stream = engine.submit(ask(LONG, owner="it"))
    with pytest.raises(GenerationFailed, match="RuntimeError"):
        stream.read()
    assert stream.finish_reason is FinishReason.FAILED
    assert_left_alone(engine, other, alone)


# The same for everybody, and a turn for everybody ------------------------------------------------


@pytest.mark.parametrize("continues", [False, True])
def test_all_at_once_is_the_same_alone_in_company_streamed_and_after_others(
    monkeypatch: pytest.MonkeyPatch, continues: bool
) -> None:
    monkeypatch.setattr(job_module, "AHEAD_S", 0.5)
    pieces = (
        *(Pause(120), Spoken(LINES[0]), Spoken(LINES[1].replace("men", "men%"), rate=0.5)),
        *(Pause(900), Spoken(LINES[2].replace("says", "says$")), Pause(40), Spoken(LINES[0])),
    )
    requests = [
        ask("x", *pieces, seed=seed, owner=f"owner {seed % 3}", guidance=Guidance(speaker=scale))
        for seed, scale in enumerate([1.0, 2.0, 1.0, 1.0, 2.0, 1.0])
    ]
    with open_engine(num_slots=1 + 1, continues=continues) as engine:
        alone = [engine.submit(request) for request in requests]
        expected = [stream.read()[0] for stream in alone]
        in_company = [engine.submit(request) for request in requests]
        for stream, before, samples in zip(in_company, alone, expected, strict=True):
            assert np.array_equal(np.concatenate(list(stream)), samples)
            assert stream.repairs == before.repairs
            assert stream.chunks_spoken == before.chunks_spoken
        assert any(stream.repairs for stream in alone)


def test_three_long_texts_share_one_slot_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    begin_segment = Job._begin_segment

    def noted(job: Job) -> None:
        begun.append(job.owner)
        begin_segment(job)

    monkeypatch.setattr(Job, "_begin_segment", noted)
    monkeypatch.setattr(job_module, "AHEAD_S", -1.0)  # as if everybody had enough to listen to
    with open_engine(num_slots=1) as engine:
        with engine._changed:
            streams = [engine.submit(ask(LONG, owner=f"owner {n}")) for n in range(3)]
        sounds = [stream.read()[0] for stream in streams]
    assert [len(list(run)) for _, run in groupby(begun)] == [1] * 9
    assert all(np.array_equal(sound, sounds[0]) for sound in sounds)
