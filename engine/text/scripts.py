"""Scripts: who says what, one turn after the other.

- From text (``Anna: Hello.`` or ``[voice: Anna]`` before a passage), JSON (turns with settings) or
  subtitles (turns with the slots that their speech has to fit).
- A turn goes on over further lines until the next one begins; its text may hold markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import InvalidRequest
from engine.text.characters import tidy_characters
from engine.text.markup import MAX_PAUSE_MS
from engine.text.subtitles import has_times, read_subtitles

MAX_TURNS = 1000
MAX_NAME_CHARS = 80
MAX_TIME_S = 86_400.0

# A name is up to five words, perhaps in bold; neither "http://" nor "10:30" begins with one.
_NAMED = re.compile(
    r"\s{0,9}(?:\*\*|__)?(?P<name>[^\W\d_][\w.'’-]{0,39}(?: [\w.'’&-]{1,40}){0,4})(?:\*\*|__)?"
    r"\s{0,3}[:：](?!//)(?:\*\*|__)?(?:\s+|(?<=：)|$)(?P<text>.*)"
)
_PARTICLES = frozenset({"of", "the", "de", "la", "du", "da", "di", "van", "von", "der", "den", "y"})
_VOICE = re.compile(
    r"\s{0,9}\[\s{0,9}voice\s{0,9}[:=](?P<name>[^\[\]\n]{1,200})\](?P<text>.*)", re.IGNORECASE
)


@dataclass(frozen=True)
class Turn:
    """What one voice says; times and settings are those that the script gives.

    ``pause_ms`` is the silence after it; ``start_s`` and ``end_s`` are the slot it has to fit.
    """

    text: str
    voice: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    pause_ms: int | None = None
    start_s: float | None = None
    end_s: float | None = None


def read_script(script: object, cast: Collection[str] | None = None) -> tuple[Turn, ...]:
    """The turns of a script: a text, subtitles or JSON as text, or decoded JSON.

    With a ``cast``, only its names begin a turn; "Note: …" stays text. Raises ``InvalidRequest``
    for a script without a turn, with too many, or with one that is not well-formed.
    """
    value = _decoded(script) if isinstance(script, str) else script
    if isinstance(value, str):
        known = None if cast is None else {name.casefold() for name in cast}
        turns = _from_subtitles(value, known) if has_times(value) else _from_text(value, known)
    else:
        turns = _from_json(value)
    if not turns:
        raise InvalidRequest(
            "script: nobody says anything; write lines such as 'Anna: Hello.'", field="script"
        )
    if len(turns) > MAX_TURNS:
        raise InvalidRequest(
            f"script: it has {len(turns)} turns and the limit is {MAX_TURNS}; send it in parts.",
            field="script",
        )
    return tuple(turns)


def _decoded(script: str) -> object:
    """JSON as its value; any other text as it is."""
    if script.lstrip()[:1] not in ("{", "["):
        return script
    try:
        return json.loads(script)
    except (ValueError, RecursionError):
        return script


def _from_text(script: str, cast: Collection[str] | None) -> list[Turn]:
    turns: list[Turn] = []
    voice: str | None = None
    lines: list[str] = []

    def end_turn() -> None:
        said = "\n".join(lines).strip()
        if said:
            turns.append(Turn(said, voice))
        lines.clear()

    for line in tidy_characters(script).split("\n"):
        found = _VOICE.fullmatch(line) or _named(line, cast)
        if found is None:
            lines.append(line)
            continue
        end_turn()
        voice = " ".join(found["name"].split())[:MAX_NAME_CHARS] or None
        lines.append(found["text"].strip())
    end_turn()
    return turns


def _named(line: str, cast: Collection[str] | None) -> re.Match[str] | None:
    found = _NAMED.fullmatch(line)
    if found is None:
        return None
    name = found["name"]
    if cast is not None:
        return found if name.casefold() in cast else None
    # "He said that she said: no" is no name; "Ludwig van Beethoven" is one.
    is_name = " " not in name or not any(
        word[0].islower() for word in name.split() if word not in _PARTICLES
    )
    return found if is_name else None


def _from_subtitles(script: str, cast: Collection[str] | None) -> list[Turn]:
    turns = []
    for cue in read_subtitles(script):
        found = None if cue.voice else _named(cue.text.partition("\n")[0], cast)
        voice, said = cue.voice, cue.text
        if found is not None:
            voice, said = found["name"], cue.text[found.start("text") :].strip()
        if said:
            turns.append(Turn(said, voice, start_s=cue.start_s, end_s=cue.end_s))
    return turns


def _from_json(value: object) -> list[Turn]:
    if isinstance(value, Mapping):
        value = value.get("turns")
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise InvalidRequest(
            'script: it holds no turns; send {"turns": [{"voice": "Anna", "text": "Hello."}]}.',
            field="script",
        )
    return [_turn(turn, f"turns[{at}]") for at, turn in enumerate(value)]


def _turn(value: object, place: str) -> Turn:
    if not isinstance(value, Mapping):
        raise InvalidRequest(
            f'{place}: it is no turn; write {{"voice": "Anna", "text": "Hello."}}.', field=place
        )
    settings = dict(value)
    text, voice = settings.pop("text", None), settings.pop("voice", None)
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequest(
            f"{place}.text: it is empty; write what is said.", field=f"{place}.text"
        )
    if voice is not None and not (isinstance(voice, str) and len(voice) <= MAX_NAME_CHARS):
        raise InvalidRequest(
            f"{place}.voice: write a name of at most {MAX_NAME_CHARS} characters, or leave it out.",
            field=f"{place}.voice",
        )
    pause_ms = _number(settings.pop("pause_ms", None), f"{place}.pause_ms", MAX_PAUSE_MS)
    start_s = _number(settings.pop("start_s", None), f"{place}.start_s", MAX_TIME_S)
    end_s = _number(settings.pop("end_s", None), f"{place}.end_s", MAX_TIME_S)
    if start_s is not None and end_s is not None and end_s <= start_s:
        raise InvalidRequest(
            f"{place}.end_s: {end_s:g} is not after start_s {start_s:g}; give a later time.",
            field=f"{place}.end_s",
        )
    pause_ms = None if pause_ms is None else round(pause_ms)
    return Turn(text, voice or None, settings, pause_ms, start_s, end_s)


def _number(value: object, field: str, limit: float) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= float(value) <= limit:  # type: ignore[arg-type]
        raise InvalidRequest(
            f"{field}: {str(value)[:40]!r} cannot be used; give a number from 0 to {limit:g}.",
            field=field,
        )
    return float(value)  # type: ignore[arg-type]
