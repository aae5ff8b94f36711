"""Cutting a long text: nothing lost, every stretch within its bound, borders where people pause."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.longform import plan_segments

TEXT = st.text(st.sampled_from('ab ,.!?\n"”。，你好…;'), max_size=400)


@given(TEXT, st.integers(5, 60))
def test_joined_segments_are_the_text_up_to_white_space(text: str, max_chars: int) -> None:
    segments = plan_segments(text, max_chars)
    assert "".join("".join(segments).split()) == "".join(text.split())
    assert all(segment.strip() == segment and segment for segment in segments)


@given(TEXT, st.integers(5, 60))
def test_no_segment_is_longer_than_twice_the_limit(text: str, max_chars: int) -> None:
    assert all(len(segment) <= 2 * max_chars for segment in plan_segments(text, max_chars))


def test_cuts_fall_after_sentences_then_clauses_then_words() -> None:
    assert plan_segments("One two three. Four five six! Seven?", 20) == [
        "One two three.",
        "Four five six!",
        "Seven?",
    ]
    assert plan_segments("One two three. Four.", 40) == ["One two three. Four."]
    assert plan_segments("aaaa bbbb cccc dddd, eeee ffff gggg hhhh", 25) == [
        "aaaa bbbb cccc dddd,",
        "eeee ffff gggg hhhh",
    ]
    words = plan_segments("abcd " * 30, 20)
    assert all(set(segment.split()) == {"abcd"} for segment in words)
    assert sum(segment.count("abcd") for segment in words) == 30


def test_closing_quotes_stay_with_their_sentence() -> None:
    assert plan_segments("“Come in.” He sat down on the chair.", 25) == [
        "“Come in.”",
        "He sat down on the chair.",
    ]


def test_unspaced_scripts_are_cut_after_their_own_marks() -> None:
    text = "今天天气很好，" * 10 + "我们去公园。"
    segments = plan_segments(text, 20)
    assert all(len(segment) <= 20 for segment in segments)
    assert all(segment[-1] in "，。" for segment in segments)
