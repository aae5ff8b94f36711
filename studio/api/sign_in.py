"""POST /sign-in: a key for a cookie, so that a browser can show it with everything of the page.

The cookie opens the page and nothing else: routes take a key in a header only, so that no page of
another origin can use somebody's cookie on them.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from studio.api.body import read_form
from studio.api.owners import KEY_COOKIE, SIGN_IN, owner_cookie
from studio.api.sign_in_page import sign_in_page
from studio.owner import Identity

# A wrong key is answered so late: no reason for guessing, and no harm to who mistyped.
DELAY_S = 0.5


def sign_in_router(identity: Identity) -> APIRouter:
    """The way in and its form."""
    router = APIRouter()

    @router.get(SIGN_IN, include_in_schema=False)
    def show() -> Response:
        return sign_in_page()

    @router.post(SIGN_IN, include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        key = (await read_form(request)).get("key", "")
        owner = identity.key_holder(key.strip()) if isinstance(key, str) else None
        if owner is None:
            await asyncio.sleep(DELAY_S)
            return sign_in_page("No key of this studio is written like that.")
        answer = RedirectResponse("./", 303)
        cookie = owner_cookie(KEY_COOKIE, identity.signed_in(owner), request.url.scheme, None)
        answer.headers.append("Set-Cookie", cookie)
        return answer

    return router
