"""The engine thread: stuck, dead, lost for good, short of memory, at rest; slow readers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from engine import (
    Cancelled,
    Engine,
    FinishReason,
    GenerationFailed,
    QueueFull,
    SpeechRequest,
    life,
    loop,
    stream,
)
from tests.engine.scripted import Clock, ScriptedCodec, ScriptedFamily

TEXT = "abcdefgh"
WAIT_S = 60.0  # for what comes in a moment, on a machine that may stand still
REST_S = 60.0


class Family(ScriptedFamily):
    def __init__(self) -> None:
        super().__init__()
        self.is_released = False

    def release(self) -> None:
        self.is_released = True


def until(condition: Callable[[], bool], seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def request(text: str = TEXT, owner: str = "a", seed: int = 1) -> SpeechRequest:
    return SpeechRequest(text=text, owner=owner, seed=seed)


@pytest.fixture
def clock() -> Clock:
    """Of all engines of a test: only when it is set is a thread stuck, a model at rest."""
    return Clock()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Callable[..., Engine]]:
    monkeypatch.setattr(life, "LOOK_S", 0.01)
    engines: list[Engine] = []

    def open_engine(**options: object) -> Engine:
        values = {"num_slots": 2, "max_waiting": 4, "max_waiting_per_owner": 4, "clock": clock}
        values |= options
        engines.append(Engine(Family(), ScriptedCodec(), None, {}, **values))  # type: ignore
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


class Hang:
    """From now on this engine's thread stands in its model until it is let go."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._has_begun, self._is_over = threading.Event(), threading.Event()
        monkeypatch.setattr(engine._loop._runner, "decode", self._stand)

    def _stand(self, *_: object) -> None:
        self._has_begun.set()
        self._is_over.wait(WAIT_S)
        raise RuntimeError("it was let go")

    def wait(self) -> None:
        assert self._has_begun.wait(WAIT_S)

    def end(self) -> None:
        self._is_over.set()


def test_a_stuck_thread_is_replaced_and_everybody_is_answered(opened, clock, monkeypatch):
    engine = opened()
    expected = engine.submit(request()).read()[0]
    hang = Hang(engine, monkeypatch)
    stuck = engine._loop
    with engine._changed:  # both are there before the next step
        live = [engine.submit(request(owner=name)) for name in "ab"]
    hang.wait()
    waiting = [engine.submit(request(owner=name)) for name in "ab"]
    assert (engine.stats.num_live, engine.stats.num_waiting) == (2, 2)
    clock.now_s += engine._life.stuck_s + 1
    for speech in live:
        with pytest.raises(GenerationFailed, match="got stuck"):
            speech.read()
    for speech in waiting:  # and the new thread speaks as the old one did
        assert np.array_equal(speech.read()[0], expected)
    assert engine.stats.num_restarts == 1 and engine._loop is not stuck
    hang.end()
    stuck.join(WAIT_S)
    assert not stuck.is_alive()
    assert np.array_equal(engine.submit(request()).read()[0], expected)


def test_the_limits_of_one_engine_are_not_those_of_another(opened, clock, monkeypatch):
    patient, engine = opened(), opened()
    engine._life.stuck_s = 0.2
    hangs = [Hang(one, monkeypatch) for one in (patient, engine)]
    slow, lost = patient.submit(request()), engine.submit(request())
    for hang in hangs:
        hang.wait()
    clock.now_s += 0.5
    with pytest.raises(GenerationFailed, match="got stuck"):
        lost.read()
    look, looked = patient._life._look, threading.Event()
    monkeypatch.setattr(patient._life, "_look", lambda: (look(), looked.set()))
    assert looked.wait(WAIT_S)
    assert patient.stats.num_restarts == 0 and slow.finish_reason is None
    for hang in hangs:
        hang.end()


def test_a_second_loss_within_the_hour_breaks_the_engine_and_says_so(opened, clock, monkeypatch):
    engine = opened()
    first = Hang(engine, monkeypatch)
    lost = engine.submit(request())
    first.wait()
    clock.now_s += engine._life.stuck_s + 1
    with pytest.raises(GenerationFailed):
        lost.read()
    until(lambda: engine.stats.num_restarts == 1)
    second = Hang(engine, monkeypatch)
    with engine._changed:  # both are there before the next step
        live = [engine.submit(request(owner=name)) for name in "ab"]
    second.wait()
    waiting = engine.submit(request())
    clock.now_s += engine._life.stuck_s + 1
    with pytest.raises(GenerationFailed):
        live[0].read()
    with pytest.raises(QueueFull, match="has to be started anew"):
        waiting.read()
    assert engine.stats.state == "broken"
    for refused in (lambda: engine.submit(request()), lambda: engine.check_room("a")):
        with pytest.raises(QueueFull, match="has to be started anew"):
            refused()
    first.end(), second.end()


def test_a_lost_device_ends_the_thread_which_is_begun_anew(opened, monkeypatch):
    engine = opened()

    def fail(*_: object) -> None:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(engine._loop._runner, "decode", fail)
    monkeypatch.setattr(threading, "excepthook", lambda *_: None)
    with pytest.raises(GenerationFailed):
        engine.submit(request()).read()
    until(lambda: engine.stats.num_restarts == 1)
    assert len(engine.submit(request()).read()[0])


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        MemoryError(),
    ],
)
def test_where_the_memory_does_not_do_the_youngest_request_gives_up(opened, monkeypatch, error):
    engine = opened()
    expected = engine.submit(request(seed=4)).read()[0]
    runner = engine._loop._runner
    decode = runner.decode
    monkeypatch.setattr(type(runner), "decodes_again", True, raising=False)
    left = [error]

    def run_out(slots: list[int], codes: torch.Tensor) -> torch.Tensor:
        if len(slots) == 2 and left:
            raise left.pop()
        return decode(slots, codes)

    monkeypatch.setattr(runner, "decode", run_out)
    with engine._changed:
        older, younger = engine.submit(request(seed=4)), engine.submit(request(seed=5))
    with pytest.raises(GenerationFailed, match="memory does not do") as caught:
        younger.read()
    assert caught.value.code == "out_of_memory"
    assert np.array_equal(older.read()[0], expected)


def test_a_prompt_without_memory_fails_alone(opened, monkeypatch):
    engine = opened()
    runner = engine._loop._runner
    prefill = runner.prefill
    with engine._changed:
        victim, other = engine.submit(request(seed=1)), engine.submit(request(seed=2))

        def run_out(slot: int, prompt: object) -> torch.Tensor:
            if slot == 0:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return prefill(slot, prompt)

        monkeypatch.setattr(runner, "prefill", run_out)
    with pytest.raises(GenerationFailed, match="memory does not do"):
        victim.read()
    assert len(other.read()[0])


def test_after_a_rest_the_first_request_loads_the_model_and_waits(opened, clock):
    loads = threading.Semaphore(0)
    families: list[Family] = []

    def reopen() -> Family:
        loads.acquire(timeout=WAIT_S)
        families.append(Family())
        return families[-1]

    engine = opened(reopen=reopen, unload_after_s=REST_S)
    first = engine.family
    expected = engine.submit(request()).read()[0]
    clock.now_s += REST_S
    until(lambda: engine.stats.state == "unloaded")
    until(lambda: first.is_released)  # nobody gets in from then on; then the weights go
    assert engine.stats.heartbeat_age_s == 0 and engine.stats.load_s > 0
    assert not engine._loop.is_alive()
    engine.check_room("a")
    got: list[np.ndarray] = []
    askers = [
        threading.Thread(target=lambda: got.append(engine.submit(request()).read()[0]))
        for _ in range(3)
    ]
    for asker in askers:
        asker.start()
    until(lambda: engine.stats.state == "loading")
    loads.release()
    for asker in askers:
        asker.join(WAIT_S)
    assert len(families) == 1 and engine.family is families[0]
    assert len(got) == 3 and all(np.array_equal(samples, expected) for samples in got)
    clock.now_s += REST_S
    until(lambda: engine.stats.state == "unloaded")  # and rests again


def test_a_model_that_cannot_be_loaded_again_is_told_and_tried_again(opened, clock):
    def reopen() -> Family:
        if len(errors) < 1:
            errors.append(OSError("gone"))
            raise errors[0]
        return Family()

    errors: list[OSError] = []
    engine = opened(reopen=reopen, unload_after_s=REST_S)
    clock.now_s += REST_S
    until(lambda: engine.stats.state == "unloaded")
    with pytest.raises(OSError, match="gone"):
        engine.submit(request())
    assert len(engine.submit(request()).read()[0])


def test_work_keeps_the_model_in_memory(opened, clock, monkeypatch):
    engine = opened(reopen=Family, unload_after_s=REST_S)
    monkeypatch.setattr(stream, "BUFFER_S", 0.1)
    parked = engine.submit(request(text=TEXT * 4))
    until(lambda: not parked.has_room)
    clock.now_s += REST_S
    until(lambda: engine._life._used_s == clock.now_s)  # somebody has looked
    assert engine.stats.state == "ready"
    parked.cancel()


@pytest.mark.parametrize("others_wait", [True, False])
def test_a_reader_who_takes_nothing_loses_its_slot(opened, clock, monkeypatch, others_wait):
    monkeypatch.setattr(stream, "BUFFER_S", 0.1)
    engine = opened(num_slots=1)
    slow = engine.submit(request(text=TEXT * 4))
    until(lambda: engine._loop._parked_s)
    if others_wait:
        other = engine.submit(request(text="abc", owner="b"))
        clock.now_s += loop.PARKED_BUSY_S + 1
        until(lambda: other.finish_reason is not None or not other.has_room)
        other.cancel()
    else:
        clock.now_s += loop.PARKED_MAX_S + 1
    until(lambda: slow.finish_reason is FinishReason.CANCELLED)
    with pytest.raises(Cancelled, match="was not taken") as caught:
        slow.read()
    assert caught.value.code == "reader_too_slow"


def test_a_burst_fills_slots_and_queue_to_the_last_place(opened, monkeypatch):
    engine = opened(max_waiting_per_owner=100)
    hang = Hang(engine, monkeypatch)
    streams, num_refused = [], 0
    with engine._changed:
        for _ in range(20):
            try:
                streams.append(engine.submit(request()))
            except QueueFull:
                num_refused += 1
    until(lambda: engine.stats.num_live == 2)
    assert (len(streams), num_refused) == (2 + 4, 14)
    for speech in streams:
        speech.cancel()
    hang.end()


def test_a_place_that_is_kept_is_taken_for_others_and_never_refused(opened, monkeypatch):
    engine = opened(max_waiting=1, max_waiting_per_owner=2)
    hang = Hang(engine, monkeypatch)
    with engine._changed:
        streams = [engine.submit(request(owner=name)) for name in "ab"]
    until(lambda: engine.stats.num_live == 2)
    kept = engine.reserve("a")
    for refused in (engine.check_room, engine.reserve, lambda name: engine.submit(request())):
        with pytest.raises(QueueFull):
            refused("b")
    streams.append(engine.submit(request(), kept))
    kept.give_up()  # harmless: it was used
    with pytest.raises(QueueFull):
        engine.check_room("b")
    streams[-1].cancel()
    given_up = engine.reserve("b")
    given_up.give_up()
    given_up.give_up()
    engine.check_room("a")
    for speech in streams:
        speech.cancel()
    hang.end()


def test_the_embedded_model_leaves_the_memory_and_speaks_the_same_again(monkeypatch):
    monkeypatch.setattr(life, "LOOK_S", 0.01)
    nano = Path(__file__).parents[2] / "assets" / "nano"
    with Engine.open(nano, device="cpu", num_slots=2, unload_after_s=REST_S) as engine:
        expected = engine.speak("Hi.", seed=3, max_new_frames=14).read()[0]
        before = engine.family
        monkeypatch.setattr(engine._life, "_unload_after_s", 0.01)
        until(lambda: engine.stats.state == "unloaded")
        until(lambda: all(p.is_meta for p in before.model.parameters()))
        monkeypatch.setattr(engine._life, "_unload_after_s", REST_S)
        assert not hasattr(engine._loop, "_runner")
        assert before.controls and engine.default_voice == "heart"  # what it is can still be read
        assert np.array_equal(engine.speak("Hi.", seed=3, max_new_frames=14).read()[0], expected)
        assert engine.family is not before and engine.stats.state == "ready"
