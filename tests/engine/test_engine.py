"""The engine's life: voices, bad input, cancelling, refusing, draining."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from engine import (
    Cancelled,
    CheckpointError,
    Delivery,
    Engine,
    FinishReason,
    GenerationFailed,
    InvalidReference,
    InvalidRequest,
    NotFound,
    OwnerShareUsed,
    QueueFull,
    Sampling,
    SpeechRequest,
    SpeechStream,
    Unavailable,
)
from engine import stream as stream_module

NANO = Path(__file__).parents[2] / "assets" / "nano"
TEXT = "The ship sailed into the harbor just before sunset."
WAIT_S = 60.0  # for what comes in a moment, on a machine that may stand still


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(
        NANO, device="cpu", num_slots=2, max_waiting=3, max_waiting_per_owner=2
    ) as opened:
        yield opened


def until(condition: Callable[[], bool], seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def idle(engine: Engine) -> bool:
    return engine.stats.num_live == 0 and engine.stats.num_waiting == 0


def long_request(owner: str = "local") -> SpeechRequest:
    return SpeechRequest(text=" ".join([TEXT] * 40), owner=owner)


@contextmanager
def held(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it the engine's thread stands before its next decode step."""
    may_go, runner = threading.Event(), engine._loop._runner
    decode = runner.decode

    def stand(*given: object) -> object:
        assert may_go.wait(WAIT_S)
        return decode(*given)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "decode", stand)
        try:
            yield
        finally:
            may_go.set()


def both_slots_busy(engine: Engine) -> list[SpeechStream]:
    with engine._changed:  # both are there before the next step
        streams = [engine.submit(long_request(f"live{n}")) for n in range(2)]
    until(lambda: engine.stats.num_live == 2)
    return streams


def test_the_default_voice_is_the_declared_one(engine: Engine) -> None:
    assert engine.default_voice == "heart"
    for name in (None, "default", "heart"):
        voice = engine.voice(name)
        assert voice is not None and torch.equal(voice, engine.voices["heart"])
    with pytest.raises(NotFound, match=r"no voice 'hart'; choose one of heart, ") as caught:
        engine.voice("hart")
    assert (caught.value.field, caught.value.code) == ("voice", "voice_not_found")


def test_a_reference_changes_the_voice_and_is_encoded_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, rate = engine.speak(TEXT, voice="deep", seed=5).read()
    encoder = engine.encoder
    assert encoder is not None
    calls = []
    encode = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda *a: (calls.append(1), encode(*a))[1])
    first = engine.speak("Yes.", reference=(samples, rate), seed=1).read()[0]
    again = engine.speak("Yes.", reference=(samples, rate), seed=1).read()[0]
    assert np.array_equal(first, again) and len(calls) == 1
    assert not np.array_equal(first, engine.speak("Yes.", voice="heart", seed=1).read()[0])
    with pytest.raises(InvalidReference):
        engine.embed(np.zeros(44_100, np.float32), 44_100)


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"text": " \n\u200b "}, "input", "no letter or number"),
        ({"text": "?!…"}, "input", "no letter or number"),
        ({"text": "a" * 50_001}, "input", r"50001 characters and the limit is 50000"),
        ({"text": "Hi \ud800 there"}, "input", "surrogate"),
        ({"seed": -1}, "seed", "0 to 4294967295"),
        ({"seed": 2**32}, "seed", "0 to 4294967295"),
        ({"max_new_frames": 0}, "max_new_tokens", "at least 1"),
        ({"sampling": Sampling(temperature=2.5)}, "temperature", "0 to 2"),
        ({"sampling": Sampling(top_k=5000)}, "top_k", "1026"),
        ({"delivery": Delivery(speaking_rate_bucket=8)}, "speaking_rate_bucket", "0 to 7"),
        ({"delivery": Delivery(accurate_mode=False)}, "accurate_mode", "leave the field out"),
        (
            {"delivery": Delivery(quality_values={"lufs": 1})},
            "quality_values",
            "trailing_silence_s",
        ),
        ({"speaker": torch.zeros(5)}, "voice", r"128 finite numbers"),
        ({"speaker": torch.full((128,), torch.nan)}, "voice", "finite"),
    ],
)
def test_bad_input_is_named_and_the_next_request_works(
    engine: Engine, change: dict[str, object], field: str, told: str
) -> None:
    with pytest.raises(InvalidRequest, match=told) as caught:
        engine.submit(SpeechRequest(**({"text": "Hello."} | change)))  # type: ignore[arg-type]
    assert caught.value.field == field
    samples, _ = engine.speak("Hi.", seed=1, max_new_frames=20).read()
    assert len(samples) > 0 and idle(engine)


def test_a_request_that_ends_without_sound_says_why(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidRequest, match="5 frames end before the first sound") as caught:
        engine.speak(TEXT, max_new_frames=5).read()
    assert caught.value.field == "max_new_tokens"
    runner = engine._loop._runner
    decode, eoa = runner.decode, engine.family.eoa_id

    def ends_at_once(slots: list[int], codes: torch.Tensor) -> torch.Tensor:
        logits = torch.full_like(decode(slots, codes), -100.0)
        logits[..., eoa] = 100.0
        return logits

    monkeypatch.setattr(runner, "decode", ends_at_once)
    with pytest.raises(GenerationFailed, match="no sound came out"):
        engine.speak("Hi.").read()


@pytest.mark.parametrize("moment", ["queued", "prefill", "decoding", "after the end"])
def test_cancelling_frees_the_slot_at_any_moment(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    blockers = []
    holding = ExitStack()
    if moment == "queued":
        holding.enter_context(held(engine, monkeypatch))
        blockers = both_slots_busy(engine)
    stream = engine.submit(long_request())
    if moment == "queued":
        assert stream.status.state == "queued" and stream.status.num_ahead == 0
    if moment == "decoding":
        next(iter(stream))
    if moment == "after the end":
        stream.cancel()
        with pytest.raises(Cancelled):
            stream.read()
    steps: list[None] = []
    at_the_end: list[int] = []
    step, finish = engine._loop.step, stream.finish
    monkeypatch.setattr(engine._loop, "step", lambda: (steps.append(None), step())[1])
    monkeypatch.setattr(
        stream, "finish", lambda *how: (at_the_end.append(len(steps)), finish(*how))
    )
    with engine._changed:  # no step begins meanwhile
        stream.cancel()
        steps.clear()
    until(lambda: stream.finish_reason is FinishReason.CANCELLED)
    assert max(at_the_end, default=0) <= 2  # steps later
    with pytest.raises(Cancelled):
        for _ in stream:
            pass
    for blocker in blockers:
        blocker.cancel()
    holding.close()
    until(lambda: idle(engine))
    assert len(engine.speak("Hi.", max_new_frames=20).read()[0]) > 0


def test_admission_is_bounded_and_says_how_long_to_wait(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(engine, monkeypatch):  # else the two soon give way
        streams = both_slots_busy(engine)
        streams += [engine.submit(long_request("a")) for _ in range(2)]
        with pytest.raises(OwnerShareUsed, match="limit is 2"):
            engine.submit(long_request("a"))
        streams.append(engine.submit(long_request("b")))
        with pytest.raises(QueueFull, match="all 3 places") as caught:
            engine.submit(long_request("c"))
        assert caught.value.retry_after_s >= 1
        assert [stream.status.num_ahead for stream in streams[2:]] == [0, 2, 1]  # turns of owners
        assert all((stream.status.wait_s or 0) >= 1 for stream in streams[2:])
        for stream in streams:
            stream.cancel()
    until(lambda: idle(engine))


def test_a_slow_reader_parks_its_own_slot_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "BUFFER_S", 1.0)
    slow = engine.submit(long_request("slow"))
    until(lambda: engine._loop._parked_s)
    spoken_s = slow.spoken_s
    quick = engine.speak(TEXT, seed=4).read()[0]
    assert slow.spoken_s == spoken_s  # nothing more was made for it meanwhile
    reader = iter(slow)
    while slow.spoken_s == spoken_s:
        next(reader)
    slow.cancel()
    assert np.array_equal(quick, engine.speak(TEXT, seed=4).read()[0])


def test_draining_lets_the_admitted_finish_and_refuses_the_rest(engine: Engine) -> None:
    stream = engine.speak(TEXT, seed=2)
    drained: list[bool] = []
    drain = threading.Thread(target=lambda: drained.append(engine.drain(WAIT_S)))
    drain.start()
    until(lambda: engine.stats.is_draining)
    with pytest.raises(Unavailable, match="shutting down"):
        engine.speak("Too late.")
    assert len(stream.read()[0]) > 44_100
    drain.join()
    assert drained == [True]


def test_closing_cancels_what_drains_too_slowly() -> None:
    engine = Engine.open(NANO, device="cpu", num_slots=1)
    live, waiting = engine.submit(long_request()), engine.submit(long_request())
    next(iter(live))
    engine.close(drain_s=0.05)
    for stream in (live, waiting):
        assert stream.finish_reason is FinishReason.CANCELLED


def test_coroutines_read_without_blocking_their_loop(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = engine.speak(TEXT, seed=2).read()[0]
    decode, ticked = engine._loop._runner.decode, threading.Event()

    def decode_after_a_tick(*given: object) -> object:
        assert ticked.wait(WAIT_S), "the reader blocks its loop"
        ticked.clear()
        return decode(*given)

    async def read() -> list[np.ndarray]:
        async def tick() -> None:
            while True:
                ticked.set()
                await asyncio.sleep(0.001)

        stream = engine.speak(TEXT, seed=2)
        ticking = asyncio.create_task(tick())
        chunks = [chunk async for chunk in stream]
        ticking.cancel()
        return chunks

    monkeypatch.setattr(engine._loop._runner, "decode", decode_after_a_tick)
    assert np.array_equal(np.concatenate(asyncio.run(read())), expected)


def test_a_long_text_is_spoken_in_segments_of_one_stream(engine: Engine) -> None:
    stream = engine.speak("The first one ends here. " * 8, seed=1)
    samples, rate = stream.read()
    assert stream.finish_reason is FinishReason.STOP
    assert len(samples) / rate > 8.0
    assert stream.timings.num_frames * 1764 == len(samples)


def test_a_wrong_model_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no folder"):
        Engine.open(tmp_path / "nothing here")
    with pytest.raises(CheckpointError, match=r"params\.json"):
        Engine.open(tmp_path)
    (tmp_path / "params.json").write_text('{"model_type": "kokoro"}')
    with pytest.raises(CheckpointError, match="'kokoro'; known are zonos2"):
        Engine.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sampling_defaults": {"temperature": 9}}, "sampling_defaults .*temperature: 9"),
        ({"text_vocab": 450}, "text_vocab 450"),
    ],
)
def test_defaults_that_no_request_could_use_are_told_at_the_start(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    params = json.loads((NANO / "params.json").read_text()) | change
    (tmp_path / "params.json").write_text(json.dumps(params))
    with pytest.raises(CheckpointError, match=told):
        Engine.open(tmp_path, device="cpu")


def test_too_little_memory_is_said_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.memory.available_bytes", lambda device: 5_000_000)
    with pytest.raises(CheckpointError, match="of memory are missing on cpu"):
        Engine.open(NANO, device="cpu")
