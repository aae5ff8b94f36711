"""What had to be made again is told wherever a request tells how it ended."""

from __future__ import annotations

import json

import pytest

from engine import Engine, Repair

SHORT = {"input": "Hi.", "seed": 1, "max_new_tokens": 12}
TOLD = [
    {"chunk": 0, "reason": "loop", "attempt": 0},
    {"chunk": 2, "reason": "budget", "attempt": 1},
]


@pytest.fixture
def mended(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that says it had to make two segments again."""
    submit = engine.submit

    def submitted(wish, *_):
        stream = submit(wish)
        stream.repairs += [Repair(**repair) for repair in TOLD]
        return stream

    monkeypatch.setattr(engine, "submit", submitted)


def test_a_whole_answer_its_report_and_its_take_tell_repairs(client, mended) -> None:
    headers = {"X-Request-ID": "mended-1"}
    answer = client.post("/v1/audio/speech", json=SHORT | {"store": True}, headers=headers)
    assert answer.headers["X-Repairs"] == "0:loop, 2:budget"
    assert client.get("/v1/audio/requests/mended-1").json()["repairs"] == TOLD
    path = f"/v1/audio/takes/{answer.headers['X-Take']}"
    assert client.get(path).json()["settings"]["repairs"] == TOLD
    again = client.post(f"{path}/again")
    assert again.status_code == 200 and "X-Ignored-Fields" not in again.headers
    client.delete(path)


def test_events_and_batches_tell_repairs(client, mended) -> None:
    events = client.post("/v1/audio/speech", json=SHORT | {"stream_format": "sse"}).text
    done = next(line for line in events.splitlines() if "speech.audio.done" in line)
    assert json.loads(done.removeprefix("data: "))["repairs"] == TOLD
    batch = client.post("/v1/audio/speech/batch", json={"items": [SHORT]}).json()
    assert batch["results"][0]["repairs"] == TOLD


def test_without_repairs_nothing_is_told(client) -> None:
    headers = {"X-Request-ID": "well-1"}
    answer = client.post("/v1/audio/speech", json=SHORT | {"store": True}, headers=headers)
    assert "X-Repairs" not in answer.headers
    assert client.get("/v1/audio/requests/well-1").json()["repairs"] == []
    path = f"/v1/audio/takes/{answer.headers['X-Take']}"
    assert "repairs" not in client.get(path).json()["settings"]
    client.delete(path)
