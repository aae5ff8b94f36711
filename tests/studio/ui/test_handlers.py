"""What a session is shown, press by press, with the real engine behind it."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from engine import Engine, SpeechRequest, Spoken
from studio.media.pcm import to_int16
from studio.ui import strings
from studio.ui.desk import default_choice
from studio.ui.performance import Press
from studio.ui.recording import RECORDING, Judged
from tests.studio.ui.conftest import TEXT, Page

LONG = TEXT + " The people on the quay wave their hats, and the sea is calm. " * 8


@pytest.fixture
def clip(recording: bytes, tmp_path: Path) -> str:
    """A recording that the browser has uploaded."""
    path = tmp_path / "clip.wav"
    path.write_bytes(recording)
    return str(path)


@pytest.fixture
def broken(tmp_path: Path) -> str:
    path = tmp_path / "broken.wav"
    path.write_bytes(b"<html>not found</html>" * 50)
    return str(path)


def wait_for(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, "it did not come to be"
        time.sleep(0.01)


def wait_idle(engine: Engine) -> None:
    wait_for(lambda: engine.stats.num_live == engine.stats.num_waiting == 0)


def test_a_press_streams_and_ends_with_the_engines_own_samples(page: Page, engine: Engine):
    updates = page.run(page.press(seed=11))
    view = page.view
    assert updates[0][view.stop]["visible"]
    assert not updates[0][view.speak]["visible"]
    live = [update[view.live] for update in updates[1:] if view.live in update]
    assert all(piece.startswith(b"RIFF") for piece in live)
    assert page.shown[view.speak]["visible"]
    assert page.shown[view.seed] == 11
    assert "seed 11" in page.status()
    assert re.search(r'download="The-small-boat-is-tied-up-[\w-]{8}\.wav"', page.shown[view.take])
    ask = SpeechRequest(
        text=TEXT,
        pieces=(Spoken(TEXT),),
        speaker=engine.voice(None),
        voice_id=engine.default_voice,
        seed=11,
    )
    expected, _ = engine.submit(ask).read()
    heard = [soundfile.read(io.BytesIO(piece), dtype="int16")[0] for piece in live]
    np.testing.assert_array_equal(np.concatenate(heard), to_int16(expected))
    assert f"{len(expected) / 44_100:.1f} s of speech" in page.status()


def test_without_a_kept_seed_each_press_draws_its_own(page: Page):
    seeds = set()
    for _ in range(2):
        page.run(page.press(text="Hello.", seed=5, keeps_seed=False))
        seeds.add(page.shown[page.view.seed])
    assert len(seeds | {5}) == 3


@pytest.mark.parametrize(
    ("changed", "note", "sentence"),
    [
        ({"text": "  "}, "text_note", "input: &#x27;&#x27; has no letter or number"),
        ({"text": "a" * 50_001}, "text_note", "input: the text has 50001 characters"),
        ({"voice": "nobody"}, "voice_note", "voice: there is no voice &#x27;nobody&#x27;"),
        ({"voice": RECORDING}, "voice_note", "reference: the recording is not here"),
        ({"recording": "/gone/clip.wav"}, "voice_note", "reference: the recording is not here"),
        ({"seed": 2**32}, "settings_note", "seed: 4294967296 is not allowed"),
    ],
)
def test_a_fault_is_told_beside_its_field_and_the_next_press_works(
    page: Page, changed, note, sentence
):
    page.run(page.press(**changed))
    assert page.shown[getattr(page.view, note)].startswith('<p class="note bad">' + sentence)
    assert 'data-state="error"' in page.status()
    assert sentence in page.status()
    assert page.shown[page.view.speak]["visible"]
    page.run(page.press(text="Hello."))
    assert 'data-state="done"' in page.status()


def test_the_text_limit_is_the_settings_own(page_with):
    page = page_with(max_input_chars=5)
    page.run(page.press(text="Hello."))
    assert "has 6 characters and the limit is 5" in page.status()


def test_a_failure_of_our_own_is_told_too(page: Page, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("studio.ui.performance.waveform_peaks", fail)
    page.run(page.press(text="Hello."))
    assert "request: the page failed (ZeroDivisionError)" in page.status()
    assert page.shown[page.view.speak]["visible"]


def test_a_usable_recording_becomes_the_voice(page: Page, engine: Engine, clip: str):
    listening, judged = page.run(page.recording.judge(page.request, "", None, clip, "heart"))
    view = page.view
    assert strings.JUDGING in listening[view.voice_note]
    assert judged[view.voice]["value"] == RECORDING
    assert (strings.YOUR_RECORDING, RECORDING) in judged[view.voice]["choices"]
    assert "This is the voice now." in judged[view.voice_note]
    page.run(page.press(text="Hello.", voice=RECORDING, recording=clip, judged=judged[view.judged]))
    assert strings.YOUR_RECORDING in page.shown[view.take]


def test_a_recording_is_used_even_before_it_was_judged(page: Page, clip: str):
    page.run(page.press(text="Hello.", voice="heart", recording=clip, judged=None))
    assert strings.YOUR_RECORDING in page.shown[page.view.take]


def test_a_stored_voice_can_be_chosen_beside_a_recording(page: Page, clip: str):
    judged = Judged(clip, None)
    page.run(page.press(text="Hello.", voice="deep", recording=clip, judged=judged))
    assert "Take: deep" in page.shown[page.view.take]


def test_an_unusable_recording_is_told_and_the_stored_voice_stays(page: Page, broken: str):
    view = page.view
    page.run(page.recording.judge(page.request, "", None, broken, "deep"))
    assert page.shown[view.voice]["value"] == "deep"
    assert '<p class="note bad">reference cannot be used' in page.shown[view.voice_note]
    assert 'data-state="error"' in page.status()
    page.run(
        page.press(text="Hello.", voice="deep", recording=broken, judged=page.shown[view.judged])
    )
    assert 'data-state="done"' in page.status()


def test_a_removed_recording_gives_the_default_voice_back_and_leaves_no_file(
    page: Page, engine: Engine, clip: str, broken: str
):
    view = page.view
    page.run(page.recording.judge(page.request, "", None, broken, "deep"))
    page.record(clip)  # it takes the place of the other one
    page.run(page.recording.judge(page.request, "", page.shown[view.judged], None, RECORDING))
    assert page.shown[view.voice]["value"] == default_choice(engine)
    assert page.shown[view.judged] is None
    assert page.shown[view.voice_note] == ""
    assert not Path(clip).exists() and not Path(broken).exists()
    page.run(page.recording.judge(page.request, "", None, None, "deep"))
    assert page.shown[view.voice]["value"] == "deep"


def test_stop_ends_the_speech_and_the_page_is_ready_again(page: Page, engine: Engine):
    async def press_and_stop() -> None:
        async for update in page.press(text=LONG):
            page.shown |= update
            if page.view.live in update and isinstance(update[page.view.live], bytes):
                page.handlers.stop(page.shown[page.view.press])

    asyncio.run(press_and_stop())
    assert "Stopped after" in page.status()
    assert page.shown[page.view.speak]["visible"]
    assert not page.shown[page.view.stop]["visible"]
    assert page.view.take not in page.shown
    wait_idle(engine)


def test_a_stop_before_the_speech_began_is_not_lost(engine: Engine):
    press = Press()
    press.stop()
    stream = engine.speak(LONG, seed=1)
    press.begin(stream)
    wait_idle(engine)
    assert stream.finish_reason == "cancelled"


def test_stop_without_a_press_does_nothing(page: Page):
    page.handlers.stop(None)


def test_a_closed_generator_frees_its_slot(page: Page, engine: Engine):
    wait_idle(engine)

    async def leave() -> None:
        updates = page.press(text=LONG)
        async for update in updates:
            if isinstance(update.get(page.view.live), bytes):
                break
        assert engine.stats.num_live == 1
        await updates.aclose()

    asyncio.run(leave())
    wait_idle(engine)


def test_a_waiting_press_says_its_place_and_can_leave(page: Page, engine: Engine):
    wait_idle(engine)
    # Nobody reads them, so they stay in their slots with a full buffer.
    running = [engine.speak(LONG, seed=n) for n in range(engine.num_slots)]
    try:
        wait_for(lambda: engine.stats.num_live == engine.num_slots)

        async def wait_and_leave() -> str:
            updates = page.press()
            async for update in updates:
                if "queued" in update.get(page.view.status, ""):
                    await updates.aclose()
                    return update[page.view.status]
            raise AssertionError("it never waited")

        assert "Queued: next, about" in asyncio.run(wait_and_leave())
        assert engine.stats.num_waiting == 0
    finally:
        for stream in running:
            stream.cancel()
    wait_idle(engine)


def test_every_tab_of_an_address_has_the_same_share(page: Page, engine: Engine, monkeypatch):
    owners = []
    submit = engine.submit
    monkeypatch.setattr(
        engine, "submit", lambda ask, kept=None: owners.append(ask.owner) or submit(ask, kept)
    )
    page.client = ("203.0.113.7", 1)
    page.run(page.press(text="Hello."))
    assert owners == ["203.0.113.7"]


def test_reset_and_new_seed(page: Page, engine: Engine):
    view = page.view
    defaults = page.handlers.reset()
    temperature = next(setting for setting in view.settings if setting.name == "temperature")
    assert defaults[temperature.field] == engine.family.sampling_defaults["temperature"]
    drawn = page.handlers.new_seed()
    assert drawn[view.keep_seed] is True
    assert 0 <= drawn[view.seed] < 2**32
    page.run(page.handlers.arrived(page.request, "", ""))
    assert page.shown[view.seed] is None
