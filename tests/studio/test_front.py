"""What is answered while the studio opens, once it is open, and when it cannot be."""

import threading

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from engine import CheckpointError
from studio.front import Front


def until(condition) -> None:
    for _ in range(12_000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen in time")


def test_while_it_opens_everything_says_so_and_then_the_studio_answers():
    may_open, seen = threading.Event(), []

    async def live(app: FastAPI):
        seen.append("begun")
        yield
        seen.append("ended")

    from contextlib import asynccontextmanager

    app = FastAPI(lifespan=asynccontextmanager(live))
    app.get("/health")(lambda: {"status": "healthy"})

    def open_studio():
        may_open.wait(60)
        return app, "the engine"

    with TestClient(Front(open_studio, seen.append)) as client:
        assert client.get("/health").json() == {"status": "starting"}
        ready = client.get("/ready")
        assert ready.status_code == 503 and ready.json()["status"] == "loading"
        page = client.get("/")
        assert page.status_code == 503 and 'http-equiv="refresh"' in page.text
        speech = client.post("/v1/audio/speech", json={"input": "Hello."})
        assert speech.status_code == 503 and int(speech.headers["Retry-After"]) >= 1
        assert speech.json()["error"]["code"] == "unavailable"
        may_open.set()
        until(lambda: "the engine" in seen)
        assert client.get("/health").json() == {"status": "healthy"}
    assert seen == ["begun", "the engine", "ended"]


@pytest.mark.parametrize("error", [CheckpointError("model: it is gone."), RuntimeError("broken")])
def test_a_studio_that_cannot_be_opened_ends_the_server(error):
    failed = threading.Event()

    def open_studio():
        raise error

    front = Front(open_studio, lambda engine: None)
    front.on_failure = failed.set
    with TestClient(front) as client:
        assert failed.wait(60)
        assert client.get("/ready").status_code == 503
    assert front.error is error


def test_a_stop_does_not_wait_for_the_model():
    held = threading.Event()
    with TestClient(Front(lambda: held.wait(30), lambda engine: None)):
        pass
    assert not held.is_set()
    held.set()
