"""Markdown as the words a reader would say: structure becomes paragraphs and sentences.

- Headings, items, cells and rows end as sentences do; numbers of a list are kept, as years at the
  beginning of a line look like them; addresses behind links are not read.
- HTML stays as it is for ``engine.text.hypertext``; what is code is kept apart from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from engine.text.lines import ended

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

ReadCode = Callable[[str, bool], str]

# Signs that are text, in a disguise that neither Markdown nor HTML sees through.
_DISGUISES = str.maketrans({"<": "\ue000", "&": "\ue001", "*": "\ue002"})
_UNDISGUISED = str.maketrans({"\ue000": "<", "\ue001": "&", "\ue002": "*"})
_INNER_STAR = re.compile(r"(?<=\w)\*(?=\w)")
_ADDRESSES = ("http", "ftp", "mailto")
_BULLET = re.compile(r"^ {0,12}[•◦▪‣●○∙]\s++", re.MULTILINE)
_BOX = re.compile(r"^\[[ xX]\] ")  # of a task


def disguise(text: str) -> str:
    """``text`` with its signs hidden from what reads Markdown or HTML later."""
    return text.translate(_DISGUISES)


def undisguise(text: str) -> str:
    """The signs of ``text`` shown again."""
    return text.translate(_UNDISGUISED)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": 20}).enable(["table", "strikethrough"])
    # An indented line is an indented line; references would swallow whole lines.
    return parser.disable(["code", "entity", "reference"])


def read_markdown(text: str, read_code: ReadCode) -> str:
    """``text`` without Markdown; ``read_code(code, is_block)`` says what stands for code.

    The result is in disguise: ``undisguise`` it when HTML has been taken out.
    """
    reader = _Reader(read_code)
    text = _BULLET.sub("- ", _INNER_STAR.sub("\ue002", text))
    for token in _parser().parse(text):
        reader.take(token)
    return reader.text()


class _Reader:
    """Collects blocks; lists and rows are blocks of several lines."""

    def __init__(self, read_code: ReadCode) -> None:
        self._read_code = read_code
        self._parts: list[str] = []
        self._cells: list[str] | None = None
        self._num_lists = 0
        self._is_heading = False
        self._number = ""

    def take(self, token: Token) -> None:
        kind = token.type
        if kind == "inline":
            self._take_inline(self._inline(token.children or []))
        elif kind == "fence":
            self._add(disguise(self._read_code(token.content, True)), "\n\n")
        elif kind == "html_block":
            self._add(token.content, "\n\n")
        elif kind in ("heading_open", "heading_close"):
            self._is_heading = kind == "heading_open"
        elif kind == "list_item_open":
            self._number = f"{token.info}{token.markup} " if token.info else ""
        elif kind.endswith("_list_open"):
            self._num_lists += 1
        elif kind.endswith("_list_close"):
            self._num_lists -= 1
            self._number = ""
            if not self._num_lists:
                self._add("", "\n\n")
        elif kind == "tr_open":
            self._cells = []
        elif kind == "tr_close":
            self._add(ended(", ".join(filter(None, self._cells or []))), "\n")
            self._cells = None
        elif kind == "table_close":
            self._add("", "\n\n")

    def text(self) -> str:
        return "".join(self._parts).strip()

    def _take_inline(self, said: str) -> None:
        if self._cells is not None:
            self._cells.append(" ".join(said.split()))
        elif self._num_lists:
            self._add(self._number + ended(_BOX.sub("", said, count=1)), "\n")
            self._number = ""
        else:
            self._add(ended(said) if self._is_heading else said, "\n\n")

    def _add(self, said: str, after: str) -> None:
        self._parts += [said, after]

    def _inline(self, tokens: list[Token]) -> str:
        parts: list[str] = []
        is_shown, is_link = True, False
        for token in tokens:
            if token.type in ("link_open", "link_close"):
                is_link = token.type == "link_open"
                # "<foo:bar>" has the form of an address and is a tag.
                target = str(token.attrs.get("href", "http"))
                is_shown = token.info != "auto" or target.startswith(_ADDRESSES)
            elif token.type in ("softbreak", "hardbreak"):
                parts.append("\n")
            elif token.type == "code_inline":
                parts.append(disguise(self._read_code(token.content, False)))
            elif token.type == "image" and not is_link:  # a badge is no text
                parts.append(self._inline(token.children or []))
            elif token.type == "text_special":
                parts.append(disguise(token.content))
            elif token.type in ("text", "html_inline") and is_shown:
                parts.append(token.content)
        return "".join(parts)
