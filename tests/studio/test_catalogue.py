"""What holds of the database that everything kept lies in."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine import StorageFailed
from studio.catalogue import FILE, VERSION, Catalogue

SCHEMA = "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL)"
CANARY = "canary-" + "k3v9" * 20


@pytest.fixture
def catalogue(tmp_path: Path):
    opened = Catalogue(tmp_path / "data", SCHEMA)
    yield opened
    opened.close()


def texts(catalogue: Catalogue) -> list[str]:
    with catalogue.reading() as db:
        return [row["text"] for row in db.execute("SELECT text FROM notes ORDER BY id")]


def test_a_change_is_whole_or_absent(catalogue):
    with catalogue.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES ('first')")
    with pytest.raises(RuntimeError), catalogue.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES ('second')")
        raise RuntimeError
    with pytest.raises(sqlite3.IntegrityError), catalogue.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES ('third')")
        db.execute("INSERT INTO notes (text) VALUES ('first')")
    assert texts(catalogue) == ["first"]


def test_it_is_there_after_a_restart_and_nobody_else_can_read_it(catalogue):
    with catalogue.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES ('kept')")
    catalogue.close()
    assert texts(Catalogue(catalogue.folder, SCHEMA)) == ["kept"]
    assert stat.S_IMODE(catalogue.folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in catalogue.folder.iterdir())


def test_what_was_deleted_is_in_no_file_any_more(catalogue):
    with catalogue.writing() as db:
        db.executemany(
            "INSERT INTO notes (text) VALUES (?)", [(f"{CANARY}{n}",) for n in range(200)]
        )
    held = [path for path in catalogue.folder.iterdir() if CANARY.encode() in path.read_bytes()]
    assert held, "the search finds what is there"
    with catalogue.writing() as db:
        db.execute("DELETE FROM notes")
    catalogue.erase_traces()
    for path in catalogue.folder.iterdir():
        assert CANARY.encode() not in path.read_bytes(), path.name


def test_many_threads_write_without_losing_anything(catalogue, monkeypatch):
    # How long one waits for the others is a matter of the disk.
    monkeypatch.setattr("studio.catalogue.BUSY_S", 120.0)

    def write(thread: int) -> None:
        for number in range(8):
            with catalogue.writing() as db:
                db.execute("INSERT INTO notes (text) VALUES (?)", (f"{thread}.{number}",))

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts(catalogue)) == 64


def test_a_writer_of_another_process_is_waited_for(catalogue):
    script = (
        "import sys, time; from pathlib import Path; from studio.catalogue import Catalogue\n"
        "with Catalogue(Path(sys.argv[1])).writing() as db:\n"
        "    db.execute(\"INSERT INTO notes (text) VALUES ('theirs')\"); print(flush=True)\n"
        "    time.sleep(.2)\n"
    )
    command = [sys.executable, "-c", script, str(catalogue.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with catalogue.writing() as db:
            db.execute("INSERT INTO notes (text) VALUES ('ours')")
    assert texts(catalogue) == ["theirs", "ours"]


def test_it_needs_neither_torch_nor_the_web():
    script = (
        "import sys, studio.catalogue, studio.owner\n"
        "print({'torch', 'gradio', 'fastapi', 'starlette'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (lambda folder: (folder / FILE).write_bytes(b"no database at all " * 99), "from a copy"),
        (lambda folder: (folder / FILE).mkdir(), "is writable"),
        (lambda folder: folder.rmdir() or folder.touch(), "choose another"),
    ],
)
def test_a_folder_that_cannot_be_used_is_told_in_one_sentence(tmp_path, spoil, remedy):
    folder = tmp_path / "data"
    folder.mkdir()
    spoil(folder)
    with pytest.raises(StorageFailed, match=remedy) as error:
        Catalogue(folder)
    assert str(tmp_path) not in error.value.message


def test_the_folder_of_a_newer_studio_is_left_alone(catalogue):
    with catalogue.writing() as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    catalogue.close()
    with pytest.raises(StorageFailed, match="newer studio"):
        Catalogue(catalogue.folder, SCHEMA)


def test_a_full_disk_fails_one_change_and_keeps_the_rest(catalogue):
    with catalogue.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES ('kept')")
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    with pytest.raises(StorageFailed, match="disk is full"), catalogue.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES (?)", ("x" * 100_000,))
    assert texts(catalogue) == ["kept"]
    with catalogue.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES ('small')")
    assert texts(catalogue) == ["kept", "small"]


def test_two_catalogues_here_and_one_elsewhere_lose_nothing(catalogue):
    """Closing a file drops all locks of the process on it: the other one would think it is alone,
    and take the journal away when it ends."""
    second = Catalogue(catalogue.folder)
    script = (
        "import sys; from pathlib import Path; from studio.catalogue import Catalogue\n"
        "theirs = Catalogue(Path(sys.argv[1]))\n"
        "with theirs.writing() as db: db.execute(\"INSERT INTO notes (text) VALUES ('theirs')\")\n"
        "theirs.close()"
    )
    command = [sys.executable, "-c", script, str(catalogue.folder)]
    for number in range(3):
        with catalogue.writing() as db:
            db.execute("INSERT INTO notes (text) VALUES (?)", (f"ours {number}",))
    subprocess.run(command, check=True)
    assert {path.name for path in catalogue.folder.iterdir()} >= {FILE, f"{FILE}-wal"}
    with second.writing() as db:
        db.execute("INSERT INTO notes (text) VALUES ('second')")
    assert texts(catalogue) == ["ours 0", "ours 1", "ours 2", "theirs", "second"]
    second.close()
