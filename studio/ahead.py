"""Work that is done a few pieces ahead of whoever takes the results, in order.

    async for line in in_order(jobs, num_ahead=2):
        ...

- However the taking ends, what is under way is cancelled and waited for.
- Each job runs in a task and a cancel scope of its own: work in threads is waited for and never
  lost half-way, and the taker may be resumed by another task each time, as Gradio does it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def in_order(
    jobs: Iterable[Callable[[], Awaitable[T]]], num_ahead: int
) -> AsyncGenerator[T, None]:
    """The results of ``jobs``, of which up to ``num_ahead`` run at once; raises what one raises."""
    running: deque[tuple[asyncio.Task[T], anyio.CancelScope]] = deque()
    try:
        for job in jobs:
            running.append(_begun(job))
            if len(running) >= num_ahead:
                yield await _first(running)
        while running:
            yield await _first(running)
    finally:
        for _, scope in running:
            scope.cancel()
        if running:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task for task, _ in running])
        for task, _ in running:
            if not task.cancelled():
                task.exception()  # looked at: nobody else will


def _begun(job: Callable[[], Awaitable[T]]) -> tuple[asyncio.Task[T], anyio.CancelScope]:
    scope = anyio.CancelScope()

    async def run() -> T:
        with scope:
            return await job()
        raise asyncio.CancelledError

    return asyncio.ensure_future(run()), scope


async def _first(running: deque[tuple[asyncio.Task[T], anyio.CancelScope]]) -> T:
    task, _ = running[0]
    await asyncio.wait([task])  # unlike awaiting it, this does not cancel it with its taker
    running.popleft()
    return task.result()
