"""Takes on disk: kept whole and found by their owner alone."""

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from engine import InvalidRequest, NotFound, StorageFailed
from studio.catalogue import Catalogue
from studio.history import SCHEMA, History
from studio.owner import LOCAL
from tests.studio.takes_kit import (
    ALICE,
    BOB,
    MAKING,
    RATE_HZ,
    SPEAKER,
    Clock,
    files,
    keep,
    noise,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def catalogue(tmp_path):
    opened = Catalogue(tmp_path, SCHEMA)
    yield opened
    opened.close()


@pytest.fixture
def history(catalogue, clock):
    return History(catalogue, catalogue.folder / "takes", 5, 30, 1, clock=clock)


def test_a_take_comes_back_as_it_was_kept(history, clock):
    recorder = history.record(ALICE, MAKING, RATE_HZ)
    pieces = [noise(0.3, seed) for seed in range(3)]
    for piece in pieces:
        recorder.write(piece)
    take = recorder.keep()
    assert take.id == recorder.take_id and take.id.startswith("take_") and len(take.id) == 27
    assert history.find(ALICE, take.id) == take
    assert (take.owner, take.text, take.seed) == (ALICE.id, MAKING.text, 7)
    assert (take.voice, take.voice_id, take.model) == ("heart", "heart", "nano")
    assert take.settings == MAKING.settings
    assert take.created_s == clock.now_s and take.duration_s == pytest.approx(0.9)
    assert (take.title, take.is_starred) == ("", False)
    path = history.path(take)
    samples, rate_hz = soundfile.read(path, dtype="int16")
    np.testing.assert_array_equal(samples, np.concatenate(pieces))
    assert rate_hz == RATE_HZ == take.sample_rate_hz and soundfile.info(path).format == "FLAC"
    assert path.stat().st_size == take.size_bytes
    np.testing.assert_array_equal(history.speaker(ALICE, take.id), SPEAKER)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert take.id[5:] not in path.name and files(history) == [path.name]


def test_it_is_there_after_a_restart(history, catalogue, clock):
    take = keep(history, text="Grüße 👋 \udc80", voice="Ürsula")
    again = History(catalogue, history._folder, 5, 30, 1, clock=clock)
    assert again.find(ALICE, take.id) == take
    assert take.text == "Grüße 👋 ?" and take.voice == "Ürsula"


def test_a_take_without_a_voice_has_no_numbers(history):
    assert history.speaker(ALICE, keep(history, speaker=None).id) is None


def test_one_that_is_discarded_or_never_finished_was_never_there(history):
    recorder = history.record(ALICE, MAKING, RATE_HZ)
    recorder.write(noise())
    assert len(files(history)) == 1 and history.newest(ALICE) == []
    recorder.discard()
    recorder.discard()
    assert files(history) == []


def test_a_studio_that_keeps_none_says_so_and_writes_nothing(catalogue):
    history = History(catalogue, catalogue.folder / "takes", 0, 30, 1)
    assert "--max-takes 0" in history.note
    with pytest.raises(StorageFailed, match="--max-takes 0"):
        history.record(ALICE, MAKING, RATE_HZ)
    assert history.newest(ALICE) == [] and not (catalogue.folder / "takes").exists()


def test_what_was_kept_before_it_was_switched_off_can_still_be_heard_and_deleted(
    history, catalogue
):
    take = keep(history)
    off = History(catalogue, history._folder, 0, 30, 1)
    assert history.note == "" and off.newest(ALICE) == [take]
    off.delete(ALICE, take.id)
    assert off.newest(ALICE) == []


def test_the_newest_come_first_page_by_page(history):
    ids = [keep(history, seed=seed).id for seed in range(5)][::-1]  # the clock stands still
    assert [take.id for take in history.newest(ALICE)] == ids
    first = history.newest(ALICE, 2)
    second = history.newest(ALICE, 2, after=first[-1].place)
    history.delete(ALICE, second[-1].id)  # a page can be followed by the next all the same
    third = history.newest(ALICE, 2, after=second[-1].place)
    assert [take.id for take in (*first, *second, *third)] == ids


def test_a_clock_that_is_set_back_puts_no_new_take_behind_older_ones(history, clock):
    ids = []
    for now_s in (1e9, 5e8, 2e9):
        clock.now_s = now_s
        ids.append(keep(history).id)
    assert [take.id for take in history.newest(ALICE)] == ids[::-1]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("straße", "s"),
        ("STRASSE", "s"),
        ("  Hauptstraße ", "s"),
        ("CAFÉ", "c"),
        ("cafe\u0301", "c"),
        ("%", "p"),
        ("_", ""),
        ("narrator", "c"),
        ("pier", ""),
        ("", "spc"),
    ],
)
def test_words_are_found_in_text_and_title_whatever_their_case(history, words, found):
    ids = {
        keep(history, text="In der Hauptstraße").id: "s",
        keep(history, text="90 % of it").id: "p",
        keep(history, text="Le café ferme").id: "c",
    }
    history.change(ALICE, list(ids)[2], title="Narrator, second try")
    assert {ids[take.id] for take in history.newest(ALICE, words=words)} == set(found)


def test_a_title_is_one_line_and_a_star_can_be_taken_back(history):
    take = keep(history)
    changed = history.change(
        ALICE, take.id, title=" e\u0301n\n\x00li\u202ene\udc80 ", is_starred=True
    )
    assert changed == replace(take, title="\xe9n line", is_starred=True)
    assert history.find(ALICE, take.id) == changed
    assert history.newest(ALICE, is_starred=True) == [changed]
    assert history.newest(ALICE, is_starred=False) == []
    assert history.change(ALICE, take.id, is_starred=False) == replace(changed, is_starred=False)
    assert history.change(ALICE, take.id, title="").title == ""
    with pytest.raises(InvalidRequest, match=r"title: it has 201 characters and the limit is 200"):
        history.change(ALICE, take.id, title="x" * 201)


@pytest.mark.parametrize(
    "act",
    [
        lambda history, owner, take_id: history.find(owner, take_id),
        lambda history, owner, take_id: history.speaker(owner, take_id),
        lambda history, owner, take_id: history.change(owner, take_id, is_starred=True),
        lambda history, owner, take_id: history.delete(owner, take_id),
    ],
)
def test_what_belongs_to_another_owner_does_not_exist(history, act):
    take = keep(history)
    for owner, take_id in ((BOB, take.id), (LOCAL, take.id), (ALICE, take.file), (ALICE, "\udc80")):
        with pytest.raises(NotFound) as failed:
            act(history, owner, take_id)
        assert failed.value.code == "take_not_found"
    assert history.newest(BOB) == [] and history.delete_all(BOB, starred=True) == 0
    assert history.find(ALICE, take.id) == take


def test_the_stores_of_takes_load_neither_torch_nor_web(tmp_path):
    code = (
        "import sys; import studio.history, studio.visits; "
        "print([n for n in ('torch', 'gradio', 'starlette', 'fastapi') if n in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_the_database_alone_tells_what_there_is(history, catalogue):
    """Rows are strict: a wrong type is a fault of ours and is not stored."""
    with pytest.raises(sqlite3.IntegrityError), catalogue.writing() as db:
        db.execute("UPDATE takes SET size_bytes = 'many'")
        db.execute("INSERT INTO takes (id) VALUES ('x')")
