"""Events of a speech: errors after the first one, and signs of life."""

import asyncio
import base64
import contextlib
import http.client
import json
from urllib.parse import urlsplit

import pytest

from studio.api import sse
from tests.studio.api.test_live import LONG, SOON_S, is_idle, until

BODY = {"input": "Good morning to all of you out there.", "stream_format": "sse", "seed": 1}
BODY |= {"response_format": "pcm"}


def post(address: str, **fields: object) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/audio/speech", json.dumps(BODY | fields), headers)
    return connection


def test_a_failure_after_the_first_event_is_told_and_cuts_the_body(server, engine, monkeypatch):
    decode, calls = engine.codec.decode, []

    def fail_later(codes):
        calls.append(codes)
        if len(calls) > 2:
            raise RuntimeError("a secret")
        return decode(codes)

    monkeypatch.setattr(engine.codec, "decode", fail_later)
    with contextlib.closing(post(server)) as connection:
        response = connection.getresponse()
        assert response.status == 200
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
    text = caught.value.partial.decode()
    *_, last = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
    assert last["type"] == "speech.audio.error"
    assert last["error"]["code"] == "generation_failed" and "secret" not in text


def test_a_failure_before_the_first_event_has_its_status(server, engine, monkeypatch):
    def fail(codes):
        raise RuntimeError("a secret")

    monkeypatch.setattr(engine.codec, "decode", fail)
    with contextlib.closing(post(server)) as connection:
        response = connection.getresponse()
        assert response.status == 500
        assert response.headers["Content-Type"] == "application/json"
        assert json.loads(response.read())["error"]["code"] == "generation_failed"


def test_a_reader_that_leaves_frees_its_slot(server, engine):
    connection = post(server, input=LONG)
    response = connection.getresponse()
    assert response.read1(100).startswith(b'data: {"type": "speech.audio.delta"')
    response.close()
    connection.close()
    assert until(lambda: is_idle(engine)) < SOON_S


@pytest.mark.parametrize("name", ["mp3", "flac"])
def test_deltas_of_a_container_are_one_body(client, name):
    body = {"input": "Hi.", "seed": 1, "max_new_tokens": 20, "response_format": name}
    plain = client.post("/v1/audio/speech", json=body | {"stream": True}).content
    told = client.post("/v1/audio/speech", json=body | {"stream_format": "sse"}).text
    events = [json.loads(line[6:]) for line in told.split("\n") if line]
    assert b"".join(base64.b64decode(event.get("audio", "")) for event in events) == plain


def test_silence_is_filled_with_comments_and_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(sse, "PING_S", 0.01)

    async def collect():
        items, has_pinged = [], asyncio.Event()

        async def slow():
            yield b"a"
            await has_pinged.wait()
            yield b"b"

        async for item in sse.with_pings(slow()):
            items.append(item)
            if items.count(b": ping\n\n") == 2:
                has_pinged.set()
        return items

    first, *pings, last = asyncio.run(collect())
    assert (first, last) == (b"a", b"b")
    assert len(pings) >= 2 and set(pings) == {b": ping\n\n"}


def test_who_leaves_during_a_silence_ends_what_was_waited_for(monkeypatch):
    monkeypatch.setattr(sse, "PING_S", 0.01)
    ended = []

    async def endless():
        try:
            await asyncio.sleep(60)
            yield b"never"
        finally:
            ended.append(True)

    async def leave():
        items = sse.with_pings(endless())
        assert await anext(items) == b": ping\n\n"
        await items.aclose()

    asyncio.run(leave())
    assert ended
