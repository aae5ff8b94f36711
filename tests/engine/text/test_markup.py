"""Pauses and SSML: what is spoken how, where it is silent, and that nothing of it fails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.markup import (
    MAX_PAUSE_MS,
    MAX_PAUSES_MS,
    MAX_RATE,
    MIN_RATE,
    PARAGRAPH_MS,
    Pause,
    Spoken,
    mark,
    pieces,
)
from engine.text.say_as import speak_as

PARAGRAPH = Pause(PARAGRAPH_MS)


def parse(text: str) -> list[Spoken | Pause]:
    marked, events, _ = mark(text)
    return pieces(marked, events)


def notes_of(text: str) -> list[str]:
    marked, events, notes = mark(text)
    pieces(marked, events, notes)
    return notes


@pytest.mark.parametrize(
    ("sign", "ms"),
    [
        *(
            ("[pause 500ms]", 500),
            ("[pause 2s]", 2000),
            ("[PAUSE 0.5 s]", 500),
            ("[pause:1s]", 1000),
        ),
        *(("[pause=1.5 sec]", 1500), ("[break 250ms]", 250), ("[pause 10 seconds]", 10_000)),
        *(('<break time="500ms"/>', 500), ("<break time='.5s' />", 500), ("<break/>", 500)),
        *(('<break strength="x-strong"/>', 1000), ("<BREAK></BREAK>", 500)),
        ("[pause 99s]", MAX_PAUSE_MS),
    ],
)
def test_a_pause_is_silence(sign: str, ms: int) -> None:
    assert parse(f"one{sign}two") == [Spoken("one"), Pause(ms), Spoken("two")]


@pytest.mark.parametrize("sign", ['<break strength="none"/>', '<break time="0s"/>', "[pause 0ms]"])
def test_no_pause_is_none(sign: str) -> None:
    assert parse(f"one{sign} two") == [Spoken("one"), Spoken(" two")]


@pytest.mark.parametrize(
    "text",
    [
        "[pause]",
        "[pause forever]",
        "[pause 500]",
        "[pause -1s]",
        "[pauses 1s]",
        "[x]",
        "a[1]",
        "[[",
    ],
)
def test_a_bracket_that_is_no_pause_is_text(text: str) -> None:
    assert parse(text) == [Spoken(text)]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[pause forever]", "[pause 500ms]"),
        ("[pause 99s]", "at most 10 s, not 99 s"),
        ("[pause 9s]" * 40, "together last at most 300 s"),
        ('<break time="soon"/>', "'soon'"),
        ('<say-as interpret-as="song">la</say-as>', "'song'"),
        ('<prosody rate="quick">x</prosody>', "'quick'"),
        ("x</sub>", "closes nothing"),
        ('<sub alias="y">x', "never closed"),
        ('<prosody rate="slow">' * 30, "More than"),
    ],
)
def test_what_is_wrong_is_told(text: str, part: str) -> None:
    assert part in " ".join(notes_of(text))


@pytest.mark.parametrize(
    "text", ["plain", "[x]", "<break/>", "<p><s>a</s></p>", "<speak>a</speak>"]
)
def test_what_is_right_is_not_told(text: str) -> None:
    assert notes_of(text) == []


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        *(("x-slow", 0.5), ("slow", 0.75), ("medium", 1.0), ("fast", 1.25), ("x-fast", 1.5)),
        *(("80%", 0.8), ("+10%", 1.1), ("-20%", 0.8), ("1.2", 1.2)),
        *(("900%", MAX_RATE), ("1%", MIN_RATE), ("-300%", MIN_RATE), ("what", 1.0)),
    ],
)
def test_prosody_rate_is_a_multiple_of_the_usual_one(rate: str, expected: float) -> None:
    assert parse(f'<prosody rate="{rate}">x</prosody>') == [Spoken("x", expected)]


def test_elements_in_elements_count_together() -> None:
    text = '<prosody rate="80%">a<prosody rate="50%">b</prosody>c</prosody>d'
    assert [(piece.text, piece.rate) for piece in parse(text) if isinstance(piece, Spoken)] == [
        ("a", 0.8),
        ("b", 0.5),
        ("c", 0.8),
        ("d", 1.0),
    ]


def test_a_substitute_is_said_instead() -> None:
    assert parse('the <sub alias="World &amp; Wide">WW[pause 1s]</sub> web') == [
        Spoken("the "),
        Spoken("World & Wide", say_as="alias"),
        Pause(1000),
        Spoken(" web"),
    ]


def test_paragraphs_and_sentences_are_borders() -> None:
    found = parse("<speak><p><s>One</s><s>Two?</s></p><p>Three</p></speak>")
    assert found[3:] == [PARAGRAPH, Spoken("Three")]
    assert "".join(piece.text for piece in found[:3] if isinstance(piece, Spoken)) == "One.  Two?"


def test_between_paragraphs_there_is_one_pause() -> None:
    assert parse("\n\na\n\n\n \nb\n\n") == [Spoken("a"), PARAGRAPH, Spoken("b")]
    assert parse("a\n\n[pause 2s]\n\nb") == [Spoken("a"), Pause(2000), Spoken("b")]
    assert parse("a\nb") == [Spoken("a\nb")]
    assert pieces("a\n\nb", paragraph_ms=0) == [Spoken("a"), Spoken(" b")]


@pytest.mark.parametrize(
    "tag",
    [
        *(
            "<speak>",
            "</speak>",
            '<emphasis level="strong">',
            '<voice name="x">',
            '<mark name="m"/>',
        ),
        *(
            '<lang xml:lang="de">',
            '<audio src="x.mp3"/>',
            '<amazon:effect name="w">',
            "<w>",
            "<par>",
        ),
        *('<phoneme alphabet="ipa" ph="x">', '<meta name="a" content="b"/>', "</p >"),
    ],
)
def test_a_tag_of_ssml_is_never_spoken(tag: str) -> None:
    assert "".join(p.text for p in parse(f"a{tag}b") if isinstance(p, Spoken)) == "ab"


@pytest.mark.parametrize("text", ["a < b > c", "<b then c>", "x <break y", "<breaks/>", "<said>"])
def test_other_signs_are_left_to_cleaning(text: str) -> None:
    assert parse(text) == [Spoken(text)]


@pytest.mark.parametrize(
    ("way", "order", "language", "text", "said"),
    [
        ("characters", "", "en_us", "ab1-2", "A B 1 dash 2"),
        ("spell-out", "", "de", "x@y.z", "X at Y Punkt Z"),
        ("digits", "", None, "10:30", "1 0 3 0"),
        ("telephone", "", "en_us", "+1 (212) 555-0123", "plus 1, 2 1 2, 5 5 5, 0 1 2 3"),
        ("telephone", "", "fr_fr", "01 23", "0 1, 2 3"),
        ("cardinal", "", "en_us", "XVI", "16"),
        ("cardinal", "", "en_us", "42", "42"),
        ("ordinal", "", "en_us", "3", "third"),
        ("ordinal", "", "en_us", "XVI", "sixteenth"),
        ("ordinal", "", "de", "3.", "dritte"),
        ("ordinal", "", "cmn", "3", "3"),
        ("ordinal", "", None, "3", "3"),
        ("date", "dmy", "en_us", "5/1/2025", "January fifth, twenty twenty-five"),
        ("date", "mdy", "en_us", "1/5/2025", "January fifth, twenty twenty-five"),
        ("date", "", "en_us", "2025-01-05", "January fifth, twenty twenty-five"),
        ("date", "", "en_us", "5/1/2025", "5/1/2025"),
        ("date", "dmy", "en_us", "31/2/2025", "31/2/2025"),
        ("date", "dmy", None, "5/1/2025", "5/1/2025"),
        ("alias", "", "en_us", "a b", "a b"),
    ],
)
def test_say_as(way: str, order: str, language: str | None, text: str, said: str) -> None:
    assert speak_as(f" {text} ", way, order, language) == f" {said} "


SIGNS = st.sampled_from(
    [
        *(
            "[pause 1s]",
            "[pause 11s]",
            "[pause",
            "]",
            "[",
            "<break/>",
            "<p>",
            "</p>",
            "<s>",
            "</s>",
        ),
        *(
            '<sub alias="x">',
            "</sub>",
            '<prosody rate="slow">',
            "</prosody>",
            "<speak>",
            "\n\n",
            "\n",
        ),
        *(
            '<say-as interpret-as="digits">',
            "</say-as>",
            "<",
            ">",
            "word",
            " ",
            "1",
            ".",
            "\U000f0000",
        ),
    ]
)


@settings(max_examples=30, deadline=None)
@given(st.lists(SIGNS, max_size=30).map("".join) | st.text(max_size=30))
def test_whatever_is_written_keeps_to_the_limits(text: str) -> None:
    found = parse(text)
    pauses = [piece.ms for piece in found if isinstance(piece, Pause)]
    assert all(0 < ms <= MAX_PAUSE_MS for ms in pauses) and sum(pauses) <= MAX_PAUSES_MS
    spoken = [piece for piece in found if isinstance(piece, Spoken)]
    assert all(piece.text.strip() and MIN_RATE <= piece.rate <= MAX_RATE for piece in spoken)
    said = "".join(piece.text for piece in spoken)
    assert said.count("word") == text.count("word") or "<sub" in text
