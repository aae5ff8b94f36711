"""Pictures of every state of the page, for docs/ and for whoever changes the page to look at.

    python -m bench.screens FOLDER [STATE ...]

Each state in light and dark, 320, 768 and 1440 pixels wide, as WebP of a palette's size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[1]
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)
WIDTHS = {320: 640, 768: 1024, 1440: 900}
SCHEMES = ("light", "dark")
CLIP = REPOSITORY / "tests" / "fixtures" / "audio" / "ref_control_16k_mono.wav"
SENTENCE = "On 3 May, Anna paid $24.50 for the small boat that is still tied to the pier."
LONG = "The ship sailed into the harbor just before sunset, and the people waved their hats. " * 9
QUALITY = 42
# Wider pictures are kept at three quarters.
MAX_WIDTH = 1080


def open_studio(page: Page, address: str) -> Page:
    """Open the studio and wait until it is ready to be used."""
    page.goto(address)
    page.wait_for_selector("#seed input:placeholder-shown")
    return page


def empty(page: Page) -> None:
    """As at the first visit."""


def recording(page: Page) -> None:
    page.click("#recording button.record-button")
    page.wait_for_timeout(3500)


def recorded(page: Page) -> None:
    recording(page)
    page.click("#recording button.stop-button")
    page.wait_for_selector("#voice-note >> text=This is the voice now.")


def queued(page: Page) -> None:
    """Other tabs speak in every slot."""
    for _ in range(3):
        page.evaluate(
            """text => { fetch("v1/audio/speech", {method: "POST",
            headers: {"Content-Type": "application/json"},
            body: JSON.stringify({input: text, stream: true, response_format: "pcm"})}); }""",
            LONG * 4,
        )
    page.wait_for_timeout(800)
    page.click("#speak")
    page.wait_for_selector('#status [data-state="queued"]')


def speaking(page: Page) -> None:
    page.fill("#text textarea", LONG)
    page.click("#speak")
    page.wait_for_function("studio.player.state && studio.player.state.place_s > 2.5")


def done(page: Page) -> None:
    page.fill("#text textarea", SENTENCE)
    page.click("#spoken-box > button")
    page.wait_for_selector("#spoken .changed")
    page.click("#speak")
    page.wait_for_selector('#status [data-state="done"]')
    page.wait_for_function("studio.player.state.place_s > 1.5")
    page.click("#play")


def error(page: Page) -> None:
    page.fill("#text textarea", "?!")
    page.click("#speak")
    page.wait_for_selector('#status [data-state="error"]')


def open_tab(page: Page, name: str) -> None:
    """Open a tab, also where it stands in the menu of those that have no room."""
    shown = page.get_by_role("tab", name=name, exact=True)
    if not shown.first.is_visible():
        page.click("#tabs .overflow-menu > button")
        page.locator("#tabs .overflow-dropdown button", has_text=name).click()
        return
    shown.first.click()


def spoken(page: Page) -> None:
    page.fill("#text textarea", SENTENCE)
    for seed in ("7", "8"):
        page.fill("#seed input", seed)
        page.evaluate("document.querySelector('#status [data-state]').dataset.state = 'old'")
        page.click("#speak")
        page.wait_for_selector('#status [data-state="done"]')
        page.wait_for_selector("#speak")


def takes(page: Page) -> None:
    spoken(page)
    open_tab(page, "Takes")
    page.locator("#takes .side[data-side=a]").first.click()
    page.locator("#takes .side[data-side=b]").nth(1).click()
    page.wait_for_selector("#compare [data-compare=play]:enabled")


def voices(page: Page) -> None:
    page.click('#recording button[aria-label="Upload file"]')
    page.set_input_files("#recording input[type=file]", CLIP)
    page.click("#save-voice")
    page.locator("#save-name :is(input, textarea)").fill("Anna")
    page.check("#save-consent input")
    page.click("#save")
    page.wait_for_selector("#save-note .good")
    open_tab(page, "Voices")
    page.wait_for_selector("#voices .entry")


def script(page: Page) -> None:
    open_tab(page, "Script")
    page.wait_for_selector("#cast select")
    page.click("#speak-script")
    page.wait_for_selector('#script-status [data-state="done"]')


def tab_of(name: str) -> Callable[[Page], None]:
    def show(page: Page) -> None:
        open_tab(page, name)
        page.wait_for_timeout(600)

    return show


STATES: dict[str, Callable[[Page], None]] = {
    "empty": empty,
    "recording": recording,
    "recorded": recorded,
    "queued": queued,
    "speaking": speaking,
    "done": done,
    "error": error,
    "takes": takes,
    "voices": voices,
    "script": script,
    "code": tab_of("Code"),
    "check": tab_of("Check"),
    "about": tab_of("About"),
}


@contextmanager
def studio() -> Iterator[str]:
    """The studio as people start it, over a data folder that goes with it -> its address."""
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, str(REPOSITORY / "app.py"), "--port", "0", "--data", data]
        command += ["--slots", "2"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        try:
            yield _address(process)
        finally:
            process.terminate()
            process.wait(40)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        for word in line.split():
            if word.startswith("http://"):
                return word.rstrip("/")
    raise SystemExit("the studio did not start")


def taken(page: Page, folder: Path, name: str) -> None:
    """Take the picture, as small as it can be read."""
    image = Image.open(BytesIO(page.screenshot(full_page=False)))
    if image.width > MAX_WIDTH:
        size = MAX_WIDTH, round(image.height * MAX_WIDTH / image.width)
        image = image.resize(size, Image.Resampling.LANCZOS)
    image.convert("RGB").save(folder / f"{name}.webp", quality=QUALITY, method=6)


def main(folder: Path, states: list[str]) -> None:
    """Take the pictures of ``states``, of all if there are none."""
    folder.mkdir(parents=True, exist_ok=True)
    with studio() as address, sync_playwright() as playwright, tempfile.TemporaryDirectory() as tmp:
        heard = Path(tmp) / "voice.wav"
        heard.write_bytes(CLIP.read_bytes())
        flags = [*FLAGS, f"--use-file-for-fake-audio-capture={heard}"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        for state in states or STATES:
            context = browser.new_context(
                permissions=["microphone"], viewport={"width": 1440, "height": 900}
            )
            page = open_studio(context.new_page(), address)
            STATES[state](page)
            for scheme in SCHEMES:
                page.evaluate(
                    "dark => document.body.classList.toggle('dark', dark)", scheme == "dark"
                )
                for width, height in WIDTHS.items():
                    page.set_viewport_size({"width": width, "height": height})
                    page.wait_for_timeout(250)
                    taken(page, folder, f"{state}-{scheme}-{width}")
            context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
