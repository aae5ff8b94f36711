"""The web application over one engine: routes first, the page last, and a stop that drains."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import uvicorn
from anyio.to_thread import run_sync
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from engine import BUFFER_S, Engine, InvalidRequest, Normaliser
from studio.api.batch import batch_router
from studio.api.dialogue import dialogue_router
from studio.api.docs import completed
from studio.api.docs_page import docs_router
from studio.api.errors import add_error_handlers
from studio.api.headers import EXPOSED_HEADERS
from studio.api.normalize import normalize_router, tts_normalize_router
from studio.api.owners import API_PREFIXES, Owners
from studio.api.pronunciations import pronunciations_router
from studio.api.proxies import Proxies
from studio.api.request_ids import RequestIds
from studio.api.security import Security
from studio.api.sign_in import sign_in_router
from studio.api.speakers import Speakers
from studio.api.speaking import Speaking
from studio.api.speech import speech_router
from studio.api.speech_socket import speech_socket_router
from studio.api.system import SYSTEM_PATHS, system_router
from studio.api.takes import takes_router
from studio.api.texts import Texts
from studio.api.timestamps import timestamps_router
from studio.api.tracking import tracking_router
from studio.api.tts import tts_router
from studio.api.tts_speakers import tts_speakers_router
from studio.api.verify import verify_router
from studio.api.voice_maker import VoiceMaker
from studio.api.voices import voices_router
from studio.front import Front
from studio.media.uploads import UnfinishedUploads
from studio.provenance import Marker
from studio.settings import Settings
from studio.stores import open_stores

log = logging.getLogger(__name__)

# After the engine has ended its requests, the last bytes get so long to leave: who plays the sound
# as it comes is so far behind.
FLUSH_S = round(BUFFER_S)
# Heaps of the C library for all threads together; the parameter's number is glibc's.
NUM_HEAPS, _M_ARENA_MAX = 2, -8


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The whole studio: the routes and, at "/", the page. Closes ``engine`` at the end."""
    from studio.ui.page import mount_page  # gradio takes seconds to import

    app = create_api(engine, settings)
    app.add_middleware(UnfinishedUploads)
    mount_page(app, engine, settings)  # last: it answers every path that is left
    return app


def create_api(engine: Engine, settings: Settings) -> FastAPI:
    """The routes alone."""

    stores = open_stores(settings)
    speakers = Speakers(engine, settings, stores.voices, stores.sessions)
    normaliser = Normaliser(settings.grammar_folder)
    texts = Texts(normaliser, stores.words)
    speaking = Speaking(engine, settings, speakers, stores.history, Marker(settings), texts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        normaliser.warm(["en_us"])
        watching = asyncio.create_task(speaking.metrics.watch_loop())
        yield
        watching.cancel()
        await run_sync(engine.close)
        await run_sync(normaliser.close)
        await run_sync(stores.close)

    app = _DocumentedApi(
        title="ZONOS2 Studio",
        summary="Speech from text and a voice.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page fetches its script from elsewhere; see docs_page.py
        redoc_url=None,
    )
    app.add_middleware(Owners, identity=stores.identity)
    app.add_middleware(Security, settings=settings)
    app.add_middleware(RequestIds, answered=speaking.metrics.answered)
    if settings.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(Proxies, trusted=settings.trusted_proxy)  # the outermost
    add_error_handlers(app)
    app.state.stores = stores
    app.state.speaking = speaking
    app.state.normaliser = normaliser
    app.include_router(speech_router(speaking))
    app.include_router(batch_router(speaking))
    app.include_router(timestamps_router(speaking))
    app.include_router(dialogue_router(speaking))
    app.include_router(normalize_router(speaking))
    app.include_router(tts_normalize_router(speaking))
    app.include_router(pronunciations_router(stores.words))
    app.include_router(speech_socket_router(speaking))
    app.include_router(tts_router(speaking))
    app.include_router(tts_speakers_router(speaking, stores.voices, stores.sessions))
    maker = VoiceMaker(engine, speakers, stores.voices)
    app.include_router(voices_router(speaking, maker, stores.voices))
    app.include_router(takes_router(speaking, stores.history))
    app.include_router(verify_router())
    app.include_router(tracking_router(speaking))
    app.include_router(system_router(speaking, stores.identity))
    app.include_router(docs_router())
    if stores.identity.has_keys:
        app.include_router(sign_in_router(stores.identity))
    # The page would answer what is left below them with a page.
    app.router.routes.extend(
        Route(path, _EndOfApi(), include_in_schema=False)
        for path in (*(f"{prefix}{{rest:path}}" for prefix in API_PREFIXES), *SYSTEM_PATHS)
    )
    return app


class _DocumentedApi(FastAPI):
    """FastAPI, with the schemas of bodies that the routes read themselves."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            completed(super().openapi())
        assert self.openapi_schema is not None
        return self.openapi_schema


class _EndOfApi:
    """Answers what no route took, as Starlette would if no page followed: 405 or 404."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for route in scope["app"].routes:
            match, found = route.matches(scope)
            if match is Match.PARTIAL:  # the path is known, the method is not
                scope.update(found)
                await route.handle(scope, receive, send)
                return
        raise HTTPException(404)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises ``InvalidRequest`` when there is none to be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            field, remedy = "port", "a program uses it already; stop it or choose another port"
        elif error.errno == errno.EACCES:
            field, remedy = "port", "it needs an administrator; choose one above 1023"
        else:
            field, remedy = "host", "it is no address of this machine; 127.0.0.1 always is"
        raise InvalidRequest(
            f"--{field}: cannot listen on {host} port {port}; {remedy}.", field=field
        ) from None


def serve(
    open_studio: Callable[[], tuple[FastAPI, Engine]],
    settings: Settings,
    listener: socket.socket,
    opened: Callable[[Engine], None] = lambda engine: None,
) -> bool:
    """Serve until SIGTERM or Ctrl-C; then refuse, finish what runs -> whether it ever was open.

    ``open_studio`` runs in a thread while the server says that it is opening; ``opened`` is called
    when it does. Raises what ``open_studio`` raises.
    """
    _share_heaps()
    front = Front(open_studio, opened)
    config = uvicorn.Config(
        front,
        log_config=None,
        access_log=False,  # paths and addresses of people; the routes log what is worth it
        server_header=False,
        proxy_headers=False,  # uvicorn would believe whoever calls from this machine
        timeout_graceful_shutdown=FLUSH_S,
    )
    server = _DrainingServer(config, front, settings.drain_s)
    front.on_failure = server.end
    server.run(sockets=[listener])
    if front.error is not None:
        raise front.error
    return front.engine is not None


def _share_heaps() -> None:
    """Let threads share heaps: glibc gives each its own, and what is freed there stays resident."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, NUM_HEAPS)


class _DrainingServer(uvicorn.Server):
    """Keeps answering while the engine drains: new requests hear 503, running ones end."""

    def __init__(self, config: uvicorn.Config, front: Front, drain_s: float) -> None:
        super().__init__(config)
        self._front = front
        self._drain_s = drain_s
        self._is_stopping = False

    def end(self) -> None:
        """Stop serving, without a drain."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._is_stopping:  # asked twice: at once
            self.should_exit = self.force_exit = True
            return
        self._is_stopping = True
        # A signal handler must not wait for the engine's lock: its own thread may hold it.
        threading.Thread(target=self._drain, name="drain", daemon=True).start()

    def _drain(self) -> None:
        engine = self._front.engine
        if engine is None:  # nothing runs yet
            self.should_exit = True
            return
        log.info("stopping: running requests have %d s to end", self._drain_s)
        is_done = engine.drain(self._drain_s)
        self.should_exit = True
        if not is_done:
            log.warning("stopping: some requests have to be cut")
            engine.close()  # they would be spoken on while their sound still leaves
