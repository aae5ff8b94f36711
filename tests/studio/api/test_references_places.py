"""Addresses and paths in a speech request: what attacks ask for, and what clients leave behind."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import httpcore
import pytest
from starlette.testclient import TestClient

from engine import Engine
from studio.media import decode as decode_module
from studio.server import create_api
from studio.settings import Settings
from tests.security.conftest import Canary
from tests.security.test_media_ssrf import URLS, loopback_names
from tests.security.test_media_traversal import ATTACKS

CONTROL = Path(__file__).resolve().parents[2] / "fixtures" / "audio" / "ref_control_16k_mono.wav"
SHORT = {"input": "Please close the door.", "seed": 1, "max_new_tokens": 10}
Ask = Callable[[str], tuple[int, bytes]]
T = TypeVar("T")


@pytest.fixture
def canary() -> Iterator[Canary]:
    server = Canary()
    yield server
    server.close()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that takes the place of the system's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def asking(engine: Engine) -> Callable[..., Ask]:
    """A door with other settings: send a reference, get status and body."""

    def with_settings(**settings: object) -> Ask:
        client = TestClient(create_api(engine, Settings(**settings)), raise_server_exceptions=False)

        def ask(text: str) -> tuple[int, bytes]:
            # json.dumps escapes what UTF-8 cannot hold; httpx would not.
            body = json.dumps(SHORT | {"references": [{"audio_path": text}]})
            response = client.post("/v1/audio/speech", content=body)
            return response.status_code, response.content

        return ask

    return with_settings


@pytest.fixture(autouse=True)
def no_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the network for names; ok.example is this machine."""
    monkeypatch.setattr("studio.media.fetch._resolve", loopback_names)


# Addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"public": True}], ids=["urls on", "urls off"])
def test_every_address_of_ours_gets_the_one_answer(settings: dict, asking, canary: Canary) -> None:
    ask = asking(**settings)
    expected = ask("http://10.0.0.1/")
    assert expected[0] == 400
    assert json.loads(expected[1])["error"]["param"] == "references[0].audio_path"
    for url in URLS:
        text = url.format(port=canary.port)
        status, body = ask(text)
        if text.lower().startswith(("http://", "https://")):
            assert (status, body) == expected, ascii(text)
        else:  # a path, or no base64: refused without a look at any network
            assert status == 400, ascii(text)
    assert canary.visits == []


@contextlib.contextmanager
def answering(head: bytes, *, body: bytes = b"", repeats: bool = False) -> Iterator[int]:
    """A server on loopback that answers every request alike -> its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(4096)
                        connection.sendall(b"HTTP/1.1 " + head + b"\r\n\r\n" + body)
                        while repeats:
                            connection.sendall(body)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_whatever_is_wrong_behind_an_allowed_address_the_answer_is_the_same(
    asking, canary: Canary
) -> None:
    redirect = f"302 Found\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:{canary.port}/"
    heads = {
        "a redirect to the inside": (redirect.encode(), b"", False),
        "not there": (b"404 Not Found\r\nContent-Length: 0", b"", False),
        "forbidden": (b"403 Forbidden\r\nContent-Length: 0", b"", False),
        "declares too much": (b"200 OK\r\nContent-Length: 20000001", b"", False),
        "has no end": (b"200 OK", bytes(1 << 16), True),
        "is compressed": (b"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1", b"x", False),
        "no HTTP": (b"\0\0\0", b"", False),
    }
    with contextlib.ExitStack() as stack:
        ports = {
            name: stack.enter_context(answering(head, body=body, repeats=repeats))
            for name, (head, body, repeats) in heads.items()
        }
        allowed = (*(f"127.0.0.1:{port}" for port in ports.values()), "127.0.0.1:1")
        ask = asking(allow_media_host=allowed)
        expected = ask("http://10.0.0.1/")
        assert ask("http://127.0.0.1:1/") == expected  # nobody listens
        for name, port in ports.items():
            assert ask(f"http://127.0.0.1:{port}/voice.wav") == expected, name
    assert canary.visits == []


def test_an_open_port_of_ours_takes_as_long_to_refuse_as_a_closed_one(
    asking, canary: Canary
) -> None:
    ask = asking()
    places = (f"http://127.0.0.1:{canary.port}/", "http://127.0.0.1:1/", "http://10.0.0.1/")
    waits_s: dict[str, list[float]] = {place: [] for place in places}
    for _ in range(20):
        for place in places:
            begin_s = time.perf_counter()
            ask(place)
            waits_s[place].append(time.perf_counter() - begin_s)
    # The quickest: a busy machine only ever adds.
    quick_s = [min(waits) for waits in waits_s.values()]
    assert max(quick_s) - min(quick_s) < 0.02
    assert canary.visits == []


def test_a_rebinding_name_is_dialled_where_it_was_checked(
    asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[str] = []

    def record(self: object, host: str, *_: object) -> None:
        dialled.append(host)
        raise httpcore.ConnectError

    answers = iter([["93.184.216.34"], ["127.0.0.1"]])
    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", record)
    monkeypatch.setattr("studio.media.fetch._resolve", lambda *_: next(answers))
    ask = asking()
    body = ask("http://rebinding.example/")
    assert dialled == ["93.184.216.34"]
    monkeypatch.setattr("studio.media.fetch._resolve", lambda *_: ["93.184.216.34", "10.0.0.1"])
    assert ask("http://mixed.example/") == body
    assert dialled == ["93.184.216.34"]


# Paths ---------------------------------------------------------------------------------------


@pytest.fixture
def media_root(tmp_path: Path) -> Path:
    root = tmp_path / "media"
    (root / "inside").mkdir(parents=True)
    secret = tmp_path / "secret.wav"
    for copy in (root / "inside" / "ok.wav", secret):
        copy.write_bytes(CONTROL.read_bytes())
    (root / "link.wav").symlink_to(secret)
    (root / "linked").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "absolute").symlink_to("/etc/passwd")
    os.mkfifo(root / "fifo.wav")
    return root


@pytest.mark.skipif(os.name != "posix", reason="local paths are refused here")
def test_every_way_out_of_the_media_folder_gets_the_one_answer(asking, media_root: Path) -> None:
    ask = asking(media_root=media_root)
    assert ask("inside/ok.wav")[0] == 200
    expected = ask("absent.wav")
    assert expected[0] == 400
    assert expected == asking()("inside/ok.wav")  # a server without a media folder says the same
    for attack in ATTACKS:
        text = attack.format(root=media_root, parent=media_root.parent)
        status, body = ask(text)
        assert status == 400, ascii(text)
        if "." in text or text.startswith("file://"):
            assert body == expected[1], ascii(text)
        assert str(media_root).encode() not in body and b"secret" not in body, ascii(text)


@pytest.mark.skipif(os.name != "posix", reason="local paths are refused here")
def test_what_exists_outside_takes_as_long_to_refuse_as_what_does_not(
    asking, media_root: Path
) -> None:
    ask = asking(media_root=media_root)
    outside = media_root.parent
    places = ("link.wav", "absent.wav", f"{outside}/secret.wav", f"{outside}/absent.wav")
    waits_s: dict[str, list[float]] = {place: [] for place in places}
    for _ in range(20):
        for place in places:
            begin_s = time.perf_counter()
            ask(place)
            waits_s[place].append(time.perf_counter() - begin_s)
    quick_s = [min(waits) for waits in waits_s.values()]
    assert max(quick_s) - min(quick_s) < 0.02


# What is left behind -------------------------------------------------------------------------


def sending(address: str, **fields: object) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    reference = base64.b64encode(CONTROL.read_bytes()).decode()
    body = json.dumps(SHORT | {"ref_audio": reference} | fields)
    connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
    return connection


def until(condition: Callable[[], T]) -> T:
    deadline_s = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline_s, "it did not come about"
        time.sleep(0.005)
    return found


@pytest.fixture
def sleeping_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program that only sleeps in the place of FFmpeg."""
    program, python = tmp_path / "sleeping-decoder", tmp_path / "python"
    python.symlink_to(sys.executable)  # whose own path may hold a space
    program.write_text(f"#!{python} -IS\nimport time\ntime.sleep(60)")
    program.chmod(0o700)
    monkeypatch.setattr(decode_module, "ffmpeg_path", lambda: str(program))


def decoders() -> set[int]:
    """The ids of the sleeping decoders."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"sleeping-decoder" in (process / "cmdline").read_bytes():
                found.add(int(process.name))
    return found


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


only_linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@pytest.mark.parametrize("fields", [{}, {"ref_audio": "AAAA"}, {"stream": True}])
def test_nothing_is_left_after_success_and_failure(
    fields: dict, server: str, temporary: Path
) -> None:
    with contextlib.closing(sending(server, **fields)) as connection:
        response = connection.getresponse()
        assert response.status == (400 if "ref_audio" in fields else 200)
        response.read()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_nothing_is_left_of_a_client_that_leaves_in_the_middle_of_its_upload(
    share: float, server: str, engine: Engine, temporary: Path
) -> None:
    body = json.dumps(SHORT | {"ref_audio": base64.b64encode(CONTROL.read_bytes()).decode()})
    parts = urlsplit(server)
    head = (
        f"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection((parts.hostname, parts.port), timeout=120)
    connection.sendall(head.encode() + body[: round(share * len(body))].encode())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    with contextlib.closing(sending(server)) as after:  # the others are still served
        assert after.getresponse().status == 200
    until(lambda: list(temporary.iterdir()) == [])


@only_linux
def test_a_client_that_leaves_while_its_recording_is_decoded_leaves_nothing(
    server: str, engine: Engine, temporary: Path, sleeping_decoder: None
) -> None:
    connection = sending(server)
    (decoder,) = until(decoders)
    assert [folder.stat().st_mode & 0o777 for folder in temporary.iterdir()] == [0o700]
    connection.sock.close()
    kill(decoder)  # or it would be waited for as long as it may take
    until(lambda: list(temporary.iterdir()) == [])
    assert decoders() == set()
    assert engine.stats.num_live == engine.stats.num_waiting == 0


@only_linux
def test_a_decoder_that_is_killed_is_a_refusal_and_leaves_nothing(
    server: str, temporary: Path, sleeping_decoder: None
) -> None:
    with contextlib.closing(sending(server)) as connection:
        (decoder,) = until(decoders)  # a second look may fall between two programs of one process
        kill(decoder)
        response = connection.getresponse()
        assert response.status == 400
        error = json.loads(response.read())["error"]
    assert error["param"] == "ref_audio"
    assert "more memory or time than allowed" in error["message"]
    assert list(temporary.iterdir()) == []
    assert decoders() == set()


@only_linux
def test_two_recordings_are_decoded_at_once_and_no_more(
    server: str, temporary: Path, sleeping_decoder: None
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.callback(sending(server).close)
        until(lambda: len(decoders()) == 2)
        end_s, most = time.monotonic() + 0.3, 0
        while time.monotonic() < end_s:  # one look may fall between two programs of a process
            most = max(most, len(decoders()))
        assert most <= 2

    def is_over() -> bool:
        for process in decoders():
            kill(process)
        return not decoders() and list(temporary.iterdir()) == []

    until(is_over)
