"""The voice library over HTTP: /v1/audio/voices.

- One list in the shapes that clients of Kokoro, SGLang-Omni, Open WebUI and LiteLLM look for; the
  voices of the model stand in it and cannot be changed.
- A voice is named by its id or its name, with whatever characters; neither ever becomes a path.
  What belongs to somebody else is answered like what does not exist.
- Source: spec/api.md A3, B2, F14.
"""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import quote

import numpy as np
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine import Forbidden, NotFound
from studio.api import voice_docs
from studio.api.body import read_form_items, read_object
from studio.api.doors import SGLANG
from studio.api.errors import error_object
from studio.api.headers import notes
from studio.api.leaving import unless_client_leaves
from studio.api.owners import owner_of, share_of
from studio.api.request_ids import request_id
from studio.api.speakers import default_id
from studio.api.speaking import Speaking
from studio.api.voice_asks import VoiceAsk, changes, import_ask, voice_ask
from studio.api.voice_entries import default_entry, voice_entry
from studio.api.voice_maker import Made, VoiceMaker, export_file
from studio.owner import Owner
from studio.session_voices import SessionVoice
from studio.voices import Voice, VoiceLibrary, not_found

PATH = "/v1/audio/voices"
ONE = f"{PATH}/{{voice:path}}"
# Long enough to judge a voice by, short enough to wait for.
PREVIEW_TEXT = "Hello, this is my voice. How does it sound to you?"
PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def voices_router(speaking: Speaking, maker: VoiceMaker, library: VoiceLibrary) -> APIRouter:
    """The routes of the library. What is asked for by name may be a voice of the model, too."""
    router = APIRouter(tags=["voices"])
    engine, speakers = speaking.engine, speaking.speakers
    encoder = None if engine.encoder is None else engine.encoder.identity
    default_previews: dict[str, bytes] = {}  # one for each voice of the model at most

    def look(owner: Owner, which: str) -> Voice | str:
        found = speakers.find(which, owner) if which.strip() else None
        if found is None or isinstance(found, SessionVoice):
            raise not_found(which)
        return found

    def changeable(owner: Owner, which: str) -> Voice:
        found = look(owner, which)
        if isinstance(found, str):
            raise Forbidden(
                f"voice: {found!r} came with the model and cannot be changed or moved; store a"
                " voice of your own.",
                field="voice",
            )
        return found

    def entry(owner: Owner, found: Voice | str) -> dict[str, Any]:
        if isinstance(found, str):
            return default_entry(engine, found, PATH)
        return voice_entry(found, owner, encoder, PATH)

    @router.get(PATH, **voice_docs.LIST)
    def list_voices(request: Request, names_only: bool = False, model: str = "") -> dict[str, Any]:
        """Your voices, then those of the model; with `names_only` their names alone."""
        owner = owner_of(request)
        stored = library.list(owner)
        if names_only:
            return {"voices": list(dict.fromkeys([*(v.name for v in stored), *engine.voices]))}
        uploaded = [entry(owner, voice) for voice in stored]
        everything = [*uploaded, *(entry(owner, name) for name in engine.voices)]
        return {
            "object": "list",
            "voices": everything,
            "uploaded_voices": uploaded,
            "data": everything,
        }

    @router.post(PATH, **voice_docs.CREATE)
    async def create_voice(request: Request) -> Response:
        """Store a voice from recordings, an embedding or a blend of two voices."""
        if request.headers.get("content-type", "").lower().startswith("multipart/"):
            ask = voice_ask(await read_form_items(request))
        else:
            ask = voice_ask((await read_object(request)).items())
        made = await run_sync(store, owner_of(request), ask, limiter=speakers.limiter)
        return created(request, made, ask.ignored)

    def store(owner: Owner, ask: VoiceAsk) -> Made:
        how: dict[str, Any] = {"has_consent": ask.has_consent, "overwrite": ask.overwrite}
        if ask.blend is not None:
            return maker.blend(owner, ask.card, ask.blend, **how)
        if ask.embedding is not None:
            return maker.bring(owner, ask.card, ask.embedding, **how)
        return maker.record(owner, ask.card, ask.sounds, keep_clip=ask.keep_clip, **how)

    @router.post(f"{PATH}/import", **voice_docs.IMPORT)
    async def import_voice(request: Request) -> Response:
        """Store the voice in a file that a studio exported."""
        ask = import_ask(await read_form_items(request))
        made = await run_sync(
            lambda: maker.import_file(
                owner_of(request),
                ask.data,
                has_consent=ask.has_consent,
                name=ask.name,
                overwrite=ask.overwrite,
            ),
            limiter=speakers.limiter,
        )
        return created(request, made, ask.ignored)

    def created(request: Request, made: Made, ignored: tuple[str, ...]) -> Response:
        voice = made.voice
        body = {
            "success": True,
            "object": "audio.voice",
            "id": voice.id,
            "name": voice.name,
            "created_at": int(voice.created_s),
            "voice": entry(owner_of(request), voice),
            "warnings": made.warnings,
        }
        return JSONResponse(body, headers=notes("", ignored, made.warnings))

    @router.get(f"{ONE}/preview", response_class=Response, **voice_docs.PREVIEW)
    async def preview(request: Request, voice: str) -> Response:
        """A short sentence in this voice (FLAC), spoken at the first time it is asked for."""
        owner = owner_of(request)
        found = await run_sync(look, owner, voice)
        if isinstance(found, Voice):
            flac = await run_sync(library.preview, found, engine.name)
        else:
            flac = default_previews.get(found)
        if flac is not None:
            return Response(flac, headers=PRIVATE, media_type="audio/flac")
        return await unless_client_leaves(request, lambda: spoken_preview(request, owner, found))

    async def spoken_preview(request: Request, owner: Owner, found: Voice | str) -> Response:
        voice = default_id(found) if isinstance(found, str) else found.id
        fields = {"input": PREVIEW_TEXT, "voice": voice, "seed": 0, "response_format": "flac"}
        ask = speaking.check(fields, SGLANG)
        spoken = await speaking.begin(ask, owner, request_id(request), share_of(request, owner))
        async with spoken:
            flac = await spoken.body()
        if isinstance(found, str):
            default_previews[found] = flac
        else:
            await run_sync(library.set_preview, found, engine.name, flac)
        return Response(flac, headers=PRIVATE, media_type="audio/flac")

    @router.get(f"{ONE}/embedding", response_class=Response, **voice_docs.EMBEDDING)
    def embedding(request: Request, voice: str) -> Response:
        """The numbers of the speaker as a .npy file: a vector of float32."""
        vector = speakers.embedding_of(look(owner_of(request), voice))
        if vector is None:
            raise not_found(voice)
        file = io.BytesIO()
        np.save(file, vector.numpy(), allow_pickle=False)
        headers = PRIVATE | _attachment("embedding", ".npy")
        return Response(file.getvalue(), headers=headers, media_type="application/octet-stream")

    @router.get(f"{ONE}/export", response_class=Response, **voice_docs.EXPORT)
    def export(request: Request, voice: str) -> Response:
        """The voice as one file, for a copy or another studio; import it with `POST …/import`."""
        found = changeable(owner_of(request), voice)
        headers = PRIVATE | _attachment(found.name, ".zip")
        return Response(export_file(library, found), headers=headers, media_type="application/zip")

    @router.get(ONE, **voice_docs.READ)
    def read_voice(request: Request, voice: str) -> dict[str, Any]:
        """One voice, and what was declared when it was stored."""
        owner = owner_of(request)
        found = look(owner, voice)
        if isinstance(found, str):
            return entry(owner, found)
        declared = [
            {
                "statement": consent.statement,
                "given_at": int(consent.given_s),
                "clip_hash": consent.clip_hash,
            }
            for consent in library.consents(found)
        ]
        return entry(owner, found) | {"consents": declared}

    @router.patch(ONE, **voice_docs.CHANGE)
    async def change_voice(request: Request, voice: str) -> Response:
        """Rename a voice, or write its language, tags and notes anew; null empties a field."""
        owner = owner_of(request)
        words, ignored = changes(await read_object(request))

        def change() -> Voice:
            return library.change(owner, changeable(owner, voice).id, **words)

        changed = await run_sync(change)
        return JSONResponse(entry(owner, changed), headers=notes("", ignored, ""))

    @router.delete(ONE, **voice_docs.DELETE)
    def delete_voice(request: Request, voice: str) -> JSONResponse:
        """Delete a voice and everything that was kept of it."""
        owner = owner_of(request)
        try:
            gone = maker.delete(owner, changeable(owner, voice).id)
        except NotFound as error:
            told = {"success": False, "error": error_object(error), "detail": error.message}
            return JSONResponse(told, 404)
        return JSONResponse(
            {
                "success": True,
                "message": f"The voice {gone.name!r} was deleted.",
                "id": gone.id,
                "object": "audio.voice.deleted",
                "deleted": True,
            }
        )

    return router


def _attachment(name: str, suffix: str) -> dict[str, str]:
    """The header that offers a file under ``name``, for old clients in plain letters."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    full = quote(name + suffix, safe="")
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}{suffix}\"; filename*=UTF-8''{full}"
    }
