"""Emoji, faces made of signs, bullets and frames: seen, never said."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

_FACE = re.compile(
    r"(?<!\S)(?:[:;=8xX][-o*']?[)(\[\]dDpPoO3/\\|*]|[)(][-o*']?[:;=]|<3|:'\(|\^[_.-]?\^|¯\\_\(ツ\)_/¯)"
    r"(?![^\s.!?,])"
)
_SHORT_NAME = re.compile(r"(?<!\S):[a-z][a-z0-9_+-]{1,40}:(?!\S)")
# A figure in a box ("1" and U+20E3) is a figure.
_KEYCAP = re.compile("(?<=[0-9#*])\u20e3")
# Bullets, frames, blocks and arrows.
_DRAWN = re.compile("[\u2022\u2023\u2043\u204c\u204d\u2190-\u21ff\u2219\u2500-\u25ff\u2605\u2606]+")
_BEFORE_MARK = re.compile(r"(?<! ) +(?=[,;!?.](?:\s|$))")
_SPACES = re.compile(r" {2,}")


@cache
def _pictures() -> Any:
    import regex

    return regex.compile(
        r"(?V1)[[\p{Extended_Pictographic}--[©®™‼⁉ℹ〰〽]]\p{Regional_Indicator}\p{Emoji_Modifier}]++"
    )


def drop_emoji(text: str) -> str:
    """``text`` without pictures; copyright and trade marks are signs that are said."""
    dropped = _KEYCAP.sub("", _SHORT_NAME.sub("", _FACE.sub("", text)))
    if not dropped.isascii():
        dropped = _pictures().sub(" ", _DRAWN.sub(" ", dropped))
    return text if dropped == text else _SPACES.sub(" ", _BEFORE_MARK.sub("", dropped))
