"""The engine thread: schedule, run, hand out; one step after another.

- Everything that touches the model happens on this thread.
- A request that fails is ended with its own error; the others do not notice. A failure of a whole
  decode step ends the requests that were in it.
- Cancelled requests lose their slot at the start of the next step.
- Between two segments a request gives its slot to those who wait, and waits in turn.
- ``heartbeat_s`` is renewed each step, so that a stuck thread can be noticed from outside. A fault
  of the device that outlives the step ends the thread.
- Where the memory does not do for a decode step, the youngest request in it gives up, if the runner
  can decode again.
- Who reads too slowly is parked, and cut when that lasts and others wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from engine.codec.base import Codec
from engine.codec.streaming import Window, decode_windows
from engine.errors import Cancelled, GenerationFailed, StudioError
from engine.family import Lanes, Runner
from engine.job import Job
from engine.request import FinishReason
from engine.sampling.slots import SlotSampler
from engine.scheduler import Scheduler, affordable

log = logging.getLogger(__name__)

# While every live request waits for its reader, look again this often.
PARKED_POLL_S = 0.02
# A reader may keep its slot parked for so long, while others wait and while nobody does.
PARKED_BUSY_S, PARKED_MAX_S = 30.0, 120.0


class EngineLoop(threading.Thread):
    """Runs steps until stopped. ``changed`` guards the scheduler and wakes the thread."""

    def __init__(
        self,
        runner: Runner,
        sampler: SlotSampler,
        codec: Codec,
        scheduler: Scheduler[Job],
        changed: threading.Condition,
        clock: Callable[[], float],
        on_end: Callable[[Job], None],
        prefill_rows: int,
    ) -> None:
        super().__init__(name="engine", daemon=True)
        self.heartbeat_s = clock()
        self._runner = runner
        self._sampler = sampler
        self._codec = codec
        self._scheduler = scheduler
        self._changed = changed
        self._clock = clock
        self._on_end = on_end
        self._prefill_rows = prefill_rows
        self._stopping = False
        self._is_abandoned = False
        self._parked_s: dict[Job, float] = {}  # since when
        self._last_codes: dict[Job, Tensor] = {}  # [codebooks] on the device

    def stop(self) -> None:
        """Ask the thread to end after its current step."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def abandon(self) -> list[Job]:
        """Leave it to itself: it ends if it ever moves again -> who was being spoken."""
        self._stopping = self._is_abandoned = True
        lost, self._scheduler.live = self._scheduler.live, []
        return lost

    def release(self) -> None:
        """Let go of the model after the end."""
        del self._runner, self._sampler

    def run(self) -> None:
        """The thread's body."""
        with torch.inference_mode():
            while not self._stopping:
                self.heartbeat_s = self._clock()
                if not self._step_or_fail():
                    with self._changed:
                        is_parked = bool(self._scheduler.live)
                        if not self._stopping and (is_parked or not self._scheduler.queue):
                            self._changed.wait(PARKED_POLL_S if is_parked else 1.0)
        if self._is_abandoned:  # another thread has the queue now
            return
        for job in [*self._scheduler.live, *self._scheduler.queue]:
            self._end(job, FinishReason.CANCELLED, Cancelled("request: the studio was closed."))

    def _step_or_fail(self) -> bool:
        """A step; a fault outside every request's own part ends the live ones, not the thread."""
        try:
            return self.step()
        except Exception as error:
            log.exception("step failed outside any request")
            live = [*self._scheduler.live]
            for job in live:
                failure = GenerationFailed("request: the engine failed on it; try it again.")
                self._end(job, FinishReason.FAILED, failure)
            if is_fatal(error):
                raise
            return bool(live)

    def step(self) -> bool:
        """One scheduler iteration -> whether anything ran."""
        with self._changed:
            for job in [job for job in self._scheduler.live if job.is_cancelled]:
                self._end(job, FinishReason.CANCELLED, Cancelled("request: it was cancelled."))
            for job, parked_s in self._stalled():
                self._end(job, FinishReason.CANCELLED, _too_slow(parked_s))
            self._give_way()
            plan = self._scheduler.next_step()
        now_s = self._clock()
        for job in self._scheduler.live:
            job.note_turn(now_s)
        if plan.is_idle:
            return False
        drawn: list[tuple[list[Job], Tensor]] = []
        for job in affordable(plan.prefill, self._num_prefill_rows, self._prefill_rows):
            if job.slots:  # else planning it has failed
                drawn += self._contained([job], self._prefill)
        decoding, drew = list(plan.decode), []
        if decoding and getattr(self._runner, "draws", False):
            drew = self._contained(decoding, self._decode_and_draw)
        elif decoding:
            drawn += self._contained(decoding, self._decode)
        for jobs, logits in drawn:
            self._contained(jobs, partial(self._draw, logits=logits))
        self._hand_out([job for jobs, _ in [*drawn, *drew] for job in jobs if job.slots])
        return True

    def _stalled(self) -> list[tuple[Job, float]]:
        """Who holds a parked slot for too long, and for how long."""
        now_s = self._clock()
        parked = [job for job in self._scheduler.live if not job.has_room]
        self._parked_s = {job: self._parked_s.get(job, now_s) for job in parked}
        limit_s = PARKED_BUSY_S if self._scheduler.queue else PARKED_MAX_S
        ages = ((job, now_s - since_s) for job, since_s in self._parked_s.items())
        return [(job, age_s) for job, age_s in ages if age_s > limit_s]

    def _give_way(self) -> None:
        """Jobs that can wait between two segments leave their slots if anybody else waits."""
        for job in list(self._scheduler.live):
            if self._scheduler.queue and job.may_give_way(self._clock()):
                self._sampler.stop(job.main_slot)
                self._last_codes.pop(job, None)
                self._scheduler.release(job)
                self._scheduler.queue.put_back(job)
                job.give_way()

    def _contained(
        self, jobs: list[Job], run: Callable[[list[Job]], Tensor | None]
    ) -> list[tuple[list[Job], Tensor]]:
        """Run for ``jobs``; a failure ends these and no others."""
        try:
            result = run(jobs)
        except StudioError as error:
            for job in jobs:
                self._end(job, FinishReason.FAILED, error)
        except Exception as error:
            log.exception("step failed for %s", [job.request.request_id for job in jobs])
            for job in jobs:
                self._end(job, FinishReason.FAILED, _failure(error))
            if is_fatal(error):
                raise
        else:
            return [] if result is None else [(jobs, result)]
        return []

    def _alone(self, job: Job, act: Callable[[], None]) -> None:
        """What a request does with its own part; a failure ends it and no other."""

        def run(_: list[Job]) -> None:
            act()

        self._contained([job], run)

    def _num_prefill_rows(self, job: Job) -> int:
        self._alone(job, job.plan_ahead)
        return job.num_prefill_rows

    def _prefill(self, jobs: list[Job]) -> Tensor:
        (job,) = jobs
        plan = job.begin()
        self._sampler.start(job.main_slot, job.sampling, job.request.seed)
        lanes = zip(job.lanes, plan.prompts, strict=True)
        return _guided(jobs, [self._runner.prefill(slot, prompt)[0] for slot, prompt in lanes])

    def _decode(self, jobs: list[Job]) -> Tensor:
        """The next logits of ``jobs``."""
        return self._while_memory_does(self._decode_once, jobs)

    def _decode_and_draw(self, jobs: list[Job]) -> Tensor:
        """The next codes of ``jobs``, drawn where they were computed."""
        drawn = self._while_memory_does(self._draw_once, jobs)
        self._take(jobs, drawn[:, :-1], drawn.tolist())
        return drawn

    def _while_memory_does(self, run: Callable[[list[Job]], Tensor], jobs: list[Job]) -> Tensor:
        """Run for ``jobs``; of those for whom the memory does not do, the last go."""
        while True:
            try:
                return run(jobs)
            except Exception as error:
                can_go_on = len(jobs) > 1 and getattr(self._runner, "decodes_again", False)
                if not (can_go_on and is_out_of_memory(error)):
                    raise
                log.warning("out of memory: request %s gives up", jobs[-1].request.request_id)
                self._end(jobs.pop(), FinishReason.FAILED, _failure(error))
            free_caches()

    def _decode_once(self, jobs: list[Job]) -> Tensor:
        slots = [slot for job in jobs for slot in job.lanes]
        return _guided(jobs, list(self._runner.decode(slots, self._fed(jobs))))

    def _draw_once(self, jobs: list[Job]) -> Tensor:
        lanes = [Lanes(job.lanes, tuple(job.twin_scales), job.noise_row) for job in jobs]
        draw: Callable[..., Tensor] = self._runner.decode_and_draw  # type: ignore[attr-defined]
        return draw(self._sampler, lanes, self._fed(jobs))

    def _fed(self, jobs: list[Job]) -> Tensor:
        """The last codes of every lane of ``jobs`` in turn; twins are fed the main one's."""
        return torch.stack([self._last_codes[job] for job in jobs for _ in job.lanes])

    def _draw(self, jobs: list[Job], logits: Tensor) -> None:
        """Draw the next row of ``jobs`` from logits [n, C, V]; rows do not influence each other."""
        frames = [job.noise_row for job in jobs]
        codes = self._sampler.draw([job.main_slot for job in jobs], frames, logits)  # [n, C]
        is_sound = torch.isfinite(logits).flatten(1).all(dim=1, keepdim=True)
        self._take(jobs, codes, torch.cat([codes, is_sound.to(codes.dtype)], dim=1).tolist())

    def _take(self, jobs: list[Job], codes: Tensor, rows: list[list[int]]) -> None:
        """Hand each of ``jobs`` its codes; ``rows`` hold them too, and 1 if they can be used."""
        for job, row_codes, (*row, sound) in zip(jobs, codes, rows, strict=True):
            if not sound:
                log.error("no usable numbers for %s", job.request.request_id)
                self._end(
                    job,
                    FinishReason.FAILED,
                    GenerationFailed("request: the model gave no usable numbers; try again."),
                )
                continue
            self._last_codes[job] = row_codes
            self._alone(job, partial(job.take_row, row))

    def _hand_out(self, jobs: Sequence[Job]) -> None:
        """Decode the chunks that became complete, send them, and end who is done."""
        waiting = list(jobs)
        while windows := [(job, window) for job in waiting if (window := job.next_window())]:
            for job, window, samples in self._decoded(windows):
                self._alone(job, partial(job.take_samples, window, samples))
            waiting = [job for job, _ in windows if job.slots]
        for job in jobs:
            if job.slots:
                self._alone(job, job.settle)
            if job.is_done and job.slots:
                fault = job.fault
                self._end(job, FinishReason.FAILED if fault else job.finish_reason, fault)

    def _decoded(self, windows: Sequence[tuple[Job, Window]]) -> list[tuple[Job, Window, Tensor]]:
        """The samples of each job's window; of several, one that cannot be decoded fails alone."""
        try:
            pieces = decode_windows(self._codec, [window for _, window in windows])
        except Exception:
            if len(windows) > 1:
                return [decoded for one in windows for decoded in self._decoded([one])]
            ((job, _),) = windows
            log.exception("codec failed for %s", job.request.request_id)
            failure = GenerationFailed("request: decoding its sound failed; try it again.")
            self._end(job, FinishReason.FAILED, failure)
            return []
        return [(*one, samples) for one, samples in zip(windows, pieces, strict=True)]

    def _end(self, job: Job, reason: FinishReason, error: StudioError | None) -> None:
        if self._is_abandoned:
            return
        if job.slots:
            self._sampler.stop(job.main_slot)
        self._last_codes.pop(job, None)
        with self._changed:
            self._scheduler.release(job)
            self._scheduler.queue.remove(job)
            self._changed.notify_all()
        job.stream.timings.finished_s = self._clock()
        job.stream.finish(reason, error)
        self._on_end(job)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the device or here."""
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or (
        isinstance(error, RuntimeError)
        and any(words in str(error) for words in ("out of memory", "can't allocate memory"))
    )


def is_fatal(error: BaseException) -> bool:
    """Whether the device is lost: after an assertion in a kernel, every call to it fails."""
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


def free_caches() -> None:
    """Give the device's memory back that nothing uses."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _failure(error: Exception) -> GenerationFailed:
    if is_out_of_memory(error):
        return GenerationFailed(
            "request: the memory does not do for it beside the others; try it again later, or with"
            " a shorter text.",
            code="out_of_memory",
        )
    return GenerationFailed(
        f"request: speaking failed inside the engine ({type(error).__name__}); other requests go"
        " on, try this one again."
    )


def _too_slow(parked_s: float) -> Cancelled:
    return Cancelled(
        f"request: its sound was not taken for {parked_s:.0f} s; read it as it comes, or ask for"
        " it whole.",
        code="reader_too_slow",
    )


def _guided(jobs: Sequence[Job], lanes: list[Tensor]) -> Tensor:
    """The guided logits [n, C, V] of ``jobs`` from the logits [C, V] of all their lanes in turn.

    Each twin pushes by (scale - 1) times the difference to the main lane (spec 5.1), in float32.
    """
    guided = []
    rest = iter(lanes)
    for job in jobs:
        main = total = next(rest)
        for scale in job.twin_scales:
            total = total + (scale - 1.0) * (main - next(rest))
        guided.append(total)
    return torch.stack(guided)
