"""Borders of sentences in many languages, and a long text in chunks that people would make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.sentences import plan_chunks, sentences
from tests.core_time import soon

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en_us", "Dr. Smith lives on 5th St.|He is 3.5 ft. tall.|“Stop!” he said.|He left."),
        ("en_us", "J. R. R. Tolkien wrote it.|The U.S. Army came.|It was 5 p.m.|Then we left."),
        (
            "en_us",
            "Is it real?|Nobody knew… everyone kept walking.|Wait... what?|“Come in.”|She sat.",
        ),
        ("en_us", "He came at 10 a.m. on Jan. 5th.|See fig. 3 and p. 12, e.g. this one.|Fine."),
        ("en_us", "hello there.|how are you.|Visit example.com today.|Node.js 2.0.1 is out."),
        ("en_us", "1. First item.|2. Second item.|Yes!|(This is it.)"),
        (
            "de",
            "Am 3. Mai kam Dr. Müller.|Er sagte: „Komm!“|Es war der 24. Mai 1999.|Nr. 5 ist da.",
        ),
        ("fr_fr", "M. Dupont est là.|« Viens ! » dit-il.|Bonjour !|Ça va ?|Oui."),
        ("es", "¿Cómo estás?|¡Bien!|El Sr. Pérez vino.|Ud. sabe."),
        ("it", "Il sig. Rossi è qui.|Vieni!|Il dott. Bianchi no."),
        ("pt_br", "O Sr. Silva chegou.|Tudo bem?|Av. Paulista, n. 5."),
        ("ru", "Привет.|Это А. С. Пушкин.|Он родился в 1799 г. в Москве.|Да?"),
        ("pl", "Dr. Kowalski przyszedł.|To jest np. to.|Tak?|Jutro jest 3. maja."),
        ("vi", "Xin chào.|Tôi là TS. Nam.|Bạn khỏe không?"),
        ("nl", "Dhr. Jansen is er.|Bijv. dit.|Ja!"),
        ("ko", "안녕하세요.|3.5미터예요.|정말요?|네!"),
        ("ar", "مرحبا بالعالم.|كيف حالك؟|أنا بخير."),
        ("he", "שלום.|מה שלומך?|טוב."),
        ("te", "ఇది ఒక వాక్యం.|ఇది రెండవది."),
        (None, "One two.|Three four?|Five."),
    ],
)
def test_sentences_end_where_they_end(language: str | None, expected: str) -> None:
    text = expected.replace("|", " ")
    assert [part.strip() for part in sentences(text, language)] == expected.split("|")


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("ja", "今日はいい天気ですね。|明日は雨が降るでしょう！|本当ですか？|はい。"),
        ("cmn", "今天天气很好。|我们去公园吧！|价格是3.50元。|真的吗？"),
        ("hi", "यह एक वाक्य है। |यह दूसरा है। |क्या?"),
        ("en_us", "A title\n\n|A line\nthat goes on.\n\n|The end."),
    ],
)
def test_sentences_keep_their_white_space(language: str, expected: str) -> None:
    assert sentences(expected.replace("|", ""), language) == expected.split("|")


MIXED = st.text(st.sampled_from('abA1 .,!?\n"”“。，你«»)(…;:\u0301\ud800'), max_size=120)


@settings(max_examples=30, deadline=None)
@given(MIXED | st.text(max_size=60), st.sampled_from(["en_us", "de", "fr_fr", "cmn", "th", None]))
def test_joined_sentences_are_the_text(text: str, language: str | None) -> None:
    assert "".join(sentences(text, language)) == text
    assert all(sentences(text, language)) or not text


@settings(max_examples=30, deadline=None)
@given(MIXED, st.integers(5, 60))
def test_joined_chunks_are_the_text_up_to_white_space(text: str, max_chars: int) -> None:
    chunks = plan_chunks(text, max_chars, "en_us")
    assert "".join("".join(chunks).split()) == "".join(text.split())
    assert all(chunk == " ".join(chunk.split()) and chunk for chunk in chunks)
    assert all(len(chunk) <= 2 * max_chars for chunk in chunks)


def test_no_word_is_cut_and_no_space_is_put_into_one() -> None:
    text = "Dr. Smith paid 3.50, and “left.” Then it rained; nobody cared. " * 20
    for max_chars in (20, 40, 90, 150):
        assert " ".join(plan_chunks(text, max_chars, "en_us")) == text.strip()


def test_cuts_fall_after_sentences_then_clauses_then_words() -> None:
    assert plan_chunks("One two three. Four five six! Seven?", 20, "en_us") == [
        "One two three.",
        "Four five six!",
        "Seven?",
    ]
    assert plan_chunks("One two three. Four.", 40, "en_us") == ["One two three. Four."]
    assert plan_chunks("aaaa bbbb cccc dddd, eeee ffff gggg hhhh", 25, "en_us") == [
        "aaaa bbbb cccc dddd,",
        "eeee ffff gggg hhhh",
    ]
    assert plan_chunks("a sentence without a mark inside it", 20, "en_us") == [
        "a sentence without a mark inside it"
    ]
    words = plan_chunks("abcd " * 30, 20, "en_us")
    assert " ".join(words) == ("abcd " * 30).strip() and max(map(len, words)) <= 20


def test_quotes_stay_with_their_sentence() -> None:
    assert plan_chunks("“Come in.” He sat down on the chair.", 25, "en_us") == [
        "“Come in.”",
        "He sat down on the chair.",
    ]


def test_scripts_without_spaces_are_cut_after_their_own_marks() -> None:
    chunks = plan_chunks("今天天气很好，" * 10 + "我们去公园。好。", 20, "cmn")
    assert all(len(chunk) <= 20 and chunk[-1] in "，。" for chunk in chunks)
    assert "".join(chunks) == "今天天气很好，" * 10 + "我们去公园。好。"


def test_letters_are_not_parted_from_their_marks() -> None:
    chunks = plan_chunks("ก็" * 200 + "e\u0301" * 100 + "👨‍👩‍👧" * 20, 20, "th")
    assert not any(chunk[0] in "\u0e47\u0301\u200d" or chunk[-1] == "\u200d" for chunk in chunks)


@pytest.mark.parametrize(
    "text",
    [
        "river stone window paper garden " * 156,
        "abcdefghij" * 500,
        "今天天气很好，" * 285,
        *(sign * 20_000 for sign in ("“", ". ", "a. ", "1. ", "\n", "a,", "e\u0301", "(a. ")),
    ],
)
def test_text_without_sentences_is_cut_all_the_same_and_soon(text: str) -> None:
    chunks = soon(lambda: plan_chunks(text, 150, "en_us"), within_s=0.6)
    assert max(map(len, chunks), default=0) <= 300
    assert "".join("".join(chunks).split()) == "".join(text.split())


def test_a_border_does_not_depend_on_what_comes_long_before() -> None:
    paragraph = "Mr. Smith met Dr. Jones at 5 p.m. on Main St. and paid $3.50. He left. "
    found = [part.strip() for part in sentences(paragraph * 100, "en_us")]
    assert found == [part.strip() for part in sentences(paragraph, "en_us")] * 100


def test_a_short_text_needs_no_library() -> None:
    program = (
        "import sys; from engine.text.sentences import plan_chunks\n"
        "assert plan_chunks('One two.  Three.', 150, 'en_us') == ['One two. Three.']\n"
        "print([name for name in ('sentencex', 'regex', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=240
    )
    assert done.stdout.strip() == "[]", done.stderr[-2000:]
