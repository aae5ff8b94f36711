"""Bounded admission that is fair between owners and can tell everybody their place.

- Owners take turns; within an owner, first come first served.
- Two bounds: how many wait in all, and how many of them may belong to one owner. Who has reserved
  a place counts as waiting, and is not refused any more.
- Pure Python, not thread-safe (the engine holds its lock), no clock of its own.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypedDict, TypeVar

from engine.errors import OwnerShareUsed, QueueFull


class Owned(Protocol):
    """What can wait in the queue: anything that belongs to an owner."""

    @property
    def owner(self) -> str:
        """Whose share of the queue it uses."""
        ...


class Room(TypedDict):
    """What admission has to know: the wait to tell, and how many are about to be taken."""

    wait_s: float
    num_free: int


T = TypeVar("T", bound=Owned)


class AdmissionQueue(Generic[T]):
    """Waiting items, taken in turn of their owners."""

    def __init__(self, max_waiting: int, max_waiting_per_owner: int) -> None:
        self.max_waiting = max_waiting
        self.max_waiting_per_owner = max_waiting_per_owner
        self._num_reserved: Counter[str] = Counter()
        self._by_owner: OrderedDict[str, deque[T]] = OrderedDict()  # next owner first

    def __len__(self) -> int:
        return sum(map(len, self._by_owner.values()))

    def __iter__(self) -> Iterator[T]:
        """Items in the order in which they will be taken if nobody else comes."""
        depth = max(map(len, self._by_owner.values()), default=0)
        for turn in range(depth):
            for items in self._by_owner.values():
                if turn < len(items):
                    yield items[turn]

    def check(self, owner: str, *, wait_s: float, num_free: int = 0) -> None:
        """Raise ``OwnerShareUsed`` or ``QueueFull``, with the wait ``wait_s``, for want of a place.

        The next ``num_free`` items are about to be taken: these do not count as waiting.
        """
        num_own = len(self._by_owner.get(owner, ())) + self._num_reserved[owner]
        if num_own >= self.max_waiting_per_owner + num_free:
            raise OwnerShareUsed(
                f"queue: {num_own} of your requests are waiting already and the limit is"
                f" {self.max_waiting_per_owner}; try again in {wait_s:.0f} s.",
                retry_after_s=wait_s,
            )
        if len(self) + self._num_reserved.total() >= self.max_waiting + num_free:
            raise QueueFull(
                f"queue: all {self.max_waiting} places are taken; try again in {wait_s:.0f} s.",
                retry_after_s=wait_s,
            )

    def reserve(self, owner: str, *, wait_s: float, num_free: int = 0) -> None:
        """Keep a place until ``unreserve``; raises what ``check`` raises."""
        self.check(owner, wait_s=wait_s, num_free=num_free)
        self._num_reserved[owner] += 1

    def unreserve(self, owner: str) -> None:
        """Give up a place that was kept."""
        self._num_reserved[owner] -= 1
        if not self._num_reserved[owner]:
            del self._num_reserved[owner]

    def put(self, item: T, *, wait_s: float, num_free: int = 0) -> None:
        """Admit ``item``; raises what ``check`` raises."""
        self.check(item.owner, wait_s=wait_s, num_free=num_free)
        self._by_owner.setdefault(item.owner, deque()).append(item)

    def put_back(self, item: T) -> None:
        """Let an item that was taken wait again, behind its owner's others; it is never refused."""
        self._by_owner.setdefault(item.owner, deque()).append(item)

    def peek(self) -> T | None:
        """The item that ``take`` would give."""
        return next(iter(self), None)

    def take(self) -> T | None:
        """The next item, or None; its owner goes to the end of the turn."""
        if not self._by_owner:
            return None
        owner, items = next(iter(self._by_owner.items()))
        item = items.popleft()
        if items:
            self._by_owner.move_to_end(owner)
        else:
            del self._by_owner[owner]
        return item

    def remove(self, item: T) -> bool:
        """Take ``item`` out wherever it stands; False if it does not wait here."""
        items = self._by_owner.get(item.owner, deque())
        if item not in items:
            return False
        items.remove(item)
        if not items:
            del self._by_owner[item.owner]
        return True

    def num_ahead(self, item: T) -> int | None:
        """How many will be taken before ``item`` if nobody else comes; None if it does not wait."""
        for place, other in enumerate(self):
            if other is item:
                return place
        return None


class Reservation:
    """A place that is kept for somebody until it is used or given up."""

    def __init__(
        self, queue: AdmissionQueue[Any], guard: AbstractContextManager[Any], owner: str
    ) -> None:
        self._queue = queue
        self._guard = guard
        self._owner = owner
        self._is_kept = True

    def give_up(self) -> None:
        """Let others have the place; harmless after the first time."""
        with self._guard:
            if self._is_kept:
                self._is_kept = False
                self._queue.unreserve(self._owner)
