"""Fetch a recording by URL without becoming anybody's way into our network.

- A URL is parsed once; its host is resolved once, in the moment of connecting, and the connection
  goes to the very address that was checked. A redirect is a new URL and is checked like one.
- httpcore sends no credentials, knows no proxies of the environment, follows no redirects and
  decompresses nothing by itself. One clock stops everything: lookup, handshake, headers, body.
- Whatever goes wrong, the sentence is the same, so that replies tell nothing about the network.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpcore
import httpx

from engine import InvalidReference
from studio.media.addresses import is_public

Resolve = Callable[[str, int], list[str]]

_MAX_URL_CHARACTERS = 4096
_MAX_ADDRESSES_TRIED = 2
_REDIRECTS = (301, 302, 303, 307, 308)
_DEFAULT_PORTS = {"http": 80, "https": 443}
# A lookup cannot be cancelled; a few stuck ones may wait here, more are refused.
_LOOKUPS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="media-lookup")


@dataclass(frozen=True)
class FetchPolicy:
    """What may be fetched: public addresses or not, and exact ``host:port`` exceptions."""

    allows_public: bool
    allowed_hosts: frozenset[str] = frozenset()
    size_bytes: int = 20_000_000
    max_redirects: int = 3
    connect_s: float = 3.0
    total_s: float = 10.0


def is_url(text: str) -> bool:
    """Tell whether ``text`` begins like an http(s) address."""
    return text[:8].lower().startswith(("http://", "https://"))


def fetch_url(
    url: str, policy: FetchPolicy, *, field: str = "reference", resolve: Resolve | None = None
) -> Iterator[bytes]:
    """Yield the body behind ``url`` in pieces; raise InvalidReference with one generic sentence."""
    with _Clock(policy.total_s) as clock:
        try:
            yield from _fetch(url, policy, clock, resolve or _resolve)
        except (_Refused, *_FAILURES) as error:
            raise InvalidReference(
                f"{field} cannot be fetched: it must be a public http:// or https:// address that"
                f" answers within {policy.total_s:.0f} s with at most"
                f" {policy.size_bytes / 1e6:.0f} MB of audio; or upload the recording instead.",
                field=field,
            ) from error


class _Refused(Exception):
    """The address, the reply or its size is against the policy."""


_FAILURES = (
    httpx.InvalidURL,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    OSError,
    ValueError,  # TimeoutError of a lookup is an OSError; ValueError: IDNA and header values
)


def _fetch(url: str, policy: FetchPolicy, clock: _Clock, resolve: Resolve) -> Iterator[bytes]:
    with httpcore.ConnectionPool(
        network_backend=_CheckedBackend(policy, clock, resolve), max_keepalive_connections=0
    ) as pool:
        for _ in range(policy.max_redirects + 1):
            target = _parsed(url)
            with pool.stream(
                "GET",
                httpcore.URL(
                    scheme=target.raw_scheme,
                    host=target.raw_host,
                    port=_port(target),
                    target=target.raw_path,
                ),
                headers=[
                    (b"Host", target.netloc),
                    (b"User-Agent", b"zonos2-studio"),
                    (b"Accept", b"audio/*, video/*, application/octet-stream"),
                    (b"Accept-Encoding", b"identity"),
                ],
                extensions={
                    "timeout": {
                        "connect": policy.connect_s,
                        **dict.fromkeys(("read", "write", "pool"), policy.total_s),
                    }
                },
            ) as response:
                headers = httpx.Headers(response.headers)
                if response.status not in _REDIRECTS:
                    yield from _body(response, headers, policy, clock)
                    return
                url = str(target.join(headers.get("location", "")))
    raise _Refused("too many redirects")


def _parsed(url: str) -> httpx.URL:
    if len(url) > _MAX_URL_CHARACTERS or "\\" in url or not url.isprintable() or " " in url:
        raise _Refused("not a plain address")
    target = httpx.URL(url)
    if target.scheme not in _DEFAULT_PORTS or not target.host or target.userinfo:
        raise _Refused("not an http(s) address without credentials")
    return target


def _port(target: httpx.URL) -> int:
    return target.port or _DEFAULT_PORTS[target.scheme]


def _body(
    response: httpcore.Response, headers: httpx.Headers, policy: FetchPolicy, clock: _Clock
) -> Iterator[bytes]:
    if response.status != 200:
        raise _Refused(f"status {response.status}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise _Refused("compressed")
    if int(headers.get("content-length", 0)) > policy.size_bytes:
        raise _Refused("declares too much")
    size_bytes = 0
    for piece in response.iter_stream():
        size_bytes += len(piece)
        if size_bytes > policy.size_bytes:
            raise _Refused("too much")
        yield piece
    if clock.has_run_out:  # a body without a length ends like a complete one
        raise _Refused("too slow")


class _CheckedBackend(httpcore.SyncBackend):
    """Resolves, checks and connects in one place: nothing can change in between."""

    def __init__(self, policy: FetchPolicy, clock: _Clock, resolve: Resolve) -> None:
        self._policy = policy
        self._clock = clock
        self._resolve = resolve

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        for address in self._checked_addresses(host, port):
            try:
                stream = super().connect_tcp(
                    address, port, self._clock.within(timeout), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            self._clock.stops(stream.get_extra_info("socket"))
            return stream
        raise _Refused("no address answers")

    def _checked_addresses(self, host: str, port: int) -> list[str]:
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        is_allowed = name in self._policy.allowed_hosts
        if not is_allowed and not (self._policy.allows_public and port in _DEFAULT_PORTS.values()):
            raise _Refused("not an allowed address")
        lookup = _LOOKUPS.submit(self._resolve, host, port)
        addresses = lookup.result(self._clock.within(self._policy.connect_s))
        if not is_allowed and not all(map(is_public, addresses)):
            raise _Refused("not a public address")
        return addresses[:_MAX_ADDRESSES_TRIED]


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _Clock:
    """Time for the whole fetch; when it is up, the connection is shut down under its reader.

    Timeouts of single reads would not do: a server that sends a byte now and then, in the TLS
    handshake, the headers or the body, never hits one.
    """

    def __init__(self, total_s: float) -> None:
        self._end_s = time.monotonic() + total_s
        self._timer = threading.Timer(total_s, self._run_out)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.has_run_out = False

    def __enter__(self) -> _Clock:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for connection in self._sockets:
                connection.close()
            self._sockets.clear()

    def within(self, timeout_s: float | None) -> float:
        """Return ``timeout_s`` cut to the time that is left; raise TimeoutError when none is."""
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return min(left_s, timeout_s or left_s)

    def stops(self, connection: socket.socket) -> None:
        """Shut ``connection`` down when time is up, even after TLS has taken it over."""
        with self._lock:
            self._sockets.append(connection.dup())

    def _run_out(self) -> None:
        with self._lock:
            self.has_run_out = True
            for connection in self._sockets:
                _shut_down(connection)


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended already
        return
