"""Takes on disk, whatever goes wrong: full disks, killed writers, many at once."""

import os
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from engine import NotFound, StorageFailed
from studio.catalogue import Catalogue
from studio.history import SCHEMA, History
from tests.studio.takes_kit import (
    ALICE,
    BOB,
    MAKING,
    RATE_HZ,
    Clock,
    files,
    keep,
    noise,
)

ROOT = Path(__file__).parents[2]
# Where many write at once, how long one waits for the others is a matter of the disk.
PATIENCE_S = 120.0


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


def test_leftovers_go_when_the_folder_is_opened_and_a_writers_file_stays(history, catalogue, clock):
    kept, lost = keep(history), keep(history)
    history.path(lost).unlink()
    folder = history._folder
    for name in ("0" * 32 + ".flac", "1" * 32 + ".flac.part"):
        (folder / name).write_bytes(b"left over")
    (folder / "mine.txt").write_text("not a take")
    recorder = history.record(BOB, MAKING, RATE_HZ)
    recorder.write(noise())
    again = History(catalogue, folder, 5, 30, 1, clock=clock)
    assert again.newest(ALICE) == [kept]
    assert len(files(history)) == 3 and "mine.txt" in files(history)
    take = recorder.keep()
    assert again.find(BOB, take.id) == take and again.path(take).exists()


def test_a_file_whose_row_is_on_its_way_is_no_leftover(history, catalogue, clock, monkeypatch):
    """Another process opens the folder between the renaming of a file and its row."""
    insert = history._insert

    def slow(take, speaker):
        History(catalogue, history._folder, 5, 30, 1, clock=clock)
        return insert(take, speaker)

    monkeypatch.setattr(history, "_insert", slow)
    assert history.path(keep(history)).exists()


@contextmanager
def full_disk(size_bytes):
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size_bytes", [0, 100, 50_000])
def test_a_full_disk_is_told_and_leaves_nothing_half(history, size_bytes):
    kept = keep(history)
    with full_disk(size_bytes), pytest.raises(StorageFailed, match="disk is full") as failed:
        keep(history, samples=noise(2))
    assert failed.value.code == "disk_full" and "/" not in str(failed.value)
    assert history.newest(ALICE) == [kept] and files(history) == [kept.file]
    keep(history)


def test_a_row_that_finds_no_room_takes_its_file_along(history, monkeypatch):
    kept = keep(history)

    def full(take, speaker):
        raise StorageFailed("storage: the disk is full.")

    monkeypatch.setattr(history, "_insert", full)
    with pytest.raises(StorageFailed):
        keep(history)
    assert files(history) == [kept.file]


def test_a_folder_that_cannot_be_used_is_told_without_its_path(catalogue):
    (catalogue.folder / "takes").write_text("a file")
    with pytest.raises(StorageFailed) as failed:
        History(catalogue, catalogue.folder / "takes", 5, 30, 1).record(ALICE, MAKING, RATE_HZ)
    assert str(catalogue.folder) not in str(failed.value)


def test_many_at_once_keep_the_bounds_and_the_folder_whole(catalogue, monkeypatch):
    monkeypatch.setattr("studio.catalogue.BUSY_S", PATIENCE_S)
    history = History(catalogue, catalogue.folder / "takes", 6, 30, 1)

    def work(number):
        owner = (ALICE, BOB)[number % 2]
        take = keep(history, owner, seed=number)
        history.newest(owner)
        if number % 5 == 0:
            with suppress(NotFound):  # newer ones may have pushed it out
                history.delete(owner, take.id)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(64)))
    takes = [take for owner in (ALICE, BOB) for take in history.newest(owner)]
    assert len(takes) <= 12 and sorted(take.file for take in takes) == files(history)
    for take in takes:
        assert soundfile.info(history.path(take)).frames == take.num_samples


WRITER = """
import sys
from pathlib import Path
import numpy as np
from studio import catalogue
from studio.catalogue import Catalogue
from studio.history import SCHEMA, History
from studio.owner import Owner
from studio.takes import Making
catalogue.BUSY_S = 120.0
folder, max_takes, num_takes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
history = History(Catalogue(folder, SCHEMA), folder / "takes", max_takes, 30, 100)
speaker = np.ones(64, np.float32)
print("open", flush=True)
for number in range(num_takes):
    random = np.random.default_rng(number)
    making = Making("Hi.", {"input": "Hi."}, number, "heart", "heart", "nano", speaker)
    recorder = history.record(Owner("visitor:alice"), making, 44_100)
    recorder.write(random.integers(-30_000, 30_000, 22_050, dtype=np.int16))
    print(recorder.keep().id, flush=True)
"""


def start_writer(folder, max_takes, num_takes):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, folder, str(max_takes), str(num_takes)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_writer_that_is_killed_loses_nothing_finished_and_leaves_nothing_half(tmp_path):
    waits_s = np.random.default_rng(5).uniform(0, 0.25, 100)
    num_left = 0
    for wait_s in waits_s:
        writer = start_writer(tmp_path, 20, 10_000)
        assert writer.stdout.readline() == "open\n"
        time.sleep(wait_s)
        writer.kill()
        told = [line.strip() for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        num_left += len(list((tmp_path / "takes").glob("*.part")))
        catalogue = Catalogue(tmp_path, SCHEMA)
        history = History(catalogue, tmp_path / "takes", 20, 30, 100)
        takes = history.newest(ALICE)
        assert len(takes) <= 20 and files(history) == sorted(take.file for take in takes)
        ids = [take.id for take in takes]
        assert set(told[-15:]) <= set(ids)
        for take in takes:
            samples, _ = soundfile.read(history.path(take), dtype="int16")
            np.testing.assert_array_equal(samples, noise(0.5, take.seed))
        catalogue.close()
    assert num_left > 0, "no writer was killed while it wrote"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_write_while_a_third_opens_and_clears_up(tmp_path, monkeypatch):
    monkeypatch.setattr("studio.catalogue.BUSY_S", PATIENCE_S)
    writers = [start_writer(tmp_path, 500, 60) for _ in range(2)]
    stop = threading.Event()

    def open_again():
        while not stop.is_set():
            catalogue = Catalogue(tmp_path, SCHEMA)
            History(catalogue, tmp_path / "takes", 500, 30, 100)
            catalogue.close()

    opener = threading.Thread(target=open_again)
    opener.start()
    try:
        outputs = [writer.communicate(timeout=600)[0].splitlines()[1:] for writer in writers]
    finally:
        stop.set()
        opener.join()
    assert [writer.returncode for writer in writers] == [0, 0]
    catalogue = Catalogue(tmp_path, SCHEMA)
    history = History(catalogue, tmp_path / "takes", 500, 30, 100)
    told = {line for output in outputs for line in output}
    takes = [*history.newest(ALICE), *history.newest(ALICE, after=history.newest(ALICE)[-1].place)]
    assert len(told) == 120 and {take.id for take in takes} == told
    assert files(history) == sorted(take.file for take in takes)
    catalogue.close()
