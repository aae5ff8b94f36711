"""How owners show themselves in HTTP, and the door that asks for a key.

- A key comes as ``Authorization: Bearer``, ``X-API-Key`` or ``xi-api-key``; never in an address.
- A visitor comes in a cookie, or in the header ``X-Studio-Owner`` where cookies are blocked. A new
  one is given both with the page and with every answer of a route.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.api.errors import envelope
from studio.owner import LOCAL, Identity, Owner

COOKIE = "zonos2_owner"
HEADER = "X-Studio-Owner"
# The longest that browsers keep a cookie.
COOKIE_LIFE_S = 400 * 24 * 3600
# Everything below these is a route for programs; /v1 alone only says that the server is there.
API_PREFIXES = ("/v1/", "/openai/", "/tts/")


def owner_of(connection: HTTPConnection) -> Owner:
    """The owner of the request or web socket at hand."""
    owner: Owner = connection.state.owner
    return owner


class Owners:
    """ASGI middleware: every request has an owner, or is refused for want of a key."""

    def __init__(self, app: ASGIApp, identity: Identity) -> None:
        self._app = app
        self._identity = identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_api = scope["path"].startswith(API_PREFIXES)
        fresh = None
        if is_api and self._identity.has_keys:
            owner = self._identity.key_holder(shown_key(headers))
            if owner is None:
                await _refuse(scope, receive, send)
                return
        else:
            owner = self._visitor(headers)
        if owner is None and is_api and self._identity.is_personal:
            owner = LOCAL
        if owner is None:
            fresh = self._identity.new_visitor()
            owner = self._identity.visitor(fresh)
        scope.setdefault("state", {})["owner"] = owner
        # The page's own files are asked for side by side: each would bring a visitor of its own.
        is_told = fresh is not None and (is_api or scope["path"] == "/")

        async def send_with_visitor(message: Message) -> None:
            if is_told and message["type"] == "http.response.start":
                response = MutableHeaders(scope=message)
                response.append("Set-Cookie", _cookie(str(fresh), scope["scheme"] == "https"))
                response[HEADER] = str(fresh)
            await send(message)

        await self._app(scope, receive, send_with_visitor)

    def _visitor(self, headers: Headers) -> Owner | None:
        shown = (headers.get(HEADER), cookie_parser(headers.get("cookie", "")).get(COOKIE))
        return next(filter(None, map(self._identity.visitor, filter(None, shown))), None)


def shown_key(headers: Headers) -> str:
    """The API key that a request shows, "" without one."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key") or headers.get("xi-api-key") or ""


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "an API key is needed"})
        return
    response = envelope(
        401,
        "authentication_error",
        "Authorization: an API key is needed and none that is known was sent; send"
        " 'Authorization: Bearer KEY'.",
        code="invalid_api_key",
        param="Authorization",
        headers={"WWW-Authenticate": "Bearer"},
    )
    await response(scope, receive, send)


def _cookie(signed: str, is_secure: bool) -> str:
    # A Space shows the studio in a frame of another site: only this form of cookie survives there,
    # and only over https.
    how = "Secure; SameSite=None; Partitioned" if is_secure else "SameSite=Lax"
    return f"{COOKIE}={signed}; Path=/; Max-Age={COOKIE_LIFE_S}; HttpOnly; {how}"
