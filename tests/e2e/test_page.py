"""The page in a real browser: record, speak, hear, stop, and the words for what went wrong."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile
from playwright.sync_api import BrowserContext, Page, expect

from studio.ui import strings
from tests.e2e.conftest import Studio, open_studio, quiet, reload

pytestmark = pytest.mark.browser

SENTENCE = "The small boat is still tied to the pier."
# About a minute of speech.
LONG = "The ship sailed into the harbor just before sunset, and the people waved their hats. " * 12
PLAYER = "studio.player.state"
# A busy machine is late now and then, and not each time that something is measured.
MEASURES = 3


def wait_status(page: Page, state: str) -> str:
    """Wait until the status line is in ``state``, at the end of a press -> its words."""
    if state != "speaking":
        quiet(page)
    page.wait_for_selector(f'#status [data-state="{state}"]')
    return page.inner_text("#status").strip()


def wait_heard(page: Page, seconds: float = 0.0) -> None:
    """Wait until the player has played more than ``seconds``."""
    page.wait_for_function(f"{PLAYER} && {PLAYER}.place_s > {seconds}")


def record(page: Page) -> None:
    """Record the fake microphone for four seconds, as the page counts them, and have it judged."""
    page.click("#recording button.record-button")
    expect(page.locator("#recording .duration")).to_have_text(re.compile("0:0[4-9]|0:[1-5]"))
    page.click("#recording button.stop-button")
    page.wait_for_selector("#voice-note >> text=This is the voice now.")
    quiet(page)


def test_a_recorded_voice_is_heard_long_before_its_speech_is_made(page: Page, studio: Studio):
    record(page)
    expect(page.locator("#voice input")).to_have_value(strings.YOUR_RECORDING)

    page.fill("#text textarea", LONG)
    page.click("#speak")
    wait_heard(page, 0.3)
    # The playhead moves on while the engine is still at work on this very request.
    assert studio.engine.stats.num_live == 1
    first_s = page.evaluate(f"{PLAYER}.place_s")
    wait_heard(page, first_s + 0.5)
    assert studio.engine.stats.num_live == 1
    made = page.wait_for_function(
        "parseFloat(document.querySelector('#status').textContent.match(/Speaking ([0-9.]+)/)?.[1])"
        " >= 30",
        timeout=90_000,
    )
    assert made
    page.click("#stop")
    assert float(re.search(r"[\d.]+", wait_status(page, "stopped"))[0]) >= 30
    studio.wait_idle(within_s=5)


def test_the_first_visit_speaks_without_another_step(
    page: Page,
    studio: Studio,
    complaints: list[str],
    requested: list[str],
    tmp_path: Path,
):
    assert page.input_value("#text textarea") == strings.SAMPLE_TEXT
    page.fill("#text textarea", SENTENCE)
    page.click("#speak")
    words = wait_status(page, "done")
    seed = int(re.search(r"seed (\d+)", words)[1])
    expect(page.locator("#seed input")).to_have_value(str(seed))
    expect(page.locator("#announcer")).to_have_text(words)

    with page.expect_download() as downloading:
        page.click("#download-wav")
    name = downloading.value.suggested_filename
    assert re.fullmatch(r"The-small-boat-is-still-tied-to-the-pier-[\w-]{8}\.wav", name)
    take = tmp_path / "take.wav"
    downloading.value.save_as(take)
    assert soundfile.info(take).subtype == "PCM_16"
    samples, rate_hz = soundfile.read(take, dtype="int16")
    assert rate_hz == 44_100
    np.testing.assert_array_equal(samples, studio.expected(SENTENCE, seed))
    assert f"{len(samples) / rate_hz:.1f} s of speech" in words

    player = "document.querySelector('#take audio')"
    page.wait_for_function(f"{player}?.readyState > 0")
    assert page.evaluate(f"{player}.duration") == pytest.approx(len(samples) / rate_hz, abs=0.01)

    heard = f"{PLAYER}?.hasEnded && {PLAYER}.place_s === {PLAYER}.length_s"
    page.wait_for_function(heard)  # all of it
    assert page.evaluate(f"{PLAYER}.length_s") == pytest.approx(len(samples) / rate_hz, abs=1e-4)
    page.focus("#wave")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"{PLAYER}.place_s === 1")
    page.keyboard.press(" ")
    wait_heard(page, 1.2)
    assert page.is_hidden("#live")
    assert complaints == []
    hosts = {urlsplit(url).hostname for url in requested} - {None}
    assert hosts == {"127.0.0.1"}


def test_what_is_wrong_is_told_and_the_next_press_works(page: Page, studio: Studio):
    page.fill("#text textarea", "?!")
    page.press("#text textarea", "Control+Enter")
    sentence = wait_status(page, "error")
    assert "has no letter or number to speak" in sentence
    expect(page.locator("#text-note")).to_have_text(sentence)
    expect(page.locator("#announcer")).to_have_text(sentence)
    assert page.input_value("#text textarea") == "?!"

    page.click('#recording button[aria-label="Upload file"]')
    broken = {"name": "voice.wav", "mimeType": "audio/wav", "buffer": b"<html></html>" * 99}
    page.set_input_files("#recording input[type=file]", broken)
    page.wait_for_selector("#voice-note .bad")
    quiet(page)
    sentence = page.inner_text("#voice-note").strip()
    assert sentence.startswith("reference cannot be used: it is not a recording")
    assert wait_status(page, "error") == sentence

    page.fill("#seed input", str(2**32))
    page.wait_for_selector("#keep-seed input:checked")  # a typed seed is meant
    page.fill("#text textarea", SENTENCE)
    page.click("#speak")
    page.wait_for_selector("#settings-note .bad")
    assert "seed: 4294967296 is not allowed" in wait_status(page, "error")

    page.fill("#seed input", "7")
    page.press("#text textarea", "Control+Enter")
    assert "seed 7." in wait_status(page, "done")
    expect(page.locator("#text-note")).to_have_text("")
    expect(page.locator("#settings-note")).to_have_text("")


def test_escape_stops_speech_and_sound_and_the_focus_stays(page: Page, studio: Studio):
    page.fill("#text textarea", LONG)
    waited_s = 9.0
    for _ in range(MEASURES):
        page.focus("#speak")
        page.keyboard.press("Enter")
        page.wait_for_function("document.activeElement.id === 'stop'")
        wait_status(page, "speaking")
        page.wait_for_function(f"{PLAYER}?.isPlaying && {PLAYER}.place_s > 0")
        expect(page.locator("#announcer")).to_have_text("Speaking")  # once, not at every tick
        page.keyboard.press("Escape")
        waited_s = min(waited_s, studio.wait_idle(within_s=5))
        page.wait_for_function(f"!{PLAYER}.isPlaying")
        wait_status(page, "stopped")
        page.wait_for_function("document.activeElement.id === 'speak'")
        page.wait_for_timeout(500)
        assert not page.evaluate(f"{PLAYER}.isPlaying")
        assert not page.is_visible("#stop")
        if waited_s < 1:
            break
    assert waited_s < 1


@pytest.mark.slow
def test_a_closed_tab_takes_its_request_along(context: BrowserContext, studio: Studio):
    waited_s = 9.0
    for _ in range(MEASURES):
        page = open_studio(context.new_page(), studio.address)
        page.fill("#text textarea", LONG)
        page.click("#speak")
        wait_status(page, "speaking")
        assert studio.engine.stats.num_live == 1
        page.close()
        waited_s = min(waited_s, studio.wait_idle(within_s=5))
        if waited_s < 1:
            break
    assert waited_s < 1


@pytest.mark.slow
def test_two_tabs_do_not_mix(context: BrowserContext, page: Page, studio: Studio):
    other = open_studio(context.new_page(), studio.address)
    for tab, seed in ((page, "21"), (other, "22")):
        tab.fill("#seed input", seed)
        tab.wait_for_selector("#keep-seed input:checked")
        tab.fill("#text textarea", SENTENCE)
        tab.click("#speak")
    assert "seed 21." in wait_status(page, "done")
    assert "seed 22." in wait_status(other, "done")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_width_fits_and_the_theme_can_be_switched(context: BrowserContext, page, scheme):
    page.emulate_media(color_scheme=scheme)
    reload(page)
    assert page.evaluate("document.body.classList.contains('dark')") == (scheme == "dark")
    for width in (320, 768, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
        expect(page.locator("#speak")).to_be_visible()
    page.click("#theme-switch")
    assert page.evaluate("document.body.classList.contains('dark')") == (scheme == "light")
    reload(page)
    assert page.evaluate("document.body.classList.contains('dark')") == (scheme == "light")


@pytest.mark.slow
def test_the_microphone_is_asked_for_at_the_first_press_only(context: BrowserContext, studio):
    page = context.new_page()
    page.add_init_script(
        "const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);"
        "window.asked = 0;"
        "navigator.mediaDevices.getUserMedia = (wish) => { window.asked += 1; return ask(wish); };"
    )
    open_studio(page, studio.address)
    time.sleep(0.5)
    assert page.evaluate("window.asked") == 0
    page.click("#recording button.record-button")
    page.wait_for_function("window.asked > 0")


@pytest.mark.slow
def test_a_press_in_the_moment_speak_comes_back_is_not_lost(page: Page):
    page.fill("#text textarea", "Yes.")
    page.evaluate(
        """() => {
            window.presses = 0;
            let was = true;
            new MutationObserver(() => {
                const button = document.querySelector("#speak"), is = !!button?.checkVisibility();
                if (is && !was && window.presses < 3) { window.presses += 1; button.click(); }
                was = is;
            }).observe(document.body, { subtree: true, childList: true, attributes: true });
        }"""
    )
    page.click("#speak")
    page.wait_for_function("window.presses === 3")
    quiet(page)
    page.get_by_role("tab", name=strings.TAKES_TAB, exact=True).click()
    expect(page.locator("#takes li.entry")).to_have_count(4)
