"""One stretch of a text that is spoken otherwise than it is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """``before``, the characters ``start`` to ``end`` of the text, is spoken as ``after``."""

    start: int
    end: int
    before: str
    after: str
