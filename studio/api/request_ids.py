"""Every response carries an id, and no fault of ours escapes without one."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.api.errors import unexpected_error
from studio.logs import current_request

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


def request_id(request: Request) -> str:
    """The id of the request at hand."""
    return str(request.state.request_id)


class RequestIds:
    """ASGI middleware: the client's id if it is sane, else a new one.

    An exception that no handler knows becomes a 500 envelope; once the body has begun it goes on
    to the server, which cuts the connection, so that a broken body cannot pass for a whole one.
    """

    def __init__(self, app: ASGIApp, answered: Callable[[int], None] = lambda status: None) -> None:
        self._app = app
        self._answered = answered  # told the status of every answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        offered = Headers(scope=scope).get(HEADER, "")
        identity = offered if _SANE.fullmatch(offered) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = identity
        current_request.set(identity)
        has_started = False

        async def send_with_id(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                self._answered(message["status"])
                MutableHeaders(scope=message)[HEADER] = identity
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            if has_started:
                error.add_note(f"request {identity}")
                raise
            log.exception("request %s failed", identity)
            await unexpected_error(identity)(scope, receive, send_with_id)
