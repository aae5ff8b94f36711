"""GET /docs: the routes with examples to send, from this process alone.

The page fetches nothing from elsewhere, and its policy forbids it to: it runs the one script that
it came with, told by its hash, and talks to this studio only.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import HTMLResponse

_PAGE = Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
_SCRIPT = _PAGE.partition("<script>")[2].partition("</script>")[0]
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'sha256-{_HASH}'; style-src 'unsafe-inline';"
        " connect-src 'self'; media-src blob:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
}


def docs_router() -> APIRouter:
    """The page about the routes."""
    router = APIRouter()

    @router.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE, headers=_HEADERS)

    return router
