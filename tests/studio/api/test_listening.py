"""The sound of a request reaches one listener whole, once, and a listener who leaves ends it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from starlette.testclient import TestClient

from engine import Conflict
from studio.api import listening
from studio.api.listening import Listening

PIECES = [np.arange(3, dtype=np.int16), np.arange(5, dtype=np.int16) - 2]


def test_everything_is_heard_in_order_however_late_the_listener_comes():
    async def listen() -> list[bytes]:
        left: list[bool] = []
        sound = Listening(44_100, lambda: left.append(True))
        sound.put(PIECES[0])
        heard = sound.taken()
        first = await anext(heard)
        asyncio.get_running_loop().call_soon(sound.put, PIECES[1])
        asyncio.get_running_loop().call_soon(sound.end)
        rest = [piece async for piece in heard]
        assert left == []
        return [first, *rest]

    assert asyncio.run(listen()) == [piece.tobytes() for piece in PIECES]


def test_it_is_given_out_once():
    async def listen() -> None:
        sound = Listening(44_100, lambda: None)
        sound.taken()
        with pytest.raises(Conflict, match="once"):
            sound.taken()

    asyncio.run(listen())


def test_who_leaves_before_the_end_takes_the_request_along_and_who_stays_does_not():
    async def leave(*, ends: bool) -> list[bool]:
        left: list[bool] = []
        sound = Listening(44_100, lambda: left.append(True))
        sound.put(PIECES[0])
        heard = sound.taken()
        await anext(heard)
        if ends:
            sound.end()
        await heard.aclose()  # type: ignore[attr-defined]
        return left

    assert asyncio.run(leave(ends=False)) == [True]
    assert asyncio.run(leave(ends=True)) == []


def test_what_nobody_comes_for_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listening, "LISTENER_COMES_S", 0.0)

    async def wait() -> None:
        sound = Listening(44_100, lambda: None)
        sound.put(PIECES[0])
        sound.end()
        await asyncio.sleep(0.01)
        with pytest.raises(Conflict):
            sound.taken()

    asyncio.run(wait())


def test_only_the_page_begins_requests_that_are_heard_elsewhere(client: TestClient):
    body = {"input": "Hello.", "seed": 1}
    assert client.post("/v1/audio/speech", json=body, headers={"X-Request-ID": "mine"}).is_success
    answer = client.get("/v1/audio/requests/mine/audio")
    assert answer.status_code == 404
    assert "was not begun by the page" in answer.json()["error"]["message"]
