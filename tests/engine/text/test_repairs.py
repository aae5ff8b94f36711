"""What a grammar reads wrongly is written otherwise; what it reads right is left alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.repairs import after, before
from engine.text.repairs.rules import ROMAN, roman_value
from tests.core_time import soon

GRAMMARS = ["en", "de", "fr", "it", "pt", "es", "zh", "ja", "ko"]


@pytest.mark.parametrize(
    ("grammar", "text", "written"),
    [
        ("en", "Ver. 2.0.1 of #1", "version 2 point 0 point 1 of number 1"),
        ("en", "5'10\" and 40–60°C", "5 feet 10 and 40 to 60°C"),
        ("en", "Louis XVI, Chapter IV", "Louis the sixteenth, Chapter 4"),
        ("en", "World War II on 5th St. Then", "World War 2 on 5th Street. Then"),
        ("en", "to Baker St., St. John, Main St.", "to Baker Street, St. John, Main Street."),
        ("en", "555-0123 or (212) 555-0123", "5 5 5, 0 1 2 3 or (212) 555-0123"),
        ("en", "see https://x.org/a?b=1.", "see x.org."),
        ("de", "Am 3. Mai, der 3. Oktober, 24.12.2025", "Am dritten Mai, der dritte Oktober,"
         " vierundzwanzigster Dezember zweitausendfünfundzwanzig"),
        ("de", "12,50 € usw., 1.234 Seiten", "zwölf Euro fünfzig und so weiter, 1234 Seiten"),
        ("de", "Im Jahr 1999 waren 1999 Gäste da",
         "Im Jahr neunzehnhundertneunundneunzig waren 1999 Gäste da"),
        ("fr", "5,32 € à 14h30, 25 °C", "5 euros 32 à quatorze heures trente, 25 degrés Celsius"),
        ("fr", "Louis XIV au XVIIe siècle", "Louis 14 au 17e siècle"),
        ("it", "Il 24/12/2025 ha pagato", "Il ventiquattro dicembre duemilaventicinque ha pagato"),
        ("it", "Nel 2025 ha vinto, 10 ha di bosco",
         "Nel duemilaventicinque ha vinto, 10 ettari di bosco"),
        ("it", "la 3ª volta, 1.234 persone", "la terza volta, 1234 persone"),
        ("pt", "(3) coisas a 10 km.", "( 3 ) coisas a 10 km ."),
        ("es", "2-3 días, siglo XXI, Luis XIV", "2 a 3 días, siglo veintiuno, Luis 14"),
        ("zh", "电话13800000000", "电话一三八零零零零零零零零"),
        ("zh", "IP是192.168.1.10, 1,234元", "IP是一九二点一六八点一点一零, 1234元"),
        ("ja", "電話は03-5550-0123", "電話は零三の五五五零の零一二三"),
        ("ja", "50%、20～30分", "50パーセント、20から30分"),
        ("ko", "사과 3개, 2년 3개월, 제3장, 50%", "사과 세 개, 2년 삼개월, 제 삼장, 50 퍼센트"),
    ],
)  # fmt: skip
def test_what_is_read_wrongly_is_written_otherwise(grammar: str, text: str, written: str) -> None:
    assert before(text, grammar) == written


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ("en", "The meeting is at 3:45 p.m. on May 3, 2024. Call 555-123-4567, 1-800-555-1234."),
        ("en", "I won 2-1; model NE-123, B12, 4K, 401(k), 24 May, $5.3 billion, 1990s, 12.5%."),
        ("en", "Henry I think, Mix it, CIVIC, Malcolm X. No. Not now; I. The IV drip. St. John."),
        ("en", "Released 2024-05-03. The server is 192.168.1.10. 3/4 of them. 1,000,000."),
        ("de", "Es sind 25 Grad. Er kam um 14:30 Uhr. Ist es 7? Ja, 8. Das waren 1234 Bücher."),
        ("fr", "Il y a 1 234 personnes. Le 1er mai 2024. C'est la 3e fois."),
        ("it", "Sono le 14:30. Costa 5,32 € oggi. Il 3 maggio 2024. Ha 3 figli e ne ha 4."),
        ("pt", "Custa R$ 5,32 hoje. São 14:30. É a 3ª vez. Às 8h05."),
        ("es", "Cuesta 5,32 € hoy. Son las 14:30. El 3 de mayo de 2024. A las 3:45 p. m."),
        ("zh", "今天是5月3日。下午3点45分见。2024/5/3"),
        ("ja", "今日は2024年5月3日です。午後3時45分に会いましょう。"),
        ("ko", "오늘은 2024년 5월 3일입니다. 오후 3시 45분에 만나요. 1234명입니다. 제1회 회의."),
    ],
)  # fmt: skip
def test_what_is_read_right_is_left_alone(grammar: str, text: str) -> None:
    assert before(text, grammar) == text


def test_what_was_hidden_from_a_grammar_comes_back() -> None:
    hidden = before("할 일 3개, 화 5", "ko")
    assert "일" not in hidden and "화" not in hidden
    assert after(hidden, "ko") == "할 일 세 개, 화 5"
    assert after("( três ) coisas", "pt") == "(três) coisas"
    assert after("( tres ) cosas", "es") == "( tres ) cosas"


def test_roman_numerals_are_numbers() -> None:
    numerals = {"I": 1, "III": 3, "IV": 4, "VIII": 8, "IX": 9, "XIV": 14, "XXI": 21}
    assert {numeral: roman_value(numeral) for numeral in numerals} == numerals
    assert all(re.fullmatch(ROMAN, numeral) for numeral in numerals)
    assert not any(re.fullmatch(ROMAN, word) for word in ("", "IIII", "VV", "XM", "IXI"))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(GRAMMARS),
    st.text(st.sampled_from("0159.,:/-–~ €$%°'\"#№()ahkmI XVЀ日年円개제3월Mr\n"), max_size=60),
)
def test_nothing_written_is_a_fault(grammar: str, text: str) -> None:
    after(before(text, grammar), grammar)


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_no_text_takes_long(grammar: str) -> None:
    pieces = ("1", "1.1", "1-", "1:1", "I", "X ", "a.", "1 ", "https://a.", "+1 ", "€1", "A ")
    long = [piece * (1000 // len(piece)) for piece in pieces]
    soon(lambda: [before(text, grammar) for text in long], within_s=2)
