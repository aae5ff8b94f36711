"""Takes on disk: bounded, the oldest first, and gone when they are gone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Conflict, NotFound, StorageFailed
from studio.catalogue import Catalogue
from studio.history import SCHEMA, History
from studio.leftovers import ShortLivedFolder
from studio.takes import leaving_for
from studio.visits import VISIT_S, VisitHistory
from tests.studio.takes_kit import (
    ALICE,
    BOB,
    MAKING,
    RATE_HZ,
    SPEAKER,
    Clock,
    everything_in,
    files,
    keep,
    noise,
)


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


def test_the_oldest_goes_when_there_are_too_many_and_a_star_protects(history):
    takes = [keep(history, seed=seed) for seed in range(5)]
    others = keep(history, BOB)
    history.change(ALICE, takes[0].id, is_starred=True)
    newest = keep(history)
    kept = [take.id for take in history.newest(ALICE)]
    assert kept == [newest.id, *(take.id for take in (*takes[:1:-1], takes[0]))]
    assert not history.path(takes[1]).exists() and len(files(history)) == 6
    assert history.find(BOB, others.id)


def test_the_oldest_go_when_they_are_too_large(history):
    takes = [keep(history, samples=noise(3.5)) for _ in range(3)]  # noise does not get smaller
    assert all(take.size_bytes > 300_000 for take in takes)
    newest = keep(history, samples=noise(6))
    assert [take.id for take in history.newest(ALICE)] == [newest.id, takes[2].id]


def test_one_that_is_larger_than_all_that_may_be_kept_is_not_kept(history):
    kept = keep(history)
    recorder = history.record(ALICE, MAKING, RATE_HZ)
    with pytest.raises(StorageFailed, match=r"longer than the 1 MB") as failed:
        for _ in range(20):
            recorder.write(noise(1))
    assert failed.value.code == "take_too_large"
    recorder.discard()
    assert files(history) == [kept.file]


def test_where_stars_fill_the_bounds_the_new_one_is_not_kept(history):
    takes = [keep(history) for _ in range(5)]
    for take in takes:
        history.change(ALICE, take.id, is_starred=True)
    with pytest.raises(StorageFailed, match="take its star away") as failed:
        keep(history)
    assert failed.value.code == "takes_full"
    assert {take.id for take in history.newest(ALICE)} == {take.id for take in takes}
    assert len(files(history)) == 5
    history.change(ALICE, takes[3].id, is_starred=False)
    keep(history)
    with pytest.raises(NotFound):
        history.find(ALICE, takes[3].id)


def test_the_old_go_after_their_days_and_stars_stay(history, clock):
    old, starred = keep(history), keep(history)
    history.change(ALICE, starred.id, is_starred=True)
    clock.now_s += 29 * 86_400
    young = keep(history)
    assert history.expire() == 0
    clock.now_s += 2 * 86_400
    assert history.expire() == 1
    assert [take.id for take in history.newest(ALICE)] == [young.id, starred.id]
    assert not history.path(old).exists()


KEPT = st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=12)


@given(KEPT, st.integers(1, 60), st.integers(1, 8), st.integers(60, 200))
@settings(deadline=None)
def test_bounds_hold_the_oldest_goes_first_and_no_star_is_lost(kept, size, max_takes, max_bytes):
    rows = [(str(at), bytes_, star) for at, (bytes_, star) in enumerate(kept)]
    starred = [row for row in rows if row[2]]
    try:
        leaving = leaving_for(size, rows, max_takes, max_bytes)
    except StorageFailed as failed:
        assert failed.code == "takes_full"
        too_many = len(starred) + 1 > max_takes
        assert too_many or sum(row[1] for row in starred) + size > max_bytes
        return
    stay = [row for row in rows if row[0] not in leaving]
    assert set(starred) <= set(stay)
    assert len(stay) + 1 <= max_takes and sum(row[1] for row in stay) + size <= max_bytes
    plain = [row[0] for row in rows if not row[2]]
    assert leaving == plain[: len(leaving)]
    if leaving:  # one less would not have been enough
        one_back = [*stay, next(row for row in rows if row[0] == leaving[-1])]
        too_many = len(one_back) + 1 > max_takes
        assert too_many or sum(row[1] for row in one_back) + size > max_bytes


CANARY = "the-canary-sings-at-midnight"


def sung(history, owner=ALICE):
    """A take whose text, numbers and sound can be recognised in any file."""
    words = CANARY * 500
    making = replace(MAKING, text=words, settings={"input": words}, voice=CANARY)
    recorder = history.record(owner, making, RATE_HZ)
    recorder.write(noise(seed=99))
    take = recorder.keep()
    return take, history.path(take).read_bytes()[500:1500]


@pytest.mark.parametrize("way", ["one", "all", "age", "bounds"])
def test_of_what_is_gone_no_file_holds_a_trace(history, catalogue, clock, way):
    take, sound = sung(history)
    history.change(ALICE, take.id, title=CANARY)
    folder = catalogue.folder
    assert everything_in(folder).count(CANARY.encode()) > 500 and sound in everything_in(folder)
    if way == "one":
        history.delete(ALICE, take.id)
    elif way == "all":
        assert history.delete_all(ALICE) == 1
    elif way == "age":
        clock.now_s += 31 * 86_400
        history.expire()
    else:
        for speaker in np.eye(5, 64, dtype=np.float32):
            keep(history, speaker=speaker)
    left = everything_in(folder)
    assert all(trace not in left for trace in (CANARY.encode(), sound, SPEAKER.tobytes()))


def test_a_deleted_voice_leaves_every_take_and_their_sound_stays(history, catalogue):
    others = np.ones(64, np.float32)
    mine, also_mine, other = keep(history), keep(history, BOB), keep(history, speaker=others)
    assert SPEAKER.tobytes() in everything_in(catalogue.folder)
    history.forget_voice(SPEAKER.copy())
    assert SPEAKER.tobytes() not in everything_in(catalogue.folder)
    for owner, take in ((ALICE, mine), (BOB, also_mine)):
        with pytest.raises(Conflict, match="its sound is still here") as failed:
            history.speaker(owner, take.id)
        assert failed.value.code == "voice_deleted"
        assert history.find(owner, take.id) == take and history.path(take).exists()
    np.testing.assert_array_equal(history.speaker(ALICE, other.id), others)


def test_all_are_deleted_and_with_starred_those_too(history):
    starred = keep(history)
    history.change(ALICE, starred.id, is_starred=True)
    keep(history)
    others = keep(history, BOB)
    assert history.delete_all(ALICE) == 1 and [t.id for t in history.newest(ALICE)] == [starred.id]
    assert history.delete_all(ALICE, starred=True) == 1 and history.newest(ALICE) == []
    assert files(history) == [others.file]


def test_a_visit_ends_two_hours_after_its_owners_last_sign(tmp_path, clock):
    history = VisitHistory(tmp_path / "visits", 5, 1, clock)
    taken = {owner.id: keep(history, owner) for owner in (ALICE, BOB)}
    history.change(BOB, taken[BOB.id].id, is_starred=True)
    clock.now_s += VISIT_S - 1
    assert history.newest(ALICE) == [taken[ALICE.id]]  # a sign
    assert history.expire() == 0
    clock.now_s += 2
    assert history.expire() == 1 and history.newest(BOB) == []
    assert history.find(ALICE, taken[ALICE.id].id)
    clock.now_s += VISIT_S + 1
    assert history.newest(ALICE) == [] and files(history) == []  # nobody cleared up before
    keep(history, ALICE)
    history.close()
    assert list((tmp_path / "visits").iterdir()) == []


def test_folders_of_dead_studios_go_and_those_of_living_ones_stay(tmp_path):
    living = ShortLivedFolder(tmp_path)
    (living.path / "takes").mkdir()
    dead = tmp_path / "dead"
    (dead / "takes").mkdir(parents=True)
    (dead / "takes" / "a.flac").write_bytes(b"x")
    other = ShortLivedFolder(tmp_path)
    assert living.path.exists() and other.path.exists() and not dead.exists()
    living.close()
    other.close()
    assert list(tmp_path.iterdir()) == []
