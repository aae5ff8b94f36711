"""Behind a proxy that serves the studio below a path, as ``X-Forwarded-Prefix`` says.

Gradio knows no such header: some of its addresses begin with ``X-Forwarded-Host``, others with the
root path of ASGI, so the path is told as both. Everything else on the page is relative. A visitor
who sends the header without a proxy changes nothing but the own page.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,100}){1,10}/?")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")


class BelowPath:
    """ASGI middleware: the path of the proxy joins the forwarded host."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            prefix = headers.get("x-forwarded-prefix", "")
            host = headers.get("x-forwarded-host", headers.get("host", "")).split(",")[0].strip()
            if _PREFIX.fullmatch(prefix) and _HOST.fullmatch(host):
                others = [item for item in scope["headers"] if item[0] != b"x-forwarded-host"]
                path = prefix.rstrip("/")
                told = (b"x-forwarded-host", f"{host}{path}".encode())
                scope = {**scope, "headers": [*others, told], "root_path": path}
        await self._app(scope, receive, send)
