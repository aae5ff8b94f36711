"""A text in segments: where each one sounds, how loud, after which silence, and who waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, FinishReason, Guidance, SpeechRequest
from engine import job as job_module
from engine import stream as stream_module
from engine.loudness import LoudnessMeter
from engine.text.markup import Pause, Spoken
from tests.engine.scripted import HOP, RATE_HZ, Clock, ScriptedCodec, ScriptedFamily, script

GOLDEN = Path(__file__).parents[1] / "golden" / "longform.json"
LINES = ["The boat is tied up, now.", "Two men stand there and look.", "Nobody says a word."]
LONG = " ".join(LINES)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Its clock stands still: whose turn is over follows from what was spoken alone."""
    family, codec = ScriptedFamily(**getattr(request, "param", {})), ScriptedCodec()
    with Engine(family, codec, None, {}, num_slots=2, clock=Clock()) as opened:  # type: ignore[arg-type]
        yield opened


def ask(text: str, *pieces: Spoken | Pause, seed: int = 1, **more: object) -> SpeechRequest:
    return SpeechRequest(text, pieces=pieces, seed=seed, **more)  # type: ignore[arg-type]


# Where -----------------------------------------------------------------------------------------


def test_each_sentence_is_told_from_its_first_to_its_last_sounding_frame(engine: Engine) -> None:
    stream = engine.submit(ask(LONG))
    samples, _ = stream.read()
    assert len(samples) == stream.timings.num_frames * HOP
    begin = 0
    for line, chunk in zip(LINES, stream.chunks_spoken, strict=True):
        sounding = len(script(line)) - 6
        assert chunk == (line, begin * HOP, (begin + sounding) * HOP)
        assert np.abs(samples[chunk.begin_sample :][:HOP]).max() > 0.03
        assert np.abs(samples[chunk.end_sample : chunk.end_sample + 4 * HOP]).max() < 0.01
        begin += len(script(line))
    assert begin * HOP == len(samples)


def test_pauses_are_as_long_as_asked_and_meet_the_sound_without_a_step(engine: Engine) -> None:
    first, second, third = LINES
    pieces = (
        *(Pause(150), Spoken(first), Pause(1000), Pause(234)),
        *(Spoken(second), Spoken(" "), Spoken(third), Pause(77)),
    )
    stream = engine.submit(ask("whatever", *pieces))
    samples, _ = stream.read()
    plain = engine.submit(ask(LONG))
    straight, _ = plain.read()
    pauses = [round(ms / 1000 * RATE_HZ) for ms in (150, 1234, 77)]
    assert len(samples) == len(straight) + sum(pauses)
    assert samples[: pauses[0]].any() == samples[-pauses[2] :].any() == False  # noqa: E712
    at = pauses[0] + len(script(first)) * HOP
    assert not samples[at : at + pauses[1]].any()
    assert samples[at - 1] == 0 and abs(samples[at + pauses[1]]) < 1e-3
    shifts = [pauses[0], pauses[0] + pauses[1], pauses[0] + pauses[1]]
    for told, there, shift in zip(stream.chunks_spoken, plain.chunks_spoken, shifts, strict=True):
        assert told == (there.text, there.begin_sample + shift, there.end_sample + shift)
    pieces_of_it = list(engine.submit(ask("whatever", *pieces)))
    assert np.array_equal(np.concatenate(pieces_of_it), samples)


def test_a_pace_is_a_rate_of_its_own_segment(engine: Engine) -> None:
    family = engine.family
    engine.submit(ask("x1", Spoken(LINES[0]), Spoken(LINES[1], rate=0.5))).read()
    asked = {text: request.delivery.speaking_rate for text, request, _ in family.asked}  # type: ignore[attr-defined]
    assert asked == {LINES[0]: None, LINES[1]: 9.5}


# How loud --------------------------------------------------------------------------------------


def lufs_of(samples: np.ndarray, stream: stream_module.SpeechStream) -> list[float]:
    levels = []
    for _, begin, end in stream.chunks_spoken:
        meter = LoudnessMeter(RATE_HZ)
        meter.feed(samples[begin:end])
        levels.append(meter.lufs())
    return levels


def test_every_segment_comes_near_the_first_ones_loudness(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, begin_segment = engine.codec.decode, job_module.Job._begin_segment
    volumes, now = [1.0, 0.5, 1.5], [1.0]  # of the segments as the codec makes them

    def begun(job: job_module.Job) -> None:
        begin_segment(job)
        now[0] = volumes[job._segment]

    monkeypatch.setattr(engine.codec, "decode", lambda codes: decode(codes) * now[0])
    monkeypatch.setattr(job_module.Job, "_begin_segment", begun)
    stream = engine.submit(ask(LONG, seed=3))
    samples, _ = stream.read()
    first, *others = lufs_of(samples, stream)
    assert all(abs(level - first) < 1.0 for level in others)
    monkeypatch.setattr(job_module, "FREE_LU", 99.0)
    stream = engine.submit(ask(LONG, seed=3))
    samples, _ = stream.read()
    first, *others = lufs_of(samples, stream)
    assert others[0] - first < -4 and others[1] - first > 1.5


def test_a_gain_neither_steps_nor_clips() -> None:
    from engine.outlet import Outlet

    codec = ScriptedCodec()
    outlet = Outlet(codec)  # type: ignore[arg-type]
    outlet._held = np.full((8, HOP), 0.5, np.float32)
    outlet.num_decoded = 8
    begun = outlet.hand_out(4)
    assert begun[0] == 0 and begun[-1] == 0.5 and (np.diff(begun) >= 0).all()
    outlet.change_gain(1.5)
    samples = outlet.hand_out(8)
    assert samples[0] == pytest.approx(0.5) and samples[-1] == pytest.approx(0.75)
    assert np.abs(np.diff(samples)).max() < 0.003


# What it goes on from ----------------------------------------------------------------------------


def test_the_context_is_the_references_window_of_two_with_its_anchor() -> None:
    """Of the reference's windows, ours is the one before and the first: its default."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    expected = {
        case["cur"]: case["indices"]
        for case in golden["window_indices"]
        if case["context"] == 1 and case["pin"]
    }
    family = ScriptedFamily(continues=True)
    text = " ".join(LINES * 3)
    with Engine(family, ScriptedCodec(), None, {}, num_slots=1) as engine:  # type: ignore[arg-type]
        engine.submit(ask(text)).read()
    lines = LINES * 3
    for at, (line, _, context) in enumerate(family.asked[1:]):
        assert line == lines[at] and context is not None
        if at in expected:
            assert context.text == " ".join(lines[index] for index in expected[at])
        # Whole frames, all of them: the reference's kept rows end three short, and its last
        # frames lack codes, for it cuts the rows before it undoes the delay.
        spoken = sum(len(script(lines[index])) for index in sorted({0, at - 1} & set(range(at))))
        assert len(context.frames) == spoken and context.is_last == (at == 8)


@pytest.mark.parametrize("engine", [{"continues": True}], indirect=True)
def test_a_repaired_segment_is_gone_on_from_as_it_was_heard(engine: Engine) -> None:
    lines = [LINES[0], LINES[1].replace("stand", "stand%"), LINES[2]]
    for seed in range(9):
        engine.family.asked.clear()  # type: ignore[attr-defined]
        stream = engine.submit(ask(" ".join(lines), seed=seed))
        stream.read()
        if stream.repairs and stream.finish_reason is FinishReason.STOP:
            break
    assert stream.repairs
    _, _, context = engine.family.asked[-1]  # type: ignore[attr-defined]
    assert len(context.frames) == sum(len(script(line)) for line in LINES[:2])


# Who waits ---------------------------------------------------------------------------------------


def test_the_first_sentence_is_heard_while_it_is_made(engine: Engine) -> None:
    stream = engine.submit(ask(LONG))
    first = next(iter(stream))
    assert len(first) <= 4 * HOP  # 0.16 s, rounded up to frames
    assert stream.timings.first_chunk_s is not None


def test_long_texts_leave_their_slots_between_sentences(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [engine.submit(ask(" ".join(LINES * 4), seed=seed)).read()[0] for seed in (1, 2)]
    short = engine.submit(ask("Hello there.", seed=9)).read()[0]
    with engine._changed:  # all three are there before the first step
        long = [
            engine.submit(ask(" ".join(LINES * 4), seed=seed, owner=f"long {seed}"))
            for seed in (1, 2)
        ]
        quick = engine.submit(ask("Hello there.", seed=9, owner="quick"))
        finish = quick.finish

        def finished(*how: Any) -> None:  # the others go on as soon as it has ended
            then.extend((stream.finish_reason, len(stream.chunks_spoken)) for stream in long)
            finish(*how)

        then: list[tuple[FinishReason | None, int]] = []
        monkeypatch.setattr(quick, "finish", finished)
    assert np.array_equal(quick.read()[0], short)
    assert len(then) == 2
    assert all(reason is None and num_chunks <= 4 for reason, num_chunks in then)
    assert all(stream.status.state == "speaking" for stream in long if stream.spoken_s)
    for stream, expected in zip(long, alone, strict=True):
        assert np.array_equal(stream.read()[0], expected)
    assert engine.stats.num_live == engine.stats.num_waiting == 0


def test_who_is_not_ahead_of_a_listener_keeps_its_slot(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "AHEAD_S", 99.0)
    with engine._changed:
        long = [engine.submit(ask(LONG, seed=n, owner=f"long {n}")) for n in (1, 2)]
        quick = engine.submit(ask("Hello there.", seed=9, owner="quick"))
    quick.read()
    assert any(stream.finish_reason is FinishReason.STOP for stream in long)


def test_a_text_that_nobody_reads_does_not_keep_a_slot(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "BUFFER_S", 2.0)  # the first sentence fits
    unread = [engine.submit(ask(" ".join(LINES * 4), owner=f"unread {n}")) for n in range(3)]
    assert len(engine.submit(ask("Hello there.", seed=9, owner="quick")).read()[0])
    resting = unread[0].spoken_s
    whole = [stream.read()[0] for stream in unread]
    assert resting < 4 < len(whole[0]) / RATE_HZ
    assert all(np.array_equal(samples, whole[0]) for samples in whole)


def test_one_that_waits_between_sentences_can_be_cancelled(engine: Engine) -> None:
    streams = [engine.submit(ask(" ".join(LINES * 9), owner=f"o{n}")) for n in range(4)]
    next(iter(streams[0]))
    for stream in streams:
        stream.cancel()
    assert engine.drain(60.0)
    assert not engine._loop._last_codes and len(engine._scheduler._free) == 2


def test_guided_ones_leave_and_take_all_their_lanes(engine: Engine) -> None:
    request = ask(LONG, seed=4, guidance=Guidance(speaker=2.0))
    alone = engine.submit(request).read()[0]
    streams = [engine.submit(request), engine.submit(ask(LONG, seed=5)), engine.submit(request)]
    sounds = [stream.read()[0] for stream in streams]
    assert np.array_equal(sounds[0], alone) and np.array_equal(sounds[2], alone)
