"""The studio in a frame of another site, where its cookie never arrives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Frame, expect

from studio.api.owners import COOKIE
from studio.ui import strings
from tests.e2e.conftest import CHROMIUM, FLAGS, PATIENCE_MS, Studio, wait_ready, watch
from tests.e2e.test_library import open_tab, save_voice

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    """The other site may show the studio."""
    return {"frame_origin": ("*",)}


@pytest.fixture(scope="module")
def host(studio: Studio) -> Iterator[str]:
    """The address of a page of another site (localhost is not 127.0.0.1) that frames the studio."""
    markup = f'<iframe src="{studio.address}" width="1400" height="880"></iframe>'.encode()

    class Host(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(markup)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Host) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def profile(chromium: Browser, tmp_path: Path) -> Iterator[BrowserContext]:
    """A browser that lets frames of other sites store something, as most do; cookies stay out."""
    preferences = tmp_path / "Default" / "Preferences"
    preferences.parent.mkdir()
    preferences.write_text(json.dumps({"profile": {"cookie_controls_mode": 0}}))
    context = chromium.browser_type.launch_persistent_context(
        tmp_path,
        executable_path=CHROMIUM,
        args=FLAGS,
        viewport={"width": 1440, "height": 900},
    )
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


def framed(context: BrowserContext, host: str, complaints: list[str]) -> Frame:
    """Open the framed studio, as at the beginning of a visit."""
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    watch(page)
    page.goto(host)
    (frame,) = page.main_frame.child_frames
    wait_ready(frame)
    return frame


def voices(frame: Frame) -> list[str]:
    open_tab(frame, strings.VOICES_TAB)
    expect(frame.locator("#voices .entry, #voices .empty").first).to_be_visible()
    return frame.locator("#voices .name").all_inner_texts()


def test_voices_are_found_again_without_a_cookie(
    profile: BrowserContext, host: str, complaints: list[str]
):
    frame = framed(profile, host, complaints)
    save_voice(frame, "Anna")
    frame.page.close()
    again = framed(profile, host, complaints)
    assert voices(again) == ["Anna"]
    again.get_by_role("button", name="Play: Anna").click()
    again.wait_for_function("document.querySelector('#voices-tab .player audio').currentTime > 0")
    assert [cookie for cookie in profile.cookies() if cookie["name"] == COOKIE] == []
    assert complaints == []


def test_where_storage_is_blocked_as_well_a_voice_lasts_for_the_visit(
    context: BrowserContext, host: str, complaints: list[str]
):
    frame = framed(context, host, complaints)  # a private window keeps nothing for frames
    save_voice(frame, "Bea")
    assert voices(frame) == ["Bea"]
    again = framed(context, host, complaints)
    assert voices(again) == []
    assert complaints == []
