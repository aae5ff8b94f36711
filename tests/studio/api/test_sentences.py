"""Text in pieces becomes sentences, the same ones wherever the pieces were cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.api.sentences import Sentences
from tests.core_time import soon

TEXT = (
    'He said "Go!" and left. Dr. J. Smith paid 3.50. Really?\n\nPlan:\n1. Rest… “Oh.” 你好。再见！'
)
SENTENCES = [
    'He said "Go!"',
    "and left.",
    "Dr. J. Smith paid 3.50.",
    "Really?",
    "Plan:\n1.",
    "Rest…",
    "“Oh.”",
    "你好。",
    "再见！",
]


def sentences(*pieces: str, granularity: str = "sentence") -> list[str]:
    collector = Sentences(granularity)
    found = [sentence for piece in pieces for sentence in collector.feed(piece)]
    return found + collector.flush()


def test_text_is_cut_after_sentences_and_not_after_titles_or_inside_numbers():
    assert sentences(TEXT) == SENTENCES


def test_clauses_are_cut_at_commas_too():
    text = "First, a word; then: silence. 一，二。"
    cut = ["First,", "a word;", "then:", "silence.", "一，", "二。"]
    assert sentences(text, granularity="clause") == cut
    assert sentences(text) == ["First, a word; then: silence.", "一，二。"]


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_cuts_of_the_messages_do_not_matter(cuts):
    cuts = [0, *sorted(cuts), len(TEXT)]
    assert sentences(*(TEXT[a:b] for a, b in pairwise(cuts))) == SENTENCES


@given(st.text(alphabet="a.!? \n\"'1。」,", max_size=40), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_no_letter_is_lost_whatever_the_text(text, size):
    pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
    spoken = "".join(sentences(*pieces))
    assert [c for c in spoken if c.isalnum()] == [c for c in text if c.isalnum()]


def test_a_sentence_is_given_on_before_the_next_one_begins():
    collector = Sentences()
    assert collector.feed("One. Two") == ["One."]
    assert len(collector) == 3
    assert collector.feed(" goes on") == []
    assert collector.flush() == ["Two goes on"]
    assert collector.flush() == []


def test_marks_alone_are_not_spoken():
    assert sentences("... !? Well. … —") == ["Well."]


@pytest.mark.parametrize("piece", ["x", "a. ", "\n", '"'])
def test_a_long_text_in_tiny_messages_takes_little_time(piece):
    def feed() -> None:
        collector = Sentences()
        for _ in range(5_000):
            collector.feed(piece)

    soon(feed, within_s=0.5)
