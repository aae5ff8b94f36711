"""Voices and takes in a real browser: kept over a reload, used, played, and gone when deleted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import BrowserContext, Page, expect

from studio.consent import STATEMENT
from studio.ui import strings
from tests.e2e.conftest import REPOSITORY, Studio, open_studio, quiet, reload
from tests.e2e.test_page import wait_status

pytestmark = pytest.mark.browser

CLIP = REPOSITORY / "tests" / "fixtures" / "audio" / "ref_control_16k_mono.wav"
SENTENCE = "The small boat is still tied to the pier."


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()
    page.locator("[role=tabpanel]:visible").first.wait_for()
    quiet(page)


def upload(page: Page, file: Path = CLIP) -> None:
    """Choose a recording and wait until it was judged."""
    page.click('#recording button[aria-label="Upload file"]')
    page.set_input_files("#recording input[type=file]", file)
    page.wait_for_selector("#save-voice")
    # Gradio complains when its waveform is taken away while it is drawn.
    page.wait_for_function("/0:0[1-9]/.test(document.querySelector('#recording').innerText)")
    quiet(page)


def save_voice(page: Page, name: str) -> None:
    upload(page)
    page.click("#save-voice")
    page.get_by_label(strings.VOICE_NAME, exact=True).first.fill(name)
    page.check("#save-consent input")
    page.click("#save")
    expect(page.locator("#save-note")).to_contain_text(f"Saved as {name}.")
    quiet(page)  # the field is empty, and that is judged, too


def speak(page: Page, text: str) -> str:
    """Speak ``text`` -> the status line at the end."""
    page.fill("#text textarea", text)
    page.click("#speak")
    return wait_status(page, "done")


def test_a_voice_and_its_take_last_until_they_are_deleted(
    page: Page, studio: Studio, complaints: list[str]
):
    upload(page)
    page.click("#save-voice")
    page.get_by_label(strings.VOICE_NAME, exact=True).first.fill("Anna")
    page.click("#save")
    expect(page.locator("#save-note .bad")).to_contain_text("tick the statement first")
    quiet(page)
    assert page.inner_text("#save-consent").strip() == STATEMENT
    page.check("#save-consent input")
    page.click("#save")
    expect(page.locator("#save-note")).to_contain_text("Saved as Anna. This is the voice now.")
    expect(page.locator("#announcer")).to_contain_text("Saved as Anna.")
    expect(page.locator("#voice input")).to_have_value("Anna")

    expect(page.locator("#voice-note .note")).to_have_count(0)  # the field is empty again
    quiet(page)
    assert complaints == []

    reload(page)
    complaints.clear()  # Gradio's, about the streams that a page breaks off when it is left
    page.click("#voice input")
    page.get_by_role("option", name="Anna").click()
    speak(page, SENTENCE)
    expect(page.locator("#take")).to_contain_text("Take: Anna")
    expect(page.locator("#take")).to_contain_text(strings.KEPT)
    player = "document.querySelector('#take audio')"
    page.wait_for_function(f"{player}?.readyState > 0 && {player}.duration > 1")

    open_tab(page, strings.TAKES_TAB)
    row = page.locator("#takes li.entry")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(f"{SENTENCE}\nAnna · ", use_inner_text=True)
    row.get_by_role("button", name=f"Delete: {SENTENCE[:40]}").click()
    row.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#takes")).to_contain_text(strings.NO_TAKES)

    open_tab(page, strings.VOICES_TAB)
    row = page.locator("#voices li.entry")
    row.get_by_role("button", name="Delete: Anna").click()
    row.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#voices")).to_contain_text(strings.NO_VOICES)
    open_tab(page, strings.SPEAK_TAB)
    expect(page.locator("#take")).to_have_text("")
    expect(page.locator("#voice input")).to_have_value("heart")
    assert complaints == []


@pytest.mark.slow
def test_a_take_is_played_made_again_and_its_settings_come_back(
    page: Page, studio: Studio, tmp_path: Path
):
    page.fill("#seed input", "21")
    page.wait_for_selector("#keep-seed input:checked")
    speak(page, SENTENCE)
    open_tab(page, strings.TAKES_TAB)
    first = page.locator("#takes li.entry").first
    # It is not over before all of this is looked at, however slow the machine is.
    page.evaluate("document.querySelector('#takes-tab .player audio').loop = true")
    first.get_by_role("button", name=f"Play: {SENTENCE[:40]}").click()
    page.wait_for_function("document.querySelector('#takes-tab .player audio').currentTime > 0.2")
    expect(first).to_have_class(re.compile("playing"))
    assert page.inner_text("#takes-tab .player figcaption") == f"heart: {SENTENCE}"
    # A star redraws the list: what plays goes on, and the focus stays on its button.
    star = first.get_by_role("button", name=re.compile("^Star"))
    star.focus()
    page.keyboard.press("Enter")
    expect(star).to_have_attribute("aria-pressed", "true")
    expect(star).to_be_focused()
    assert not page.evaluate("document.querySelector('#takes-tab .player audio').paused")

    with page.expect_download() as downloading:
        first.get_by_role("link", name=re.compile("^WAV")).click()
    downloading.value.save_as(tmp_path / "take.wav")
    samples, _ = soundfile.read(tmp_path / "take.wav", dtype="int16")
    np.testing.assert_array_equal(samples, studio.expected(SENTENCE, 21))

    first.get_by_role("button", name=re.compile("^Make it again")).click()
    assert "seed 21." in wait_status(page, "done")
    expect(page.locator("#speak")).to_be_visible()
    page.fill("#text textarea", "Something else.")
    page.fill("#seed input", "3")
    open_tab(page, strings.TAKES_TAB)
    expect(page.locator("#takes li.entry")).to_have_count(2)
    page.locator("#takes li.entry").first.get_by_role(
        "button", name=re.compile("^Use these settings")
    ).click()
    page.wait_for_selector("#speak")
    expect(page.locator("#text textarea")).to_have_value(SENTENCE)
    expect(page.locator("#seed input")).to_have_value("21")
    expect(page.locator("#keep-seed input")).to_be_checked()

    open_tab(page, strings.TAKES_TAB)
    with page.expect_download() as downloading:
        page.get_by_role("link", name=strings.EXPORT_ALL).click()
    assert downloading.value.suggested_filename == "takes.zip"
    page.get_by_role("button", name=strings.DELETE_ALL).click()
    page.get_by_role("button", name=strings.DELETE_UNSTARRED).click()
    expect(page.locator("#takes li.entry")).to_have_count(1)
    page.get_by_role("button", name=strings.DELETE_ALL).click()
    page.get_by_role("button", name=strings.DELETE_STARRED).click()
    expect(page.locator("#takes")).to_contain_text(strings.NO_TAKES)
    expect(page.locator("#takes-tab .player")).to_be_hidden()


@pytest.mark.slow
def test_a_voice_is_heard_renamed_exported_brought_back_and_blended(page: Page, tmp_path: Path):
    save_voice(page, "Anna")
    open_tab(page, strings.VOICES_TAB)
    row = page.locator("#voices li.entry").first
    row.get_by_role("button", name="Play: Anna").click()
    page.wait_for_function("document.querySelector('#voices-tab .player audio').currentTime > 0.2")

    # By keyboard alone: rename, think better of deleting, and the focus never gets lost.
    row.get_by_role("button", name="Rename: Anna").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("Bea")
    page.keyboard.press("Enter")
    rename = row.get_by_role("button", name="Rename: Bea")
    expect(rename).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(row.get_by_role("button", name=strings.KEEP)).to_be_focused()
    page.keyboard.press("Escape")
    expect(row.get_by_role("button", name="Delete: Bea")).to_be_focused()

    with page.expect_download() as downloading:
        row.get_by_role("link", name="Export: Bea").click()
    file = tmp_path / downloading.value.suggested_filename
    assert file.name == "Bea.zip"
    downloading.value.save_as(file)
    page.set_input_files("#voice-file input[type=file]", file)
    page.wait_for_selector("#voice-file >> text=Bea")
    page.check("#bring-consent input")
    page.click("#bring")
    expect(page.locator("#bring-note .bad")).to_contain_text("exists already")
    quiet(page)
    page.fill("#bring-name textarea", "Cleo")
    page.click("#bring")
    expect(page.locator("#bring-note .good")).to_contain_text("Cleo is among your voices now.")

    quiet(page)
    page.click("#blend-second input")
    page.get_by_role("option", name="Cleo").click()
    page.fill("#blend-name textarea", "Mixed")
    page.click("#blend")
    expect(page.locator("#blend-note .good")).to_contain_text("Mixed is among your voices now.")
    names = page.locator("#voices li.entry .name")
    expect(names).to_have_text(["Bea", "Cleo", "Mixed"])
    page.get_by_role("button", name="Speak with it: Mixed").click()
    expect(page.locator("#voice input")).to_have_value("Mixed")


@pytest.mark.slow
def test_a_file_says_whether_it_was_made_here(page: Page, tmp_path: Path, complaints: list[str]):
    speak(page, SENTENCE)
    with page.expect_download() as downloading:
        page.click("#download-wav")
    downloading.value.save_as(tmp_path / "said.wav")
    open_tab(page, strings.CHECK_TAB)
    page.set_input_files("#check-file input[type=file]", tmp_path / "said.wav")
    verdict = page.locator("#check-result .verdict")
    expect(verdict).to_contain_text("A machine spoke here", timeout=60_000)
    expect(page.locator("#check-result")).to_contain_text("AI-generated speech")
    quiet(page)
    page.set_input_files("#check-file input[type=file]", CLIP)
    expect(verdict).to_contain_text("Nothing in this file says", timeout=60_000)
    assert complaints == []


@pytest.mark.slow
def test_what_people_typed_stays_text_and_in_its_place(page: Page, complaints: list[str]):
    evil = "<img src=x onerror=\"document.title='evil'\"> ${alert(1)} {{value}} \u202enrut"
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    save_voice(page, "<b onclick=x>Åsa</b> 'سارة' `${1+1}`")
    speak(page, evil)
    open_tab(page, strings.TAKES_TAB)
    expect(page.locator("#takes .said")).to_have_text(evil)
    page.locator("#takes .play").click()
    assert page.inner_text("#takes-tab .player figcaption").endswith(evil)
    # What follows the text is not turned round by it.
    voice = page.locator("#takes .facts bdi").bounding_box()
    moment = page.locator("#takes time").bounding_box()
    assert voice["x"] < moment["x"]
    open_tab(page, strings.VOICES_TAB)
    expect(page.locator("#voices .name")).to_have_text("<b onclick=x>Åsa</b> 'سارة' `${1+1}`")
    assert page.title() == strings.TITLE
    assert page.locator("#takes img, #voices b").count() == 0
    assert complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_fits_every_width(page: Page, scheme: str):
    save_voice(page, "Großmutter mit einem wirklich sehr langen Namen ohne Ende")
    speak(page, "Averyveryverylongwordwithoutanyspace" * 3)
    page.emulate_media(color_scheme=scheme)
    for tab in (strings.SPEAK_TAB, strings.VOICES_TAB, strings.TAKES_TAB, strings.CHECK_TAB):
        open_tab(page, tab)
        for row in page.locator("li.entry:visible").all():
            row.locator('.acts [data-mode="delete"]').click()
        for width in (320, 768, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
            # Every tab is seen, or some are and the menu beside them has the rest.
            page.wait_for_function(
                "() => { const seen = [...document.querySelectorAll('#tabs [role=tab]')]"
                ".filter((tab) => tab.checkVisibility({visibilityProperty: true})).length;"
                " const menu = document.querySelector('#tabs .overflow-menu > button');"
                " return seen === 7 || (seen >= 2 && menu?.checkVisibility()) }"
            )


@pytest.mark.slow
def test_another_visitor_sees_nothing_of_it(
    page: Page, context: BrowserContext, chromium, studio: Studio
):
    save_voice(page, "Anna")
    speak(page, "Hello.")
    address = page.get_attribute("#take audio", "src")
    assert address
    other = chromium.new_context()
    try:
        stranger = open_studio(other.new_page(), studio.address)
        for tab, nothing in (
            (strings.VOICES_TAB, strings.NO_VOICES),
            (strings.TAKES_TAB, strings.NO_TAKES),
        ):
            open_tab(stranger, tab)
            expect(stranger.get_by_text(nothing[:20])).to_be_visible()
        # An address with another ticket in it opens nothing.
        forged = f"{studio.address}/{address[:-3]}AAA"
        assert stranger.request.get(forged).status == 404
    finally:
        other.close()
