"""How the routes of takes show themselves in /openapi.json and /docs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from studio.api.docs import errors
from studio.media.encode import FORMATS


class TakeReply(BaseModel):
    """One kept result."""

    id: str = Field(description="take_ and 22 characters")
    object: str = Field(description="take")
    created: float = Field(description="Unix time, in seconds")
    title: str = Field(description="what its owner calls it; empty at first")
    text: str
    starred: bool = Field(description="starred takes never go by themselves")
    seed: int
    voice: str = Field(description="what the voice was called")
    model: str
    duration_s: float
    sample_rate_hz: int
    size_bytes: int = Field(description="of the FLAC file")
    settings: dict[str, Any] = Field(
        description="the request, without recordings; can be sent to /v1/audio/speech"
    )


class TakesReply(BaseModel):
    """A page of takes, the newest first."""

    object: str = Field(description="list")
    data: list[TakeReply]
    has_more: bool
    next: str | None = Field(description="the after of the next page")
    note: str | None = Field(None, description="why nothing is kept here, where that is so")


class DeletedTake(BaseModel):
    """What became of a take."""

    id: str
    object: str = Field(description="take.deleted")
    deleted: bool


class DeletedTakes(BaseModel):
    """What became of many."""

    object: str = Field(description="list.deleted")
    deleted: int = Field(description="how many takes")


class TakeChange(BaseModel):
    """What may be changed; what is absent stays."""

    starred: bool | None = None
    title: str | None = Field(None, description="one line of at most 200 characters; null: none")


def _ok(model: type[BaseModel], meaning: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "description": meaning}}


def _sound(meaning: str, *media_types: str) -> dict[int | str, dict[str, Any]]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"description": meaning, "content": dict.fromkeys(media_types, binary)}}


def _query(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


_STARRED = _query(
    "starred", "true: only those with a star; false: only those without", type="boolean"
)

LIST_DOCS: dict[str, Any] = {
    "responses": {**_ok(TakesReply, "a page of takes"), **errors(400, 507)},
    "openapi_extra": {
        "parameters": [
            _query("limit", "takes on a page", type="integer", minimum=1, maximum=100, default=20),
            _query("after", "what the page before said as next", type="string"),
            _query("q", "words in the title or text, in any case", type="string", maxLength=200),
            _STARRED,
        ]
    },
}
DELETE_ALL_DOCS: dict[str, Any] = {
    "responses": {**_ok(DeletedTakes, "they are gone"), **errors(400, 507)},
    "openapi_extra": {
        "parameters": [_query("starred", "true: those with a star too", type="boolean")]
    },
}
EXPORT_DOCS: dict[str, Any] = {
    "responses": {**_sound("the archive", "application/zip"), **errors(507)},
}
FIND_DOCS: dict[str, Any] = {"responses": {**_ok(TakeReply, "the take"), **errors(404, 507)}}
CHANGE_DOCS: dict[str, Any] = {
    "responses": {**_ok(TakeReply, "the take as it is now"), **errors(400, 404, 413, 415, 507)},
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": TakeChange.model_json_schema()}},
        }
    },
}
DELETE_DOCS: dict[str, Any] = {
    "responses": {**_ok(DeletedTake, "it is gone"), **errors(404, 507)},
}
AUDIO_DOCS: dict[str, Any] = {
    "responses": {
        **_sound("the sound", *dict.fromkeys(known.media_type for known in FORMATS.values())),
        206: {"description": "a part of the FLAC file, as Range asked for"},
        **errors(400, 404, 500, 507),
    },
    "openapi_extra": {
        "parameters": [
            _query("format", "flac is the file as it was kept", enum=list(FORMATS), default="flac")
        ]
    },
}
AGAIN_DOCS: dict[str, Any] = {
    "responses": {
        **_sound("the sound, sample for sample", "audio/wav"),
        **errors(400, 404, 409, 429, 500, 503, 507),
    },
}
