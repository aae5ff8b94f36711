"""Who sits before the page: the visitor of the cookie, or of what the browser kept instead.

- Every request of a browser brings the cookie of ``studio/api/owners.py``. Where cookies are
  blocked (a frame of another site) each request would come from somebody new.
- There the page hands out the signed text itself: the script keeps it in the browser's storage, and
  in the page where that is blocked too; every handler is given it.
"""

from __future__ import annotations

import gradio as gr
from starlette.requests import Request

from studio.api.owners import COOKIE, owner_of
from studio.owner import Identity, Owner


def page_owner(identity: Identity, request: gr.Request, kept: str | None) -> Owner:
    """The visitor of the cookie, else of the ``kept`` text, else a new one for this request."""
    connection = _connection(request)
    for signed in (connection.cookies.get(COOKIE), kept):
        if signed and (visitor := identity.visitor(signed)) is not None:
            return visitor
    return owner_of(connection)


def text_to_keep(identity: Identity, request: gr.Request, kept: str | None) -> str:
    """What the browser should keep; empty where the cookie does."""
    if identity.visitor(_connection(request).cookies.get(COOKIE, "")) is not None:
        return ""
    return kept if kept and identity.visitor(kept) is not None else identity.new_visitor()


def _connection(request: gr.Request) -> Request:
    connection = request.request
    assert connection is not None
    return connection
