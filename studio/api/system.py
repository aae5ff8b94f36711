"""Is it alive, is it ready, how is it doing, which models: the routes that queue no work."""

from __future__ import annotations

import ipaddress
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine import EngineStats, Forbidden
from studio.api.docs import METRICS_DOCS, MODEL_ERRORS
from studio.api.models import model_ids, model_object
from studio.api.owners import shown_key
from studio.api.proxies import is_forwarded
from studio.api.speaking import Speaking
from studio.owner import Identity

# The routes that stand alone, outside the folders of the API.
SYSTEM_PATHS = ("/v1", "/health", "/healthz", "/ready", "/metrics", "/docs", "/openapi.json")
# An engine thread that has work and shows no life for so long is stuck.
MAX_HEARTBEAT_AGE_S = 10.0


def is_healthy(stats: EngineStats) -> bool:
    """Whether the engine thread moves, or has nothing to do."""
    if stats.state == "broken":
        return False
    has_work = bool(stats.num_live or stats.num_waiting)
    return not has_work or stats.heartbeat_age_s <= MAX_HEARTBEAT_AGE_S


def system_router(speaking: Speaking, identity: Identity) -> APIRouter:
    """The routes that ask how the studio is."""
    router = APIRouter(tags=["system"])
    engine = speaking.engine

    @router.get("/health")
    @router.get("/healthz", include_in_schema=False)
    def health() -> JSONResponse:
        """Alive: the process answers and the engine thread moves; else 503."""
        stats = engine.stats
        healthy = is_healthy(stats)
        body = {
            "status": "healthy" if healthy else "unhealthy",
            "model": engine.name,
            "state": stats.state,
            "slots": stats.num_slots,
            "speaking": stats.num_live,
            "waiting": stats.num_waiting,
            "heartbeat_age_s": round(stats.heartbeat_age_s, 3),
        }
        return JSONResponse(body, 200 if healthy else 503)

    @router.get("/ready")
    def ready() -> JSONResponse:
        """Ready: a request that is sent now will be taken; else 503."""
        stats = engine.stats
        if stats.is_draining:
            return JSONResponse({"status": "draining"}, 503, headers={"Retry-After": "30"})
        if not is_healthy(stats):
            return JSONResponse({"status": "unhealthy"}, 503, headers={"Retry-After": "30"})
        return JSONResponse({"status": "ready", "state": stats.state})

    @router.get("/metrics", response_class=Response, **METRICS_DOCS)
    def metrics(request: Request) -> Response:
        """Numbers for Prometheus; from this machine, or with an API key."""
        if not _is_here(request) and identity.key_holder(shown_key(request.headers)) is None:
            raise Forbidden(
                "metrics: they are for this machine, or for the holder of an API key (--api-key);"
                " send 'Authorization: Bearer KEY'.",
                code="metrics_private",
            )
        return Response(speaking.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @router.get("/v1")
    def alive() -> dict[str, str]:
        """What Zyphra's clients ask to see that somebody is there."""
        return {"status": "ok"}

    @router.get("/v1/models")
    @router.get("/openai/v1/models")
    def models() -> dict[str, Any]:
        """The open model, under every name it answers to."""
        return {"object": "list", "data": [model_object(engine, m) for m in model_ids(engine)]}

    @router.get("/v1/models/{name:path}", responses=MODEL_ERRORS)
    @router.get("/openai/v1/models/{name:path}", responses=MODEL_ERRORS)
    def model(name: str) -> dict[str, Any]:
        """One name of the open model."""
        return model_object(engine, name)

    return router


def _is_here(request: Request) -> bool:
    """Whether a program of this machine asks for itself."""
    if is_forwarded(request):
        return False
    try:
        return ipaddress.ip_address(request.client.host if request.client else "").is_loopback
    except ValueError:  # a proxy's socket without addresses
        return False
