"""The plan of a text: nothing lost, sentences apart, pauses where they belong."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.longform import Segment, plan_segments
from engine.text.markup import Pause, Spoken, pieces
from engine.validate import MAX_TEXT_CHARS
from tests.core_time import soon

TEXT = st.text(st.sampled_from('ab ,.!?\n"”。，你好…;'), max_size=400)
PIECES = st.lists(
    st.one_of(
        st.builds(Spoken, TEXT, st.sampled_from([1.0, 1.0, 0.5])),
        st.builds(Pause, st.integers(1, 900)),
    ),
    max_size=6,
)


def texts(text: str, max_chars: int) -> list[str]:
    return [segment.text for segment in plan_segments(pieces(text), max_chars, "en_us")]


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


@settings(deadline=None)  # the first text loads the library
@given(PIECES, st.integers(5, 60))
def test_every_letter_is_planned_once_at_its_pace_and_every_pause_kept(
    given_pieces: list[Spoken | Pause], max_chars: int
) -> None:
    segments = plan_segments(given_pieces, max_chars)
    wanted = [piece for piece in given_pieces if isinstance(piece, Spoken)]
    for pace in (0.5, 1.0):
        said = "".join(segment.text for segment in segments if segment.pace == pace)
        assert letters(said) == letters("".join(p.text for p in wanted if p.rate == pace))
    for segment in segments:
        assert segment.text == segment.text.strip() and letters(segment.text)
        assert len(segment.text) <= 2 * max_chars
        assert segment.pause_after_ms == 0 or segment is segments[-1]
    planned_ms = sum(segment.pause_before_ms + segment.pause_after_ms for segment in segments)
    asked_ms = sum(piece.ms for piece in given_pieces if isinstance(piece, Pause))
    assert planned_ms == (asked_ms if segments else 0)


def test_a_sentence_is_a_segment_and_a_short_one_joins_its_neighbour() -> None:
    text = "Mr. Hill paid 3.50 for the book. He read it on the train. It was late! Was it? Nobody."
    assert texts(text, 50) == [
        "Mr. Hill paid 3.50 for the book.",
        "He read it on the train. It was late! Was it?",
        "Nobody.",
    ]
    assert texts("One. Two. Three.", 50) == ["One. Two. Three."]


def test_a_long_sentence_is_cut_where_people_pause() -> None:
    assert texts("When the rain came down, we ran; the others stayed, and sang.", 40) == [
        "When the rain came down, we ran;",
        "the others stayed, and sang.",
    ]
    text = "今天天气很好，" * 10 + "我们去公园。"
    assert all(len(part) <= 20 and part[-1] in "，。" for part in texts(text, 60))


def test_paragraphs_and_pauses_are_silent_before_what_follows() -> None:
    asked = pieces("One.\n\nTwo.")
    assert plan_segments([Pause(100), *asked, Pause(40), Pause(2)], 40) == [
        Segment("One.", pause_before_ms=100),
        Segment("Two.", pause_before_ms=500, pause_after_ms=42),
    ]
    assert plan_segments([Spoken("Slow.", 0.5), Spoken(" * "), Spoken("So.")], 40) == [
        Segment("Slow.", pace=0.5),
        Segment("* So."),
    ]
    assert plan_segments([Pause(5), Spoken("…"), Pause(5)], 40) == []


def test_a_text_without_a_full_stop_is_cut_between_its_words() -> None:
    parts = texts("river stone window paper garden " * 156, 90)
    assert max(map(len, parts)) <= 90 and min(map(len, parts)) >= 45
    assert " ".join(parts).split() == ("river stone window paper garden " * 156).split()
    commas = texts("今天天气很好，" * 285, 90)
    assert max(map(len, commas)) <= 30 and all(part.endswith("，") for part in commas)
    assert "".join(commas) == "今天天气很好，" * 285
    assert texts("no full stop at the end", 90) == ["no full stop at the end"]


def test_a_word_that_does_not_end_is_cut_between_its_letters() -> None:
    parts = texts("abcdefghij" * 500, 90)
    assert "".join(parts) == "abcdefghij" * 500
    assert max(map(len, parts)) <= 90 and min(map(len, parts)) >= 45


def test_the_longest_text_is_planned_at_once() -> None:
    for text in ("river stone ", "abcdefghij", "今天天气很好，", '"Hi." ', "One two.\n\n", "a. "):
        whole = (text * (MAX_TEXT_CHARS // len(text)))[:MAX_TEXT_CHARS]
        parts = soon(partial(texts, whole, 90), within_s=0.5)  # 0.2 s for the six of them
        assert letters("".join(parts)) == letters(whole)
