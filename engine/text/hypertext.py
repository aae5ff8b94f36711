"""HTML as the words of the page: tags out, blocks as paragraphs, what is no text left out.

Python's own parser takes a minute for 50,000 characters of ``<a `` (3.11); this one looks at
every character a fixed number of times. Only what has the shape of a tag is one: "a < b" is text.
"""

from __future__ import annotations

import re
from html import unescape

from engine.text.characters import tidy_characters
from engine.text.lines import ended
from engine.text.markdown import ReadCode, disguise

_TAG = re.compile(
    r"<(?P<close>/?)(?P<name>[a-zA-Z][a-zA-Z0-9]*+(?:[:-][a-zA-Z0-9]++)*+)"
    r"(?P<attributes>(?:\s++[\w@:.-]++(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))?+)*+)"
    r"\s*+/?>"
)
_ATTRIBUTE = re.compile(
    r"\s++(?P<name>[\w@:.-]++)(?:\s*+=\s*+(?P<value>\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))?+"
)
# With its semicolon: "&copy=1" is a part of an address.
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_DECLARATION = re.compile(r"<[!?][a-zA-Z][^<>]*+>")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Attributes that need no value; a tag with any other bare word is text: "if a <b and c> d".
_BARE = _set(
    """
    allowfullscreen async autofocus autoplay checked controls default defer disabled download hidden
    inert ismap itemscope loop multiple muted nomodule novalidate open playsinline readonly required
    reversed selected
    """
)
_SKIPPED = _set(
    """
    script style template noscript head title svg iframe object canvas audio video select
    """
)
_BLOCKS = _set(
    """
    p div section article header footer main aside nav ul ol dl table blockquote figure figcaption
    form fieldset hr address details summary body html
    """
)
_SENTENCES = _set(
    """
    h1 h2 h3 h4 h5 h6 li tr dt dd option caption button label
    """
)


def read_html(text: str, read_code: ReadCode) -> str:
    """``text`` without HTML; ``read_code(code, is_block)`` says what stands for code."""
    if "<" not in text and "&" not in text:
        return text
    return _Page(text, read_code).read()


class _Page:
    def __init__(self, text: str, read_code: ReadCode) -> None:
        self._text = text
        self._read_code = read_code
        self._parts: list[str] = []
        self._sentence_from = 0
        self._unclosed: set[str] = set()  # what is not closed in the rest of the text

    def read(self) -> str:
        at = 0
        while (found := self._text.find("<", at)) >= 0:
            self._add(self._text[at:found])
            at = self._take(found)
        self._add(self._text[at:])
        return re.sub(r"\n{3,}", "\n\n", "".join(self._parts))

    def _add(self, raw: str) -> None:
        self._parts.append(_plain(raw))

    def _take(self, at: int) -> int:
        """Read the sign at ``at`` -> where the text goes on."""
        text = self._text
        if text.startswith("<!--", at):
            return self._past("-->", at + 4) or at + 4
        if text.startswith("<![CDATA[", at):
            return at + 9
        declaration = _DECLARATION.match(text, at)
        if declaration:
            return declaration.end()
        tag = _TAG.match(text, at)
        if tag is None or not _is_tag(tag):
            self._parts.append("<")
            return at + 1
        name = tag["name"].lower()
        if not tag["close"] and name in (*_SKIPPED, "pre", "code"):
            inner_end = self._close_of(name, tag.end())
            if inner_end is not None:
                if name not in _SKIPPED:
                    self._take_code(text[tag.end() : inner_end], name == "pre")
                return text.index(">", inner_end) + 1
        self._take_tag(name, bool(tag["close"]), tag["attributes"])
        return tag.end()

    def _take_tag(self, name: str, is_close: bool, attributes: str) -> None:
        if name == "br":
            self._parts.append("\n")
        elif name in ("td", "th"):
            if is_close:
                self._parts.append(", ")
        elif name == "img":
            self._parts += [
                _plain((match["value"] or "").strip("\"'"))
                for match in _ATTRIBUTE.finditer(attributes)
                if match["name"].lower() == "alt"
            ]
        elif name in _SENTENCES:
            self._end_sentence()
            self._parts.append("\n\n" if name.startswith("h") else "\n")
        elif name in _BLOCKS:
            self._parts.append("\n\n")

    def _end_sentence(self) -> None:
        """What was said since the last heading, item or row ends as a sentence does."""
        said = "".join(self._parts[self._sentence_from :])
        core = said.rstrip(" ,\n")
        border = "\n\n" if "\n\n" in said[len(core) :] else ""
        self._parts[self._sentence_from :] = [ended(core), border]
        self._sentence_from = len(self._parts)

    def _take_code(self, raw: str, is_block: bool) -> None:
        code = _plain(_TAG.sub("", raw))
        said = disguise(self._read_code(code, is_block))
        self._parts.append(f"\n\n{said}\n\n" if is_block else said)

    def _past(self, sign: str, at: int) -> int | None:
        if sign in self._unclosed:
            return None
        found = self._text.find(sign, at)
        if found < 0:
            self._unclosed.add(sign)
            return None
        return found + len(sign)

    def _close_of(self, name: str, at: int) -> int | None:
        """Where the closing tag of ``name`` begins."""
        if name in self._unclosed:
            return None
        found = re.compile(rf"</{name}\s*+>", re.IGNORECASE).search(self._text, at)
        if found is None:
            self._unclosed.add(name)
            return None
        return found.start()


def _is_tag(tag: re.Match[str]) -> bool:
    return all(
        match["value"] is not None or match["name"].lower() in _BARE
        for match in _ATTRIBUTE.finditer(tag["attributes"])
    )


def _plain(raw: str) -> str:
    """Entities as what they stand for: any character, also one that no text should hold."""
    return _ENTITY.sub(lambda match: tidy_characters(unescape(match[0])), raw)
