"""2,000 short requests, of which some leave and some are wrong: nothing grows.

    make load ARGS=tests/load/test_soak.py

``STUDIO_SOAK`` sets another number of requests.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter

import pytest

from tests.load.client import SPEECH, Call, until_inside
from tests.load.conftest import running

pytestmark = [pytest.mark.load, pytest.mark.timeout(2400)]

NUM_REQUESTS = int(os.environ.get("STUDIO_SOAK", "2000"))
NUM_WARM_UP = NUM_REQUESTS // 5
NUM_STAGES = 8
AT_ONCE, MOST_AT_ONCE = 8, 64
SEED = 20_261_130
WRONG: tuple[dict[str, object] | bytes, ...] = (
    {"input": ""},
    {"input": "Hi.", "voice": "nobody"},
    {"input": "Hi.", "temperature": "hot"},
    {"input": "x" * 50_001},
    {"input": "Hi.", "ref_audio": "data:audio/wav;base64,UklGRgAAAABXQVZF"},
    b'{"input": ',
    b"\xff\xfe",
)


def test_nothing_grows(tmp_path, record):
    chance = random.Random(SEED)
    outcomes: Counter[str] = Counter()

    async def one(address: str, number: int) -> None:
        call = await Call.open(address)
        what = chance.random()
        if what < 0.15:
            call.send("POST", SPEECH, chance.choice(WRONG))
            status = (await call.whole()).status
            assert 400 <= status < 500, status
            outcomes["wrong"] += 1
            return
        wish = {"input": "Yes.", "seed": number, "max_new_tokens": 12, "stream": what < 0.5}
        call.send("POST", SPEECH, wish)
        if what < 0.3:
            await asyncio.sleep(chance.uniform(0.0, 0.3))
            call.leave()
            outcomes["left"] += 1
            return
        status = (await call.whole()).status
        assert status == 200, call.body
        outcomes["spoken"] += 1

    async def many(address: str, number: int, at_once: int = AT_ONCE) -> None:
        waiting = iter(range(number))

        async def worker() -> None:
            for at in waiting:
                await one(address, at)

        await asyncio.gather(*(worker() for _ in range(at_once)))
        await until_inside(address, 0)

    with running(tmp_path, slots=AT_ONCE, max_waiting=64, max_waiting_per_owner=64) as studio:
        # More at once than later: as many worker threads as there will be, with their heaps.
        asyncio.run(many(studio.address, NUM_WARM_UP, MOST_AT_ONCE))
        time.sleep(1.0)
        seen = [studio.held()]
        begun_s = time.monotonic()
        for _ in range(NUM_STAGES):
            asyncio.run(many(studio.address, (NUM_REQUESTS - NUM_WARM_UP) // NUM_STAGES))
            time.sleep(1.0)
            seen.append(studio.held())
        elapsed_s = time.monotonic() - begun_s
        before, after = seen[0], seen[-1]
        figures = {
            "requests": NUM_REQUESTS,
            "warm_up": NUM_WARM_UP,
            "seconds_after_warm_up": round(elapsed_s, 1),
            "outcomes": dict(outcomes),
            "rss_mb_by_stage": [round(held["rss_bytes"] / 1e6, 1) for held in seen],
            "after_warm_up": before,
            "at_the_end": after,
        }
        record("soak", figures)
        assert after["rss_bytes"] - before["rss_bytes"] < 5e6
        assert after["descriptors"] <= before["descriptors"] + 2
        assert after["threads"] <= before["threads"] + AT_ONCE  # workers come and go
        assert after["temporary_files"] <= before["temporary_files"]
