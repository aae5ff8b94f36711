"""The pronunciation dictionary of a caller: words that are said otherwise in every request.

    GET    /v1/audio/pronunciations        all that count for you
    POST   /v1/audio/pronunciations        one more, or how one is said from now on
    PUT    /v1/audio/pronunciations        these in the place of all of yours
    DELETE /v1/audio/pronunciations/{id}

Another owner's word does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from fastapi import APIRouter
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from engine import Pronunciation
from studio.api.body import read_object
from studio.api.docs import errors
from studio.api.languages import language_code
from studio.api.owners import owner_of
from studio.api.parse import first_fault
from studio.api.schemas import WordItem, WordsBody, word_fields, words_of
from studio.dictionary import Word, Words
from studio.owner import Owner

Body = TypeVar("Body", bound=BaseModel)
_PRIVATE = {"Cache-Control": "no-store"}
_WORD = {"$ref": "#/components/schemas/WordItem"}
_EXAMPLE = {"written": "SQL", "spoken": "sequel", "language": "en"}


def _takes(schema: Mapping[str, Any], example: object) -> dict[str, Any]:
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


_LIST = {"type": "array", "items": _WORD}
_PUT = _takes(
    {"type": "object", "required": ["pronunciations"], "properties": {"pronunciations": _LIST}},
    {"pronunciations": [_EXAMPLE]},
)
_CHANGING = errors(400, 413, 415, 507)


def pronunciations_router(words: Words) -> APIRouter:
    """The routes over ``words``."""
    router = APIRouter(tags=["pronunciations"])

    @router.get("/v1/audio/pronunciations")
    def list_words(request: Request) -> JSONResponse:
        """The words that count in your requests, yours first."""
        owner = owner_of(request)
        return _listed(words.list(owner), owner)

    @router.post(
        "/v1/audio/pronunciations", openapi_extra=_takes(_WORD, _EXAMPLE), responses=_CHANGING
    )
    async def add_word(request: Request) -> JSONResponse:
        """Add a word to your dictionary; one that is there is said like this from now on."""
        item = _checked(WordItem, await read_object(request))
        language = language_code(item.language)
        entry = Pronunciation(item.written, item.spoken, language, item.case_sensitive)
        owner = owner_of(request)
        stored = await run_sync(words.put, owner, entry)
        return JSONResponse(_shown(stored, owner), headers=_PRIVATE)

    @router.put("/v1/audio/pronunciations", openapi_extra=_PUT, responses=_CHANGING)
    async def replace_words(request: Request) -> JSONResponse:
        """Put these words in the place of all of yours; an empty list deletes them."""
        body = _checked(WordsBody, await read_object(request))
        entries = words_of(body.pronunciations, "pronunciations")
        owner = owner_of(request)
        return _listed(await run_sync(words.replace, owner, entries), owner)

    @router.delete("/v1/audio/pronunciations/{word_id}", responses=errors(404, 507))
    def delete_word(request: Request, word_id: str) -> JSONResponse:
        """Forget one of your words."""
        gone = words.delete(owner_of(request), word_id)
        return JSONResponse({"id": gone.id, "object": "pronunciation", "deleted": True})

    return router


def _checked(model: type[Body], payload: Mapping[str, object]) -> Body:
    given = {name: value for name, value in payload.items() if value is not None}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise first_fault(error, {}) from None


def _listed(found: Iterable[Word], owner: Owner) -> JSONResponse:
    data = [_shown(word, owner) for word in found]
    return JSONResponse({"object": "list", "data": data}, headers=_PRIVATE)


def _shown(word: Word, owner: Owner) -> dict[str, Any]:
    return {
        "id": word.id,
        "object": "pronunciation",
        **word_fields(word.entry),
        "created": int(word.created_s),
        "own": word.owner == owner.id,
    }
