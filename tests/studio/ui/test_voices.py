"""A recording becomes a voice that lasts, and the Voices tab does what its buttons say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine import Engine
from studio import consent
from studio.api.asks import Blend, Embedding
from studio.api.voice_maker import export_file
from studio.ui import strings
from studio.ui.desk import Desk, default_choice
from studio.ui.recording import RECORDING
from studio.ui.view import SPEAK, View
from studio.voice_card import Card
from tests.studio.ui.conftest import Page, page_request


@pytest.fixture
def clip(recording: bytes, tmp_path: Path) -> str:
    """A recording that the browser has uploaded."""
    path = tmp_path / "clip.wav"
    path.write_bytes(recording)
    return str(path)


@pytest.fixture
def anna(page: Page, engine: Engine) -> str:
    """The id of a voice called Anna, which the visitor has."""
    embedding = Embedding("embedding", engine.voices["deep"].numpy())
    made = page.desk.maker.bring(page.owner, Card("Anna"), embedding, has_consent=True)
    return made.voice.id


def listed(page: Page) -> list[str]:
    """The names in the list, from the top."""
    return re.findall('<p class="name"><bdi>(.*?)</bdi>', page.shown[page.view.voices.list])


def offered(page: Page) -> list[str]:
    """The names of the voices that can be chosen to speak."""
    return [name for name, _ in page.shown[page.view.voice]["choices"]]


def test_a_saved_recording_is_a_voice_that_speaks_and_is_there_next_time(
    page: Page, view: View, desk: Desk, clip: str
):
    page.record(clip)
    assert page.shown[view.save.open]["visible"]
    page.shown |= page.recording.open_form()
    assert page.shown[view.save.form]["visible"] and page.shown[view.save.consent] is False
    page.save("Anna")
    (voice,) = desk.stores.voices.list(page.owner)
    assert page.shown[view.voice]["value"] == voice.id
    assert "Saved as Anna." in page.shown[view.save.note]
    assert not page.shown[view.save.form]["visible"]
    assert voice.consent == consent.VERSION and not voice.has_clip
    assert page.shown[view.recording] is None and not Path(clip).exists()
    # The emptied field is an event of its own, and does not know yet which voice speaks now.
    page.run(page.recording.judge(page.request, "", page.shown[view.judged], None, RECORDING))
    assert page.shown[view.voice]["value"] == voice.id and page.shown[view.judged] is None

    again = Page(view, desk, page.signed)
    again.run(again.handlers.arrived(again.request, "", ""))
    assert offered(again) == ["Anna", *desk.engine.voices]
    again.run(again.press(text="Hello.", voice=voice.id))
    assert "Take: Anna" in again.shown[view.take]


def test_nothing_is_saved_without_the_statement(page: Page, view: View, desk: Desk, clip: str):
    page.record(clip)
    page.save("Anna", has_consent=False)
    assert strings.CONSENT_NEEDED in page.shown[view.save.note]
    assert desk.stores.voices.list(page.owner) == []


def test_a_name_that_is_taken_is_told_in_the_form(page: Page, view: View, anna: str, clip: str):
    page.record(clip)
    page.save("ANNA")
    assert "a voice &#x27;ANNA&#x27; exists already" in page.shown[view.save.note]
    page.save("\u202eAnna")
    assert "the control character U+202E is not allowed" in page.shown[view.save.note]
    Path(clip).unlink()
    page.save("Bea")
    assert "the recording is not here any more" in page.shown[view.save.note]


def test_a_recording_is_kept_only_where_it_is_asked_for(page: Page, desk: Desk, clip: str):
    page.record(clip)
    page.save("Anna", keeps_clip=True)
    (voice,) = desk.stores.voices.list(page.owner)
    assert voice.has_clip


def test_a_voice_is_renamed_and_a_refusal_is_told_in_its_row(page: Page, view: View, anna: str):
    page.shown[view.voice] = {"value": anna}
    page.act("rename", anna, "Bea")
    assert listed(page) == ["Bea"]
    assert offered(page)[0] == "Bea" and page.shown[view.voice]["value"] == anna
    page.act("rename", anna, "\u202eBea")
    assert listed(page) == ["Bea"]
    assert 'data-mode="rename"' in page.shown[view.voices.list]
    assert "U+202E is not allowed" in page.shown[view.voices.list]


def test_a_deleted_voice_is_gone_everywhere(page: Page, view: View, desk: Desk, anna: str):
    for field in (view.voice, view.voices.second):
        page.shown[field] = {"value": anna}
    page.act("delete", anna)
    assert desk.stores.voices.list(page.owner) == []
    assert page.chosen(view.voices.second) == default_choice(desk.engine)
    assert strings.NO_VOICES in page.shown[view.voices.list]
    assert "Anna" not in offered(page)
    assert page.shown[view.voice]["value"] == default_choice(desk.engine)
    page.act("delete", anna)
    page.run(page.press(text="Hello.", voice=anna))
    assert "voice: there is no voice" in page.shown[view.voice_note]


def test_speak_with_it_opens_the_speak_tab(page: Page, view: View, anna: str):
    page.act("speak", anna)
    assert page.shown[view.tabs].selected == SPEAK
    assert page.shown[view.voice] == anna


def test_another_visitor_sees_nothing_of_it(page: Page, view: View, desk: Desk, anna: str):
    other = Page(view, desk)
    other.run(other.voices.opened(other.request, "", None, None, None, None))
    assert strings.NO_VOICES in other.shown[view.voices.list]
    for act in ("rename", "delete"):
        other.act(act, anna, "Mine")
    assert [voice.name for voice in desk.stores.voices.list(page.owner)] == ["Anna"]
    other.run(other.press(text="Hello.", voice=anna))
    assert "voice: there is no voice" in other.status()


def test_the_visitor_of_a_page_without_cookies_is_the_one_it_was_given(
    page: Page, view: View, desk: Desk, anna: str
):
    framed = Page(view, desk)
    framed.run(framed.voices.opened(page_request({}), page.signed, None, None, None, None))
    assert listed(framed) == ["Anna"]


def test_two_voices_are_blended(page: Page, view: View, desk: Desk, engine: Engine, anna: str):
    def blend(name: str, second: str) -> None:
        values = (None, anna, default_choice(engine), second, 25, name)
        page.run(page.voices.blend(page.request, "", *values))

    blend("Mixed", anna)
    assert listed(page) == ["Anna", "Mixed"]
    assert "Mixed is among your voices now." in page.shown[view.voices.blend_note]
    mixed = desk.stores.voices.find(page.owner, "Mixed")
    speakers = desk.speaking.speakers
    expected = speakers.blended(Blend("heart", "Anna", 0.25), page.owner)
    assert speakers.embedding_of(mixed).equal(expected)
    blend("mixed", anna)
    assert "exists already" in page.shown[view.voices.blend_note]
    blend("Other", "voice_of_nobody_at_all_1234")
    assert "there is no voice" in page.shown[view.voices.blend_note]


def test_an_exported_voice_comes_back_and_what_is_none_is_refused(
    page: Page, view: View, desk: Desk, anna: str, tmp_path: Path
):
    library = desk.stores.voices
    file = tmp_path / "anna.zip"
    file.write_bytes(export_file(library, library.own(page.owner, anna)))

    def bring(path: Path | None, name: str = "", has_consent: bool = True) -> str:
        values = (None, anna, None, None, path and str(path), name, has_consent)
        page.run(page.voices.bring(page.request, "", *values))
        return page.shown[view.voices.bring_note]

    assert strings.CONSENT_NEEDED in bring(file, "Bea", has_consent=False)
    assert "choose an exported voice" in bring(None)
    assert "exists already" in bring(file)
    assert "Bea is among your voices now." in bring(file, "Bea")
    assert listed(page) == ["Anna", "Bea"]
    assert not file.exists()  # nothing is left of the upload
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"no archive at all, and long enough to be one")
    assert "file cannot be used" in bring(broken)


def test_a_recording_speaks_only_with_consent_where_the_studio_asks_for_it(
    page_with, view: View, clip: str
):
    page = page_with(require_consent=True, no_watermark=True)
    page.record(clip)
    judged = page.shown[view.judged]
    page.run(page.press(text="Hello.", voice=RECORDING, recording=clip, judged=judged))
    assert strings.TICK_FIRST in page.shown[view.voice_note]
    wish = {"voice": RECORDING, "recording": clip, "judged": judged, "has_consent": True}
    page.run(page.press(text="Hello.", **wish))
    assert 'data-state="done"' in page.status()


def test_several_recordings_make_one_voice_and_a_tag_is_kept(page: Page, clip: str, tmp_path: Path):
    tab, view = page.view.voices, page.view
    other = tmp_path / "other.wav"
    other.write_bytes(Path(clip).read_bytes())
    chosen = (page.request, "", None, "heart", "heart", "deep")
    page.run(page.voices.average(*chosen, [clip, str(other)], "Mean", False))
    assert strings.CONSENT_NEEDED in page.shown[tab.average_note]
    page.run(page.voices.average(*chosen, None, "Mean", True))
    assert "0 recordings were sent" in page.shown[tab.average_note]
    page.run(page.voices.average(*chosen, [clip, str(other)], "Mean", True))
    assert "Mean is among your voices now." in page.shown[tab.average_note]
    assert not Path(clip).exists() and not other.exists()
    (voice,) = page.desk.stores.voices.list(page.owner)
    page.act("tag", voice.id, "warm, calm")
    assert "#warm" in page.shown[tab.list] and "#calm" in page.shown[tab.list]
    assert ("Mean", voice.id) in page.shown[view.voice]["choices"]
