"""The languages a request may name, and the one code that the engine is told.

- Accepted, whatever the case and separator: English names, Zyphra's codes (``en_us``), BCP-47
  tags (``pt-BR``, ``zh-Hans-CN``).
- Languages with a text normaliser keep Zyphra's code; the others have their ISO 639-1 code.
- Source: spec/api.md F6, spec/zonos2.md (the 34 languages of the model).
"""

from __future__ import annotations

import re

from engine import InvalidRequest

# Our own value: the language is told from the text.
DETECT = "detect"

LANGUAGES = {
    "en_us": "English",
    "en_gb": "British English",
    "cmn": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "ru": "Russian",
    "it": "Italian",
    "pt_br": "Portuguese",
    "fr_fr": "French",
    "es": "Spanish",
    "vi": "Vietnamese",
    "de": "German",
    "he": "Hebrew",
    "nl": "Dutch",
    "sv": "Swedish",
    "hi": "Hindi",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "no": "Norwegian",
    "bn": "Bengali",
    "tl": "Tagalog",
    "ar": "Arabic",
    "da": "Danish",
    "id": "Indonesian",
    "pl": "Polish",
    "uk": "Ukrainian",
    "ro": "Romanian",
    "fi": "Finnish",
    "hu": "Hungarian",
    "lt": "Lithuanian",
    "et": "Estonian",
    "sk": "Slovak",
    "hr": "Croatian",
    "lv": "Latvian",
}

_OTHER_SPELLINGS = {
    "en": "en_us",
    "american_english": "en_us",
    "zh": "cmn",
    "mandarin": "cmn",
    "mandarin_chinese": "cmn",
    "pt": "pt_br",
    "brazilian_portuguese": "pt_br",
    "fr": "fr_fr",
    "nb": "no",
    "nn": "no",
    "fil": "tl",
    "filipino": "tl",
    "iw": "he",
}
_CODES = {
    **{name.lower().replace(" ", "_"): code for code, name in LANGUAGES.items()},
    **{code: code for code in LANGUAGES},
    **_OTHER_SPELLINGS,
}
_TAG = re.compile(r"[a-z]{2,3}(_[a-z0-9]{1,8})*")


def language_code(language: str | None, field: str = "language") -> str | None:
    """The engine's code for ``language``; None for None and "Auto": the text stays as it is.

    Raises ``InvalidRequest`` for a language that the model does not have.
    """
    if language is None:
        return None
    spelled = "_".join(language.lower().replace("-", " ").replace("_", " ").split())
    if spelled in ("", "auto"):
        return None
    if spelled == DETECT:
        return DETECT
    code = _CODES.get(spelled)
    if code is None and _TAG.fullmatch(spelled):  # it means its beginning: de-AT is German
        parts = spelled.split("_")
        beginnings = ("_".join(parts[:end]) for end in range(len(parts), 0, -1))
        code = next((_CODES[begin] for begin in beginnings if begin in _CODES), None)
    if code is None:
        raise InvalidRequest(
            f"{field}: {language[:20]!r} is not a language of this model; give a name such as"
            f" German, a code of {', '.join(LANGUAGES)}, or detect or Auto.",
            field=field,
        )
    return code
