"""The page over a shadow of the release: all it declares is shown, and acts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from engine import Emotion, Engine, Guidance, SpeechRequest
from tests.e2e.conftest import Studio, quiet
from tests.e2e.test_page import record, wait_status
from tests.shadow.release import QUALITY_BUCKETS, make_emotions, make_release

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = make_release(tmp_path_factory.mktemp("release"), ends=False)
    directions = make_emotions(tmp_path_factory.mktemp("directions"))
    return Engine.open(folder, device="cpu", emotion_directions=directions)


def test_what_the_release_declares_is_shown_and_reaches_the_engine(
    page: Page, studio: Studio, complaints: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = page.inner_text("#delivery-panel")
    shown = ("Speaking rate", "Loudness", "Brightness", "Longest pause", "Silence at the start")
    assert all(label in panel for label in shown) and len(QUALITY_BUCKETS) == 6
    assert all(name in panel for name in ("Accurate rather than expressive", "clean background"))
    assert all(name in panel for name in ("Happy", "Surprised", "Valence", "Arousal"))

    record(page)
    page.get_by_label("number input for Happy").fill("0.8")
    page.get_by_label("number input for Happy").press("Tab")
    page.get_by_label("number input for Voice guidance").fill("1.5")
    page.get_by_label("number input for Voice guidance").press("Tab")
    page.get_by_label("Accurate rather than expressive").uncheck()
    quiet(page)
    box = page.locator("#pad").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"])

    asked: list[SpeechRequest] = []
    submit = studio.engine.submit
    monkeypatch.setattr(
        studio.engine, "submit", lambda wish, *_: asked.append(wish) or submit(wish)
    )
    page.fill("#text textarea", "Hello.")
    page.click("#speak")
    # These random weights never end, so the visitor does.
    page.wait_for_function(
        "parseFloat(document.querySelector('#status').textContent.match(/Speaking ([0-9.]+)/)?.[1])"
        " > 0.1"
    )
    page.click("#stop")
    assert wait_status(page, "stopped").startswith("Stopped after ")
    (wish,) = asked
    assert wish.emotion == Emotion(sliders={"happy": 0.8}, valence=0.5)
    assert wish.guidance == Guidance(speaker=1.5)
    assert not wish.delivery.accurate_mode and wish.speaker is not None
    assert wish.delivery.quality_buckets == {
        name: 3 if name == "trailing_silence_s" else None for name in QUALITY_BUCKETS
    }
    assert complaints == []
