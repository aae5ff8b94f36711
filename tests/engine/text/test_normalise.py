"""Normalisation around its grammars: what reads, what is told, what is left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.text import grammar_store
from engine.text.alignment import apply
from engine.text.normalise import Normalised, Normaliser

FAKE = Path(__file__).with_name("fake_grammar.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "grammars"


@pytest.fixture
def normaliser(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Normaliser]:
    """With a grammar for English that puts what it reads in capitals, and "five" for 5."""
    monkeypatch.setattr(grammar_store, "installed_version", lambda: "1")
    (folder / "en-1").mkdir(parents=True)
    normaliser = Normaliser(folder, child=FAKE)
    yield normaliser
    normaliser.close()


@pytest.fixture
def without_grammars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Normaliser]:
    monkeypatch.setattr(grammar_store, "installed_version", lambda: None)
    normaliser = Normaliser(tmp_path / "none")
    yield normaliser
    normaliser.close()


def read(normaliser: Normaliser, text: str, language: str | None) -> Normalised:
    """With a deadline that no busy machine misses."""
    return normaliser.normalise(text, language, deadline_s=60)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u3000"])
def test_blank_text_stays(normaliser: Normaliser, text: str) -> None:
    assert read(normaliser, text, "en_us").text == text


@pytest.mark.parametrize("language", [None, "xx", ""])
def test_without_a_known_language_nothing_changes(
    normaliser: Normaliser, language: str | None
) -> None:
    done = read(normaliser, "  It costs $5.32.\n x ", language)
    assert done.text == "  It costs $5.32.\n x "
    assert done.spans == () and done.languages == ()
    assert bool(done.notes) == (language is not None)


def test_only_what_needs_it_is_read(normaliser: Normaliser, folder: Path) -> None:
    text = "He lived here  all his life ,\nthen 5 came.\n \nAnd it was over at last."
    done = read(normaliser, text, "en_us")
    assert done.text == ("He lived here all his life, THEN five CAME.\n\nAnd it was over at last.")
    assert done.notes == () and done.languages == ("en_us",)
    assert read(normaliser, "Nothing to read.", "en_us").text == "Nothing to read."


def test_spans_tell_every_change(normaliser: Normaliser) -> None:
    text = "We met  at 5 and again at half past 5 ."
    done = read(normaliser, text, "en_us")
    assert apply(text, done.spans) == done.text
    assert all(text[span.start : span.end] == span.before for span in done.spans)
    assert sum("five" in span.after for span in done.spans) == 2


def test_what_was_read_once_is_known(normaliser: Normaliser, folder: Path) -> None:
    first = read(normaliser, "at 5", "en_us")
    normaliser._pool.close()
    assert read(normaliser, "at 5", "en_us") == first


@pytest.mark.parametrize(
    ("text", "reason"), [("CRASH 7", "gave up"), ("FAULT 7", "has no reading for them")]
)
def test_what_the_grammar_fails_at_is_read_without_it(
    normaliser: Normaliser, text: str, reason: str
) -> None:
    done = read(normaliser, text, "en_us")
    assert done.text == f"{text[:5]} seven"
    assert done.notes == (f"en_us: num2words read some numbers, because its grammar {reason}.",)
    assert read(normaliser, "at 5", "en_us").text == "AT five"


def test_a_deadline_holds_for_the_whole_text(normaliser: Normaliser, folder: Path) -> None:
    text = "WAIT 5 and a b c d e f g h i j 7"
    done = normaliser.normalise(text, "en_us", deadline_s=0.2)
    assert done.text == "WAIT five and a b c d e f g h i j seven"
    assert "busy" in done.notes[0]
    (folder / "go").touch()


def test_figures_that_a_grammar_leaves_are_read(normaliser: Normaliser) -> None:
    assert read(normaliser, "7 and 5", "en_us").text == "seven AND five"


def test_a_grammar_that_is_not_there_comes_in_the_background(
    normaliser: Normaliser, folder: Path
) -> None:
    (folder / "de.plan").write_text("wait")
    done = read(normaliser, "Es sind 12.", "de")
    assert done.text == "Es sind zwölf."
    assert "still being built" in done.notes[0]
    (folder / "go").touch()
    normaliser._store.ask_for("de").result(60)
    assert read(normaliser, "Es sind 5.", "de").text == "ES SIND five."


def test_a_grammar_that_cannot_be_built_is_asked_for_once(
    normaliser: Normaliser, folder: Path
) -> None:
    (folder / "de.plan").write_text("fail")
    normaliser._store.ask_for("de").exception(60)
    done = read(normaliser, "Es sind 12.", "de")
    assert done.text == "Es sind zwölf."
    assert "could not be built" in done.notes[0]


def test_warming_neither_waits_nor_fails(normaliser: Normaliser, folder: Path) -> None:
    (folder / "de.plan").write_text("wait")
    normaliser.warm(["en_us", "en_gb", "de", "ru", "xx"])
    assert normaliser._store.find("de") is None
    (folder / "go").touch()
    assert normaliser._store.ask_for("de").result(60).is_dir()


def test_without_pynini_num2words_reads_alone_and_says_so(without_grammars: Normaliser) -> None:
    done = read(without_grammars, "Dr. Ho paid $5.32 for 40–60 in Chapter IV.", "en_us")
    assert done.text == "Dr. Ho paid five dollars thirty-two for forty to sixty in Chapter four."
    assert done.notes == (
        "en_us: num2words read some numbers, because its grammar needs pynini, which this platform"
        " does not have.",
    )
    without_grammars.warm(["en_us"])


def test_a_language_without_a_grammar_is_read_by_num2words(normaliser: Normaliser) -> None:
    done = read(normaliser, "Мне 25 лет и 5 % .", "ru")
    assert done.text == "Мне двадцать пять лет и пять процентов."
    assert done.notes == ("ru: num2words reads the numbers, this language has no grammar.",)
    assert read(normaliser, "यह एक वाक्य है।", "hi").notes == ()


def test_detected_text_is_read_sentence_by_sentence(normaliser: Normaliser) -> None:
    text = "Мне двадцать лет, а брату 25. She opened the window at 5 and looked at the rain."
    done = read(normaliser, text, "detect")
    assert done.languages == ("ru", "en_us")
    assert done.text == (
        "Мне двадцать лет, а брату двадцать пять. She opened the WINDOW AT five AND LOOKED at the"
        " rain."
    )
    assert read(normaliser, "7", "detect").text == "7"
    assert "too little text" in read(normaliser, "7", "detect").notes[0]


def test_a_library_that_fails_costs_only_the_stretch(
    normaliser: Normaliser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.text.words.Words.cardinal", lambda self, number: 1 // 0)
    done = read(normaliser, "Их 5", "ru")
    assert done.text == "Их 5"
    assert "could not be read" in done.notes[0]


def test_importing_it_loads_no_library() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import engine.text, sys; print([m for m in ('torch', 'numpy', 'num2words', 'babel',"
            " 'py3langid', 'unicode_rbnf', 'pynini', 'nemo_text_processing') if m in sys.modules])",
        ],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip() == "[]"
