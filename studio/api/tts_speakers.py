"""The voices of Zyphra's page: GET and POST /tts/speakers, and what can be done with one of them.

- One list: the voices of the model, those of the library, then those of the session, newest first.
  All of their ids work at every door.
- A session is named by ``X-TTS-Session-ID`` and belongs to the owner that made it. Its voices live
  in memory for a day; saving one moves it into the library.
- Source: spec/api.md A1, F15.
"""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

import soxr
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from engine import InvalidRequest, NotFound
from studio import consent
from studio.api.asks import Embedding, Sound
from studio.api.body import read_object
from studio.api.docs import errors
from studio.api.embeddings import read_embedding
from studio.api.headers import notes
from studio.api.languages import language_code
from studio.api.models import CREATED_S
from studio.api.owners import owner_of
from studio.api.speakers import default_id
from studio.api.speaking import Speaking
from studio.api.spellings import conflict
from studio.api.tts import ZyphraRoute
from studio.api.tts_schemas import SaveBody, SpeakerBody, checked_types, takes
from studio.api.voices import PRIVATE
from studio.media.intake import Reference
from studio.media.pcm import to_int16, wav_header
from studio.owner import Owner
from studio.session_voices import SessionVoice, SessionVoices
from studio.voice_card import Card
from studio.voices import Draft, Source, Voice, VoiceEmbedding, VoiceLibrary, not_found

HEADER = "X-TTS-Session-ID"
MAX_SESSION_CHARS = 128
MAX_LABEL_CHARS = 64
PREVIEW_RATE_HZ = 24_000
_AUDIO = ("speaker_audio_base64", "speaker_wav_base64")
_WAYS = (*_AUDIO, "speaker_embedding_base64")
_WRONG_TYPE: dict[int | str, dict[str, Any]] = {422: {"description": "a field has the wrong type"}}


def _header(is_required: bool) -> dict[str, Any]:
    about = {"name": HEADER, "in": "header", "required": is_required}
    return {"parameters": [about | {"schema": {"type": "string"}}]}


_LIST_DOCS: dict[str, Any] = {"openapi_extra": _header(False)}
_ADD_DOCS: dict[str, Any] = {
    "openapi_extra": _header(True)
    | takes(SpeakerBody, {"label": "Ann", "speaker_audio_base64": "UklGRi..."}),
    "responses": {**_WRONG_TYPE, **errors(400, 403, 404, 413, 415)},
}
_PREVIEW_DOCS: dict[str, Any] = {
    "responses": {
        200: {
            "description": "a recording",
            "content": {"audio/wav": {"schema": {"type": "string", "format": "binary"}}},
        },
        307: {"description": "there it is spoken"},
        **errors(404),
    }
}
_SAVE_DOCS: dict[str, Any] = {
    "openapi_extra": takes(SaveBody, {"name": "Ann", "consent": True}),
    "responses": {**_WRONG_TYPE, **errors(400, 403, 404, 409, 415, 507)},
}
_DELETE_DOCS: dict[str, Any] = {"responses": errors(404)}


def tts_speakers_router(
    speaking: Speaking, library: VoiceLibrary, sessions: SessionVoices
) -> APIRouter:
    """The routes of the voices that Zyphra's page works with."""
    router = APIRouter(tags=["zyphra"], route_class=ZyphraRoute)
    engine, speakers = speaking.engine, speaking.speakers
    encoder = None if engine.encoder is None else engine.encoder.identity
    dim = engine.family.speaker_dim

    def entry(voice: SessionVoice | Voice | str) -> dict[str, Any]:
        if isinstance(voice, SessionVoice):
            return _session_entry(voice)
        if isinstance(voice, Voice):
            return _library_entry(voice, dim)
        return _default_entry(voice, dim, is_usual=voice == engine.default_voice)

    def session_voice(owner: Owner, which: str) -> SessionVoice:
        found = sessions.find(owner.id, which)
        if found is None:
            raise not_found(which, field="id")
        return found

    @router.get("/tts/speakers", **_LIST_DOCS)
    def list_speakers(request: Request) -> dict[str, Any]:
        """The voices of the model, your library, and those of the session named in the header."""
        owner = owner_of(request)
        stored = [voice for voice in library.list(owner) if voice.fits(encoder)]
        session = request.headers.get(HEADER, "")
        in_session = sessions.of(owner.id, session) if session else []
        found: list[SessionVoice | Voice | str] = [*engine.voices, *stored, *in_session]
        return {"speakers": [entry(voice) for voice in found]}

    @router.post("/tts/speakers", **_ADD_DOCS)
    async def add_speaker(request: Request) -> Response:
        """Keep the voice of a recording, or an embedding, for the session named in the header."""
        session = _session_of(request)
        owner = owner_of(request)
        fields = checked_types(SpeakerBody, await read_object(request))
        given = [name for name in _WAYS if name in fields]
        if len(given) > 1:
            raise conflict(given[0], given[1])
        if not given:
            raise InvalidRequest(
                f"{_AUDIO[0]}: it is missing; send a recording, or an embedding as {_WAYS[2]}.",
                field=_AUDIO[0],
                code="missing_required_parameter",
            )
        (way,) = given
        if speaking.settings.require_consent:
            consent.require(fields.get("consent"))
        is_audio = way in _AUDIO
        file = fields.get("speaker_audio_name" if is_audio else "speaker_embedding_name") or ""
        label = fields.get("label") or file.rpartition(".")[0] or file
        make = of_recording if is_audio else of_embedding
        about, warnings = await run_sync(make, way, fields[way], limiter=speakers.limiter)
        voice = sessions.add(
            owner.id,
            session,
            label=_line(label) or "voice",
            original_name=_line(file),
            **about,
        )
        told = entry(voice) | {"warnings": warnings}
        return JSONResponse(told, headers=PRIVATE | notes("", (), warnings))

    def of_recording(way: str, text: str) -> tuple[dict[str, Any], str]:
        heard = speakers.hear(Sound(way, text))
        about = {
            "embedding": heard.embedding.cpu().numpy(),
            "preview": _preview(heard.reference),
            "content_hash": heard.reference.content_hash,
        }
        return about, heard.reference.report.warnings()

    def of_embedding(way: str, text: str) -> tuple[dict[str, Any], str]:
        vector = speakers.given(Embedding(way, read_embedding(text, way))).numpy()
        sign = hashlib.sha256(vector.tobytes()).hexdigest()
        return {"embedding": vector, "preview": None, "content_hash": sign}, ""

    @router.get("/tts/speakers/{speaker_id}/preview", response_class=Response, **_PREVIEW_DOCS)
    def preview(request: Request, speaker_id: str) -> Response:
        """How a voice sounds: the recording that it came in, or else a sentence that it speaks."""
        found = speakers.find(speaker_id, owner_of(request), "id")
        if not isinstance(found, SessionVoice):
            which = default_id(found) if isinstance(found, str) else found and found.id
            return RedirectResponse(
                f"../../../v1/audio/voices/{quote(which or '', safe='')}/preview"
            )
        if found.preview is None:
            raise NotFound(
                "id: this voice came as an embedding, so there is no recording of it to hear.",
                field="id",
                code="preview_not_found",
            )
        return Response(found.preview, headers=PRIVATE, media_type="audio/wav")

    @router.post("/tts/speakers/{speaker_id}/save", **_SAVE_DOCS)
    async def save(request: Request, speaker_id: str) -> Response:
        """Move a voice of a session into the library, where it stays; it gets another id."""
        owner = owner_of(request)
        fields = checked_types(SaveBody, await read_object(request))
        voice = session_voice(owner, speaker_id)
        consent.require(fields.get("consent"))
        card = Card(
            fields.get("name") or voice.label,
            language_code(fields.get("language")),
            tuple(fields.get("tags", ())),
            fields.get("notes", ""),
        )
        stored = await run_sync(library.add, owner, draft(voice, card))
        forget(owner, speaker_id)
        return JSONResponse(entry(stored), headers=PRIVATE)

    @router.delete("/tts/speakers/{speaker_id}", **_DELETE_DOCS)
    def delete(request: Request, speaker_id: str) -> dict[str, Any]:
        """Forget a voice of a session. One of the library is deleted at /v1/audio/voices."""
        owner = owner_of(request)
        session_voice(owner, speaker_id)
        forget(owner, speaker_id)
        return {"id": speaker_id, "deleted": True}

    def draft(voice: SessionVoice, card: Card) -> Draft:
        if encoder is None:  # nothing would tell which models the voice fits
            raise NotFound(
                "id: this model came without a speaker encoder and cannot store voices; open one"
                " that has it.",
                field="id",
                code="encoder_missing",
            )
        embedding = VoiceEmbedding(encoder, engine.name, voice.embedding)
        source: Source = "recording" if voice.source_type == "audio" else "embedding"
        return Draft(card, source, (embedding,), declared=(voice.content_hash,))

    def forget(owner: Owner, speaker_id: str) -> None:
        gone = sessions.remove(owner.id, speaker_id)
        if gone is not None:
            engine.forget(gone.content_hash)

    return router


def _session_of(request: Request) -> str:
    session = request.headers.get(HEADER, "")
    if not 1 <= len(session) <= MAX_SESSION_CHARS:
        raise InvalidRequest(
            f"{HEADER}: the header is missing or too long; name your session in 1 to"
            f" {MAX_SESSION_CHARS} characters.",
            field=HEADER,
            code="invalid_value" if session else "missing_required_parameter",
        )
    return session


def _line(text: str) -> str:
    """A label or the name of a file as one short line that can be sent and shown."""
    plain = text.encode(errors="replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())[:MAX_LABEL_CHARS]


def _preview(reference: Reference) -> bytes:
    samples = soxr.resample(reference.samples, reference.sample_rate_hz, PREVIEW_RATE_HZ)
    data = to_int16(samples).tobytes()
    return wav_header(PREVIEW_RATE_HZ, len(data)) + data


def _default_entry(name: str, dim: int | None, *, is_usual: bool) -> dict[str, Any]:
    # Zyphra's page begins with the newest one: that is the voice which speaks when none is chosen.
    created_s = CREATED_S + is_usual
    entry = _entry(default_id(name), name, "embedding_file", dim, created_s, "default")
    return entry | {"is_default": True}


def _library_entry(voice: Voice, dim: int | None) -> dict[str, Any]:
    source = "audio" if voice.source == "recording" else "embedding_file"
    entry = _entry(voice.id, voice.name, source, dim, voice.created_s, "library")
    return entry | {"language": voice.card.language, "tags": list(voice.card.tags)}


def _session_entry(voice: SessionVoice) -> dict[str, Any]:
    dim, has_preview = len(voice.embedding), voice.preview is not None
    entry = _entry(voice.id, voice.label, voice.source_type, dim, voice.created_s, "session")
    return entry | {"original_name": voice.original_name, "has_preview": has_preview}


def _entry(
    speaker_id: str, label: str, source: str, dim: int | None, created_s: float, scope: str
) -> dict[str, Any]:
    return {
        "id": speaker_id,
        "label": label,
        "source_type": source,
        "original_name": "",
        "dimension": dim,
        "created_at": created_s,
        "has_preview": True,
        "scope": scope,
        "is_default": False,
    }
