"""A client that leaves takes its work with it, in every phase before the first byte."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from starlette.requests import Request
from starlette.responses import Response

from studio.api.errors import CLIENT_LEFT


async def unless_client_leaves(
    request: Request, answer: Callable[[], Awaitable[Response]]
) -> Response:
    """``await answer()``, cancelled as soon as the client disconnects.

    The request's body must have been read: from then on the server has only the end to tell.
    """
    outcome: Response | Exception = Response(status_code=CLIENT_LEFT)  # nobody will see it

    async def cancel_when_left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_left)
        try:
            outcome = await answer()
        except Exception as error:  # leaves the group as itself, not in an ExceptionGroup
            outcome = error
        group.cancel_scope.cancel()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
