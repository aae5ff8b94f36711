"""Who really asks: what a proxy says counts only if it is one of ours.

- From an address of ``--trusted-proxy``, ``X-Forwarded-For`` names the client, ``-Proto`` the
  scheme and ``-Prefix`` the sub-path under which the studio is shown.
- A proxy on this machine that was not named says only where the studio is shown: scheme, host and
  sub-path. Whom it sends stays nobody in particular.
- From anybody else these headers are taken out before anything reads them (Gradio would believe
  them); what is left is the fact that the request was forwarded.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from studio.option_values import is_loopback

_SHOWN = (b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-prefix")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,64}){1,8}")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")


def is_forwarded(connection: HTTPConnection) -> bool:
    """Whether somebody passed the request on for whom nobody vouches."""
    return bool(getattr(connection.state, "is_forwarded", False))


class Proxies:
    """ASGI middleware, the outermost: everything behind it sees the client."""

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app = app
        self._networks = [ipaddress.ip_network(text) for text in trusted]
        self._told = ProxyHeadersMiddleware(app, trusted_hosts=list(trusted))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if self._is_trusted(scope):
            _shown_below(scope, Headers(scope=scope))
            await self._told(scope, receive, send)  # type: ignore[arg-type]
            return
        headers = Headers(scope=scope)
        told = [pair for pair in scope["headers"] if _is_of_a_proxy(pair[0])]
        scope.setdefault("state", {})["is_forwarded"] = bool(told)
        believed = _SHOWN if told and is_loopback((scope.get("client") or ("",))[0]) else ()
        scope["headers"] = [
            pair for pair in scope["headers"] if pair not in told or pair[0] in believed
        ]
        if believed:
            _shown_below(scope, headers)
            if headers.get("x-forwarded-proto", "") == "https":
                scope["scheme"] = "https" if scope["type"] == "http" else "wss"
        await self._app(scope, receive, send)

    def _is_trusted(self, scope: Scope) -> bool:
        if not self._networks:
            return False
        client = scope.get("client")
        try:
            peer = ipaddress.ip_address(client[0] if client else "")
        except ValueError:
            return False
        mapped = getattr(peer, "ipv4_mapped", None) or peer
        return any(mapped in network for network in self._networks)


def _is_of_a_proxy(name: bytes) -> bool:
    return name.startswith(b"x-forwarded-") or name in (b"forwarded", b"x-real-ip")


def _shown_below(scope: Scope, headers: Headers) -> None:
    """Tell where the studio is shown; a prefix that was left in the path is taken out of it."""
    prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
    host = headers.get("x-forwarded-host", headers.get("host", "")).split(",")[0].strip()
    if not _PREFIX.fullmatch(prefix) or not _HOST.fullmatch(host):
        return
    scope["root_path"] = prefix
    # Gradio makes some of its addresses of the root path and others of the forwarded host.
    others = [pair for pair in scope["headers"] if pair[0] != b"x-forwarded-host"]
    scope["headers"] = [*others, (b"x-forwarded-host", f"{host}{prefix}".encode())]
    if scope["path"].startswith(f"{prefix}/"):
        scope["path"] = scope["path"][len(prefix) :]
        scope["raw_path"] = scope.get("raw_path", b"")[len(prefix) :]
