"""Plain words are let alone; what needs reading is found with the words it is read by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.windows import MAX_WINDOW_CHARS, is_plain, windows
from tests.core_time import soon


def cut(text: str, grammar: str = "en") -> list[str]:
    return [text[start:end] for start, end in windows(text, grammar)]


@pytest.mark.parametrize(
    ("text", "grammar"),
    [
        ("Nothing here needs reading; “it's plain”, isn't it? (Yes.) Well-known words…", "en"),
        ("'Nothing taught by force remains in the mind.'", "en"),
        ("Was für ein schöner Tag — „wirklich“!", "de"),
        ("C'est l'été, n'est-ce pas ?", "fr"),
        ("¿Cómo estás? ¡Bien!", "es"),
        ("你好，世界。今天天气很好！", "zh"),
        ("こんにちは、「世界」。", "ja"),
        ("안녕하세요, 세계.", "ko"),
        ("cafe\u0301 " + "a" + "\u0301" * 10_000, "en"),
        ("", "en"),
    ],
)
def test_plain_text_has_no_windows(text: str, grammar: str) -> None:
    assert cut(text, grammar) == []


@pytest.mark.parametrize(
    ("token", "grammar"),
    [
        ("5", "en"), ("B12", "en"), ("$", "en"), ("&", "en"), ("a/b", "en"), ("x.com", "en"),
        ("Dr.", "en"), ("J.", "en"), ("vs", "en"), ("XIV", "en"), ("a@b", "en"), ("25%", "en"),
        ("usw.", "de"), ("Mme", "fr"), ("XXIe", "fr"), ("Sra.", "es"), ("３", "ja"), ("½", "en"),
    ],
)  # fmt: skip
def test_what_is_no_plain_word(token: str, grammar: str) -> None:
    assert not is_plain(token, grammar)


def test_a_window_has_two_words_on_either_side() -> None:
    text = "On the morning of May 3, 2024 it rained all day, and then we went home at last."
    assert cut(text) == ["of May 3, 2024 it rained"]


def test_windows_that_touch_are_one() -> None:
    assert cut("one two 3 four five six 7 eight nine ten") == [
        "one two 3 four five six 7 eight nine"
    ]


def test_no_window_crosses_a_paragraph() -> None:
    assert cut("It was in May\n\n3 of us came.\n \nBy bus 4") == ["3 of us", "By bus 4"]


def test_scripts_without_spaces_are_cut_at_sentences() -> None:
    text = "他说你好。" * 30 + "我有25个苹果。" + "好的。" * 30
    (window,) = cut(text, "zh")
    assert window == "他说你好。他说你好。我有25个苹果。好的。好的。"


def test_endless_tokens_and_lists_of_numbers_are_cut() -> None:
    for text in ("5" * 1000, " ".join(map(str, range(1, 401)))):
        found = cut(text)
        assert max(map(len, found)) <= MAX_WINDOW_CHARS
        assert "".join("".join(found).split()) == "".join(text.split())


@given(
    st.text(st.sampled_from("ab5.,;-$ \n。五I()\u0301"), max_size=800),
    st.sampled_from(["en", "zh"]),
)
def test_windows_are_bounded_apart_and_hold_every_figure(text: str, grammar: str) -> None:
    end_before = 0
    left = []
    for start, end in windows(text, grammar):
        assert end_before <= start < end <= start + MAX_WINDOW_CHARS
        left.append(text[end_before:start])
        end_before = end
    left.append(text[end_before:])
    assert not any(char.isdigit() for part in left for char in part)


@pytest.mark.parametrize("text", ["—" * 50_000 + "5", "（" * 50_000, "a'" * 25_000, "5 " * 25_000])
def test_no_text_takes_long(text: str) -> None:
    soon(lambda: list(windows(text, "en")), within_s=2)
