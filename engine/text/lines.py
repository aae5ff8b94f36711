"""Lines and paragraphs: which line ends mean nothing, which are a breath, where a sentence ends."""

from __future__ import annotations

import re

from engine.text.signs import UNSPACED

# A width that people and programs wrap lines at; shorter lines are verses, lists or addresses.
_MIN_WIDTH, _MAX_WIDTH = 40, 120
_MIN_WIDTH_UNSPACED = 20
# How much shorter than the longest line a wrapped one may be.
_SLACK = 8

# What may stand after the last letter of a sentence: quotes, brackets, emphasis.
_CLOSERS = "\"'”’»›」』）)]}*_ \n"
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_IS_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
# Private-use characters stand for markup (engine.text.markup): they are no part of a sentence.
_FIRST_MARK = "\U000f0000"
_HYPHENATED = re.compile(r"[^\W\d_]{2}-$")


def end_mark(text: str) -> str:
    """The full stop that ``text`` lacks, in its own script; "" where it ends in some mark."""
    at = len(text) - 1
    while at >= 0 and (text[at] in _CLOSERS or text[at] >= _FIRST_MARK):
        at -= 1
    if at < 0 or not text[at].isalnum():
        return ""
    if _IS_EAST_ASIAN.match(text[at]):
        return "。"
    return "।" if "\u0900" <= text[at] <= "\u09ff" else "."


def ended(text: str) -> str:
    """``text`` as a sentence: with a full stop, unless it ends in some mark or says nothing."""
    end = len(text)
    while end and (text[end - 1].isspace() or text[end - 1] >= _FIRST_MARK):
        end -= 1
    return text[:end] + end_mark(text) + text[end:].rstrip()


def join_lines(text: str) -> str:
    """Paragraphs (blank lines between them) whose lines run on as a reader would read them.

    A line that was broken for its width runs on; a verse, an item or a part of an address ends with
    a comma where it has no mark; lines too long to have been wrapped are paragraphs.
    """
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(filter(None, map(_join_paragraph, paragraphs)))


def _join_paragraph(paragraph: str) -> str:
    lines = [" ".join(line.split()) for line in paragraph.split("\n")]
    lines = [line for line in lines if line]
    width = max(map(len, lines), default=0)
    parts: list[str] = []
    for at, line in enumerate(lines):
        parts.append(line)
        if at + 1 < len(lines):
            parts[-1], between = _join(line, lines[at + 1], width)
            parts.append(between)
    return "".join(parts)


def _join(line: str, following: str, width: int) -> tuple[str, str]:
    """The line as it is said, and what comes between it and the following one."""
    is_unspaced = bool(_IS_UNSPACED.match(line[-1]) or _IS_UNSPACED.match(following[0]))
    between = "" if is_unspaced else " "
    word = 1 if is_unspaced else len(following.partition(" ")[0])
    least = _MIN_WIDTH_UNSPACED if is_unspaced else _MIN_WIDTH
    is_wrapped = least <= width <= _MAX_WIDTH and len(line) + 1 + word + _SLACK > width
    if (is_wrapped or following[0].islower()) and not is_unspaced:
        if _HYPHENATED.search(line) and following[0].islower():
            return line[:-1], ""
        return line, between
    if is_wrapped:
        return line, between
    if width > _MAX_WIDTH and min(len(line), len(following)) > _MIN_WIDTH:
        return line, "\n\n"
    if not end_mark(line):
        return line, between
    return (line + "、", "") if _IS_EAST_ASIAN.match(line[-1]) else (line + ",", " ")
