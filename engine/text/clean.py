"""What people paste becomes what a reader would read: plain paragraphs of words.

- Each rule has a switch in ``Cleaning``; all are on unless somebody turns them off.
- First the structure (Markdown, HTML, emoji, lines), then the words (addresses, capitals); the
  pronunciation dictionary wins over every rule for words but an address that is longer.
- It takes time in proportion to the text, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from engine.text.alignment import apply
from engine.text.capitals import capitals
from engine.text.characters import composed, tidy_characters
from engine.text.dictionary import Dictionary
from engine.text.emoji import drop_emoji
from engine.text.hypertext import read_html
from engine.text.lines import join_lines
from engine.text.links import links
from engine.text.listings import read_block, read_inline
from engine.text.markdown import ReadCode, read_markdown, undisguise
from engine.text.spans import Span

# Numbers of notes and other signs that an encyclopedia or Markdown puts behind a word.
_NOTE = re.compile(
    r"(?<=[\w.,;:!?\"”’)])\[(?:[1-9]\d{0,2}|edit|citation needed)\]|\[\^[\w-]{1,40}\]:?"
)
_TRAILING_SPACE = re.compile(r"(?<! ) +(?=\n)")
_SPACES = re.compile(r" {2,}")


@dataclass(frozen=True)
class Cleaning:
    """Which rules are applied; characters that cannot be read are taken out in any case."""

    reads_markup: bool = True  # [pause 500ms] and SSML
    reads_markdown: bool = True
    reads_html: bool = True
    shortens_code: bool = True  # listings by their name, identifiers as words
    drops_emoji: bool = True
    speaks_links: bool = True  # example dot com
    reads_capitals: bool = True  # shouted words as words, initials as letters
    joins_lines: bool = True  # lines that were broken for their width
    pauses_at_paragraphs: bool = True

    @classmethod
    def off(cls) -> Cleaning:
        """No rule at all: the text is spoken as it stands."""
        return cls(**{field.name: False for field in fields(cls)})


def clean(text: str, language: str | None = None, cleaning: Cleaning | None = None) -> str:
    """``text`` (without markup) as a reader would say it; paragraphs are parted by a blank line."""
    cleaning = cleaning or Cleaning()
    plain, _ = clean_structure(tidy_characters(text), language, cleaning)
    return clean_words(plain, language, cleaning)


def clean_structure(text: str, language: str | None, cleaning: Cleaning) -> tuple[str, list[str]]:
    """Tidy text as plain paragraphs, and notes about what was left out.

    Private-use characters of the planes above the first are kept where they are.
    """
    notes: list[str] = []
    read_code = _reader_of_code(language, cleaning, notes)
    if cleaning.reads_markdown:
        text = read_markdown(text, read_code)
    if cleaning.reads_html:
        text = read_html(text, read_code)
    if cleaning.reads_markdown or cleaning.reads_html:
        text = _NOTE.sub("", text)
    text = undisguise(text)
    if cleaning.drops_emoji:
        text = drop_emoji(text)
    if cleaning.joins_lines:
        text = join_lines(text)
    return composed(_SPACES.sub(" ", _TRAILING_SPACE.sub("", text)).strip()), notes


def clean_words(
    text: str, language: str | None, cleaning: Cleaning, dictionary: Dictionary | None = None
) -> str:
    """Plain text with addresses, capitals and the words of ``dictionary`` as they are said."""
    dictionary = dictionary or Dictionary()
    found = list(dictionary.matches(text, language)) if dictionary else []
    if cleaning.speaks_links:
        # What an address is made of may be in the dictionary too.
        found += [
            replace(link, after=dictionary.apply(link.after, language))
            for link in links(text, language)
        ]
    if cleaning.reads_capitals:
        found += capitals(text)
    return apply(text, _longest(found))


def _longest(spans: Iterable[Span]) -> list[Span]:
    """The spans that remain when of two overlapping ones the longer wins, or else the earlier."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.start - span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
        elif span.end - span.start > kept[-1].end - kept[-1].start:
            kept[-1] = span
    return kept


def _reader_of_code(language: str | None, cleaning: Cleaning, notes: list[str]) -> ReadCode:
    def read(code: str, is_block: bool) -> str:
        if not cleaning.shortens_code:
            return code
        if not is_block:
            return read_inline(code, language)
        said, is_left_out = read_block(code, language)
        if is_left_out:
            notes.append(f"A listing of {len(code.strip().splitlines())} lines is not read.")
        return said

    return read
