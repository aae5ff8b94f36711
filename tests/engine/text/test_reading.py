"""Figures are read without a grammar, in every language of the model that has words for them."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.reading import EVERY_CLASS, MEASURE, MONEY, reader_of, with_ascii_digits
from engine.text.words import _LOCALES, can_count, words_of
from tests.core_time import soon

CODES = sorted(_LOCALES)


def read(code: str, text: str) -> str:
    return reader_of(code).read(text)


def test_all_languages_of_the_model_can_count() -> None:
    assert len(CODES) == 35  # 34 languages, English twice
    assert not can_count("xx")


@pytest.mark.parametrize("code", CODES)
def test_no_figure_is_left(code: str) -> None:
    text = (
        "0 7 21 305 1999 12345 1.234.567 3,5 2.5 -4 10% 25°C 5 km/h 3 kg 2025-01-05 14:30 8:05"
        " 12,50 € $3.99 007 +49 30 1234567 2-3 10–12 12345678901234567890 B12 192.168.1.10"
    )
    said = read(code, text)
    assert not re.search(r"[\d€$%°]", said), said


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        ("en_us", "It costs $5.32.", "It costs five dollars thirty-two."),
        ("en_us", "2025-01-05 at 14:30", "January fifth, twenty twenty-five at fourteen thirty"),
        ("en_us", "1,234 and 1.5", "one thousand two hundred and thirty-four and one point five"),
        ("de", "12,50 € am 3.5.2024", "zwölf Euro fünfzig am dritte Mai zweitausendvierundzwanzig"),
        ("de", "1 € um 8:05", "ein Euro um acht Uhr fünf"),
        ("fr_fr", "Il est 14h30, 20 °C", "Il est quatorze heures trente, vingt degrés Celsius"),
        ("ru", "25 °C и 10 %", "двадцать пять градусов Цельсия и десять процентов"),
        ("ru", "5 января, 12 €", "пять января, двенадцать евро"),
        ("nl", "3-5 dagen", "drie tot vijf dagen"),
        ("pl", "5 kg", "pięć kilogramów"),
        ("hi", "१२३ और 5 km", "एक सौ तेईस और पाँच किलोमीटर"),
        ("ar", "١٢٣", "مائة و ثلاثة و عشرون"),
        ("th", "5 km", "ห้ากิโลเมตร"),
        ("cmn", "共有3,000人，10%", "共有三千人，百分之十"),
        ("ja", "25℃で3km".replace("℃", "°C"), "摂氏二十五度で三キロメートル"),
        ("ko", "20~30초", "이십에서 삼십초"),
        ("sv", "0701234567", "noll sju noll ett två tre fyra fem sex sju"),
        ("es", "el 31/02/2024", "el treinta y uno/cero dos/dos mil veinticuatro"),
        ("vi", "50%", "năm mươi phần trăm"),
    ],
)  # fmt: skip
def test_what_is_said(code: str, text: str, said: str) -> None:
    assert read(code, with_ascii_digits(text)) == said


def test_a_grammar_may_keep_the_figures() -> None:
    reader = reader_of("fr_fr", keeps_figures=True)
    assert reader.read("5,32 € et 25 °C", (MONEY, MEASURE)) == "5 euros 32 et 25 degrés Celsius"


@pytest.mark.parametrize(
    ("code", "figures", "value"),
    [
        ("en_us", "1,234", "1234"), ("en_us", "1.234", "1.234"), ("en_us", "1,5", "1.5"),
        ("de", "1.234", "1234"), ("de", "1,234", "1.234"), ("de", "1.234,50", "1234.50"),
        ("fr_fr", "1 234,5", "1234.5"), ("en_us", "1,234.50", "1234.50"),
        ("en_us", "1.234.567", "1234567"), ("en_us", "1.2.3", None), ("en_us", "007", None),
        ("en_us", "0.5", "0.5"), ("en_us", "0", "0"), ("en_us", "9" * 16, None),
    ],
)  # fmt: skip
def test_what_a_number_is(code: str, figures: str, value: str | None) -> None:
    assert reader_of(code).value(figures) == (value and Decimal(value))


@settings(max_examples=60)
@given(st.sampled_from(CODES), st.integers(-(10**16), 10**16))
def test_every_number_has_words(code: str, number: int) -> None:
    said = words_of(code).cardinal(number)
    assert said.strip() and not re.search(r"\d", said)


@settings(max_examples=60)
@given(
    st.sampled_from(["en_us", "de", "ja", "ru"]), st.text(st.sampled_from("0159.,:/-–~ +%€$°CkmhT"))
)
def test_nothing_that_looks_like_figures_is_a_fault(code: str, text: str) -> None:
    assert not re.search(r"\d", read(code, text))


@pytest.mark.parametrize(
    "text", ["1" * 4_000, "1 " * 2_000, "1,1." * 1_000, "+1 " * 1_500, "0-" * 2_000, "1:1" * 1_500]
)
def test_no_text_takes_long(text: str) -> None:
    soon(lambda: reader_of("de").read(text, EVERY_CLASS), within_s=1)
