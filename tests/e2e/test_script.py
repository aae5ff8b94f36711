"""A script in a real browser: lines and voices, one said again, and the files of all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import soundfile
from playwright.sync_api import Page, expect

from studio.ui import strings
from tests.e2e.conftest import Studio, quiet
from tests.e2e.test_library import open_tab

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_script_is_cast_spoken_said_again_in_part_and_kept_with_subtitles(
    page: Page, studio: Studio, complaints: list[str], tmp_path: Path
):
    open_tab(page, strings.SCRIPT_TAB)
    cast = page.locator("#cast select")
    expect(cast).to_have_count(2)
    assert cast.first.input_value() != cast.nth(1).input_value()
    cast.nth(1).select_option(label="deep")
    quiet(page)
    page.click("#speak-script")
    rows = page.locator("#lines li.entry")
    expect(rows).to_have_count(3, timeout=60_000)
    expect(page.locator("#script-status")).to_contain_text("Done: 3 lines")
    quiet(page)
    expect(page.locator("#speak-script")).to_be_visible()
    before = rows.locator(".facts").all_inner_texts()
    rows.nth(1).get_by_role("button", name=re.compile(strings.REROLL)).click()
    quiet(page)
    expect(page.locator("#speak-script")).to_be_visible()
    after = rows.locator(".facts").all_inner_texts()
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]
    rows.nth(1).locator(".play").click()
    page.wait_for_function("document.querySelector('#script-tab .player audio').currentTime > 0.2")
    kept = {}
    for kind in ("WAV", "SRT", "VTT"):
        with page.expect_download() as downloading:
            page.locator("#script-result .downloads").get_by_text(kind, exact=True).click()
        kept[kind] = tmp_path / downloading.value.suggested_filename
        downloading.value.save_as(kept[kind])
    assert soundfile.info(kept["WAV"]).duration > 3
    assert "Ben: It is still tied to the pier." in kept["SRT"].read_text()
    assert kept["VTT"].read_text().startswith("WEBVTT")
    assert complaints == []


def test_a_script_stops_at_once_and_its_faults_are_told(page: Page, studio: Studio):
    open_tab(page, strings.SCRIPT_TAB)
    line = "Anna: The people on the quay wave their hats, and the sea is calm.\n"
    page.fill("#script textarea", line * 20)
    page.click("#speak-script")
    expect(page.locator("#lines li.entry").first).to_be_visible(timeout=30_000)
    page.keyboard.press("Escape")
    studio.wait_idle(within_s=5)
    expect(page.locator("#script-status")).to_contain_text("Stopped after")
    quiet(page)
    expect(page.locator("#speak-script")).to_be_visible()
    page.fill("#script textarea", "Anna: ...")
    page.press("#script textarea", "Control+Enter")
    expect(page.locator("#script-note .bad")).to_contain_text("turns[0].text")
    expect(page.locator("#announcer")).to_contain_text("turns[0].text")


def test_a_closed_tab_takes_its_script_along(page: Page, studio: Studio):
    open_tab(page, strings.SCRIPT_TAB)
    page.fill("#script textarea", "Anna: The people on the quay wave their hats.\n" * 30)
    page.click("#speak-script")
    expect(page.locator("#lines li.entry").first).to_be_visible(timeout=30_000)
    page.close()
    studio.wait_idle(within_s=8)  # not to the end of its lines
