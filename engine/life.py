"""The life of the engine thread: begun, watched, started anew, and at rest while nobody asks.

- A thread that died, or shows no life for ``STUCK_S``, is left to itself and another one begins:
  the requests that were being spoken fail, those that wait go on waiting. A second time within
  ``RESTART_PAUSE_S`` the engine is broken: everybody is told, and only a new process helps.
- After ``unload_after_s`` without a request the weights and slots leave the memory; the next
  request loads them again and waits for it.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from engine.codec.base import Codec
from engine.errors import GenerationFailed, StudioError, Unavailable
from engine.family import Family
from engine.job import Job
from engine.loop import EngineLoop, free_caches
from engine.queue import AdmissionQueue
from engine.request import FinishReason
from engine.sampling.slots import SlotSampler
from engine.scheduler import PREFILL_ROWS, Scheduler

log = logging.getLogger(__name__)

LOOK_S = 1.0
# A prompt of a large model takes a CPU minutes; a GPU that is silent for so long hangs.
STUCK_S = {"cuda": 60.0, "cpu": 600.0}
RESTART_PAUSE_S = 3600.0
BROKEN_RETRY_S = 30.0
# Assumed seconds of loading before it has been measured.
FIRST_LOAD_S = 10.0

State = Literal["ready", "unloaded", "loading", "broken"]


@dataclass(frozen=True)
class EngineStats:
    """A look at the engine from outside; cheap and never blocking on the model."""

    num_slots: int
    num_live: int
    num_waiting: int
    heartbeat_age_s: float
    mean_service_s: float
    is_draining: bool
    state: State = "ready"
    num_restarts: int = 0
    load_s: float = 0.0  # what loading takes, while the model is not in the memory


class Life:
    """One engine's thread and what it works on. ``changed`` guards all of it."""

    def __init__(
        self,
        family: Family,
        codec: Codec,
        num_slots: int,
        queue: AdmissionQueue[Job],
        changed: threading.Condition,
        clock: Callable[[], float],
        on_end: Callable[[Job], None],
        reopen: Callable[[], Family] | None = None,
        unload_after_s: float = 0.0,
        prefill_rows: int | None = None,
    ) -> None:
        self.family = family
        self.state: State = "ready"
        self.num_restarts = 0
        self.load_s = FIRST_LOAD_S
        self.stuck_s = STUCK_S.get(family.device.type, STUCK_S["cpu"])
        self._codec = codec
        self._num_slots = num_slots
        self._queue = queue
        self._changed = changed
        self._clock = clock
        self._on_end = on_end
        self._reopen = reopen
        self._unload_after_s = unload_after_s if reopen is not None else 0.0
        self._prefill_rows = prefill_rows or PREFILL_ROWS.get(
            family.device.type, PREFILL_ROWS["cpu"]
        )
        self._num_inside = 0  # who is about to submit
        self._used_s = clock()
        self._restarted_s: float | None = None
        self._loading = threading.Lock()
        self._closing = threading.Event()
        self._begin()
        self._watch = threading.Thread(target=self._look_after, name="watch", daemon=True)
        self._watch.start()

    def _begin(self) -> None:
        family = self.family
        sampler = SlotSampler(
            self._num_slots,
            family.num_codebooks,
            family.codebook_size,
            family.audio_vocab,
            family.device,
        )
        self.scheduler: Scheduler[Job] = Scheduler(self._num_slots, self._queue)
        self.loop = EngineLoop(
            family.open_runner(self._num_slots),
            sampler,
            self._codec,
            self.scheduler,
            self._changed,
            self._clock,
            self._on_end,
            self._prefill_rows,
        )
        self.loop.start()

    @property
    def heartbeat_age_s(self) -> float:
        """Since the thread's last sign of life; 0 while it rests."""
        return 0.0 if self.state == "unloaded" else self._clock() - self.loop.heartbeat_s

    def close(self) -> None:
        """Stop the threads; whoever is still in the engine is told."""
        self._closing.set()
        self.loop.stop()
        self.loop.join(timeout=10.0)
        self._watch.join(timeout=10.0)

    # At rest -----------------------------------------------------------------------------------

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Within it the weights are there; raises ``Unavailable`` and ``CheckpointError``."""
        with self._changed:
            self._num_inside += 1
        try:
            if self.state != "ready":
                self._load()
            yield
        finally:
            with self._changed:
                self._num_inside -= 1
                self._used_s = self._clock()

    def _load(self) -> None:
        with self._loading:  # the first one loads, the others wait for it
            if self.state == "broken":
                raise broken()
            if self.state == "ready" or self._reopen is None:
                return
            self.state = "loading"
            log.info("loading the model again")
            begun_s = time.monotonic()
            try:
                self.family = self._reopen()
                self._begin()
            except BaseException:
                self.state = "unloaded"
                raise
            self.load_s = time.monotonic() - begun_s
            self.state = "ready"
            log.info("the model is loaded, after %.1f s", self.load_s)

    def _rest(self) -> None:
        log.info("nobody has asked for %.0f s: the model leaves the memory", self._unload_after_s)
        self.loop.stop()
        self.loop.join(timeout=10.0)
        self.loop.release()
        self.family.release()
        gc.collect()
        free_caches()

    # Watched -----------------------------------------------------------------------------------

    def _look_after(self) -> None:
        while not self._closing.wait(LOOK_S):
            if not self._loading.acquire(blocking=False):
                continue
            try:
                with self._changed:
                    self._look()
                    is_due = self._is_rest_due()
                if is_due:  # its thread needs the lock to end
                    self._rest()
            except Exception:
                log.exception("looking after the engine thread failed")
            finally:
                self._loading.release()

    def _look(self) -> None:
        if self.state != "ready":
            return
        if not self.loop.is_alive() or self.heartbeat_age_s > self.stuck_s:
            self._restart()

    def _is_rest_due(self) -> bool:
        """Whether the model rests from now on; until it is loaded again nobody gets in."""
        if self.state != "ready" or not self._unload_after_s:
            return False
        if self.scheduler.live or self._queue or self._num_inside:
            self._used_s = self._clock()
        if self._clock() - self._used_s < self._unload_after_s:
            return False
        self.state = "unloaded"
        return True

    def _restart(self) -> None:
        what = "shows no life" if self.loop.is_alive() else "died"
        log.critical("the engine thread %s; requests that were being spoken fail", what)
        lost = self.loop.abandon()
        now_s, last_s = self._clock(), self._restarted_s
        self._restarted_s = now_s
        failure = GenerationFailed(
            "request: the engine got stuck while speaking and was started anew; try it again."
        )
        for job in lost:
            job.stream.finish(FinishReason.FAILED, failure)
        if last_s is not None and now_s - last_s < RESTART_PAUSE_S:
            self._give_up()
            return
        try:
            self._begin()
        except Exception:  # a device that is lost stays lost for this process
            log.exception("the engine thread cannot be started anew")
            self._give_up()
            return
        self.num_restarts += 1
        log.warning("the engine thread was started anew")

    def _give_up(self) -> None:
        self.state = "broken"
        log.critical("the engine is broken: the studio has to be started anew")
        for job in list(self._queue):
            self._queue.remove(job)
            job.stream.finish(FinishReason.FAILED, broken())
        self._changed.notify_all()


def broken() -> StudioError:
    """What everybody hears whom a broken engine cannot serve."""
    return Unavailable(
        "queue: the engine has stopped working and the studio has to be started anew; try again"
        f" in {BROKEN_RETRY_S:.0f} s.",
        retry_after_s=BROKEN_RETRY_S,
    )
