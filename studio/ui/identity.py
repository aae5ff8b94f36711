"""Who sits before the page: the visitor of the cookie, or of what the browser kept instead.

- Every request of a browser brings the cookie of ``studio/api/owners.py``. Where cookies are
  blocked (a frame of another site) each request would come from somebody new.
- There the page hands out the signed text itself: the script keeps it in the browser's storage, and
  in the page where that is blocked too; every handler is given it.
- Who signed in with a key is its holder and nobody else.
"""

from __future__ import annotations

import gradio as gr
from starlette.requests import Request

from studio.api.owners import COOKIE, owner_of
from studio.api.proxies import is_forwarded
from studio.owner import Identity, Owner


def page_owner(identity: Identity, request: gr.Request, kept: str | None) -> Owner:
    """The visitor of the cookie, else of the ``kept`` text, else a new one for this request."""
    connection = connection_of(request)
    if (owner := _key_holder(connection)) is not None:
        return owner
    for signed in (connection.cookies.get(COOKIE), kept):
        if signed and (visitor := identity.visitor(signed)) is not None:
            return Owner(visitor.id) if is_forwarded(connection) else visitor
    return owner_of(connection)


def text_to_keep(identity: Identity, request: gr.Request, kept: str | None) -> str:
    """What the browser should keep; empty where the cookie does."""
    connection = connection_of(request)
    if _key_holder(connection) is not None:
        return ""
    if identity.visitor(connection.cookies.get(COOKIE, "")) is not None:
        return ""
    return kept if kept and identity.visitor(kept) is not None else identity.new_visitor()


def _key_holder(connection: Request) -> Owner | None:
    owner = owner_of(connection)
    return owner if owner is not None and owner.holds_key else None


def connection_of(request: gr.Request) -> Request:
    """The HTTP request behind an event of the page."""
    connection = request.request
    assert connection is not None
    return connection
