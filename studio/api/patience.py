"""A request that belongs to others under way: it waits for its place where one alone is refused."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from engine import QueueFull, Unavailable

T = TypeVar("T")
# What finds the queue full waits for a place so long before it is given up.
PATIENCE_S = 60.0


async def begin_patiently(begin: Callable[[], Awaitable[T]], *, waits: Callable[[], bool]) -> T:
    """``await begin()``; where the queue is full and it ``waits``, again after a while.

    Raises ``QueueFull`` after PATIENCE_S, and ``Unavailable`` at once.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await begin()
        except QueueFull as full:
            is_too_late = time.monotonic() + full.retry_after_s > deadline_s
            if isinstance(full, Unavailable) or not waits() or is_too_late:
                raise
            await anyio.sleep(full.retry_after_s)
