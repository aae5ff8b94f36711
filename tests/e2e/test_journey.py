"""A whole visit by keyboard: record, hear, compare, save, come back, and keep a script."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from studio.ui import strings
from tests.e2e.conftest import Studio, open_studio, quiet, reload, unfold
from tests.e2e.test_page import PLAYER, wait_heard, wait_status

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SENTENCE = "The small boat is still tied to the pier."
LONG = "The ship sailed into the harbor just before sunset, and the people waved their hats. " * 5
# What the comparison played just before a key was pressed, and just after.
KEY_PRESSED = """
    window.addEventListener("keydown", () => { window.before = studio.compare.state; }, true);
    window.addEventListener("keydown", () => { window.after = studio.compare.state; });
"""
MOST_TABS = 120
# What a browser and Gradio say when a page is left while they listen.
LEAVING = "aborted|Failed to fetch|Connection errored out"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    # As behind a proxy: a studio of this machine alone answers to no other name than its own.
    return {"trusted_proxy": ("127.0.0.1/32",)}


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until ``selector`` has the focus, from the end of the page on to its beginning."""
    found = f"document.activeElement?.matches({selector!r})"
    for _ in range(MOST_TABS):
        if page.evaluate(found):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {selector}")


def press(page: Page, selector: str, key: str = "Enter") -> None:
    tab_to(page, selector)
    page.keyboard.press(key)


def write(page: Page, selector: str, text: str) -> None:
    tab_to(page, selector)
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def open_tab(page: Page, name: str) -> None:
    press(page, f"[role=tab][data-tab-id={name}]")
    expect(page.locator(f"#{name}-tab")).to_be_visible()
    quiet(page)


def speak(page: Page, text: str) -> str:
    write(page, "#text textarea", text)
    page.keyboard.press("Control+Enter")
    return wait_status(page, "done")


def test_a_visit_by_keyboard(page: Page, studio: Studio, complaints: list[str]):
    assert page.get_attribute("#text textarea", "dir") == "auto"
    press(page, "#recording .record-button")
    page.wait_for_selector("#recording .stop-button")
    expect(page.locator("#recording .duration")).to_have_text(re.compile("0:0[4-9]|0:[1-5]"))
    press(page, "#recording .stop-button")
    expect(page.locator("#voice-note")).to_contain_text("This is the voice now.")
    quiet(page)

    write(page, "#text textarea", LONG)
    page.keyboard.press("Control+Enter")
    wait_heard(page, 0.3)
    assert studio.engine.stats.num_live == 1  # it is still being made
    wait_status(page, "done")
    speak(page, SENTENCE)
    speak(page, SENTENCE)

    open_tab(page, "takes")
    expect(page.locator("#takes li.entry")).to_have_count(3)
    press(page, '#takes li:nth-child(1) [data-side="a"]')
    press(page, '#takes li:nth-child(3) [data-side="b"]')  # the long one: it goes on
    play = page.locator('#compare [data-compare="play"]')
    expect(play).to_be_enabled()
    press(page, '#compare [data-compare="play"]')
    page.wait_for_function("studio.compare.state.place_s > 0.3")
    page.evaluate(KEY_PRESSED)
    page.keyboard.press("x")
    before, after = page.evaluate("[before, after]")
    assert (before["heard"], after["heard"]) == ("a", "b")
    assert before["place_s"] <= after["place_s"] < before["place_s"] + 1  # at the same place
    page.keyboard.press("Enter")

    open_tab(page, "speak")
    press(page, "#save-voice")
    write(page, "#save-name :is(input, textarea)", "Anna")
    press(page, "#save-consent input", "Space")
    press(page, "#save")
    expect(page.locator("#save-note")).to_contain_text("Saved as Anna.")
    expect(page.locator("#announcer")).to_contain_text("Saved as Anna.")
    quiet(page)

    reload(page)
    expect(page.locator("#voice input")).to_have_value("Anna")  # the browser remembers
    speak(page, SENTENCE)
    expect(page.locator("#take")).to_contain_text("Anna")
    page.wait_for_function(f"!{PLAYER}.isPlaying")
    press(page, "#wave", "Home")
    press(page, "#play")
    wait_heard(page, 0.1)
    page.keyboard.press("Enter")
    page.wait_for_function(f"!{PLAYER}.isPlaying")

    open_tab(page, "script")
    write(page, "#script textarea", "Anna: Hello.\nBen: Good day.\nAnna: Then we go.")
    page.keyboard.press("Tab")
    quiet(page)
    expect(page.locator("#cast select")).to_have_count(2)
    assert page.locator("#cast select").first.evaluate("it => it.selectedOptions[0].text") == "Anna"
    press(page, "#speak-script")
    expect(page.locator("#script-status")).to_contain_text("Done: 3 lines", timeout=60_000)
    for kind in ("wav", "srt"):
        with page.expect_download() as downloading:
            press(page, f'#script-result a[download="script.{kind}"]')
        assert downloading.value.suggested_filename == f"script.{kind}"
    assert [text for text in complaints if not re.search(LEAVING, text)] == []


def test_the_keys_are_listed_and_escape_closes_the_list(page: Page):
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    assert all(what in page.inner_text("#keys") for _, what in strings.SHORTCUT_KEYS)
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


def test_a_list_that_is_left_by_tab_stays_closed(page: Page):
    options = page.locator("[role=option]")
    page.focus("#voice input")
    expect(options).not_to_have_count(0)
    page.keyboard.press("Tab")
    expect(options).to_have_count(0)
    page.wait_for_timeout(500)
    assert options.count() == 0


def test_a_preset_keeps_the_settings_and_a_changed_one_is_marked(page: Page):
    unfold(page, "#sampling")
    field = page.get_by_label("number input for Temperature")
    default = field.input_value()
    field.fill("0.7")
    field.press("Tab")
    expect(page.locator("#setting-temperature")).to_have_class(re.compile("changed-setting"))
    unfold(page, "#presets-box")
    page.fill("#presets input", "Calm")
    page.press("#presets input", "Enter")
    page.click("#reset")
    expect(field).to_have_value(default)
    expect(page.locator("#setting-temperature")).not_to_have_class(re.compile("changed-setting"))
    page.get_by_role("button", name="Calm", exact=True).click()
    expect(field).to_have_value("0.7")
    expect(page.locator("#setting-temperature")).to_have_class(re.compile("changed-setting"))
    reload(page)
    unfold(page, "#sampling")
    expect(page.get_by_label("number input for Temperature")).to_have_value("0.7")


def test_without_https_the_page_says_why_there_is_no_microphone_and_still_speaks(
    context, studio: Studio, complaints: list[str]
):
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    open_studio(page, studio.address.replace("127.0.0.1", "studio.test"))
    expect(page.locator("#no-microphone")).to_be_visible()
    expect(page.locator("#no-microphone")).to_contain_text("https")
    page.click('#recording button[aria-label="Upload file"]')
    clip = "tests/fixtures/audio/ref_control_16k_mono.wav"
    page.set_input_files("#recording input[type=file]", clip)
    expect(page.locator("#voice-note")).to_contain_text("This is the voice now.")
    quiet(page)
    page.fill("#text textarea", SENTENCE)
    page.click("#speak")
    page.wait_for_function("document.querySelector('#live audio')?.currentTime > 0.2")
    wait_status(page, "done")
    page.wait_for_function("document.querySelector('#take audio')?.duration > 1")
    assert page.is_visible("#take audio") and page.is_hidden("#player")
    assert complaints == []
