"""Addresses that the page may put into a player or a link: one route, opened for one owner.

- An element of a page shows no key, and in a frame no cookie either; the ticket in the address says
  who asks. Who holds it may do this one thing until it expires or the studio stops.
- It is answered by the API's own route in this process, so a sound is the same by either way, and
  what was deleted is gone by both.
- Addresses are relative, so they hold behind a sub-path.
"""

from __future__ import annotations

import secrets
from urllib.parse import quote, unquote, urlsplit

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from studio.owner import Owner

PREFIX = "page/open/"
LIFE_S = 24 * 3600


class Tickets:
    """Tickets of one process, and the route that takes them."""

    def __init__(self) -> None:
        self._signer = URLSafeTimedSerializer(secrets.token_bytes(32), "ticket")

    def address(self, owner: Owner, path: str) -> str:
        """Where ``owner`` finds what GET ``path`` (a path of the API, as it is written) answers."""
        return PREFIX + self._signer.dumps([owner.id, owner.reads, path])

    def route(self) -> BaseRoute:
        """The route of all tickets."""
        return Route(f"/{PREFIX}{{ticket}}", _Door(self._signer), include_in_schema=False)


class _Door:
    """Answers with the API's route, as if the owner in the ticket had called it."""

    def __init__(self, signer: URLSafeTimedSerializer) -> None:
        self._signer = signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405)
        try:
            ticket = request.path_params["ticket"]
            owner_id, reads, address = self._signer.loads(ticket, max_age=LIFE_S)
        except BadData:
            raise HTTPException(404) from None
        parts = urlsplit(address)
        root = scope.get("root_path", "")
        called = {
            **{name: value for name, value in scope.items() if name not in ("router", "endpoint")},
            "path": root + unquote(parts.path),
            "raw_path": (quote(root) + parts.path).encode(),
            "query_string": parts.query.encode(),
            "path_params": {},
            "state": {**scope.get("state", {}), "owner": Owner(owner_id, tuple(reads))},
        }
        await scope["app"].router(called, receive, send)
