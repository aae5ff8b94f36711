"""Grammars are built once, whole or not at all, one at a time, in the background."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from engine.text import grammar_store
from engine.text.grammar_store import GRAMMARS, GrammarStore
from engine.text.grammars import main

FAKE = Path(__file__).with_name("fake_grammar.py")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrammarStore:
    monkeypatch.setattr(grammar_store, "installed_version", lambda: "1.2.0-2.1.6")
    return GrammarStore(tmp_path / "grammars", FAKE)


def built(store: GrammarStore) -> list[str]:
    return (store.folder / "built.log").read_text().split()


def folders(store: GrammarStore) -> set[str]:
    return {path.name for path in store.folder.iterdir() if path.is_dir()}


def test_each_language_and_version_has_a_folder_of_its_own(store: GrammarStore) -> None:
    for grammar in ("zh", "ja"):
        assert store.find(grammar) is None
        assert store.build(grammar) == store.find(grammar)
    assert folders(store) == {"zh-1.2.0-2.1.6", "ja-1.2.0-2.1.6"}
    store.version = "1.3.0-2.1.7"
    assert store.find("zh") is None


def test_what_is_built_is_not_built_again(store: GrammarStore) -> None:
    store.build("zh")
    store.build("zh")
    assert built(store) == ["zh"]


def test_a_failed_build_leaves_nothing(store: GrammarStore) -> None:
    store.folder.mkdir()
    (store.folder / "en.plan").write_text("fail")
    with pytest.raises(subprocess.CalledProcessError):
        store.build("en")
    assert store.find("en") is None
    assert folders(store) == set()


def test_half_a_build_of_a_killed_process_is_cleared_away(store: GrammarStore) -> None:
    (store.folder / ".en-left").mkdir(parents=True)
    (store.folder / ".en-left" / "half.far").write_text("half")
    store.build("zh")
    assert folders(store) == {"zh-1.2.0-2.1.6"}


def test_builds_in_the_background_come_one_after_the_other(store: GrammarStore) -> None:
    store.folder.mkdir()
    (store.folder / "fr.plan").write_text("wait")
    first, second, again = (store.ask_for(name) for name in ("fr", "zh", "fr"))
    assert first is again
    assert store.find("fr") is None
    assert not second.done()
    (store.folder / "go").touch()
    assert second.result(60) == store.find("zh")
    assert built(store) == ["fr", "zh"]


def test_closing_ends_a_build_and_leaves_nothing(store: GrammarStore) -> None:
    store.folder.mkdir()
    (store.folder / "fr.plan").write_text("hang")
    coming = store.ask_for("fr")
    while store._process is None:
        time.sleep(0.01)
    store.close()
    assert coming.done()
    assert folders(store) == set()


def test_closing_waits_for_no_other_process(store: GrammarStore) -> None:
    other = GrammarStore(store.folder, FAKE)
    store.folder.mkdir()
    (store.folder / "fr.plan").write_text("hang")
    other.ask_for("fr")
    while other._process is None:
        time.sleep(0.01)
    coming = store.ask_for("zh")
    store.close()
    other.close()
    assert coming.cancelled() or coming.exception() is not None


def test_the_command_builds_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grammar_store, "installed_version", lambda: "1")
    monkeypatch.setattr(GrammarStore.__init__, "__defaults__", (FAKE,))
    (tmp_path / "ko.plan").write_text("fail")
    assert main(["zh", "--folder", str(tmp_path)]) == 0
    assert main(["zh", "ko", "--folder", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["zh: built, 0 MB", "zh: there, 0 MB"]
    assert lines[2].startswith("ko: failed")


def test_the_command_names_a_language_that_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["xx"])
    assert "no grammar for xx" in capsys.readouterr().err


def test_without_the_library_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grammar_store, "installed_version", lambda: None)
    assert main([]) == 0
    assert "no grammars on this platform" in capsys.readouterr().out


def test_nine_languages_have_a_grammar() -> None:
    assert set(GRAMMARS.values()) == {"en", "zh", "ja", "ko", "de", "fr", "pt", "es", "it"}
