"""What NeMo's Chinese, Japanese and Korean grammars read wrongly or not at all.

Full-width figures, thousands, ranges, telephone numbers, addresses, percent and degree signs.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Any

from engine.text.reading import MEASURE, reader_of
from engine.text.repairs.rules import Rules, applied, rules
from engine.text.words import words_of

# Full-width letters, figures and the signs that are read; punctuation stays as wide as it is.
_FULL_WIDTH: dict[int, int | str] = {
    code: code - 0xFEE0
    for code in range(0xFF01, 0xFF5F)
    if chr(code - 0xFEE0).isalnum() or chr(code - 0xFEE0) in "%$#@&+-=/."
}
_FULL_WIDTH |= {ord("℃"): "°C", ord("～"): "~", ord("〜"): "~"}
_NUMBER = r"\d+(?:\.\d+)?"
_CHINESE = "零一二三四五六七八九"


def _chinese_digits(figures: str) -> str:
    return "".join(_CHINESE[int(figure)] for figure in figures if figure.isdigit())


def _dotted(point: str) -> Any:
    return lambda found: point.join(_chinese_digits(part) for part in found[0].split("."))


def _grouped(found: re.Match[str]) -> str:
    return found[0].replace(",", "")


def _korean_range(found: re.Match[str]) -> str:
    percent = " 퍼센트" if found[2] else ""
    return f"{words_of('ko').number(Decimal(found[1]))}{percent}에서 "


def _korean_counted(found: re.Match[str]) -> str:
    return f"{_native(int(found[1]))} {found[2]}"


def _korean_rank(found: re.Match[str]) -> str:
    return f"제 {words_of('ko').cardinal(int(found[1]))}{found[2]}"


def _korean_address(found: re.Match[str]) -> str:
    words = words_of("ko")
    return "점".join(words.digits(part).replace(" ", "") for part in found[0].split("."))


@cache
def _native(number: int) -> str:
    """A number before what it counts, in Korean's own words: 3 is 세."""
    from unicode_rbnf import RbnfEngine

    said = RbnfEngine.for_language("ko").format_number(number)
    return str(said.text_by_ruleset["spellout-cardinal-native-attributive"])


_ADDRESS = r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])"
_THOUSANDS = (r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])", _grouped)
_COUNTERS = "개|마리|살|명|사람|권|병|잔|시간|그릇|송이|벌|켤레|가지"
_BEFORE: dict[str, Rules] = {
    "zh": rules(
        _THOUSANDS,
        (_ADDRESS, _dotted("点")),
        (r"(?<!\d)1[3-9]\d{9}(?!\d)", lambda m: _chinese_digits(m[0])),
        (r"(?<!\d)0\d{2,3}-\d{7,8}(?!\d)", lambda m: _chinese_digits(m[0])),
        (
            r"((?:电话|手机|号码|热线|传真|密码|验证码|邮编|编号|学号|卡号|账号|QQ)(?:号|号码)?(?:是|为|：|:)?\s?)(\d{3,})",
            lambda m: m[1] + _chinese_digits(m[2]),
        ),
        (r"(?<!\d)(\d{4})\s?[-–—~]\s?(\d{4})年", r"\1年到\2年"),
        # Two years in one text lose the first to the grammar.
        (r"(?<!\d)(\d{4})(?=年)", lambda m: _chinese_digits(m[1])),
        (rf"(?<![\d.-])({_NUMBER}(?:%|°C)?)\s?[~–—]\s?(?={_NUMBER})", r"\1到"),
        (rf"(?<![\d.-])({_NUMBER})-(?={_NUMBER}(?![\d-])[^\s\d])", r"\1到"),
        (r"(?<![\d:])(\d{1,2}):(\d)(?![\d:])", r"\1比\2"),
        (r"\b[Nn][Oo]\. ?(?=\d)|№ ?(?=\d)", "第"),
        (rf"({_NUMBER})\s?km/h", r"每小时\1公里"),
        (r"(?<=[A-Za-z])-(?=\d)", ""),
        (r"(?<=\d)\s*°C", "摄氏度"),
    ),
    "ja": rules(
        _THOUSANDS,
        (_ADDRESS, _dotted("点")),
        (r"(?<!\d)0\d{1,4}-\d{1,4}-\d{3,4}(?!\d)",
         lambda m: "の".join(map(_chinese_digits, m[0].split("-")))),
        (rf"(?<![\d.-])({_NUMBER}(?:%|°C|円)?)\s?[~–—]\s?(?={_NUMBER})", r"\1から"),
        (rf"(?<![\d.-])({_NUMBER})-(?={_NUMBER}(?![\d-])[^\s\d])", r"\1から"),
        (rf"[¥￥]\s?({_NUMBER})", r"\1円"),
        (rf"\$\s?({_NUMBER})", r"\1ドル"),
        (rf"€\s?({_NUMBER})", r"\1ユーロ"),
        (r"(?<=\d)\s*%", "パーセント"),
        (r"(?<=\d)\s*°C", "度"),
        (r"(?<![\w.-])[-−](?=\d)", "マイナス"),
        (r"(?<=[A-Za-z])-(?=\d)", ""),
        (r"(?<=\d)\s+(?=[ぁ-んァ-ヶ一-龥])", ""),
    ),
    "ko": rules(
        (_ADDRESS, _korean_address),
        (rf"(?<![\d.-])({_NUMBER})\s?(%)?\s?[~–—]\s?(?=\d)", _korean_range),
        (r"(?<=\d)\s*%", " 퍼센트"),
        (r"(?<=\d)\s*°C", "도"),
        (r"제\s?(\d+)(장|권|번|곡|편|막|대|개|명)", _korean_rank),
        (r"(?<![\d.,])(\d+)\s?개월", lambda m: words_of("ko").cardinal(int(m[1])) + "개월"),
        (rf"(?<![\d.,])([1-9]\d?)\s?({_COUNTERS})", _korean_counted),
    ),
}  # fmt: skip


# Korean's grammar takes these for weekdays wherever they stand alone; 일 is also "one" and "work".
_ALONE = re.compile(r"(?<!\S)[월화수목금토일](?!\S)")
_MASKS = {ord(day): chr(0xE000 + i) for i, day in enumerate("월화수목금토일")}
_UNMASKED = {ord(mask): chr(day) for day, mask in _MASKS.items()}


def before(text: str, grammar: str) -> str:
    """``text`` written so that ``grammar`` reads it right."""
    text = applied(text.translate(_FULL_WIDTH), _BEFORE[grammar])
    if grammar == "ko":
        text = _ALONE.sub(lambda found: found[0].translate(_MASKS), text)
    if grammar == "ja":
        text = reader_of("ja", keeps_figures=True).read(text, (MEASURE,))
        text = text.replace("時速時速", "時速")
    return text


def after(text: str) -> str:
    """The reading with what ``before`` hid."""
    return text.translate(_UNMASKED)
