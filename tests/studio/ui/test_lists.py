"""Rows say what is so, and what people typed stays text in its own place."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.takes import Take
from studio.ui import strings
from studio.ui.lists import Fault, TakeRow, VoiceRow, takes_html, voices_html
from studio.voice_card import Card
from studio.voices import Voice

VOICE = Voice(
    "voice_a", "me", Card("Anna", "de"), "recording", 0.0, 0.0, {"e": "nano"}, 1, True, 9, 1
)
TAKE = Take(
    *("take_a", "me", 1_700_000_000_000_000, "", "Hello.", {}, 7, "heart", "heart", "nano", "f"),
    *(1000, 88_200, 44_100, False),
)
EVIL = '</bdi><img src=x onerror="alert(1)"> ${alert(1)} {{value}} \' \u202e turned'


def voice_row(**changed: object) -> VoiceRow:
    return replace(VoiceRow(VOICE, True, True, "page/sound", "page/export"), **changed)


def take_row(**changed: object) -> TakeRow:
    return TakeRow(replace(TAKE, **changed), "page/sound", "page/download")


class Outline(HTMLParser):
    """The tags of a markup in order, and every attribute."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_voice_says_what_it_is_and_offers_what_its_owner_may_do():
    markup = voices_html([voice_row()])
    facts = re.sub("<.*?>", "", re.search('class="facts">(.*?)</p>', markup)[1])
    assert facts == "German · from a recording · recording kept · 1970-01-01 00:00 UTC"
    for act in (
        'data-do="speak"',
        'data-mode="rename"',
        'data-mode="delete"',
        'data-play="page/sound"',
    ):
        assert act in markup
    assert '<a href="page/export" download aria-label="Export: Anna">' in markup
    assert "Delete Anna? It cannot be brought back." in markup


def test_what_somebody_else_stored_cannot_be_changed_and_what_does_not_fit_cannot_speak():
    markup = voices_html([voice_row(is_own=False)])
    assert strings.OF_THE_SCRIPTS in markup
    assert "rename" not in markup and "delete" not in markup and 'data-do="speak"' in markup
    markup = voices_html([voice_row(fits=False)])
    assert "Made with nano; the open model cannot speak with it." in markup
    assert 'data-do="speak"' not in markup and "data-play" not in markup


def test_a_fault_stands_in_its_row_with_what_was_typed():
    rows = [voice_row(), voice_row(voice=replace(VOICE, id="voice_b"))]
    markup = voices_html(rows, Fault("voice_b", "rename", "name: it is taken.", "An<na"))
    first, second = markup.split("</li>")[:2]
    assert 'data-mode=""' in first and "it is taken" not in first
    assert 'data-id="voice_b" data-mode="rename"' in second
    assert 'value="An&lt;na"' in second and '<p class="note bad">name: it is taken.</p>' in second


def test_a_take_says_what_it_is():
    markup = takes_html([take_row()], False, "page/export")
    facts = re.sub("<.*?>", "", re.search('class="facts">(.*?)</p>', markup)[1])
    assert facts == "heart · 2.0 s · 2023-11-14 22:13 UTC · seed 7"
    assert 'aria-pressed="false"' in markup and strings.SHOW_MORE not in markup
    assert 'aria-pressed="true"' in takes_html([take_row(is_starred=True)], False, "")
    assert strings.SHOW_MORE in takes_html([take_row()], True, "")


@pytest.mark.parametrize("voice", ["embedding", "reference"])
def test_a_recording_has_a_name_for_people(voice):
    assert "A recording · " in re.sub("<.*?>", "", takes_html([take_row(voice=voice)], False, ""))


def test_empty_lists_say_what_to_do():
    assert voices_html([]) == f'<p class="empty">{strings.NO_VOICES}</p>'
    assert takes_html([], False, "page/export") == f'<p class="empty">{strings.NO_TAKES}</p>'


def check_contained(text: str) -> None:
    """A name or text adds no tag, and every turn of direction ends where it began."""
    card = Card("x", "de")
    object.__setattr__(card, "name", text)  # such a name is refused; a list must hold all the same
    fault = Fault("voice_a", "rename", text, text)
    pairs = (
        (voices_html([voice_row(voice=replace(VOICE, card=card))], fault),
         voices_html([voice_row()], Fault("voice_a", "rename", "x"))),
        (takes_html([take_row(text=text, voice=text, title=text)], False, ""),
         takes_html([take_row(title="x")], False, "")),
    )  # fmt: skip
    for markup, plain in pairs:
        assert Outline(markup).tags == Outline(plain).tags
        outside = re.sub('<bdi>.*?</bdi>|<p class="note.*?</p>', "", markup, flags=re.DOTALL)
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", "".join(Outline(outside).texts))


def test_what_people_typed_stays_text():
    check_contained(EVIL)


@given(st.text(min_size=1, max_size=40))
def test_any_text_stays_text(text):
    check_contained(text)


def test_a_long_text_is_cut():
    markup = takes_html([take_row(text="word " * 10_000)], False, "")
    assert len(markup) < 6_000
