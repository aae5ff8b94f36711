"""A script of several voices as speech: one sound per line, and all of them as one.

    dialogue = await begin_dialogue(speaking, script, owner, cast={"Anna": "heart"}, seed=7)
    lines = [line async for line in dialogue.lines(request_id)]      in order, as they are ready
    lines[3] = await dialogue.line(3, request_id, seed=8)            one of them again
    mix = await run_sync(dialogue.mix, lines)                        sound, cues, what did not fit

- What is wrong with the script, its cast or its settings is raised before any sound is made, under
  the name of the place where it was written: ``turns[3].voice``, ``cast.Anna.speed``.
- A line's seed follows from the dialogue's and from its own words. So one line can be spoken again,
  changed, put in or taken out, and all others stay the same to the sample.
- Lines take their turn in everybody's queue, and never more than half of the slots.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from anyio.to_thread import run_sync

from engine import (
    Cue,
    FinishReason,
    InvalidRequest,
    Pause,
    StudioError,
    Turn,
    draw_seed,
    read_script,
)
from studio.ahead import in_order
from studio.api.doors import SGLANG
from studio.api.parse import SpeechAsk
from studio.api.patience import begin_patiently
from studio.api.prepared import prepared, recording_of
from studio.api.speaking import Speaking, Spoken
from studio.casting import Casting, Part
from studio.media.fade import faded
from studio.media.pcm import to_int16
from studio.media.stretch import SPEEDS, stretched
from studio.mix import DEFAULT_PAUSE_MS, MAX_MIX_S, Mix, Placed, mixed
from studio.owner import Owner
from studio.timing import timed_chunks

# A line may be made so much faster to fit its slot; beyond, it is hard to follow.
MAX_FIT = 1.5
# More than any script within the limits needs, with settings and times for each of its turns.
MAX_SCRIPT_CHARS = 4_000_000


@dataclass(frozen=True, eq=False)
class Line:
    """One turn as it was spoken: ``samples`` int16, marked, ``cues`` in seconds from its beginning.

    What is said, with the pauses that the text asks for, lasts from ``begin_s`` to ``end_s``.
    ``fit`` is how much faster it was made for its slot, and ``overrun_s`` what did not fit even so.
    ``warnings`` are sentences about the voice and the text.
    """

    index: int
    name: str
    voice: str
    text: str
    seed: int
    samples: np.ndarray
    sample_rate_hz: int
    begin_s: float
    end_s: float
    cues: tuple[Cue, ...]
    usage: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    repairs: Sequence[Mapping[str, object]] = ()
    finish_reason: FinishReason | None = None
    fit: float = 1.0
    overrun_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """Its length in seconds, with the silence around it."""
        return len(self.samples) / self.sample_rate_hz


class Dialogue:
    """A checked script; made by ``begin_dialogue``.

    ``turns`` are its turns, ``cast`` and ``settings`` what was given with them. ``seeds`` has one
    for each turn; they follow from ``seed``. ``ignored`` are fields without effect, by place.
    """

    def __init__(
        self,
        speaking: Speaking,
        owner: Owner,
        parts: Sequence[Part],
        cast: Mapping[str, object],
        settings: Mapping[str, object],
        pause_ms: int,
        seed: int,
    ) -> None:
        self.turns: tuple[Turn, ...] = tuple(part.turn for part in parts)
        self.cast = cast
        self.settings = settings
        self.seed = seed
        self.ignored = tuple(dict.fromkeys(name for part in parts for name in part.ignored))
        self.pause_ms = pause_ms
        self._speaking = speaking
        self.owner = owner
        self._parts = list(parts)
        self.seeds = seeds_of(parts, seed)

    async def lines(self, request_id: str, share: str | None = None) -> AsyncGenerator[Line, None]:
        """Every line in order, some being made ahead; to be closed if it is left half-way.

        Raises ``QueueFull`` where not even the first one finds a place, and what ends a line.
        """
        speaking = self._speaking
        most = min(speaking.engine.num_slots // 2, speaking.settings.max_waiting_per_owner)
        jobs = (
            partial(self._line, index, f"{request_id}-{index}", share, waits=index > 0)
            for index in range(len(self._parts))
        )
        async with aclosing(in_order(jobs, max(1, most))) as lines:
            async for line in lines:
                yield line

    async def line(
        self, index: int, request_id: str, share: str | None = None, seed: int | None = None
    ) -> Line:
        """One line alone; with another ``seed`` it is spoken otherwise.

        Raises ``QueueFull`` where it finds no place, and what ends it.
        """
        return await self._line(index, request_id, share, seed)

    async def _line(
        self,
        index: int,
        request_id: str,
        share: str | None,
        seed: int | None = None,
        *,
        waits: bool = False,
    ) -> Line:
        part = self._parts[index]
        seed = self.seeds[index] if seed is None else seed
        ask = replace(part.ask, body=part.ask.body.model_copy(update={"seed": seed}))
        begin = partial(self._speaking.begin, ask, self.owner, request_id, share)
        try:
            async with await begin_patiently(begin, waits=lambda: waits) as spoken:
                return await self._heard(part, spoken)
        except StudioError as error:
            raise part.placed(error) from None

    def mix(self, lines: Sequence[Line]) -> Mix:
        """All ``lines`` as one sound, with the times of what is said in it; blocking."""
        placed = [
            Placed(
                line.samples,
                line.sample_rate_hz,
                line.begin_s,
                line.end_s,
                line.cues,
                turn.pause_ms,
                turn.start_s,
            )
            for line, turn in zip(lines, self.turns, strict=True)
        ]
        mix = mixed(placed, self.pause_ms)
        told = [_note(line, turn) for line, turn in zip(lines, self.turns, strict=True)]
        return replace(mix, notes=(*filter(None, told), *mix.notes))

    async def _heard(self, part: Part, spoken: Spoken) -> Line:
        """The sound of a line: as fast as it was asked for, and as its slot asks for."""
        rate_hz, ask = spoken.sample_rate_hz, spoken.ask
        raw = [chunk async for chunk in spoken.plain()]
        speed, turn = ask.pace.stretch, part.turn
        said = spoken.stream.chunks_spoken
        said_s = (said[-1].end_sample - said[0].begin_sample) / rate_hz / speed if said else 0.0
        slot_s = _slot_s(turn)
        fit = 1.0
        if slot_s is not None and said_s > slot_s:
            fit = min(said_s / slot_s, MAX_FIT, max(1.0, SPEEDS[1] / speed))
        speed *= fit
        sound = faded(stretched(_each(raw), speed, rate_hz), ask.body.fade_out_ms, rate_hz)
        sound = self._speaking.marker.marked(sound, rate_hz)
        samples = [to_int16(piece) async for piece in sound]
        whole = await run_sync(np.concatenate, [np.zeros(0, np.int16), *samples])
        spoken.num_samples = len(whole)
        chunks = await run_sync(timed_chunks, said, rate_hz, speed, spoken.prepared)
        before_s, after_s = (ms / 1000 / speed for ms in _own_pauses_ms(spoken.prepared.pieces))
        begin_s = chunks[0].start_s - before_s if chunks else 0.0
        end_s = chunks[-1].end_s + after_s if chunks else len(whole) / rate_hz
        return Line(
            index=part.index,
            name=turn.voice or "",
            voice=spoken.speaker.voice_name,
            text=turn.text,
            seed=spoken.stream.seed,
            samples=whole,
            sample_rate_hz=rate_hz,
            begin_s=max(0.0, begin_s),
            end_s=end_s,
            cues=tuple(Cue(it.start_s, it.end_s, it.text, turn.voice) for it in chunks),
            usage=spoken.usage,
            warnings=spoken.warnings,
            repairs=spoken.repairs,
            finish_reason=spoken.stream.finish_reason,
            fit=fit,
            overrun_s=0.0 if slot_s is None else max(0.0, said_s / fit - slot_s),
        )


async def begin_dialogue(
    speaking: Speaking,
    script: object,
    owner: Owner,
    *,
    cast: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    pause_ms: int = DEFAULT_PAUSE_MS,
    seed: int | None = None,
) -> Dialogue:
    """Check a script (text, subtitles, or JSON, also decoded) and all that it asks for.

    ``cast`` says whose voice a name has: a voice's name or id, or fields of a speech request; a
    name that is not in it is itself a voice. ``settings`` are fields that hold for all turns.
    Raises ``InvalidRequest`` and ``NotFound`` naming the place, before any sound.
    """
    if isinstance(script, str) and len(script) > MAX_SCRIPT_CHARS:
        raise InvalidRequest(
            f"script: it has {len(script)} characters and the limit is {MAX_SCRIPT_CHARS}; send it"
            " in parts.",
            field="script",
            code="string_above_max_length",
        )
    turns = await run_sync(read_script, script)
    check_lengths(turns, pause_ms, speaking.settings.max_input_chars)
    cast, settings = cast or {}, settings or {}
    casting = Casting(cast, settings)

    def check(index: int, turn: Turn) -> Part:
        return casting.part(index, turn, partial(speaking.check, door=SGLANG))

    parts = await run_sync(lambda: [check(index, turn) for index, turn in enumerate(turns)])
    parts = await _ready(speaking, parts, owner)
    seed = draw_seed() if seed is None else seed
    return Dialogue(speaking, owner, parts, cast, settings, pause_ms, seed)


async def _ready(speaking: Speaking, parts: Sequence[Part], owner: Owner) -> list[Part]:
    """The parts with every voice looked up once, and every recording read once."""
    known: dict[tuple[object, ...], SpeechAsk] = {}
    ready = []
    for part in parts:
        wish = part.ask.speaker
        key = (recording_of(wish), wish.voice, wish.has_consent, wish.blend, id(wish.embedding))
        try:
            if key not in known:
                known[key], _ = await prepared(speaking.speakers, part.ask, owner)
        except StudioError as error:
            raise part.placed(error) from None
        ask = part.ask
        if recording_of(wish) is not None:
            body = ask.body.model_copy(update={"ref_audio": None, "references": None})
            ask = replace(ask, speaker=known[key].speaker, body=body)
        ready.append(replace(part, ask=ask))
    return ready


def check_lengths(turns: Sequence[Turn], pause_ms: int, max_chars: int) -> None:
    """Raise ``InvalidRequest`` for a script that is longer than a text or a mix may be."""
    num_chars = sum(len(turn.text) for turn in turns)
    if num_chars > max_chars:
        raise InvalidRequest(
            f"script: its lines have {num_chars} characters together and the limit is {max_chars};"
            " send it in parts.",
            field="script",
            code="string_above_max_length",
        )
    silent_s = sum(pause_ms if turn.pause_ms is None else turn.pause_ms for turn in turns) / 1000
    silent_s += max((turn.start_s or 0.0 for turn in turns), default=0.0)
    if silent_s > MAX_MIX_S:
        raise InvalidRequest(
            f"script: its pauses and times alone take {silent_s:.0f} s and the limit is"
            f" {MAX_MIX_S} s; send it in parts.",
            field="script",
        )
    for index, turn in enumerate(turns):
        if not any(map(str.isalnum, turn.text)):
            raise InvalidRequest(
                f"turns[{index}].text: nothing of it has a letter or number to speak; send some"
                " words.",
                field=f"turns[{index}].text",
            )


def seeds_of(parts: Sequence[Part], seed: int) -> list[int]:
    """A seed for each part: its own, or one that follows from ``seed``, the name and the words.

    A line that is said twice by one voice is drawn otherwise the second time.
    """
    times_said: dict[tuple[str, str], int] = {}
    seeds = []
    for part in parts:
        key = ((part.turn.voice or "").casefold(), part.turn.text)
        times_said[key] = nth = times_said.get(key, 0) + 1
        own = part.ask.body.seed
        if own is not None and part.has_own_seed:
            seeds.append(own)
            continue
        words = json.dumps([seed if own is None else own, *key, nth]).encode()
        seeds.append(int.from_bytes(hashlib.sha256(words).digest()[:4], "big"))
    return seeds


def _note(line: Line, turn: Turn) -> str:
    """What of a line did not fit its slot, in a sentence; "" where all did."""
    slot_s = _slot_s(turn)
    if line.overrun_s < 0.05 or slot_s is None:
        return ""
    return (
        f"turns[{line.index}]: at {line.fit:.2f} times its pace it takes"
        f" {slot_s + line.overrun_s:.1f} s and its slot has {slot_s:.1f} s; shorten it."
    )


def _slot_s(turn: Turn) -> float | None:
    """How long a turn may take."""
    return None if turn.start_s is None or turn.end_s is None else turn.end_s - turn.start_s


def _own_pauses_ms(pieces: Sequence[object]) -> tuple[int, int]:
    """The pauses before and after all that is said of a text."""
    lengths = [piece.ms if isinstance(piece, Pause) else None for piece in pieces]
    if None not in lengths:
        return 0, 0
    first, last = lengths.index(None), lengths[::-1].index(None)
    return sum(filter(None, lengths[:first])), sum(filter(None, lengths[len(lengths) - last :]))


async def _each(chunks: Sequence[np.ndarray]) -> AsyncIterator[np.ndarray]:
    for chunk in chunks:
        yield chunk
