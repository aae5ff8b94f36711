"""Which requests prefill and which decode in the next step. Pure Python, no tensors.

- Slots are fixed lanes; a waiting request takes the lowest free ones, one for itself and one for
  each twin, all or none.
- One prompt per step, while the others go on decoding: nobody waits for a whole batch of prompts.
- A slot whose reader is behind is parked: it keeps its place and skips steps.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from engine.queue import AdmissionQueue, Owned


class Schedulable(Owned, Protocol):
    """What the scheduler needs to know of a request."""

    slots: tuple[int, ...]

    @property
    def num_slots(self) -> int:
        """How many lanes it needs."""
        ...

    @property
    def needs_prefill(self) -> bool:
        """Whether a prompt is to be run before it can decode."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether its reader keeps up."""
        ...


J = TypeVar("J", bound=Schedulable)


@dataclass(frozen=True)
class Step(Generic[J]):
    """One scheduler iteration: at most one prefill, and everyone who decodes."""

    prefill: J | None
    decode: tuple[J, ...]

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to run."""
        return self.prefill is None and not self.decode


class Scheduler(Generic[J]):
    """Slots and the queue in front of them."""

    def __init__(self, num_slots: int, queue: AdmissionQueue[J]) -> None:
        self.queue = queue
        self.live: list[J] = []  # in order of admission
        self._free = list(range(num_slots))

    @property
    def num_free(self) -> int:
        """Slots that nobody has."""
        return len(self._free)

    def next_step(self) -> Step[J]:
        """Fill free slots from the queue, then say what runs."""
        while (job := self.queue.peek()) is not None and job.num_slots <= len(self._free):
            self.queue.take()
            job.slots = tuple(heapq.heappop(self._free) for _ in range(job.num_slots))
            self.live.append(job)
        awake = [job for job in self.live if job.has_room]
        return Step(
            prefill=next((job for job in awake if job.needs_prefill), None),
            decode=tuple(job for job in awake if not job.needs_prefill),
        )

    def release(self, job: J) -> None:
        """Free the slots of ``job``; harmless when it has none."""
        if job in self.live:
            self.live.remove(job)
            for slot in job.slots:
                heapq.heappush(self._free, slot)
            job.slots = ()
