"""Work done ahead comes in order, is bounded, and ends with whoever takes it."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import aclosing
from functools import partial

import anyio
import pytest
from anyio.to_thread import run_sync

from studio.ahead import in_order


def test_results_come_in_order_and_no_more_than_allowed_run_at_once():
    now, most = 0, 0

    async def job(number: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.sleep(0.002 * (5 - number))  # the later, the sooner done
        now -= 1
        return number

    async def main() -> list[int]:
        return [found async for found in in_order([partial(job, n) for n in range(5)], 3)]

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]
    assert most == 3


def test_what_runs_ends_with_its_taker_even_in_another_task():
    begun, ended = [], []

    async def job(number: int) -> int:
        begun.append(number)
        try:
            if number:
                await anyio.sleep(60)
        finally:
            ended.append(number)
        return number

    async def main() -> None:
        results = in_order([partial(job, n) for n in range(9)], 3)
        assert await asyncio.ensure_future(anext(results)) == 0
        await asyncio.ensure_future(results.aclose())

    asyncio.run(main())
    assert begun == ended == [0, 1, 2]


def test_a_cancelled_taker_loses_nothing_that_a_thread_gives():
    given, let_go, has_begun = [], [], threading.Event()

    def give() -> str:
        has_begun.set()
        time.sleep(0.05)
        return "slot"

    async def job() -> None:
        given.append(await run_sync(give))
        try:
            await anyio.sleep(60)
        finally:
            let_go.append(given[-1])

    async def main() -> None:
        async def take() -> None:
            async with aclosing(in_order([job], 1)) as results:
                async for _ in results:
                    pass

        taker = asyncio.ensure_future(take())
        while not has_begun.is_set():
            await asyncio.sleep(0.001)
        taker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taker

    asyncio.run(main())
    assert given == let_go == ["slot"]


def test_a_job_that_fails_is_told_in_its_turn():
    async def job(number: int) -> int:
        if number == 1:
            raise KeyError(number)
        return number

    async def main() -> list[int]:
        found = []
        with pytest.raises(KeyError):
            async for number in in_order([partial(job, n) for n in range(4)], 4):
                found.append(number)
        return found

    assert asyncio.run(main()) == [0]
