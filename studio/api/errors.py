"""Errors as HTTP: the only place that knows which error has which status.

The body is OpenAI's envelope with a string ``code``, and the sentence once more as ``detail``:

    {"error": {"message": …, "type": …, "param": …, "code": …}, "detail": …}
"""

from __future__ import annotations

import json
import logging
import math
import reprlib
from collections.abc import Mapping

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from engine import (
    Cancelled,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    OwnerShareUsed,
    QueueFull,
    StorageFailed,
    StudioError,
    TooLarge,
)

log = logging.getLogger(__name__)

CLIENT_LEFT = 499  # what nginx logs; nobody is there to read it

# Error class -> status and envelope type; the nearest ancestor counts.
_ANSWERS: Mapping[type[StudioError], tuple[int, str]] = {
    StudioError: (500, "server_error"),
    InvalidRequest: (400, "invalid_request_error"),
    TooLarge: (413, "request_too_large"),
    Forbidden: (403, "permission_error"),
    NotFound: (404, "not_found_error"),
    Conflict: (409, "conflict_error"),
    StorageFailed: (507, "server_error"),
    QueueFull: (503, "service_unavailable"),
    OwnerShareUsed: (429, "rate_limit_error"),
    Cancelled: (CLIENT_LEFT, "cancelled"),
}
# Status of a route that could not be entered -> envelope type and code.
_HTTP_CODES: Mapping[int, tuple[str, str]] = {
    404: ("not_found_error", "not_found"),
    405: ("invalid_request_error", "method_not_allowed"),
    408: ("invalid_request_error", "request_timeout"),
    413: ("request_too_large", "body_too_large"),
    415: ("invalid_request_error", "unsupported_media_type"),
}


def add_error_handlers(app: FastAPI) -> None:
    """Answer every known error of the routes of ``app`` with the envelope."""
    app.add_exception_handler(StudioError, _studio_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _wrong_parameter)


def error_object(error: StudioError) -> dict[str, str | None]:
    """The inner object of the envelope."""
    _, kind = _answer(error)
    return {"message": error.message, "type": kind, "param": error.field, "code": error.code}


def unexpected_error(request_id: str) -> Response:
    """The answer to a fault of our own; what happened stands in the log, under the request id."""
    return envelope(
        500,
        "server_error",
        f"request: something failed inside the studio; the log has more under {request_id}.",
        code="internal_error",
    )


def envelope(
    status: int,
    kind: str,
    message: str,
    *,
    code: str,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One error body. ASCII-only JSON: whatever a client sent can be quoted in it."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Response(
        json.dumps({"error": error, "detail": message}),
        status,
        headers=headers,
        media_type="application/json",
    )


def _answer(error: StudioError) -> tuple[int, str]:
    return next(_ANSWERS[cls] for cls in type(error).__mro__ if cls in _ANSWERS)


async def _studio_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StudioError)
    status, kind = _answer(error)
    request.app.state.speaking.metrics.refused(error)
    log.info("request %s: %d %s", request.state.request_id, status, error.code)
    headers = {}
    if isinstance(error, QueueFull):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    elif status == 409:  # which OpenAI's clients take for a passing one
        headers["X-Should-Retry"] = "false"
    return envelope(
        status, kind, error.message, code=error.code, param=error.field, headers=headers
    )


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind, code = _HTTP_CODES.get(error.status_code, ("invalid_request_error", "http_error"))
    message = error.detail
    if error.status_code == 404:
        message = f"path: there is nothing at {request.url.path[:80]!r}; /docs lists the routes."
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"method: {request.method} is not allowed here; use {allowed}."
    return envelope(error.status_code, kind, message, code=code, headers=error.headers)


async def _wrong_parameter(request: Request, error: Exception) -> Response:
    """A part of the address that FastAPI checks; bodies are read by the routes themselves."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    field = str(fault["loc"][-1])[:60]
    message = f"{field}: {reprlib.repr(fault.get('input'))} is not allowed; {fault['msg']}."
    return envelope(400, "invalid_request_error", message, code="invalid_value", param=field)
