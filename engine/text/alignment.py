"""What changed between a text and what is spoken for it, however much lies between the two.

- The spans are in order and do not overlap; ``apply`` of them to the first text gives the second.
- Telling them takes time in proportion to the texts, whatever is in them: words that are there once
  on both sides hold them together, and what lies between two of these is compared in full, or where
  that is too long is one span.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from engine.text.signs import UNSPACED
from engine.text.spans import Span

# Where both sides of a change are shorter than this (in tokens), they are compared in full.
_SMALL_TOKENS = 40
_MAX_DEPTH = 8
_TOKEN = re.compile(rf"[{UNSPACED}\uac00-\ud7a3]|[^\W_{UNSPACED}\uac00-\ud7a3]+|\s+|[\W_]")

Pairs = list[tuple[int, int]]


def apply(text: str, spans: Iterable[Span]) -> str:
    """``text`` with every span replaced; they are in order and do not overlap."""
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span.start], span.after]
        at = span.end
    return "".join((*parts, text[at:]))


def changed_spans(before: str, after: str) -> tuple[Span, ...]:
    """The spans of ``before`` that ``after`` has otherwise, white space too, as small as words."""
    a, b = _TOKEN.findall(before), _TOKEN.findall(after)
    starts_a, starts_b = _starts(a), _starts(b)
    same = [(-1, -1), *sorted(_common(a, b, 0, len(a), 0, len(b), 0)), (len(a), len(b))]
    spans = []
    for (i, j), (next_i, next_j) in pairwise(same):
        if next_i > i + 1 or next_j > j + 1:
            start, end = starts_a[i + 1], starts_a[next_i]
            said = after[starts_b[j + 1] : starts_b[next_j]]
            spans.append(Span(start, end, before[start:end], said))
    return tuple(spans)


def _starts(tokens: Sequence[str]) -> list[int]:
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token))
    return starts


def _common(
    a: Sequence[str], b: Sequence[str], i: int, i_end: int, j: int, j_end: int, depth: int
) -> Pairs:
    """Places with the same token, rising in both: from the ends inwards, then what is unique."""
    pairs = []
    while i < i_end and j < j_end and a[i] == b[j]:
        pairs.append((i, j))
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and a[i_end - 1] == b[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
        pairs.append((i_end, j_end))
    if i == i_end or j == j_end:
        return pairs
    if max(i_end - i, j_end - j) <= _SMALL_TOKENS:
        matcher = SequenceMatcher(None, a[i:i_end], b[j:j_end], autojunk=False)
        for block in matcher.get_matching_blocks():
            pairs += [(i + block.a + k, j + block.b + k) for k in range(block.size)]
        return pairs
    anchors = _anchors(a, b, i, i_end, j, j_end) if depth < _MAX_DEPTH else []
    if not anchors:
        return pairs
    for (i_last, j_last), (i_next, j_next) in pairwise([(i - 1, j - 1), *anchors, (i_end, j_end)]):
        pairs += _common(a, b, i_last + 1, i_next, j_last + 1, j_next, depth + 1)
    return pairs + anchors


def _anchors(a: Sequence[str], b: Sequence[str], i: int, i_end: int, j: int, j_end: int) -> Pairs:
    """The longest rising chain of tokens that are there once on each side (patience sorting)."""
    once_a = {token for token, count in Counter(a[i:i_end]).items() if count == 1}
    once_b = {token for token, count in Counter(b[j:j_end]).items() if count == 1}
    place_b = {b[k]: k for k in range(j, j_end) if b[k] in once_b}
    places = [(k, place_b[a[k]]) for k in range(i, i_end) if a[k] in once_a and a[k] in place_b]
    ends: list[int] = []  # the least last place in b of a chain of each length
    chain_at: list[int] = []  # that chain's last pair
    previous = [-1] * len(places)
    for k, (_, place) in enumerate(places):
        length = bisect_left(ends, place)
        previous[k] = chain_at[length - 1] if length else -1
        ends[length : length + 1] = [place]
        chain_at[length : length + 1] = [k]
    chain, k = [], chain_at[-1] if chain_at else -1
    while k >= 0:
        chain.append(places[k])
        k = previous[k]
    return chain[::-1]
