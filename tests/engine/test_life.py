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
from tests.engine.scripted import ScriptedCodec, ScriptedFamily

TEXT = "abcdefgh"


class Family(ScriptedFamily):
    def __init__(self) -> None:
        super().__init__()
        self.is_released = False

    def release(self) -> None:
        self.is_released = True


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def request(text: str = TEXT, owner: str = "a", seed: int = 1) -> SpeechRequest:
    return SpeechRequest(text=text, owner=owner, seed=seed)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Engine]]:
    monkeypatch.setattr(life, "LOOK_S", 0.01)
    engines: list[Engine] = []

    def open_engine(**options: object) -> Engine:
        values = {"num_slots": 2, "max_waiting": 4, "max_waiting_per_owner": 4} | options
        engines.append(Engine(Family(), ScriptedCodec(), None, {}, **values))  # type: ignore
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


def hang(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """From now on this engine's thread stands in its model until the event."""
    released = threading.Event()
    engine._life.stuck_s = 0.2  # its own: another engine of this process may be idle for longer

    def stand(*_: object) -> None:
        released.wait(30)
        raise RuntimeError("it was let go")

    monkeypatch.setattr(engine._loop._runner, "decode", stand)
    return released


def test_a_stuck_thread_is_replaced_and_everybody_is_answered(opened, monkeypatch):
    engine = opened()
    expected = engine.submit(request()).read()[0]
    released = hang(engine, monkeypatch)
    stuck = engine._loop
    with engine._changed:  # both are there before the next step
        live = [engine.submit(request(owner=name)) for name in "ab"]
    until(lambda: engine.stats.num_live == 2)
    waiting = [engine.submit(request(owner=name)) for name in "ab"]
    for speech in live:
        with pytest.raises(GenerationFailed, match="got stuck"):
            speech.read()
    for speech in waiting:  # and the new thread speaks as the old one did
        assert np.array_equal(speech.read()[0], expected)
    assert engine.stats.num_restarts == 1 and engine._loop is not stuck
    released.set()
    stuck.join(5)
    assert not stuck.is_alive()
    assert np.array_equal(engine.submit(request()).read()[0], expected)


def test_the_limits_of_one_engine_are_not_those_of_another(opened, monkeypatch):
    idle, engine = opened(), opened()
    hang(engine, monkeypatch).set()
    with pytest.raises(GenerationFailed):
        engine.submit(request()).read()
    time.sleep(0.5)  # longer than the limit of the one that hung
    assert idle.stats.num_restarts == 0
    assert len(idle.submit(request()).read()[0])


def test_a_second_loss_within_the_hour_breaks_the_engine_and_says_so(opened, monkeypatch):
    engine = opened()
    first = hang(engine, monkeypatch)
    lost = engine.submit(request())
    with pytest.raises(GenerationFailed):
        lost.read()
    until(lambda: engine.stats.num_restarts == 1)
    second = hang(engine, monkeypatch)
    with engine._changed:  # both are there before the next step
        live = [engine.submit(request(owner=name)) for name in "ab"]
    until(lambda: engine.stats.num_live == 2)
    waiting = engine.submit(request())
    with pytest.raises(GenerationFailed):
        live[0].read()
    with pytest.raises(QueueFull, match="has to be started anew"):
        waiting.read()
    assert engine.stats.state == "broken"
    for refused in (lambda: engine.submit(request()), lambda: engine.check_room("a")):
        with pytest.raises(QueueFull, match="has to be started anew"):
            refused()
    first.set(), second.set()


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


def test_after_a_rest_the_first_request_loads_the_model_and_waits(opened):
    loads = threading.Semaphore(0)
    families: list[Family] = []

    def reopen() -> Family:
        loads.acquire(timeout=5)
        families.append(Family())
        return families[-1]

    engine = opened(reopen=reopen, unload_after_s=0.05)
    first = engine.family
    expected = engine.submit(request()).read()[0]
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
        asker.join(5)
    assert len(families) == 1 and engine.family is families[0]
    assert len(got) == 3 and all(np.array_equal(samples, expected) for samples in got)
    until(lambda: engine.stats.state == "unloaded")  # and rests again


def test_a_model_that_cannot_be_loaded_again_is_told_and_tried_again(opened):
    def reopen() -> Family:
        if len(errors) < 1:
            errors.append(OSError("gone"))
            raise errors[0]
        return Family()

    errors: list[OSError] = []
    engine = opened(reopen=reopen, unload_after_s=0.05)
    until(lambda: engine.stats.state == "unloaded")
    with pytest.raises(OSError, match="gone"):
        engine.submit(request())
    assert len(engine.submit(request()).read()[0])


def test_work_keeps_the_model_in_memory(opened, monkeypatch):
    engine = opened(reopen=Family, unload_after_s=0.05)
    monkeypatch.setattr(stream, "BUFFER_S", 0.1)
    parked = engine.submit(request(text=TEXT * 4))
    until(lambda: not parked.has_room)
    time.sleep(0.15)
    assert engine.stats.state == "ready"
    parked.cancel()


@pytest.mark.parametrize("others_wait", [True, False])
def test_a_reader_who_takes_nothing_loses_its_slot(opened, monkeypatch, others_wait):
    monkeypatch.setattr(stream, "BUFFER_S", 0.1)
    monkeypatch.setattr(loop, "PARKED_BUSY_S", 0.1)
    monkeypatch.setattr(loop, "PARKED_MAX_S", 0.1 if not others_wait else 60.0)
    engine = opened(num_slots=1)
    slow = engine.submit(request(text=TEXT * 4))
    until(lambda: not slow.has_room)
    if others_wait:
        other = engine.submit(request(text="abc", owner="b"))
        until(lambda: other.finish_reason is not None or not other.has_room)
        other.cancel()
    until(lambda: slow.finish_reason is FinishReason.CANCELLED)
    with pytest.raises(Cancelled, match="was not taken") as caught:
        slow.read()
    assert caught.value.code == "reader_too_slow"


def test_a_burst_fills_slots_and_queue_to_the_last_place(opened, monkeypatch):
    engine = opened(max_waiting_per_owner=100)
    held = hang(engine, monkeypatch)
    engine._life.stuck_s = 60.0
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
    held.set()


def test_a_place_that_is_kept_is_taken_for_others_and_never_refused(opened, monkeypatch):
    engine = opened(max_waiting=1, max_waiting_per_owner=2)
    held = hang(engine, monkeypatch)
    engine._life.stuck_s = 60.0
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
    held.set()


def test_the_embedded_model_leaves_the_memory_and_speaks_the_same_again(monkeypatch):
    monkeypatch.setattr(life, "LOOK_S", 0.01)
    nano = Path(__file__).parents[2] / "assets" / "nano"
    with Engine.open(nano, device="cpu", num_slots=2, unload_after_s=0.2) as engine:
        expected = engine.speak("Hi.", seed=3, max_new_frames=14).read()[0]
        before = engine.family
        until(lambda: engine.stats.state == "unloaded")
        until(lambda: all(p.is_meta for p in before.model.parameters()))
        assert not hasattr(engine._loop, "_runner")
        assert before.controls and engine.default_voice == "heart"  # what it is can still be read
        assert np.array_equal(engine.speak("Hi.", seed=3, max_new_frames=14).read()[0], expected)
        assert engine.family is not before and engine.stats.state == "ready"
