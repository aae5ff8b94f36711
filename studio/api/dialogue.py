"""POST /v1/audio/dialogue: a script of several voices in, one sound out, and what belongs to it.

- What is wrong is told before any sound is made, by its place: ``turns[3].voice``.
- The lines go through everybody's queue. A client that leaves takes all of them with it.
- Source: spec/api.md F14.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine import InvalidRequest
from studio.api.body import read_object
from studio.api.dialogue_docs import DIALOGUE_DOCS
from studio.api.doors import SGLANG
from studio.api.headers import format_headers, notes
from studio.api.layers import field_of
from studio.api.leaving import unless_client_leaves
from studio.api.owners import owner_of, share_of
from studio.api.parse import SpeechAsk
from studio.api.request_ids import request_id
from studio.api.schemas import refused
from studio.api.speaking import Speaking
from studio.dialogue import Dialogue, Line, begin_dialogue
from studio.dialogue_files import DialogueFiles, FileKind
from studio.media.encode import Encoder
from studio.mix import DEFAULT_PAUSE_MS, MAX_PAUSE_MS, Mix

log = logging.getLogger(__name__)

OUTPUTS = ("mix", "zip", "json")
# What is no field of a speech request; ``lines`` is what a script.json says besides.
_OWN = frozenset({"script", "turns", "cast", "pause_ms", "output", "lines", "notes"})


def dialogue_router(speaking: Speaking) -> APIRouter:
    """The dialogue route."""
    router = APIRouter(tags=["speech"])

    @router.post("/v1/audio/dialogue", response_class=Response, **DIALOGUE_DOCS)
    async def create_dialogue(request: Request) -> Response:
        """Speak a script with several voices: one sound, or with all lines and subtitles.

        Beside the script stand fields of /v1/audio/speech; they hold for all turns.
        """
        speaking.check_room(request)
        payload = await read_object(request)
        return await unless_client_leaves(request, lambda: _answer(speaking, payload, request))

    return router


async def _answer(speaking: Speaking, payload: Mapping[str, Any], request: Request) -> Response:
    given = {name: value for name, value in payload.items() if value is not None}
    output = str(given.get("output", OUTPUTS[0])).lower()
    if output not in OUTPUTS:
        raise refused("output", given["output"], f"choose one of {', '.join(OUTPUTS)}")
    script, members, pause_ms = _script(given), _cast(given), _pause_ms(given)
    settings = {name: value for name, value in given.items() if name not in _OWN}
    ask = await run_sync(_shared, speaking, settings)
    rate_hz = speaking.engine.codec.sample_rate_hz
    kind = FileKind(ask.format, ask.sample_rate_hz, ask.body.bitrate)
    encoder = kind.encoder(rate_hz, {})  # what is wrong with it is told now
    owner, id = owner_of(request), request_id(request)
    dialogue = await begin_dialogue(
        speaking,
        script,
        owner,
        cast=members,
        settings=settings,
        pause_ms=pause_ms,
        seed=ask.body.seed,
    )
    ignored = _ignored(ask, settings, dialogue)
    async with aclosing(dialogue.lines(id, share_of(request, owner))) as made:
        lines = [line async for line in made]
    mix = await run_sync(dialogue.mix, lines)
    files = DialogueFiles(dialogue, lines, mix, kind, speaking.marker, speaking.engine.name, id)
    log.info("request %s: %d turns, %.2f s of sound", id, len(lines), mix.duration_s)
    headers = format_headers(encoder) | speaking.marker.headers(ask.format, is_live=False)
    headers |= _facts(speaking, dialogue, lines, mix, ignored)
    if output == "json":
        body = await run_sync(partial(_json, files, id, dialogue, lines, mix, encoder, ignored))
        return Response(body, headers=headers, media_type="application/json")
    is_zip = output == "zip"
    body = await run_sync(files.zipped if is_zip else files.mix)
    name = "zip" if is_zip else files.suffix
    headers["Content-Disposition"] = f'attachment; filename="dialogue.{name}"'
    media_type = "application/zip" if is_zip else encoder.format.media_type
    return Response(body, headers=headers, media_type=media_type)


def _script(given: Mapping[str, Any]) -> object:
    """The one script of a request."""
    if "script" in given and "turns" in given:
        raise InvalidRequest(
            "script and turns both say what is spoken; send one of them only.",
            field="turns",
            code="conflicting_fields",
        )
    if "turns" in given:
        return {"turns": given["turns"]}
    if "script" not in given:
        raise InvalidRequest(
            "script: it is missing; send lines such as 'Anna: Hello.', or turns.",
            field="script",
            code="missing_required_parameter",
        )
    return given["script"]


def _cast(given: Mapping[str, Any]) -> Mapping[str, object]:
    members = given.get("cast", {})
    if not isinstance(members, dict):
        raise refused("cast", members, 'give an object such as {"Anna": "heart"}')
    return members


def _pause_ms(given: Mapping[str, Any]) -> int:
    value = given.get("pause_ms", DEFAULT_PAUSE_MS)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_PAUSE_MS:
        raise refused("pause_ms", value, f"give milliseconds from 0 to {MAX_PAUSE_MS}")
    return round(value)


def _shared(speaking: Speaking, settings: Mapping[str, Any]) -> SpeechAsk:
    """What holds for the one sound of all turns, checked."""
    fields = {name: value for name, value in settings.items() if field_of(name) != "input"}
    ask = speaking.check({**fields, "input": "script"}, SGLANG)
    if ask.is_live:
        raise InvalidRequest(
            "stream: a dialogue is not streamed; leave stream and stream_format out.",
            field="stream",
            code="unsupported_parameter",
        )
    return ask


def _ignored(ask: SpeechAsk, settings: Mapping[str, Any], dialogue: Dialogue) -> tuple[str, ...]:
    names = [name for name in settings if field_of(name) in ("input", "store")]
    ignored = tuple(dict.fromkeys((*names, *ask.ignored, *dialogue.ignored)))
    if ask.body.strict and ignored:
        raise InvalidRequest(
            f"strict: {', '.join(ignored)[:200]} would be ignored; leave it out, or strict.",
            field=ignored[0][:200],
            code="unknown_field",
        )
    return ignored


def _facts(
    speaking: Speaking,
    dialogue: Dialogue,
    lines: Sequence[Line],
    mix: Mix,
    ignored: Sequence[str],
) -> dict[str, str]:
    """What the headers say about the whole."""
    usage = _usage(lines)
    voices = ", ".join(dict.fromkeys(line.voice for line in lines))
    told = " ".join(_warnings(lines, mix)).encode("ascii", "replace").decode()
    return {
        "X-Model": speaking.engine.name,
        "X-Seed": str(dialogue.seed),
        "X-Audio-Duration": f"{mix.duration_s:.3f}",
        "X-Prompt-Tokens": str(usage["input_tokens"]),
        "X-Completion-Tokens": str(usage["output_tokens"]),
        **notes(voices, ignored, told[:2000]),
    }


def _warnings(lines: Sequence[Line], mix: Mix) -> list[str]:
    """What did not fit, and what was found in voices and texts, each once."""
    found = (warning for line in lines for warning in line.warnings)
    return list(dict.fromkeys((*mix.notes, *found)))


def _usage(lines: Sequence[Line]) -> dict[str, int]:
    names = ("input_tokens", "output_tokens", "total_tokens")
    return {name: sum(line.usage[name] for line in lines) for name in names}


def _json(
    files: DialogueFiles,
    id: str,
    dialogue: Dialogue,
    lines: Sequence[Line],
    mix: Mix,
    encoder: Encoder,
    ignored: Sequence[str],
) -> bytes:
    about = {
        "id": id,
        "object": "audio.dialogue",
        "format": encoder.format.name,
        "media_type": encoder.format.media_type,
        "sample_rate": encoder.sample_rate_hz,
        "duration": round(mix.duration_s, 3),
        "seed": dialogue.seed,
        "lines": files.about_lines(),
        "srt": files.srt(),
        "vtt": files.vtt(),
        "usage": _usage(lines),
        "warnings": _warnings(lines, mix),
        "ignored_fields": list(ignored),
    }
    sound = base64.b64encode(files.mix())
    return json.dumps(about).encode()[:-1] + b', "audio": "' + sound + b'"}'
