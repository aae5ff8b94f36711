"""Who speaks a turn, and how: the settings of a dialogue, of a name's cast and of the turn itself.

The nearer one wins. What is wrong is told under the name of the place where it was written.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine import InvalidRequest, NotFound, StudioError, Turn
from studio.api.layers import field_of, layered
from studio.api.parse import SpeechAsk

# They say how the one sound of all turns is sent; no turn can have them for itself.
SENDING = frozenset(
    {
        *("response_format", "sample_rate", "bitrate", "stream", "stream_format", "store"),
        *("timestamps", "model", "strict"),
    }
)
_MAX_SHOWN = 10
_MAX_NAME_CHARS = 64


@dataclass(frozen=True, eq=False)
class Part:
    """A turn with all that is asked for it; ``ignored`` names fields by their places.

    ``has_own_seed``: the turn itself states its seed.
    """

    index: int
    turn: Turn
    ask: SpeechAsk
    ignored: tuple[str, ...]
    has_own_seed: bool
    places: Places

    def placed(self, error: StudioError) -> StudioError:
        """``error`` under the name of the place that it is about."""
        return self.places.told(error)


class Casting:
    """A cast and the settings of all turns; raises ``InvalidRequest`` for what is no cast."""

    def __init__(self, cast: Mapping[str, object], settings: Mapping[str, object]) -> None:
        # Markup is what a script is written in; a speech request has to ask for it.
        shared = {"markup": True, **settings}
        self._shared = {
            name: value
            for name, value in shared.items()
            if field_of(name) == "strict" or field_of(name) not in (SENDING | {"seed"})
        }
        self._cast: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for name, member in cast.items():
            shown = name[:_MAX_NAME_CHARS]
            self._cast[_key(name)] = shown, _fields(shown, member)

    def part(self, index: int, turn: Turn, check: Callable[[Mapping[str, Any]], SpeechAsk]) -> Part:
        """The turn as ``check`` has found it; raises what that does, under the right names."""
        member: Mapping[str, Any] = {}
        member_name = None
        if turn.voice is not None:
            found = self._cast.get(_key(turn.voice))
            member_name, member = found or (None, {"voice": turn.voice})
        places = Places(index, turn, member_name, member, [name for name, _ in self._cast.values()])
        fields = layered(layered(self._shared, _speech(member)), _speech(turn.settings))
        fields = {name: value for name, value in fields.items() if field_of(name) != "input"}
        try:
            ask = check({**fields, "input": turn.text})
        except StudioError as error:
            raise places.told(error) from None
        ignored = [places.of(name) for name in ask.ignored]
        for source, place in ((turn.settings, f"turns[{index}]"), (member, f"cast.{member_name}")):
            unused = (name for name in source if field_of(name) in (SENDING | {"input"}))
            ignored += [f"{place}.{name}" for name in unused]
        own = turn.settings.get("seed")
        has_own_seed = own is not None and own != -1
        return Part(index, turn, ask, tuple(ignored), has_own_seed, places)


class Places:
    """Where each field of one turn was written."""

    def __init__(
        self,
        index: int,
        turn: Turn,
        member_name: str | None,
        member: Mapping[str, Any],
        cast: list[str],
    ) -> None:
        self._turn = f"turns[{index}]"
        self._name = turn.voice
        self._settings = turn.settings
        self._member_name = member_name
        self._member = member
        self._cast = cast

    def of(self, field: str) -> str:
        """The place of a field, such as ``cast.Anna.speed``."""
        head = re.split(r"[.\[]", field)[0]
        if head in self._settings:
            return f"{self._turn}.{field}"
        if head in ("input", "text"):
            return f"{self._turn}.text"
        if head in self._member:
            return f"{self._turn}.voice" if self._member_name is None else self._of_cast(field)
        return field

    def _of_cast(self, field: str) -> str:
        return f"cast.{self._member_name}.{field}"

    def told(self, error: StudioError) -> StudioError:
        """``error`` with its field and its sentence about the place; queues have none."""
        field, message = error.field, error.message
        if field is None:
            return error
        error.field = self.of(field)
        rest = message.removeprefix(field)
        error.message = error.field + (rest if rest != message else f": {message}")
        is_unknown_name = isinstance(error, NotFound) and error.field == f"{self._turn}.voice"
        if is_unknown_name:
            cast = ", ".join(self._cast[:_MAX_SHOWN])
            known = f", which has {cast}" if cast else ""
            name = str(self._name)[:_MAX_NAME_CHARS]
            error.message = f"{error.message[:-1]}, or give {name!r} a voice in cast{known}."
        error.args = (error.message,)
        return error


def _key(name: str) -> str:
    """What spellings of one name have in common."""
    return " ".join(name.split()).casefold()


def _fields(name: str, member: object) -> Mapping[str, Any]:
    """What a cast says of a name, as fields of a speech request."""
    if member is None or isinstance(member, str):
        return {"voice": member or "default"}
    if isinstance(member, Mapping):
        return member
    raise InvalidRequest(
        f"cast.{name}: {reprlib.repr(member)} is not allowed; give a voice such as 'heart', or"
        " an object of fields with a voice.",
        field=f"cast.{name}",
    )


def _speech(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if field_of(name) not in SENDING}
