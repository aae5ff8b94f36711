"""Which requests prefill and which decode in the next step. Pure Python, no tensors.

- Slots are fixed lanes; a waiting request takes the lowest free ones, one for itself and one for
  each twin, all or none.
- Prompts join in the order of admission, within a budget of rows per step, while the others go on
  decoding: many who come at once do not interrupt those who listen.
- A prompt joins whole, the first one of a step whatever its length: it is a few hundred rows at
  most where nothing is gone on from, and one call per prompt keeps its numbers its own.
- A slot whose reader is behind is parked: it keeps its place and skips steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from engine.queue import AdmissionQueue, Owned

# Prompt rows between two decode steps, where nothing else is asked for. Who has heard a first chunk
# can do without the next one for 0.16 s. A CPU computes rows one after the other, so that a second
# sentence beside the first saves nothing. A prompt of the release (15 GB) on a GPU takes at least
# 4 ms, most of it for its weights (spec/performance.md 3.3): three sentences take 12 ms, and leave
# most of the time to the steps even at a third of that rate.
PREFILL_ROWS = {"cpu": 128, "cuda": 512}


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
    """One scheduler iteration: who waits for a prefill, in this order, and everyone who decodes."""

    prefill: tuple[J, ...]
    decode: tuple[J, ...]

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to run."""
        return not self.prefill and not self.decode


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
            prefill=tuple(job for job in awake if job.needs_prefill),
            decode=tuple(job for job in awake if not job.needs_prefill),
        )

    def release(self, job: J) -> None:
        """Free the slots of ``job``; harmless when it has none."""
        if job in self.live:
            self.live.remove(job)
            for slot in job.slots:
                heapq.heappush(self._free, slot)
            job.slots = ()


def affordable(jobs: Iterable[J], num_rows: Callable[[J], int], budget: int) -> Iterator[J]:
    """The first of ``jobs``, and those after it while all their prompts fit into ``budget`` rows.

    ``num_rows`` is asked of a job when it is its turn; one that has none costs nothing.
    """
    spent = 0
    for job in jobs:
        rows = num_rows(job)
        if spent and spent + rows > budget:
            return
        spent += rows
        yield job
