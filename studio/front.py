"""What answers from the first moment on: that the studio is opening, then the studio itself.

- The model loads in a thread of its own; meanwhile every answer is 503 with ``Retry-After``, a page
  that looks again by itself where a page was asked for, and ``loading`` at /ready.
- A studio that cannot be opened ends the server; its error is raised by whoever runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Callable

from fastapi import FastAPI
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Receive, Scope, Send

from engine import Engine
from studio.api.errors import envelope

RETRY_AFTER_S = 5
_HEADERS = {"Retry-After": str(RETRY_AFTER_S), "Cache-Control": "no-store"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *"
_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="{RETRY_AFTER_S}">
<title>ZONOS2 Studio is opening</title>
<style>:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }}
body {{ margin: 20vh auto 0; max-width: 24rem; padding: 0 1rem; }}</style>
</head>
<body>
<h1>ZONOS2 Studio</h1>
<p role="status">The model is being loaded. This page opens by itself.</p>
</body>
</html>
"""


class Front:
    """An ASGI application in front of another one that is still being made."""

    def __init__(
        self,
        open_studio: Callable[[], tuple[FastAPI, Engine]],
        opened: Callable[[Engine], None],
    ) -> None:
        self.engine: Engine | None = None
        self.error: BaseException | None = None
        self._open = open_studio
        self._opened = opened
        self.on_failure: Callable[[], None] = lambda: None
        self._app: FastAPI | None = None
        self._begun_s = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013, "reason": "it is opening"})
        else:
            await self._opening(scope)(scope, receive, send)

    def _opening(self, scope: Scope) -> Response:
        if scope["path"] in ("/health", "/healthz"):
            return JSONResponse({"status": "starting"}, 503, headers=_HEADERS)
        if scope["path"] == "/ready":
            waited_s = round(time.monotonic() - self._begun_s, 1)
            return JSONResponse({"status": "loading", "for_s": waited_s}, 503, headers=_HEADERS)
        if scope["path"] == "/":
            policy = {"Content-Security-Policy": _POLICY}
            return HTMLResponse(_PAGE, 503, headers=_HEADERS | policy)
        sentence = f"queue: the studio is loading its model; try again in {RETRY_AFTER_S} s."
        return envelope(503, "service_unavailable", sentence, code="unavailable", headers=_HEADERS)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Startup is over at once; the studio's own begins when there is one."""
        await receive()
        stop = asyncio.Event()
        life = asyncio.create_task(self._studio(stop))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        stop.set()
        if self._app is None:
            life.cancel()  # what is being loaded ends with the process
        with contextlib.suppress(asyncio.CancelledError):
            await life
        await send({"type": "lifespan.shutdown.complete"})

    async def _studio(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        made: asyncio.Future[tuple[FastAPI, Engine]] = loop.create_future()

        def settle(result: tuple[FastAPI, Engine] | None, error: BaseException | None) -> None:
            if made.done():
                return
            if result is None:
                made.set_exception(error or RuntimeError())
            else:
                made.set_result(result)

        def make() -> None:
            try:
                result, error = self._open(), None
                gc.freeze()  # what is there by now stays: no collection looks through it again
            except BaseException as caught:
                result, error = None, caught
            with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=make, name="opening", daemon=True).start()
        try:
            app, self.engine = await made
            async with app.router.lifespan_context(app):
                self._app = app
                self._opened(self.engine)
                await stop.wait()
        except Exception as error:
            self.error = error
            self.on_failure()
