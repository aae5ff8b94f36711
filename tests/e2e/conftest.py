"""A real server, a real Chromium, and a microphone that hears a recording."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import imageio_ffmpeg
import numpy as np
import pytest
import uvicorn
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Frame,
    Page,
    Request,
    expect,
    sync_playwright,
)

from engine import Engine, SpeechRequest
from studio.api.speaking import Speaking
from studio.api.texts import text_wish
from studio.media.pcm import to_int16
from studio.owner import LOCAL
from studio.server import create_app, listen
from studio.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--host-resolver-rules=MAP studio.test 127.0.0.1",  # an address that is no localhost
)
START_S = 60.0
# Of any single wait: what does not come, does not come later either, and a busy machine is slow.
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)
# Within it the longest text of these tests is spoken to its end.
QUIET_S = 120.0
# What Gradio asks about an event, from the first request to the last answer.
CALL = re.compile(r"/gradio_api/(run|queue|upload)\b")
# The calls of a page that are not answered yet.
_calls: WeakKeyDictionary[Page, set[Request]] = WeakKeyDictionary()


@dataclass
class Studio:
    """The studio as it is served, and what is behind it."""

    address: str
    engine: Engine
    speaking: Speaking

    def expected(self, text: str, seed: int) -> np.ndarray:
        """The int16 samples that everybody hears who asks for ``text`` with ``seed``."""
        engine = self.engine
        prepared = self.speaking.texts.prepared(text, text_wish("en_us"), LOCAL)
        ask = SpeechRequest(
            text=text,
            pieces=prepared.pieces,
            speaker=engine.voice(None),
            voice_id=engine.default_voice,
            seed=seed,
        )
        samples, rate_hz = engine.submit(ask).read()
        return to_int16(self.speaking.marker.mark(samples, rate_hz))

    def wait_idle(self, within_s: float) -> float:
        """Wait until the engine has no request -> seconds waited."""
        begin_s = time.monotonic()
        while self.engine.stats.num_live or self.engine.stats.num_waiting:
            assert time.monotonic() < begin_s + within_s, "a request is still in the engine"
            time.sleep(0.01)
        return time.monotonic() - begin_s


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The embedded model; a module may put another in its place. The studio closes it."""
    return Engine.open(REPOSITORY / "assets" / "nano", device="cpu")


@pytest.fixture(scope="module")
def ffmpeg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's ffmpeg under its usual name, alone in a folder: no ffprobe beside it."""
    program = tmp_path_factory.mktemp("bin") / "ffmpeg"
    program.symlink_to(imageio_ffmpeg.get_ffmpeg_exe())
    return program


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    """Settings that are not the defaults; a module may have its own."""
    return {}


@pytest.fixture(scope="module")
def studio(
    engine: Engine,
    ffmpeg: Path,
    options: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Studio]:
    """The studio over the module's ``engine``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(ffmpeg.parent))
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
        settings = Settings(data=tmp_path_factory.mktemp("data"), **options)
        assert engine.encoder is not None
        engine.encoder.warm()
        app = create_app(engine, settings)  # closes the engine
        config = uvicorn.Config(
            app, log_level="error", access_log=False, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        with listen("127.0.0.1", 0) as listener:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                deadline_s = time.monotonic() + START_S
                while not server.started:
                    assert time.monotonic() < deadline_s, "the server did not start"
                    time.sleep(0.01)
                address = f"http://127.0.0.1:{listener.getsockname()[1]}"
                yield Studio(address, engine, app.state.speaking)
            finally:
                server.should_exit = True
                thread.join(START_S)


@pytest.fixture(scope="module")
def microphone(ffmpeg: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake microphone hears, as a WAV file: a human voice."""
    shared = Path(os.environ.get("STUDIO_SHARED") or REPOSITORY.parent / "shared")
    human = shared / "voices" / "BritishFemale.mp3"
    spare = REPOSITORY / "tests" / "fixtures" / "audio" / "ref_control_16k_mono.wav"
    heard = tmp_path_factory.mktemp("microphone") / "voice.wav"
    source = human if human.is_file() else spare
    convert = [str(ffmpeg), "-v", "error", "-i", str(source), "-t", "10", "-ac", "1"]
    subprocess.run([*convert, "-ar", "48000", str(heard)], check=True)
    return heard


@pytest.fixture(scope="module")
def chromium(microphone: Path) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[*FLAGS, f"--use-file-for-fake-audio-capture={microphone}"],
        )
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser profile of its own, as for a new visitor."""
    context = chromium.new_context(
        viewport={"width": 1440, "height": 900}, permissions=["microphone"], accept_downloads=True
    )
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console said: errors and uncaught exceptions."""
    return []


@pytest.fixture
def requested() -> list[str]:
    """The addresses that the page asked for."""
    return []


@pytest.fixture
def page(
    context: BrowserContext, studio: Studio, complaints: list[str], requested: list[str]
) -> Page:
    """The open page, ready to be used."""

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    page = context.new_page()
    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(error.stack or str(error)))
    page.on("request", lambda request: requested.append(request.url))
    return open_studio(page, studio.address)


def open_studio(page: Page, address: str) -> Page:
    """Open the studio and wait until it is ready to be used."""
    watch(page)
    page.goto(address)
    wait_ready(page)
    return page


def reload(page: Page) -> None:
    """Open the studio anew and wait until it is ready to be used."""
    page.reload()
    wait_ready(page)


def wait_ready(page: Page | Frame) -> None:
    """Wait until the first event of the page is answered."""
    # It empties the seed: then everything is wired.
    page.wait_for_selector("#seed input:placeholder-shown")
    quiet(page)


def watch(page: Page) -> None:
    """Note which calls of the page are under way, for ``quiet``; before the page is opened."""
    calls = _calls.setdefault(page, set())
    page.on("request", lambda call: calls.add(call) if CALL.search(call.url) else None)
    page.on("requestfinished", lambda call: calls.discard(call))
    page.on("requestfailed", lambda call: calls.discard(call))


def quiet(page: Page | Frame) -> None:
    """Wait until every event of the page is over and its answers are shown.

    Gradio drops a second press of a button whose event is still ending, and a list that is told
    anew forgets what its rows were asked: a person is slower than either.
    """
    calls = _calls[page if isinstance(page, Page) else page.page]
    deadline_s = time.monotonic() + QUIET_S
    num_still = 0
    while num_still < 2:  # between a call and what follows from it there is none
        let_settle(page)
        num_still = 0 if calls else num_still + 1
        assert time.monotonic() < deadline_s, [call.url for call in calls]


def unfold(page: Page, box: str) -> None:
    """Open a folded box and wait until its fields have their values.

    Gradio shows them a frame before it writes them, over what was typed meanwhile.
    """
    page.click(f"{box} > button")
    page.locator(f"{box} :is(input, textarea)").first.wait_for(state="visible")
    quiet(page)


def let_settle(page: Page | Frame) -> None:
    """Wait two frames, in which Gradio writes the values of what has just come into sight."""
    frame = "requestAnimationFrame"
    page.evaluate(f"() => new Promise((done) => {frame}(() => {frame}(() => setTimeout(done))))")
