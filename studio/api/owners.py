"""How owners show themselves in HTTP, and the door that asks for a key.

- A key comes as ``Authorization: Bearer``, ``X-API-Key`` or ``xi-api-key``; never in an address.
- Where keys are asked for, everything else is closed, too, but for ``OPEN_PATHS``: the page is for
  who has signed in (``sign_in.py``). A route takes no cookie for a key.
- A visitor comes in a cookie, or in the header ``X-Studio-Owner`` where cookies are blocked. A new
  one is given both with the page and with every answer of a route.
"""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.api.errors import envelope
from studio.api.proxies import is_forwarded
from studio.api.sign_in_page import sign_in_page
from studio.owner import LOCAL, Identity, Owner

COOKIE = "zonos2_owner"
HEADER = "X-Studio-Owner"
# The longest that browsers keep a cookie.
COOKIE_LIFE_S = 400 * 24 * 3600
# Everything below these is a route for programs; /v1 alone only says that the server is there.
API_PREFIXES = ("/v1/", "/openai/", "/tts/")
# Whoever signed in with a key has this one; it ends with the browser.
KEY_COOKIE = "zonos2_key"
SIGN_IN = "/sign-in"
# Open where keys are asked for: what an orchestrator asks, what explains the routes, and the way
# in. /metrics has a policy of its own.
OPEN_PATHS = frozenset(
    {"/health", "/healthz", "/ready", "/v1", "/docs", "/openapi.json", "/metrics", SIGN_IN}
)
# An address below it holds a ticket that says for whom it opens (studio/ui/tickets.py).
TICKETS = "/page/open/"


def owner_of(connection: HTTPConnection) -> Owner:
    """The owner of the request or web socket at hand."""
    owner: Owner = connection.state.owner
    return owner


def share_of(connection: HTTPConnection, owner: Owner) -> str:
    """Whose share of the queue a request uses up: a key's, else that of the address.

    A visitor can make itself anew at will; an address cannot.
    """
    if owner.holds_key:
        return owner.id
    return share_of_address(connection.client.host) if connection.client else "local"


def share_of_address(host: str) -> str:
    """The address that counts: of IPv6 the network, as one household has all of its addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


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
        path = scope["path"]
        is_api = path.startswith(API_PREFIXES)
        fresh = None
        owner = None
        is_open = path in OPEN_PATHS or path.startswith(TICKETS)
        if self._identity.has_keys and not is_open:
            owner = (
                self._identity.key_holder(shown_key(headers)) if is_api else self._guest(headers)
            )
            if owner is None:
                refuse = _refuse if is_api or scope["type"] == "websocket" else ask_to_sign_in
                await refuse(scope, receive, send)
                return
        owner = owner or self._visitor(headers)
        is_home = self._identity.is_personal and not is_forwarded(HTTPConnection(scope))
        if owner is None and is_api and is_home:
            owner = LOCAL
        if owner is not None and is_forwarded(HTTPConnection(scope)):
            owner = Owner(owner.id)
        if owner is None:
            fresh = self._identity.new_visitor()
            owner = self._identity.visitor(fresh)
            if owner is not None and is_forwarded(HTTPConnection(scope)):
                owner = Owner(owner.id)
        scope.setdefault("state", {})["owner"] = owner
        # The page's own files are asked for side by side: each would bring a visitor of its own.
        is_told = fresh is not None and (is_api or scope["path"] == "/")

        async def send_with_visitor(message: Message) -> None:
            if is_told and message["type"] == "http.response.start":
                response = MutableHeaders(scope=message)
                cookie = owner_cookie(COOKIE, str(fresh), scope["scheme"], COOKIE_LIFE_S)
                response.append("Set-Cookie", cookie)
                response[HEADER] = str(fresh)
            await send(message)

        await self._app(scope, receive, send_with_visitor)

    def _guest(self, headers: Headers) -> Owner | None:
        """Who signed in, or shows a key to the page as a program would."""
        signed = cookie_parser(headers.get("cookie", "")).get(KEY_COOKIE, "")
        identity = self._identity
        return identity.who_signed_in(signed) or identity.key_holder(shown_key(headers))

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


async def ask_to_sign_in(scope: Scope, receive: Receive, send: Send) -> None:
    """Whoever opens the page is shown the way in; what the page fetches is just refused."""
    if scope["method"] == "GET" and scope["path"] == "/":
        await sign_in_page()(scope, receive, send)
    else:
        await _refuse(scope, receive, send)


def owner_cookie(name: str, signed: str, scheme: str, life_s: int | None) -> str:
    """The header of a cookie that holds ``signed``; ``life_s`` None: until the browser ends."""
    # A Space shows the studio in a frame of another site: only this form of cookie survives there,
    # and only over https.
    how = "Secure; SameSite=None; Partitioned" if scheme == "https" else "SameSite=Lax"
    life = "" if life_s is None else f" Max-Age={life_s};"
    return f"{name}={signed}; Path=/;{life} HttpOnly; {how}"
