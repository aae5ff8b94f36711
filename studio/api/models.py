"""The one open model, under every name that clients ask for."""

from __future__ import annotations

from typing import Any

from engine import Engine, NotFound

MODEL_ALIASES = ("zonos2", "Zyphra/ZONOS2", "Zyphra/zonos2", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
# Clients want a date and a list should not change from call to call: 1 January 2026.
CREATED_S = 1_767_225_600


def model_ids(engine: Engine) -> list[str]:
    """Every name that the open model answers to, its own first."""
    return list(dict.fromkeys((engine.name, *MODEL_ALIASES)))


def model_object(engine: Engine, name: str) -> dict[str, Any]:
    """The open model under one of its names, as OpenAI's clients read it; raises ``NotFound``."""
    if name not in model_ids(engine):
        raise unknown_model(engine, name)
    return {
        "id": name,
        "object": "model",
        "created": CREATED_S,
        "owned_by": "zyphra",
        "root": engine.name,
    }


def unknown_model(engine: Engine, name: str) -> NotFound:
    """The error for a name that the open model does not answer to."""
    return NotFound(
        f"model: there is no {name[:80]!r}; choose one of {', '.join(model_ids(engine))}.",
        field="model",
        code="model_not_found",
    )
