"""Fetching by URL: what a well-meant server gives, and every way a server can misbehave."""

import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from engine import InvalidReference
from studio.media.fetch import FetchPolicy, fetch_url

BODY = bytes(range(256)) * 40
# More than a short time limit ever takes on a busy machine, less than the usual ones.
SOON_S = 8.0
LENGTH = f"Content-Length: {len(BODY)}\r\n".encode()
OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def serve(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Serve every connection on loopback with ``answer``; give the address and the requests."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    requests.append(connection.recv(65536))
                    answer(connection)
                except OSError:
                    continue

    worker = threading.Thread(target=accept, daemon=True)
    worker.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        worker.join(timeout=60)


def send(*parts: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(b"".join(parts))


def drip(begin: bytes, piece: bytes, pause_s: float) -> Callable[[socket.socket], None]:
    """Send ``piece`` again and again, slowly or not, until the other side is gone."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(piece)
            time.sleep(pause_s)

    return answer


def policy_for(address: str, **limits: float) -> FetchPolicy:
    limits = {"connect_s": 60.0, "total_s": 60.0} | limits  # for a busy machine
    return FetchPolicy(allows_public=False, allowed_hosts=frozenset({address}), **limits)  # type: ignore[arg-type]


def fetch(url: str, policy: FetchPolicy) -> bytes:
    return b"".join(fetch_url(url, policy))


def refusal(url: str, policy: FetchPolicy) -> str:
    with pytest.raises(InvalidReference) as refused:
        fetch(url, policy)
    assert refused.value.field == "reference"
    return refused.value.message


@pytest.mark.parametrize(
    "reply",
    [
        (OK, LENGTH, b"\r\n", BODY),
        (OK, b"Connection: close\r\n\r\n", BODY),
        (OK, b"Transfer-Encoding: chunked\r\n\r\n2800\r\n", BODY, b"\r\n0\r\n\r\n"),
        (OK, b"Content-Encoding: identity\r\n", LENGTH, b"\r\n", BODY),
    ],
    ids=["length", "close", "chunked", "identity"],
)
def test_a_body_comes_through_whole(reply: tuple[bytes, ...]) -> None:
    with serve(send(*reply)) as (address, requests):
        assert fetch(f"http://{address}/voice.wav?key=a%20b", policy_for(address)) == BODY
    assert requests[0].startswith(b"GET /voice.wav?key=a%20b HTTP/1.1\r\n")


def test_the_request_carries_no_secrets_and_asks_for_no_compression(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody answers there
    with serve(send(OK, LENGTH, b"\r\n", BODY)) as (address, requests):
        assert fetch(f"http://{address}/", policy_for(address)) == BODY
    head = requests[0].lower()
    assert f"host: {address}\r\n".encode() in head
    assert b"accept-encoding: identity\r\n" in head
    assert not re.search(rb"authorization|cookie|referer", head)


def test_a_redirect_is_followed_relative_or_absolute() -> None:
    def answer(connection: socket.socket) -> None:
        path = requests[-1].split()[1]
        if path == b"/a":
            connection.sendall(
                b"HTTP/1.1 302 Found\r\nLocation: /b?x=1\r\nContent-Length: 0\r\n\r\n"
            )
        elif path == b"/b?x=1":
            head = f"HTTP/1.1 308 X\r\nLocation: http://{address}/c\r\nContent-Length: 0\r\n\r\n"
            connection.sendall(head.encode())
        else:
            connection.sendall(OK + LENGTH + b"\r\n" + BODY)

    with serve(answer) as (address, requests):
        assert fetch(f"http://{address}/a", policy_for(address)) == BODY
    assert len(requests) == 3


MISBEHAVIOUR = {
    "not found": send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    "no content": send(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "partial": send(b"HTTP/1.1 206 Partial Content\r\n", LENGTH, b"\r\n", BODY),
    "redirect without a place": send(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"),
    "redirect to itself": send(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
    "redirect to a file": send(
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"
    ),
    "declares too much": send(OK, b"Content-Length: 20000001\r\n\r\n", BODY),
    "declares nonsense": send(OK, b"Content-Length: many\r\n\r\n", BODY),
    "gzip": send(OK, b"Content-Encoding: gzip\r\n", LENGTH, b"\r\n", BODY),
    "cut short": send(OK, b"Content-Length: 99999\r\n\r\n", BODY),
    "no HTTP": send(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "nothing": send(b""),
    "endless body": drip(OK + b"\r\n", bytes(65536), 0),
    "endless header": drip(OK, b"X-Header: " + b"x" * 4000 + b"\r\n", 0),
}


@pytest.mark.parametrize("answer", MISBEHAVIOUR.values(), ids=MISBEHAVIOUR.keys())
def test_a_misbehaving_server_is_refused_with_the_one_sentence(
    answer: Callable[[socket.socket], None],
) -> None:
    with serve(answer) as (address, _):
        policy = policy_for(address)
        message = refusal(f"http://{address}/", policy)
    assert message == refusal("http://", policy)


@pytest.mark.parametrize(
    "answer",
    [
        drip(b"", b"H", 0.05),
        drip(OK + b"X: ", b"x", 0.05),
        drip(OK + b"Content-Length: 5000\r\n\r\n", b"x", 0.05),
        drip(OK + b"Connection: close\r\n\r\n", b"x", 0.05),
        lambda connection: connection.recv(1),  # until the other side is gone
    ],
    ids=["status", "headers", "body", "body without length", "silent"],
)
def test_a_server_that_dawdles_is_left_when_the_time_is_up(
    answer: Callable[[socket.socket], None],
) -> None:
    with serve(answer) as (address, _):
        begin_s = time.monotonic()
        refusal(f"http://{address}/", policy_for(address, total_s=0.4))
        assert time.monotonic() - begin_s < SOON_S


def test_a_dawdling_tls_handshake_is_left_too() -> None:
    with serve(drip(b"\x16\x03\x03\x40\x00", b"\x02", 0.05)) as (address, _):
        begin_s = time.monotonic()
        refusal(f"https://{address}/", policy_for(address, total_s=0.4, connect_s=0.3))
        assert time.monotonic() - begin_s < SOON_S


def test_the_name_is_kept_in_host_and_tls_while_the_checked_address_is_dialled() -> None:
    for scheme in ("http", "https"):
        with serve(send(b"")) as (address, requests):
            port = address.rpartition(":")[2]
            policy = policy_for(f"voice.example:{port}")
            with pytest.raises(InvalidReference):
                url = f"{scheme}://voice.example:{port}/"
                list(fetch_url(url, policy, resolve=lambda *_: ["127.0.0.1"]))
        assert b"voice.example" in requests[0]


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_a_certificate_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    sent = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                sent.append(context.wrap_socket(connection, server_side=True).recv(100))

        worker = threading.Thread(target=answer, daemon=True)
        worker.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        refusal(f"https://{address}/", policy_for(address))
        worker.join(timeout=60)
    assert sent == []


def test_a_dawdling_name_server_is_left_too() -> None:
    policy = FetchPolicy(allows_public=True, connect_s=0.2, total_s=120)
    is_over, answered = threading.Event(), []

    def dawdle(*_: object) -> list[str]:
        is_over.wait(60)
        answered.append(True)
        return []

    with pytest.raises(InvalidReference):
        list(fetch_url("http://slow.example/", policy, resolve=dawdle))
    assert answered == []
    is_over.set()


def test_a_port_that_nobody_listens_on_is_the_same_sentence() -> None:
    with socket.socket() as bound:  # and does not listen: no other server gets this port
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        policy = policy_for(address)
        assert refusal(f"http://{address}/", policy) == refusal("http://10.0.0.1/", policy)


def test_the_connection_is_closed_when_the_reader_stops(tmp_path: Path) -> None:
    gone = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\n")
        try:
            while True:
                connection.sendall(bytes(65536))
        except OSError:
            gone.set()

    with serve(answer) as (address, _):
        pieces = fetch_url(f"http://{address}/", policy_for(address))
        next(pieces)
        pieces.close()
        assert gone.wait(60)
