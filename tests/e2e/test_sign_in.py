"""A studio with a key: strangers see one field, and whoever knows the key has the page."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.conftest import Studio, wait_ready, watch

pytestmark = [pytest.mark.browser, pytest.mark.slow]

KEY = "a-key-for-the-tests"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"api_key": (KEY,)}


def test_the_key_opens_the_page_and_its_takes(context: BrowserContext, studio: Studio):
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    watch(page)
    page.goto(studio.address)
    page.get_by_label("API key of this studio").fill("a-key-that-nobody-has")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("No key of this studio")
    page.get_by_label("API key of this studio").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    wait_ready(page)
    page.locator("#text textarea").fill("Yes.")
    page.get_by_role("button", name="Speak").first.click()
    download = page.locator("#download-wav")
    expect(download).to_be_visible()
    sound = page.request.get(f"{studio.address}/{download.get_attribute('href')}")
    assert sound.status == 200 and sound.headers["content-type"] == "audio/wav"
    key = {"Authorization": f"Bearer {KEY}"}
    mine = page.request.get(f"{studio.address}/v1/audio/takes", headers=key).json()
    assert len(mine["data"]) == 1  # of the key, whichever way it was shown
    assert page.request.get(f"{studio.address}/v1/audio/takes").status == 401
    assert complaints == []
