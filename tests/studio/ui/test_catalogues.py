"""Every language of the page has every word, each with the places of its facts."""

from __future__ import annotations

import json
import re

import pytest

from studio.settings import Settings
from studio.ui import strings
from studio.ui.page import WORDS

LANGUAGES = [code for code in strings.INTERFACE_LANGUAGES if code != "en"]
# What is no word of the page, or the same everywhere.
UNTRANSLATED = {"TITLE", "AS_WRITTEN", "DETECT", "DOWNLOAD_SHORT", "SAMPLE_TEXT", "SAMPLE_SCRIPT"}


def catalogue(language: str) -> dict[str, str]:
    return json.loads((WORDS / f"{language}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_has_all_words_and_places(language: str):
    words = catalogue(language)
    assert list(words) == list(catalogue("de"))
    for source, target in words.items():
        assert target.strip() and source.count("{}") == target.count("{}"), source


def test_whatever_the_page_says_is_in_the_catalogues():
    known = set(catalogue("de"))
    said = {
        value
        for name, value in vars(strings).items()
        if name.isupper() and isinstance(value, str) and name not in UNTRANSLATED
    }
    assert said - known == set()


@pytest.mark.parametrize(
    "sentence",
    [
        strings.queued(0, 3.2),
        strings.queued(2, 6.2),
        strings.speaking(3.21),
        strings.stopped(1.0),
        strings.done(4.12, 0.31, 0.12, 7, was_cut=False),
        strings.recording_used(9.1, -20.0),
        strings.saved("Anna"),
        strings.stored("Anna"),
        strings.delete_voice("Anna"),
        strings.word_added("NYC", "New York"),
        strings.script_progress(1, 3),
        strings.script_done(3, 9.0),
        strings.script_stopped(2),
        strings.compare("A"),
        strings.takes_info(Settings()),
        strings.takes_info(Settings(public=True)),
    ],
)
def test_a_sentence_of_facts_has_a_pattern(sentence: str):
    patterns = (re.escape(source).replace(r"\{\}", "(.+?)") for source in catalogue("de"))
    assert any(re.fullmatch(pattern, sentence) for pattern in patterns)
