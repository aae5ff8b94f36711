"""What was spoken is listed, used and made again, and gone when it is deleted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from engine import StorageFailed
from studio.takes import Making, Take
from studio.ui import strings
from studio.ui.desk import Desk, default_choice
from studio.ui.performance import Press
from studio.ui.recording import RECORDING
from studio.ui.takes_tab import PAGE
from studio.ui.view import SPEAK, View
from tests.studio.ui.conftest import Page


@pytest.fixture
def spoken(page: Page) -> Callable[..., Take]:
    """Speak, and return the take that was kept."""

    def speak(**changed: object) -> Take:
        page.run(page.press(**{"text": "Hello there.", **changed}))
        return page.desk.stores.history.newest(page.owner)[0]

    return speak


@pytest.fixture
def kept(page: Page) -> Callable[..., Take]:
    """Keep a take of silence, as if it had been spoken."""
    history, engine = page.desk.stores.history, page.desk.engine

    def keep(text: str = "Hello there.", **settings: object) -> Take:
        fields = {"input": text, "seed": 7, **settings}
        speaker = engine.voices["heart"].numpy()
        making = Making(text, fields, 7, "heart", "heart", engine.name, speaker)
        recorder = history.record(page.owner, making, 44_100)
        recorder.write(np.zeros(4_410, np.int16))
        return recorder.keep()

    return keep


def samples(page: Page, take: Take) -> np.ndarray:
    return soundfile.read(page.desk.stores.history.path(take), dtype="int16")[0]


def listed(page: Page) -> list[str]:
    """The texts in the list, from the top."""
    return re.findall('<p class="said"><bdi>(.*?)</bdi>', page.shown[page.view.takes.list])


def open_tab(page: Page) -> None:
    page.run(page.takes.opened(page.request, "", PAGE))


def test_a_finished_take_is_kept_and_listed(page: Page, view: View, spoken):
    take = spoken(seed=11)
    assert strings.KEPT in page.shown[view.take]
    assert page.shown[view.take_id] == take.id
    assert (take.voice, take.seed, take.settings["input"]) == ("heart", 11, "Hello there.")
    assert 'src="page/open/' in page.shown[view.take]
    spoken(text="Good bye.")
    open_tab(page)
    assert listed(page) == ["Good bye.", "Hello there."]


def test_nobody_else_sees_it_or_acts_on_it(page: Page, view: View, desk: Desk, kept):
    take = kept()
    other = Page(view, desk)
    open_tab(other)
    assert strings.NO_TAKES in other.shown[view.takes.list]
    for act in ("star", "delete", "use", "again", "delete-starred"):
        other.act_on_take(act, take.id)
    assert view.text not in other.shown and view.press not in other.shown
    assert [take.id for take in desk.stores.history.newest(page.owner)] == [take.id]


def test_make_it_again_gives_the_same_samples(page: Page, view: View, desk: Desk, spoken):
    take = spoken(seed=5)
    page.act_on_take("again", take.id)
    assert page.shown[view.tabs].selected == SPEAK
    assert 'data-state="done"' in page.status() and "seed 5" in page.status()
    again = desk.stores.history.newest(page.owner)[0]
    assert again.id != take.id and again.settings == take.settings and again.voice == take.voice
    np.testing.assert_array_equal(samples(page, again), samples(page, take))


def test_a_recording_that_is_gone_still_speaks_its_take_again(
    page: Page, view: View, desk: Desk, recording: bytes, tmp_path: Path, spoken
):
    clip = tmp_path / "clip.wav"
    clip.write_bytes(recording)
    page.record(str(clip))
    take = spoken(voice=RECORDING, recording=str(clip), judged=page.shown[view.judged])
    assert take.voice == strings.YOUR_RECORDING and "voice" not in take.settings
    clip.unlink()
    page.act_on_take("again", take.id)
    again = desk.stores.history.newest(page.owner)[0]
    assert again.voice == strings.YOUR_RECORDING
    np.testing.assert_array_equal(samples(page, again), samples(page, take))
    page.act_on_take("use", take.id)
    assert "cannot be chosen here any more" in page.shown[view.voice_note]


def test_it_is_not_made_again_while_something_is_spoken(page: Page, view: View, kept):
    take = kept()
    page.shown[view.press] = Press()
    page.act_on_take("again", take.id)
    assert strings.STILL_SPEAKING in page.shown[view.takes.list]
    assert view.tabs not in page.shown


def test_what_cannot_be_made_again_is_told_in_its_row(page: Page, view: View, desk: Desk, kept):
    take = kept()
    desk.stores.history.forget_voice(desk.stores.history.speaker(page.owner, take.id))
    page.act_on_take("again", take.id)
    assert "its sound is still here" in page.shown[view.takes.list]
    assert view.tabs not in page.shown


def test_use_these_settings_fills_the_form(page: Page, view: View, desk: Desk, kept):
    temperature = next(each for each in view.settings if each.name == "temperature")
    take = kept("Hallo.", language="de", temperature=0.5)
    page.act_on_take("use", take.id)
    assert page.shown[view.tabs].selected == SPEAK
    assert page.shown[view.text] == "Hallo." and page.shown[view.language] == "de"
    assert page.shown[view.voice] == default_choice(desk.engine)
    assert page.shown[view.seed] == 7 and page.shown[view.keep_seed] is True
    assert page.shown[temperature.field] == 0.5
    assert page.shown[view.settings_note] == ""


def test_fields_of_other_doors_are_named(page: Page, view: View, kept):
    page.act_on_take("use", kept(speed=1.5).id)
    assert "This take also used speed" in page.shown[view.settings_note]


def test_stars_turn_and_protect_from_delete_all(page: Page, view: View, kept):
    first = kept()
    second = kept("Good bye.")
    page.act_on_take("star", first.id)
    assert page.shown[view.takes.list].count('aria-pressed="true"') == 1
    page.act_on_take("delete-all", "*")
    assert listed(page) == ["Hello there."]
    page.act_on_take("star", first.id)
    assert 'aria-pressed="true"' not in page.shown[view.takes.list]
    page.act_on_take("star", second.id)
    assert "there is no take" not in page.shown[view.takes.list]  # its row is gone as well
    page.act_on_take("delete-starred", "*")
    assert strings.NO_TAKES in page.shown[view.takes.list]


def test_a_deleted_take_leaves_no_sound_behind(page: Page, view: View, desk: Desk, spoken):
    take = spoken()
    file = desk.stores.history.path(take)
    assert file.exists()
    before = set(Path(view.live.GRADIO_CACHE).rglob("*"))
    page.act_on_take("delete", take.id)
    assert not file.exists()
    assert page.shown[view.take] == "" and page.shown[view.take_id] is None
    assert set(Path(view.live.GRADIO_CACHE).rglob("*")) == before


def test_many_takes_come_page_by_page(page: Page, view: View, desk: Desk, kept, monkeypatch):
    take = kept()
    many = [replace(take, id=f"take_{n}") for n in range(60)]
    monkeypatch.setattr(desk.stores.history, "newest", lambda owner, limit: many[:limit])
    open_tab(page)
    assert len(listed(page)) == PAGE and strings.SHOW_MORE in page.shown[view.takes.list]
    page.act_on_take("more")
    assert len(listed(page)) == page.shown[view.takes.num_shown] == 2 * PAGE
    page.run(page.takes.opened(page.request, "", 3 * PAGE))
    assert len(listed(page)) == 60 and strings.SHOW_MORE not in page.shown[view.takes.list]


def test_where_none_are_kept_the_page_says_so(page_with, view: View):
    page = page_with(max_takes=0)
    page.run(page.press(text="Hello."))
    assert strings.KEEPS_NONE in page.shown[view.take]
    path = re.search('href="gradio_api/file=(.*?)"', page.shown[view.take])[1]
    with soundfile.SoundFile(path) as sound:
        assert "AI-generated speech" in sound.comment
        assert page.desk.engine.name in sound.comment
    assert strings.takes_info(page.desk.settings).startswith(strings.KEEPS_NONE)


def test_a_full_disk_costs_the_take_and_not_the_speech(page: Page, view: View, desk, monkeypatch):
    def refuse(*_: object) -> None:
        raise StorageFailed("takes: the disk is full; make room and try again.")

    monkeypatch.setattr(desk.stores.history, "record", refuse)
    page.run(page.press(text="Hello."))
    assert 'data-state="done"' in page.status()
    assert "Not kept under Takes. takes: the disk is full" in page.shown[view.take]


def test_a_stopped_speech_is_no_take(page: Page, view: View, desk: Desk):
    async def stop() -> None:
        async for update in page.press(text="Hello there, this is long enough to be stopped. " * 9):
            page.shown |= update
            if isinstance(update.get(view.live), bytes):
                page.handlers.stop(page.shown[view.press])

    asyncio.run(stop())
    assert "Stopped after" in page.status()
    assert desk.stores.history.newest(page.owner) == []
