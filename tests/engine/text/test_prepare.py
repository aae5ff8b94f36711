"""The whole way from what was pasted to what is spoken."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.alignment import apply, changed_spans
from engine.text.clean import Cleaning
from engine.text.dictionary import Dictionary, Pronunciation
from engine.text.markup import PARAGRAPH_MS, Pause, Spoken
from engine.text.prepare import Prepared, arrange, prepare
from engine.text.spans import Span
from tests.core_time import soon


@dataclass(frozen=True)
class Read:
    text: str
    notes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()


class Digits:
    """Reads the digits one to three, and remembers what it was asked."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.asked: list[tuple[str, str | None, float]] = []
        self._takes_s = takes_s

    def normalise(self, text: str, language: str | None, *, deadline_s: float) -> Read:
        self.asked.append((text, language, deadline_s))
        time.sleep(self._takes_s)
        words = {"1": "one", "2": "two", "3": "three"}
        return Read(re.sub("[123]", lambda found: words[found[0]], text), ("read",))


def spoken(prepared: Prepared) -> list[str | int]:
    return [piece.text if isinstance(piece, Spoken) else piece.ms for piece in prepared.pieces]


def test_the_order_is_markup_structure_words_say_as_numbers() -> None:
    text = (
        "# Part 1\n\nSee **GIF** at example.com/gif, says the FBI. "
        '[pause 2s] <say-as interpret-as="characters">a1</say-as> and '
        '<sub alias="3 GIF">x</sub> of them &amp; more 😀'
    )
    dictionary = Dictionary([Pronunciation("GIF", "jif 2")])
    normaliser = Digits()
    prepared = prepare(text, "en_us", None, dictionary, normaliser)
    assert spoken(prepared) == [
        "Part one.",
        PARAGRAPH_MS,
        "See jif two at example dot com slash jif two, says the F B I.",
        2000,
        "A one and three GIF of them & more",
    ]
    assert [language for _, language, _ in normaliser.asked] == ["en_us"] * 3
    assert prepared.notes == ("read",)


def test_the_longer_match_wins_and_an_entry_wins_over_a_rule() -> None:
    dictionary = Dictionary(
        [
            Pronunciation("example", "EXAMPLE"),
            Pronunciation("mail.example.com", "our page"),
            Pronunciation("NASA", "NA-SA"),
        ]
    )
    text = "See example, example.com or mail.example.com, says NASA."
    prepared = prepare(text, "en_us", None, dictionary)
    assert prepared.text == "See EXAMPLE, EXAMPLE dot com or our page, says NA-SA."


def test_neighbours_at_one_rate_are_one_sentence() -> None:
    text = 'Call <say-as interpret-as="digits">12</say-as>, <prosody rate="slow">now</prosody>!'
    assert prepare(text, "en_us").pieces == (Spoken("Call 1 2,"), Spoken("now!", 0.75))


def test_signs_between_pauses_are_not_spoken_but_a_text_of_signs_is_told_at_the_door() -> None:
    assert spoken(prepare("One [pause 1s] ... [pause 1s] two")) == ["One", 1000, 1000, "two"]
    assert spoken(prepare("... ?!")) == ["... ?!"]
    for blank in ("", " ", "\n\t", "\u200b", "\u3000", "<br>", "[pause 1s]"):
        assert not any(isinstance(piece, Spoken) for piece in prepare(blank).pieces)


def test_without_a_language_no_words_are_put_in() -> None:
    assert prepare("See example.com, 5 < 6.", None).text == "See example.com, 5 < 6."


def test_with_every_rule_off_the_text_is_spoken_as_it_stands() -> None:
    text = "# <b>x</b>\n[pause 1s] \ud800FBI example.com"
    assert spoken(prepare(text, "en_us", Cleaning.off())) == [
        "# <b>x</b> [pause 1s] FBI example.com"
    ]


def test_detect_finds_the_words_for_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.text.prepare.detect_language", lambda text: "de")
    normaliser = Digits()
    prepared = prepare("Siehe beispiel.com", "detect", None, None, normaliser)
    assert prepared.text == "Siehe beispiel Punkt com"
    # The normaliser tells the languages itself, sentence by sentence.
    assert normaliser.asked[0][1] == "detect"


def test_all_pieces_together_keep_to_the_deadline() -> None:
    normaliser = Digits(takes_s=0.02)
    prepare("a\n\nb\n\nc", "en_us", None, None, normaliser, deadline_s=0.03)
    left_s = [deadline_s for _, _, deadline_s in normaliser.asked]
    assert left_s[0] <= 0.03 and left_s[1] <= 0.01 and left_s[2] == 0.0


def test_arranging_asks_no_normaliser() -> None:
    assert arrange("1\n\n2") == ([Spoken("1"), Pause(PARAGRAPH_MS), Spoken("2")], [])


def test_notes_are_told_once_and_not_without_end() -> None:
    assert len(prepare("[pause x]" * 50).notes) == 1
    assert len(prepare(" ".join(f"[pause {number}]" for number in range(50))).notes) == 20


def test_spans_are_what_changed() -> None:
    text = "It costs **1** dollar.\nSee 2."
    prepared = prepare(text, "en_us", None, None, Digits())
    assert prepared.text == "It costs one dollar. See two."
    assert prepared.spans == (
        Span(9, 14, "**1**", "one"),
        Span(22, 23, "\n", " "),
        Span(27, 28, "2", "two"),
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", " ", "1", ".", "天", "word", "\n"]), max_size=60),
    st.lists(st.sampled_from(["a", "b", " ", "1", ".", "天", "word", "x"]), max_size=60),
)
def test_spans_lead_from_the_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    old, new = "".join(before), "".join(after)
    spans = changed_spans(old, new)
    assert apply(old, spans) == new
    assert all(old[span.start : span.end] == span.before != span.after for span in spans)


def test_spans_of_long_texts_are_small_and_soon_told() -> None:
    words = [f"word{n}" if n % 7 == 0 else f"and{n % 97}" for n in range(8000)]
    said = [word if n % 50 else "changed" for n, word in enumerate(words)]
    spans = soon(lambda: changed_spans(" ".join(words), " ".join(said)), within_s=0.5)
    assert sum(len(span.before) for span in spans) < 3000
    soon(lambda: changed_spans("a b " * 6000, "b a " * 6000), within_s=0.5)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["en_us", "cmn", None]))
def test_any_text_can_be_prepared(text: str, language: str | None) -> None:
    prepared = prepare(text, language, None, Dictionary([Pronunciation("a", "b")]), Digits())
    prepared.text.encode()
    assert apply(text, prepared.spans) == prepared.text


@pytest.mark.parametrize(
    "text",
    [
        'He said "hi" & left.',
        "'Nothing taught by force remains in the mind.'",
        "“curly” ‘single’",
        "{x} \\ | ^ ~ `",
        'tokens { name: "x" }',
        "5'10\" tall",
        '"unclosed',
        '你好"',
    ],
)
def test_quotes_and_brackets_are_no_trouble(text: str) -> None:
    prepared = prepare(text, "en_us")
    assert prepared.text == text and prepared.notes == ()


def test_a_short_paragraph_is_in_the_language_of_the_rest() -> None:
    text = "Part 1\n\nShe opened the window and looked at the rain for 2 hours.\n\nNo. 3"
    normaliser = Digits()
    prepared = prepare(text, "detect", None, None, normaliser)
    assert [language for _, language, _ in normaliser.asked] == ["en_us", "detect", "en_us"]
    assert prepared.languages == ("en_us",)


@pytest.mark.parametrize(
    ("language", "languages"),
    [(None, ()), ("de", ("de",)), ("detect", ("en_us",))],
)
def test_it_tells_in_which_language_it_was_read(
    language: str | None, languages: tuple[str, ...]
) -> None:
    text = "She opened the window and looked at the rain."
    assert prepare(text, language).languages == languages
    assert prepare("...", "detect").languages == ()
