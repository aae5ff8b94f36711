"""A text with its pauses as a plan of segments that one prompt each can carry.

- A segment is a sentence, so that its place in the audio is known; short sentences share one, and
  long ones are cut where people pause (``engine.text.sentences``).
- Segments joined are the text again up to white space, but for stretches with nothing to speak.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

import torch

from engine.errors import InvalidRequest
from engine.family import Context, Family
from engine.pace import delivery_at
from engine.request import SpeechRequest
from engine.text.markup import Pause, Spoken, pieces
from engine.text.sentences import plan_chunks, sentences

# A sentence shorter than this share of a segment joins its neighbour: one or two words alone are
# what a small model says worst.
SHORT_SHARE = 1 / 3
# Chinese, Japanese and Korean have 4 to 7 characters in a second, other scripts some 15 letters.
WIDE_LETTERS = 3


@dataclass(frozen=True)
class Segment:
    """A stretch of text that one prompt carries, the silences beside it, and its pace.

    ``pace`` multiplies the speed of the request. Only the last segment has a pause after it.
    """

    text: str
    pace: float = 1.0
    pause_before_ms: int = 0
    pause_after_ms: int = 0


def plan_speech(
    request: SpeechRequest, text: str, family: Family, num_slots: int
) -> tuple[list[Segment], int]:
    """The segments of a request whose stripped text is ``text``, and how many slots they need.

    Raises ``InvalidRequest`` where the slots or the model's context cannot hold them.
    """
    said = request.pieces or pieces(text)
    segments = plan_segments(said, family.segment_chars, request.language)
    if not segments:
        raise InvalidRequest(
            "input: nothing of the text has a letter or number to speak; send some words.",
            field="input",
        )
    # Twins and room are alike for every segment: the longest shows whether they hold.
    longest = max(segments, key=lambda segment: _num_bytes(segment.text))
    context = None
    if family.continues and len(segments) > 1:
        context = Context(longest.text, torch.empty(0, family.num_codebooks).long(), True)
    delivery = delivery_at(longest.pace, request.delivery, family.controls)
    plan = family.plan(longest.text, replace(request, delivery=delivery), context)
    num_lanes = len(plan.prompts)
    if num_lanes > num_slots:
        raise InvalidRequest(
            f"cfg_scale: this guidance needs {num_lanes} slots and the engine has {num_slots}; use"
            " fewer kinds of guidance or start it with more slots.",
            field="cfg_scale",
        )
    if plan.num_rows + family.num_codebooks >= family.max_rows:
        raise InvalidRequest(
            f"input: the prompt has {plan.num_rows} rows and the model's context is"
            f" {family.max_rows}; shorten the longest sentence.",
            field="input",
        )
    return segments, num_lanes


def plan_segments(
    said: Iterable[Spoken | Pause], max_chars: int, language: str | None = None
) -> list[Segment]:
    """What is said and where it is silent, in segments of at most about ``max_chars`` characters.

    A wide character counts as ``WIDE_LETTERS``. Neighbours of one rate are one text. A stretch
    without a letter or number is not spoken.
    """
    segments: list[Segment] = []
    pause_ms = 0
    for rate, group in groupby(said, key=lambda piece: getattr(piece, "rate", None)):
        run = list(group)
        pause_ms += sum(piece.ms for piece in run if isinstance(piece, Pause))
        text = "".join(piece.text for piece in run if isinstance(piece, Spoken))
        for stretch in _stretches(text, max_chars, language):
            if any(unicodedata.category(char)[0] in "LN" for char in stretch):
                segments.append(Segment(stretch.strip(), rate or 1.0, pause_ms))
                pause_ms = 0
    if segments and pause_ms:
        segments[-1] = replace(segments[-1], pause_after_ms=pause_ms)
    return segments


def _stretches(text: str, max_chars: int, language: str | None) -> list[str]:
    groups = [""]
    for sentence in [text] if _weight(text) <= max_chars else sentences(text, language):
        weights = _weight(groups[-1]), _weight(sentence)
        if min(weights) < SHORT_SHARE * max_chars and sum(weights) <= max_chars:
            groups[-1] += sentence
        else:
            groups.append(sentence)
    chunks: list[str] = []
    for group in filter(None, groups):
        num_chars = max(WIDE_LETTERS, max_chars * len(group) // _weight(group))
        chunks += plan_chunks(group, num_chars, language)
    return chunks


def _weight(text: str) -> int:
    """How many letters take as long to say: a wide character is a syllable or more."""
    return len(text) + (WIDE_LETTERS - 1) * sum(map(_is_wide, text))


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"


def _num_bytes(text: str) -> float:
    """UTF-8 bytes; infinite where half of a surrogate pair makes the text one to refuse at once."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return math.inf
