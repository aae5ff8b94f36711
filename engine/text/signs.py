"""What a reader says for a sign in an address, a number or code, per language.

A language that is missing here gets no words: its links and signs stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Signs:
    """The words of one language for the signs that cleaning reads."""

    dot: str
    slash: str
    at: str
    hyphen: str
    underscore: str
    plus: str
    code: str  # stands for a listing that nobody wants to hear


_SIGNS: Mapping[str, Signs] = {
    "en": Signs("dot", "slash", "at", "dash", "underscore", "plus", "Code example"),
    "de": Signs(
        "Punkt", "Schrägstrich", "at", "Bindestrich", "Unterstrich", "plus", "Codebeispiel"
    ),
    "fr": Signs("point", "slash", "arobase", "tiret", "tiret bas", "plus", "Exemple de code"),
    "es": Signs("punto", "barra", "arroba", "guion", "guion bajo", "más", "Ejemplo de código"),
    "it": Signs(
        "punto", "barra", "chiocciola", "trattino", "trattino basso", "più", "Esempio di codice"
    ),
    "pt": Signs("ponto", "barra", "arroba", "hífen", "sublinhado", "mais", "Exemplo de código"),
    "ja": Signs(
        "ドット", "スラッシュ", "アットマーク", "ハイフン", "アンダーバー", "プラス", "コード例"
    ),
    "zh": Signs("点", "斜杠", "艾特", "横杠", "下划线", "加", "代码示例"),
    "ko": Signs("점", "슬래시", "골뱅이", "하이픈", "밑줄", "플러스", "코드 예시"),
}

# Scripts without spaces between words: Han, kana, Thai, Lao, Burmese, Khmer, full-width signs.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f\U00020000-\U0003ffff"
)


def base_language(language: str | None) -> str | None:
    """The ISO 639-1 language of a code such as ``en_us``, ``pt-BR`` or ``cmn``."""
    if language is None:
        return None
    base = language.lower().replace("-", "_").partition("_")[0]
    return {"cmn": "zh", "nb": "no", "nn": "no", "fil": "tl", "iw": "he"}.get(base, base)


def signs_of(language: str | None) -> Signs | None:
    """The words of ``language`` for signs, or None where none are known."""
    return _SIGNS.get(base_language(language) or "")
