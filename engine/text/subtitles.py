"""Subtitles, SubRip (SRT) and WebVTT: who says what from when to when.

- What is written is read again as it was, up to milliseconds and white space.
- Reading is lenient: missing numbers, hours or blank lines, either decimal sign, notes and styles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape, unescape
from itertools import pairwise

from engine.text.characters import tidy_characters

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
_TIMES = re.compile(rf"\s{{0,9}}{_TIME}\s{{0,9}}-->\s{{0,9}}{_TIME}(?:\s.*)?")
_PLACED = re.compile(r"^\{\\[^{}\n]{0,40}\}")  # {\an8}
_VOICE = re.compile(r"^<v(?:\.[^\s<>]*)?\s+([^<>]{1,200})>")
_TAG = re.compile(r"<[^<>]{0,200}>")


@dataclass(frozen=True, slots=True)
class Cue:
    """``text`` is said from ``start_s`` to ``end_s``, in seconds, by ``voice`` if that is known."""

    start_s: float
    end_s: float
    text: str
    voice: str | None = None


def has_times(text: str) -> bool:
    """Whether ``text`` is subtitles: one of its first lines is a time."""
    return any(map(_TIMES.fullmatch, tidy_characters(text[:2000]).strip().split("\n")[:40]))


def read_subtitles(text: str) -> list[Cue]:
    """The cues of an SRT or WebVTT file in their order; what says nothing is left out."""
    tidy = tidy_characters(text)
    is_vtt = tidy.lstrip().startswith("WEBVTT")
    lines = [line.strip() for line in tidy.split("\n")]
    starts = [at for at, line in enumerate(lines) if _TIMES.fullmatch(line)]
    cues = []
    for start, following in pairwise([*starts, len(lines)]):
        said = lines[start + 1 : following]
        if "" in said:
            said = said[: said.index("")]
        elif following < len(lines) and said and (said[-1].isdigit() or is_vtt):
            said.pop()  # the number or name of the next one
        times = _TIMES.fullmatch(lines[start])
        if times is None or not any(said):
            continue
        start_s, end_s = _seconds(times.groups()[:4]), _seconds(times.groups()[4:])
        words, voice = "\n".join(said), None
        if is_vtt:
            found = _VOICE.match(words)
            voice = unescape(found[1]).strip() if found else None
            words = unescape(_TAG.sub("", words))
        cues.append(Cue(start_s, max(start_s, end_s), _PLACED.sub("", words), voice or None))
    return cues


def write_srt(cues: Iterable[Cue]) -> str:
    """The cues as a SubRip file; a voice is its name and a colon."""
    blocks = []
    for number, cue in enumerate(_sayable(cues), 1):
        times = f"{_clock(cue.start_s, ',')} --> {_clock(cue.end_s, ',')}"
        said = f"{cue.voice}: {cue.text}" if cue.voice else cue.text
        blocks.append(f"{number}\n{times}\n{said}\n")
    return "\n".join(blocks)


def write_vtt(cues: Iterable[Cue]) -> str:
    """The cues as a WebVTT file, with voices."""
    blocks = ["WEBVTT\n"]
    for cue in _sayable(cues):
        times = f"{_clock(cue.start_s, '.')} --> {_clock(cue.end_s, '.')}"
        voice = f"<v {escape(cue.voice, quote=False)}>" if cue.voice else ""
        blocks.append(f"{times}\n{voice}{escape(cue.text, quote=False)}\n")
    return "\n".join(blocks)


def _sayable(cues: Iterable[Cue]) -> Iterable[Cue]:
    """Cues whose text cannot be taken for anything else: no blank line, no arrow."""
    for cue in cues:
        tidy = tidy_characters(cue.text).replace("-->", "→")
        lines = [line.strip() for line in tidy.split("\n")]
        voice = " ".join(tidy_characters(cue.voice or "").replace("-->", "→").split()) or None
        if any(lines):
            yield Cue(cue.start_s, cue.end_s, "\n".join(filter(None, lines)), voice)


def _seconds(time: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = time
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return (whole * 1000 + int((fraction or "0").ljust(3, "0"))) / 1000


def _clock(time_s: float, point: str) -> str:
    ms = round(max(time_s, 0.0) * 1000)
    return f"{ms // 3600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{point}{ms % 1000:03}"
