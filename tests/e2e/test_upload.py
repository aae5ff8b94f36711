"""Files from phones, browsers and films, chosen in a real browser, become the voice that speaks."""

from __future__ import annotations

import base64
import re

import pytest
from playwright.sync_api import Page, expect

from studio.ui import strings
from tests.e2e.conftest import REPOSITORY

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AUDIO = REPOSITORY / "tests" / "fixtures" / "audio"
FIELD = "#recording input[type=file]"
# Hand a file to the page as the end of a drag does; its type is the one that Chromium guesses.
DROP = """([data, name, type]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name, { type }));
    const fields = { bubbles: true, cancelable: true, dataTransfer: transfer };
    const field = document.querySelector("#recording input[type=file]");
    field.parentElement.dispatchEvent(new DragEvent("drop", fields));
}"""


def judged(page: Page) -> str:
    """Wait for what the page says about a recording -> its words."""
    page.wait_for_function(
        "/voice now|cannot be used/.test(document.querySelector('#voice-note').innerText)"
    )
    return page.inner_text("#voice-note").strip()


def open_field(page: Page) -> None:
    page.click('#recording button[aria-label="Upload file"]')
    page.wait_for_selector(FIELD, state="attached")


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("ref_mediarecorder_live_noduration.webm", 4.4),
        ("ref_samsung_like_ulaw_mov.mov", 4.4),
        ("ref_voice_memo_alac.m4a", 4.4),
        ("ref_video_with_audio.mp4", 4.4),
        ("ref_no_extension", 4.4),
        ("ref_uppercase_ext.WAV", 4.4),
    ],
)
def test_a_chosen_file_is_judged_by_its_sound(page: Page, name: str, seconds: float):
    open_field(page)
    page.set_input_files(FIELD, AUDIO / name)
    words = judged(page)
    assert words.startswith(f"{seconds} s of sound at -"), words
    assert "This is the voice now." in words
    expect(page.locator("#voice input")).to_have_value(strings.YOUR_RECORDING)
    assert not re.search("Infinity|NaN", page.inner_text("#recording"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ref_mediarecorder_opus.webm", "video/webm"),
        ("ref_no_extension", ""),
        ("ref_voice_note_opus.ogg", "audio/ogg"),
    ],
)
def test_a_dropped_file_is_judged_by_its_sound(page: Page, name: str, kind: str):
    open_field(page)
    data = base64.b64encode((AUDIO / name).read_bytes()).decode()
    page.evaluate(DROP, [data, name, kind])
    assert judged(page).startswith("4.4 s of sound")


def test_what_holds_no_sound_is_refused_in_words_whatever_it_is_called(page: Page):
    open_field(page)
    page.set_input_files(FIELD, AUDIO / "ref_video_no_audio.mp4")
    assert judged(page).startswith("reference cannot be used: it has no audio track.")


def test_what_to_do_about_a_recording_is_told_beside_it(page: Page):
    open_field(page)
    page.set_input_files(FIELD, AUDIO / "ref_2min_speech.ogg")
    assert "only the first 30.0 s of sound were used" in judged(page)
    page.wait_for_selector("#voice-note .warn")


def test_the_dialog_shows_every_file(page: Page):
    open_field(page)
    with page.expect_file_chooser() as chosen:
        page.click('#recording button[aria-label*="upload" i]')
    assert page.get_attribute(FIELD, "accept") in (None, "")
    chosen.value.set_files(AUDIO / "ref_safari_recorder_fragmented.mp4")
    assert "This is the voice now." in judged(page)
