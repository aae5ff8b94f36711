"""What every answer forbids a browser, and whom a personal studio does not answer.

- The page may run what it came with (Gradio puts scripts and styles into it, and evaluates the
  former) and talk to this studio; nothing else. Answers of the routes may do nothing at all.
- A page may show the studio in a frame only from an origin that was named.
- On a personal studio whoever can ask is its user. So a name that merely resolves to this machine,
  and what a page of another machine sends, are refused.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.api.errors import envelope
from studio.api.proxies import is_forwarded
from studio.settings import Settings, is_loopback

_PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:;"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:;"
    " font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:;"
    " object-src 'none'; base-uri 'self'; form-action 'self'"
)
_ROUTE_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'"
SPACES = ("https://huggingface.co", "https://*.huggingface.co")
_READING = ("GET", "HEAD", "OPTIONS")


class Security:
    """ASGI middleware: headers on every answer, and the door of a personal studio."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._is_personal = settings.is_personal
        self._origins = settings.cors_origin
        frames = (*settings.frame_origin, *(SPACES if settings.public else ()))
        self._frames = f"; frame-ancestors 'self' {' '.join(frames)}".rstrip()
        self._is_framed = bool(frames)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add(MutableHeaders(scope=message))
            await send(message)

        if self._is_personal and (reason := self._refusal(scope)):
            await _refuse(reason, scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _add(self, headers: MutableHeaders) -> None:
        headers.setdefault("X-Content-Type-Options", "nosniff")
        headers.setdefault("Referrer-Policy", "same-origin")
        headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(self)")
        is_page = headers.get("content-type", "").startswith("text/html")
        policy = (_PAGE_POLICY if is_page else _ROUTE_POLICY) + self._frames
        headers.setdefault("Content-Security-Policy", policy)
        if not self._is_framed:
            headers.setdefault("X-Frame-Options", "SAMEORIGIN")

    def _refusal(self, scope: Scope) -> str:
        """Why a personal studio does not answer, or ""."""
        client = scope.get("client")
        if client is None or not is_loopback(client[0]) or is_forwarded(HTTPConnection(scope)):
            return ""  # whom a proxy sends is a stranger, and has nothing of the user
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host and not _is_this_machine(host):
            return (
                f"Host: {host[:80]!r} is no name of a personal studio; use 127.0.0.1, or start it"
                " with --api-key, --public or --trusted-proxy."
            )
        origin = headers.get("origin", "").lower()
        is_known = not origin or "*" in self._origins or origin in self._origins
        if is_known or scope.get("method", "GET") in _READING or _is_of_this_machine(origin):
            return ""
        return (
            f"Origin: {origin[:80]!r} may not use this studio; start it with --cors-origin ORIGIN"
            " to let its pages in."
        )


def _is_of_this_machine(origin: str) -> bool:
    """Whether a server of this machine sent the page, on whatever port."""
    scheme, _, host = origin.partition("://")
    return scheme in ("http", "https") and _is_this_machine(host)


def _is_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name.rstrip(".").endswith(".localhost")


async def _refuse(reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "it is not answered"})
        return
    response = envelope(403, "permission_error", reason, code="foreign_page")
    await response(scope, receive, send)
