import http.client
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from engine import InvalidRequest
from studio.server import listen

REPOSITORY = Path(__file__).resolve().parents[2]
# More than lies between the engine and a reader who takes nothing: 10 s of its buffer, and two
# buffers of the system, which are kept small. Whoever does not read is still being spoken to.
LONG = "The small boat is still tied to the old wooden pier. " * 6
BUFFER_BYTES = 1 << 14


def test_a_taken_port_is_one_sentence():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidRequest, match=f"--port: cannot listen on 127.0.0.1 port {port}"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_one_sentence(host):
    with pytest.raises(InvalidRequest, match=f"--host: cannot listen on {host}"):
        listen(host, 0)


def test_an_ipv6_address_is_an_address():
    try:
        listener = listen("::1", 0)
    except InvalidRequest:
        pytest.skip("this machine has no IPv6 loopback")
    with listener:
        assert listener.family is socket.AF_INET6


class Studio:
    """The routes in a process of their own, without the page (gradio takes seconds to import)."""

    def __init__(self, drain_s: int) -> None:
        script = f"""
            import socket

            from engine import Engine
            from studio.server import create_api, listen, serve
            from studio.settings import Settings

            settings = Settings(drain_s={drain_s})
            listener = listen("127.0.0.1", 0)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {BUFFER_BYTES})
            with Engine.open("assets/nano", device="cpu") as engine:
                serve(
                    lambda: (create_api(engine, settings), engine),
                    settings,
                    listener,
                    lambda engine: print(listener.getsockname()[1], flush=True),
                )
        """
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            cwd=REPOSITORY,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def __enter__(self) -> "Studio":
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()

    def request(self, method: str, path: str, body: str | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.sock = socket.socket()
        connection.sock.settimeout(120)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        connection.sock.connect(("127.0.0.1", self.port))
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse()

    def speak(self, text: str) -> http.client.HTTPResponse:
        body = f'{{"input": "{text}", "seed": 1, "stream": true}}'
        return self.request("POST", "/v1/audio/speech", body)


def test_a_stop_refuses_the_new_ends_what_runs_and_exits_with_0():
    with Studio(drain_s=60) as studio:
        running = studio.speak(LONG)
        assert running.status == 200
        studio.process.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + 60
        while (ready := studio.request("GET", "/ready")).status == 200:
            assert time.monotonic() < deadline_s
        assert (ready.status, ready.read()) == (503, b'{"status":"draining"}')
        refused = studio.speak("Hi.")
        assert refused.status == 503 and int(refused.headers["Retry-After"]) >= 1
        assert studio.request("GET", "/health").status == 200
        assert len(running.read()) > 44_100  # to its proper end: no IncompleteRead
        out, log = studio.process.communicate(timeout=120)
        assert studio.process.returncode == 0
        assert "Traceback" not in log
        assert "pier" not in out + log  # what is spoken stays out of the log


@pytest.mark.slow
def test_who_plays_the_sound_as_it_comes_hears_its_end_after_a_stop():
    """At twice its pace; the engine is done long before."""
    with Studio(drain_s=60) as studio:
        running = studio.speak(LONG)
        assert running.status == 200
        studio.process.send_signal(signal.SIGTERM)
        num_bytes = 0
        while piece := running.read(44_100):
            num_bytes += len(piece)
            time.sleep(0.25)
        assert num_bytes > 10 * 88_200
        assert studio.process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_stop_that_may_not_wait_cuts_what_runs():
    with Studio(drain_s=0) as studio:
        running = studio.speak(LONG * 7)
        assert running.status == 200
        stopped_s = time.monotonic()
        studio.process.send_signal(signal.SIGTERM)
        with pytest.raises(http.client.IncompleteRead) as cut:
            running.read()
        assert len(cut.value.partial) < 60 * 88_200  # of two minutes; what was made by then
        _, log = studio.process.communicate(timeout=120)
        assert time.monotonic() - stopped_s < 30
        assert studio.process.returncode == 0
        assert "the studio was closed" in log and "timeout graceful shutdown" not in log
