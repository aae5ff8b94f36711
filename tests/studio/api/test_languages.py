import pytest

from engine import InvalidRequest
from studio.api.languages import LANGUAGES, language_code


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        (None, None),
        ("", None),
        ("Auto", None),
        ("detect", "detect"),
        ("English", "en_us"),
        ("en", "en_us"),
        ("EN-us", "en_us"),
        ("en_gb", "en_gb"),
        ("en-GB-oxendict", "en_gb"),
        ("en-AU", "en_us"),
        ("Chinese", "cmn"),
        ("Mandarin", "cmn"),
        ("zh-Hans-CN", "cmn"),
        ("pt", "pt_br"),
        ("pt-PT", "pt_br"),
        ("Portuguese", "pt_br"),
        ("fr", "fr_fr"),
        ("de-AT", "de"),
        ("Russian", "ru"),
        *((spelled, "en_us") for spelled in ("en-us", "en_us", "EN-US")),
        *((spelled, "cmn") for spelled in ("zh", "zh-CN", "zh_cn", "cmn")),
        *(("ja", "ja"), ("ja-JP", "ja"), ("ko", "ko"), ("de", "de"), ("it", "it")),
        *(("fr-CA", "fr_fr"), ("pt_br", "pt_br"), ("es-419", "es"), ("auto", None)),
        *(("ar", "ar"), ("ru", "ru")),
        ("fil", "tl"),
        ("nb-NO", "no"),
    ],
)
def test_names_zyphras_codes_and_bcp_47_become_one_code(spelled, code):
    assert language_code(spelled) == code


def test_all_34_languages_go_by_name_and_by_code():
    assert len(LANGUAGES) == 35  # English twice
    for code, name in LANGUAGES.items():
        assert language_code(code) == language_code(name.upper()) == code


@pytest.mark.parametrize(
    "spelled", ["Klingon", "xx", "x" * 1000, "\ud800", "en\r\nX-Evil: 1", "english teacher"]
)
def test_an_unknown_language_is_refused_with_those_there_are(spelled):
    with pytest.raises(InvalidRequest) as caught:
        language_code(spelled, "lang")
    assert caught.value.field == "lang"
    assert all(f" {code}," in caught.value.message for code in LANGUAGES)
    assert len(caught.value.message) < 400
