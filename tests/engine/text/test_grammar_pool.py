"""Grammars in child processes: no language waits for another, nothing hangs, nothing is left."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from engine.text.grammar_pool import GrammarFault, GrammarPool, GrammarProcess

FAKE = Path(__file__).with_name("fake_grammar.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "grammar"
    place.mkdir()
    return place


@pytest.fixture
def process(folder: Path) -> Iterator[GrammarProcess]:
    process = GrammarProcess("en", folder, FAKE)
    yield process
    process.close()


def soon(seconds: float = 60.0) -> float:
    return monotonic() + seconds


def num_started(folder: Path) -> int:
    return len((folder.parent / "started.log").read_text().split())


def test_texts_come_back_read_and_the_process_stays(process: GrammarProcess, folder: Path) -> None:
    assert [process.read(text, soon()) for text in ("a", "ä\n\ud800", "b 5")] == [
        "A",
        "Ä\n\ud800",
        "B five",
    ]
    assert num_started(folder) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [("HANG", "took too long"), ("CRASH", "gave up"), ("FAULT", "no reading")],
)
def test_a_text_that_fails_costs_no_other(
    process: GrammarProcess, folder: Path, text: str, reason: str
) -> None:
    process.read("warm", soon())
    if text == "HANG":
        process._text_limit_s = 0.1
    with pytest.raises(GrammarFault, match=reason):
        process.read(text, soon())
    process._text_limit_s = 10
    assert process.read("next", soon()) == "NEXT"
    assert num_started(folder) == (1 if text == "FAULT" else 2)


def test_a_hanging_process_is_killed(process: GrammarProcess) -> None:
    process.read("a", soon())
    assert process._process is not None
    number = process._process.pid
    process._text_limit_s = 0.1
    with pytest.raises(GrammarFault):
        process.read("HANG", soon())
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_an_answer_that_is_none_is_a_fault_of_that_text_alone(process: GrammarProcess) -> None:
    with pytest.raises(GrammarFault):
        process.read("NOISE", soon())
    assert process.read("next", soon()) == "NEXT"


def test_a_caller_waits_no_longer_than_it_wants_to(folder: Path) -> None:
    process = GrammarProcess("slow", folder, FAKE)
    with pytest.raises(GrammarFault, match="busy"):
        process.read("a", soon(0.05))
    # It goes on starting.
    (folder.parent / "go").touch()
    assert process.read("b", soon()) == "B"
    assert num_started(folder) == 1
    process.close()


def test_a_process_that_never_starts_is_given_up(folder: Path) -> None:
    process = GrammarProcess("never", folder, FAKE, load_limit_s=0.2)
    with pytest.raises(GrammarFault, match="took too long"):
        process.read("a", soon())
    process.close()


def test_a_closed_process_answers_no_more(folder: Path) -> None:
    process = GrammarProcess("en", folder, FAKE)
    waiting: list[str] = []

    def wait() -> None:
        with pytest.raises(GrammarFault) as caught:
            process.read("HANG", soon())
        waiting.append(str(caught.value))

    thread = threading.Thread(target=wait)
    thread.start()
    while not (folder.parent / "started.log").exists():
        time.sleep(0.01)
    process.close()
    thread.join(60)
    assert len(waiting) == 1
    with pytest.raises(GrammarFault, match="closed"):
        process.read("a", soon())


def test_eight_at_once_get_their_own_answers(folder: Path) -> None:
    pool = GrammarPool(child=FAKE)
    answers: dict[str, str] = {}

    def ask(text: str) -> None:
        answers[text] = pool.read("en", folder, text, soon())

    threads = [threading.Thread(target=ask, args=(f"text {i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    pool.close()
    assert answers == {text: text.upper().replace("5", "five") for text in answers}
    assert len(answers) == 8
    assert num_started(folder) == 1


def test_no_language_waits_for_another(folder: Path) -> None:
    pool = GrammarPool(child=FAKE)
    pool.read("en", folder, "warm", soon())
    pool.read("de", folder, "warm", soon())
    slow = threading.Thread(target=pool.read, args=("de", folder, "WAIT", soon()))
    slow.start()
    assert pool.read("en", folder, "a", soon()) == "A"
    assert slow.is_alive()
    (folder.parent / "go").touch()
    slow.join(60)
    pool.close()


def test_the_least_recently_used_makes_room(folder: Path) -> None:
    pool = GrammarPool(max_processes=2, child=FAKE)
    for grammar in ("en", "de", "en", "fr"):
        assert pool.read(grammar, folder, "a", soon()) == "A"
    assert list(pool._processes) == ["en", "fr"]
    assert pool.read("en", folder, "b", soon()) == "B"
    assert num_started(folder) == 3
    pool.close()


def test_a_busy_language_is_not_pushed_out(folder: Path) -> None:
    pool = GrammarPool(max_processes=1, child=FAKE)
    pool.read("en", folder, "warm", soon())
    busy = threading.Thread(target=pool.read, args=("en", folder, "WAIT", soon()))
    busy.start()
    while pool._processes["en"].num_users == 0:
        time.sleep(0.005)
    with pytest.raises(GrammarFault, match="other languages"):
        pool.read("de", folder, "a", soon())
    (folder.parent / "go").touch()
    busy.join(60)
    assert pool.read("de", folder, "a", soon()) == "A"
    pool.close()


def test_nothing_is_left_of_a_closed_pool(folder: Path) -> None:
    pool = GrammarPool(child=FAKE)
    pool.read("en", folder, "a", soon())
    process = pool._processes["en"]._process
    assert process is not None
    pool.close()
    assert process.poll() is not None
    with pytest.raises(GrammarFault, match="closed"):
        pool.read("en", folder, "a", soon())
