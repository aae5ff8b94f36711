"""Is it alive, is it ready, which models: GET /health, /ready, /v1, /v1/models."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from engine import Engine, EngineStats, NotFound

# An engine thread that has work and shows no life for so long is stuck.
MAX_HEARTBEAT_AGE_S = 10.0
# Names that clients ask for; whatever is open answers to them.
MODEL_ALIASES = ("zonos2", "Zyphra/ZONOS2", "Zyphra/zonos2", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
# Clients want a date and a list should not change from call to call: 1 January 2026.
CREATED_S = 1_767_225_600


def model_ids(engine: Engine) -> list[str]:
    """Every name that the open model answers to, its own first."""
    return list(dict.fromkeys((engine.name, *MODEL_ALIASES)))


def is_healthy(stats: EngineStats) -> bool:
    """Whether the engine thread moves, or has nothing to do."""
    has_work = bool(stats.num_live or stats.num_waiting)
    return not has_work or stats.heartbeat_age_s <= MAX_HEARTBEAT_AGE_S


def system_router(engine: Engine) -> APIRouter:
    """The routes that ask how the studio is. None of them queues work."""
    router = APIRouter(tags=["system"])

    @router.get("/health")
    def health() -> JSONResponse:
        """Alive: the process answers and the engine thread moves; else 503."""
        stats = engine.stats
        healthy = is_healthy(stats)
        body = {
            "status": "healthy" if healthy else "unhealthy",
            "model": engine.name,
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
        return JSONResponse({"status": "ready"})

    @router.get("/v1")
    def alive() -> dict[str, str]:
        """What Zyphra's clients ask to see that somebody is there."""
        return {"status": "ok"}

    @router.get("/v1/models")
    def models() -> dict[str, Any]:
        """The open model, under every name it answers to."""
        return {"object": "list", "data": [_model(engine, name) for name in model_ids(engine)]}

    @router.get("/v1/models/{name:path}")
    def model(name: str) -> dict[str, Any]:
        """One name of the open model."""
        if name not in model_ids(engine):
            raise NotFound(
                f"model: there is no {name[:80]!r}; choose one of {', '.join(model_ids(engine))}.",
                field="model",
                code="model_not_found",
            )
        return _model(engine, name)

    return router


def _model(engine: Engine, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": CREATED_S,
        "owned_by": "zyphra",
        "root": engine.name,
    }
