"""What people paste becomes what a reader would say, and costs time in proportion to its length."""

from __future__ import annotations

import unicodedata
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.characters import tidy_characters
from engine.text.clean import Cleaning, clean
from engine.text.prepare import prepare
from tests.core_time import soon

PROSE = [
    "Dr. Smith lives on 5th St. It costs $3.50, i.e. 10% more (see p. 12).",
    "He said \"hi\" & left; 'Nothing taught by force remains in the mind.' “curly” ‘single’",
    "Braces {x} and a [note] are text, as are \\ | ^ ~ and 2*3*4, 5 < 6 > 4, a_b, #1, C++ and C#.",
    "Wait... what?! Ask Node.js or README.md, e.g. version 2.0.1, at 10:30.",
    "Am 3. Mai kostete das 12,50 €. „Komm!“, sagte er.",
    "« Viens ! » dit-il. ¿Cómo estás? ¡Bien! Il sig. Rossi è qui.",
    "今日はいい天気ですね。「来い。」と彼は言った。价格是3.50元，２０~30秒。",
    "안녕하세요. 2025년 1월 5일. Привет, 5. مرحبا بالعالم 123. यह एक वाक्य है। สวัสดีครับ",
]


@pytest.mark.parametrize("text", PROSE)
def test_plain_prose_stays_as_it_is(text: str) -> None:
    expected = text.replace("２０", "20")
    assert clean(text, "en_us") == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# One\n\nIt was **bright** in _April_.", "One.\n\nIt was bright in April."),
        ("Title\n=====\n\ntext", "Title.\n\ntext"),
        ("See [the docs](https://x.io/a), ![a cat](c.png).", "See the docs, a cat."),
        ("- milk\n- eggs\n  - brown\n* * *\nend", "milk. eggs. brown.\n\nend"),
        ("• milk\n• eggs", "milk. eggs."),
        ("- [ ] buy\n- [x] sell", "buy. sell."),
        ("1. First\n2. Second", "1. First. 2. Second."),
        ("1986. What a great season.", "1986. What a great season."),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a, b. 1, 2."),
        ("> quoted\n> text", "quoted text"),
        ("~~old~~ new \\*star\\*", "old new *star*"),
        ("a fact.[12] Another[^n] one, a[0] [1]", "a fact. Another one, a[0] [1]"),
        ("[![badge](b.svg)](https://x.io) Hi", "Hi"),
        ("    an indented paragraph\n\n    is no code", "an indented paragraph\n\nis no code"),
    ],
)
def test_markdown_is_read_and_not_spelled(text: str, said: str) -> None:
    assert clean(text, "en_us") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<p>One <b>two</b> &amp; three&nbsp;four.</p><p>End</p>", "One two & three four.\n\nEnd"),
        ("<h1>Title</h1>text<br>and more", "Title.\n\ntext and more"),
        ("<ul><li>a</li><li>b</li></ul>", "a. b."),
        ("<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>", "1, 2. 3."),
        ("<head><title>T</title></head><style>p{}</style>Hi<script>x<y</script> there", "Hi there"),
        ("a<!-- hidden > text -->b <!DOCTYPE html>c", "ab c"),
        ('<a href="x>y" disabled>link</a> <img alt="a &lt; cat" src=x>', "link a < cat"),
        ("if a <b and c> d, x < y, <your name>", "if a <b and c> d, x < y, <your name>"),
        ("<foo:bar>not spoken</foo:bar> <custom-tag/>", "not spoken"),
        ("a &lt;b&gt; &copy= &unknown; AT&T &#65;&#xE000;", "a <b> &copy= &unknown; A T&T A"),
        ("<h2>Life<b>[</b>edit]</h2>a fact<sup>&#91;1&#93;</sup>", "Life.\n\na fact"),
        ("an unclosed <script> and <!-- are text", "an unclosed and are text"),
    ],
)
def test_html_is_read_and_not_spelled(text: str, said: str) -> None:
    assert clean(text, "en_us") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Call `getUserName()` or `snake_case`.", "Call get User Name or snake case."),
        ("Edit `src/main.py`", "Edit src slash main dot py"),
        ("Use the `<b>` tag & `a && b`", "Use the b tag & a && b"),
        ("Run\n\n```sh\nnpm install\n```", "Run\n\nnpm install."),
        ("Run\n\n```py\na = 1\nb = 2\nc = 3\n```\n\nnow", "Run\n\nCode example.\n\nnow"),
        ("<pre><code>a = 1\nb = 2\nc = 3</code></pre><code>x_y</code>", "Code example.\n\nx y"),
    ],
)
def test_code_is_read_as_a_person_would(text: str, said: str) -> None:
    assert clean(text, "en_us") == said


def test_a_listing_is_announced_in_the_language_of_the_text_or_left_out() -> None:
    listing = "A\n\n```\na\nb\nc\n```\n\nB"
    assert clean(listing, "de") == "A\n\nCodebeispiel.\n\nB"
    assert clean(listing, "cmn") == "A\n\n代码示例。\n\nB"
    assert clean(listing, "sv") == "A\n\nB"
    assert "3 lines" in prepare(listing, "de").notes[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Great 😀👍🏽! 🇩🇪 family 👨‍👩‍👧‍👦.", "Great! family."),
        ("Nice :) and sad :-( , ok", "Nice and sad, ok"),
        ("a :smile: b, at 10:30: fine", "a b, at 10:30: fine"),
        ("Press 1️⃣ now © ™", "Press 1 now © ™"),
        ("A → B ★★★ ▶", "A B"),
    ],
)
def test_emoji_are_not_spoken(text: str, said: str) -> None:
    assert clean(text, "en_us") == said


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("en_us", "Visit https://example.com/a?b=1.", "Visit example dot com slash a."),
        ("en_us", "Here is mail.example.org.", "Here is mail dot example dot org."),
        ("en_us", "(http://www.foo-bar.co.uk/)", "(foo dash bar dot co dot U K)"),
        ("en_us", "<https://x.io>, www.x.de!", "x dot I O, x dot D E!"),
        ("en_us", "Write john.doe@example.com.", "Write john dot doe at example dot com."),
        ("en_us", "https://a.com/x_y/z-1/w/v", "a dot com slash x y slash z 1"),
        ("en_us", "https://a.com/d0d0cafe1234567890", "a dot com"),
        ("en_us", "ftp://user:secret@10.0.0.1:21/f", "10.0.0.1 slash f"),
        ("en_us", "finished.It was, so.is it; a@b", "finished.It was, so.is it; a@b"),
        ("de", "mail@x-y.com", "mail at x Bindestrich y Punkt com"),
        ("fr_fr", "a_b@c.com", "a tiret bas b arobase c point com"),
        ("es", "x.com/y", "x punto com barra y"),
        ("it", "a@c.com", "a chiocciola c punto com"),
        ("pt_br", "c.com", "c ponto com"),
        ("ja", "詳細はhttps://example.com。", "詳細はexample ドット com。"),
        ("cmn", "请看https://example.com/路径", "请看example 点 com路径"),
        ("ko", "a@c.com", "a 골뱅이 c 점 com"),
        ("sv", "https://example.com/a", "https://example.com/a"),
        (None, "https://example.com/a", "https://example.com/a"),
    ],
)
def test_addresses_are_said_in_the_words_of_the_language(
    language: str | None, text: str, said: str
) -> None:
    assert clean(text, language) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("THIS IS A SIMPLE EXAMPLE", "This is a simple example"),
        ("STOP! Do NOT touch the RED button.", "Stop! Do not touch the red button."),
        ("The FBI and NASA use a USB port.", "The F B I and nasa use a U S B port."),
        ("DON'T DO IT, IT IS MINE.", "Don't do it, it is mine."),
        ("The IT team of the US and two PDFs.", "The I T team of the U S and two P D Fs."),
        ("Louis XVI and Chapter IV on CD", "Louis XVI and Chapter IV on C D"),
        ("5 GB, 10 PM, PS5, B2B, 220 V", "5 GB, 10 PM, PS5, B2B, 220 V"),
        ("OK. I am A. HELLO WORLD!", "OK. I am A. Hello world!"),
        ("DAS IST GUT. Der ADAC in ULM.", "Das ist gut. Der A D A C in ulm."),
        ("L'ONU ET L'OTAN SONT LÀ.", "l'O N U et l'otan sont là."),
        ("C'est l'ONU. AT&T and R&D", "C'est l'O N U. A T&T and R&D"),
        ("MR. LORRY and DR. NO", "Mr. Lorry and Dr. No"),
        ("See README.md and MY_VAR.", "See README.md and MY_VAR."),
        ("ПРИВЕТ КАК ДЕЛА, США и НАТО", "ПРИВЕТ КАК ДЕЛА, США и НАТО"),
        ("ПРИВЕТ КАК ДЕЛА", "Привет как дела"),
        ("今天CPU很好", "今天C P U很好"),
    ],
)
def test_shouted_words_are_words_and_initials_are_letters(text: str, said: str) -> None:
    assert clean(text, "en_us") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "It was a bright cold day in April, and the clocks were\n"
            "striking thirteen. Winston Smith, his chin nuzzled into\nhis breast.",
            "It was a bright cold day in April, and the clocks were striking thirteen. Winston"
            " Smith, his chin nuzzled into his breast.",
        ),
        (
            "The quick brown fox jumps over the lazy dog for an exam-\nple of a broken word.",
            "The quick brown fox jumps over the lazy dog for an example of a broken word.",
        ),
        ("Roses are red\nViolets are blue", "Roses are red, Violets are blue"),
        ("One.\nTwo\nthree", "One. Two three"),
        ("今天天气\n很好。", "今天天气、很好。"),
        ("a  b\n\n\n c\t d ", "a b\n\nc d"),
        ("x " * 80 + "end.\nY " + "y " * 80, ("x " * 80 + "end.\n\nY " + "y " * 80).strip()),
    ],
)
def test_lines_that_were_broken_run_on(text: str, said: str) -> None:
    assert clean(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hi \ud800 there", "Hi there"),
        ("Hi\x00there \x07 bell", "Hithere bell"),
        ("\u202eabc\u202c x\ufeff \u200by", "abc x y"),
        ("e\u0301 cafe\u0301", "é café"),
        ("a\r\nb\u2028c\x85d", "a b c d"),
        ("ﬁne 𝐁𝐨𝐥𝐝 Ａ１", "fine Bold A1"),
        ("non\u00a0break\u3000ing", "non break ing"),
        ("می\u200cخواهم क्\u200dष a\u200db", "می\u200cخواهم क्\u200dष ab"),
        ("\ue000\uf8ff\U000f0000x\ufffd", "x"),
    ],
)
def test_what_cannot_be_read_is_taken_out(text: str, said: str) -> None:
    assert clean(text, "en_us", replace(Cleaning(), reads_capitals=False)) == said


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "\u3000", "\x00", "😀", "<br>", "``"])
def test_nothing_is_left_of_nothing(text: str) -> None:
    assert not any(map(str.isalnum, clean(text, "en_us")))


def test_every_rule_has_a_switch() -> None:
    text = "# T\n\n<b>x</b> `a_b` 😀 a.com FBI\nAnd\n\n[pause 1s]\n\n```\n1\n2\n3\n```"
    everything = prepare(text, "en_us").pieces
    for rule in fields(Cleaning):
        assert (
            prepare(text, "en_us", replace(Cleaning(), **{rule.name: False})).pieces != everything
        )
    assert clean(text, "en_us", Cleaning.off()) == text.strip()


def test_a_flood_of_marks_costs_nothing() -> None:
    said = soon(lambda: clean("e" + "\u0301\u0316" * 50_000), within_s=1.0)
    assert len(said) <= 7


# Beginnings that never end, and what makes parsers look back: each of them many times.
HOSTILE = [
    *("<", "<!--", "<a ", '<a b="', "<a/", "<![CDATA[", "<pre>", "<li>", "<td>", "<s>", "</s>"),
    *("&", "&#", "*a _b ", "**a ", "[", "![", "![a](b", "`a", "> ", "- ", "x\n- ", "a|b\n-|-\n"),
    *("~~a", "\\", "http://", "http://a/)", "a.b.", "a@", "A'", "AB ", "[pause ", "[pause 1s]"),
    *('<sub alias="x">', "\n\n", "a-\nb", " ", "\u0301", "\ud800", "😀", ":a", "今，", "{"),
]


@pytest.mark.parametrize("seed", HOSTILE)
def test_no_text_takes_more_than_its_share_of_time(seed: str) -> None:
    text = (seed * 4000)[:4000]
    # Ordinary text of this length takes 5 ms; a square in any rule takes much more.
    soon(lambda: prepare(text, "en_us"), within_s=0.5)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["en_us", "de", "cmn", "sv", None]))
def test_no_text_is_too_strange(text: str, language: str | None) -> None:
    said = clean(text, language)
    said.encode()
    assert unicodedata.is_normalized("NFC", said)
    assert not any(
        unicodedata.category(char) in ("Cc", "Cs", "Co") for char in said if char != "\n"
    )


@settings(max_examples=30, deadline=None)
@given(st.text(st.sampled_from("aB1.,:;!?\"'<>/=&*_`[](){}#-|~\\\n @hp\u0301今。"), max_size=80))
def test_no_mixture_of_signs_is_too_strange(text: str) -> None:
    clean(text, "en_us")
    # With every rule off, nothing is lost.
    assert (
        clean(text, "en_us", Cleaning.off()).split() == unicodedata.normalize("NFC", text).split()
    )


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=40))
def test_tidying_twice_is_tidying_once(text: str) -> None:
    assert tidy_characters(tidy_characters(text)) == tidy_characters(text)
