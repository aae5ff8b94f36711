"""The page for everybody: axe finds nothing serious, and it fits at 200 % and in every language.

Findings inside Gradio's own parts, which neither style nor script can mend, stand in ``GRADIOS`` by
rule and selector; they are Gradio 6.31's. A new one of ours fails.
"""

from __future__ import annotations

import json

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from studio.ui import strings
from tests.e2e.conftest import REPOSITORY, Studio, reload, unfold
from tests.e2e.test_library import SENTENCE, open_tab, save_voice, speak

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TABS = (
    strings.SPEAK_TAB,
    strings.SCRIPT_TAB,
    strings.VOICES_TAB,
    strings.TAKES_TAB,
    strings.CODE_TAB,
    strings.CHECK_TAB,
    strings.ABOUT_TAB,
)
# No movement that comes to an end is still going on.
ENDED = """document.getAnimations().every(
    (it) => it.playState !== "running" || it.effect.getComputedTiming().endTime === Infinity
)"""
# Rule: selectors of Gradio's own parts.
GRADIOS: dict[str, tuple[str, ...]] = {}


def serious(page: Page) -> list[str]:
    """What axe finds that is serious or critical and not Gradio's: rule, selector, reason."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{rule['id']}: {node['target'][0]}: {node['html'][:200]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
        if not any(known in str(node["target"]) for known in GRADIOS.get(rule["id"], ()))
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_tab(page: Page, studio: Studio, scheme: str):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    reload(page)
    unfold(page, "#sampling")
    unfold(page, "#presets-box")
    unfold(page, "#words-box")
    save_voice(page, f"Anna {scheme}")
    speak(page, SENTENCE)
    page.evaluate("document.body.append(document.createElement('button'))")
    assert len(serious(page)) == 1  # it looks
    page.evaluate("document.body.lastElementChild.remove()")
    findings = {}
    for name in TABS:
        open_tab(page, name)
        page.wait_for_timeout(500)
        page.wait_for_function(ENDED)
        findings[name] = serious(page)
    assert findings == {name: [] for name in TABS}


def test_at_200_percent_nothing_needs_sideways_scrolling(page: Page):
    page.set_viewport_size({"width": 640, "height": 400})  # 1280 by 800 at 200 %
    for name in TABS:
        open_tab(page, name)
        page.wait_for_function("document.documentElement.scrollWidth <= 640")


@pytest.mark.parametrize("language", [code for code in strings.INTERFACE_LANGUAGES if code != "en"])
def test_the_page_speaks_and_keeps_a_language(page: Page, language: str, complaints: list[str]):
    words = json.loads((REPOSITORY / "assets" / "i18n" / f"{language}.json").read_text())
    page.select_option("#interface-language", language)
    expect(page.get_by_role("tab", name=words["Takes"], exact=True)).to_be_visible()
    expect(page.locator("#speak")).to_have_text(words["Speak"])
    reload(page)
    expect(page.locator("#speak")).to_have_text(words["Speak"])
    expect(page.locator("html")).to_have_attribute("lang", language)
    for width in (320, 768, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
    page.select_option("#interface-language", "en")
    expect(page.locator("#speak")).to_have_text("Speak")
    assert complaints == []
