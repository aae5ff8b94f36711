"""One real engine, one real server on a loopback port, for every test of the studio."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from engine import Engine
from studio.server import create_api, listen
from studio.settings import Settings

NANO = Path(__file__).resolve().parents[2] / "assets" / "nano"
# Without marks the sound is the engine's own, sample for sample, and a WAV header has 44 bytes.
UNMARKED = Settings(no_watermark=True, no_metadata=True)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The embedded model; shared, so leave it idle and unchanged."""
    with Engine.open(NANO, device="cpu") as opened:
        yield opened


@pytest.fixture(scope="session")
def client(engine: Engine) -> TestClient:
    """The routes without a socket. Not entered: leaving it would close the shared engine."""
    return TestClient(create_api(engine, UNMARKED), raise_server_exceptions=False)


@pytest.fixture(scope="session")
def recording(engine: Engine) -> bytes:
    """A WAV file of somebody speaking for some seconds."""
    text = "The small boat is still tied to the pier."
    samples, sample_rate_hz = engine.speak(text, voice="deep", seed=5).read()
    file = io.BytesIO()
    soundfile.write(file, samples, sample_rate_hz, format="WAV", subtype="PCM_16")
    return file.getvalue()


@pytest.fixture(scope="session")
def data_uri(recording: bytes) -> str:
    """The recording as clients send it in JSON."""
    return "data:audio/wav;base64," + base64.b64encode(recording).decode()


@pytest.fixture(scope="session")
def wav() -> Callable[[bytes], tuple[np.ndarray, int]]:
    """Read a WAV file: its int16 samples and their rate."""
    return lambda data: soundfile.read(io.BytesIO(data), dtype="int16")


@pytest.fixture(scope="session")
def serving() -> Callable[[FastAPI], AbstractContextManager[str]]:
    """Serve an application on a free loopback port; its lifespan is left out."""

    @contextmanager
    def serve(app: FastAPI) -> Iterator[str]:
        config = uvicorn.Config(app, lifespan="off", log_level="critical", access_log=False)
        server = uvicorn.Server(config)
        with listen("127.0.0.1", 0) as listener:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                deadline_s = time.monotonic() + 60
                while not server.started:
                    assert time.monotonic() < deadline_s, "the server did not start"
                    time.sleep(0.002)
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = server.force_exit = True
                thread.join(60)

    return serve


@pytest.fixture(scope="session")
def server(
    engine: Engine, serving: Callable[[FastAPI], AbstractContextManager[str]]
) -> Iterator[str]:
    """The routes behind a real server: its address, such as http://127.0.0.1:41234."""
    with serving(create_api(engine, UNMARKED)) as address:
        yield address
