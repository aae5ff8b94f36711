"""What the command line shows of a text, and speaks."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

import pytest
import soundfile

from engine import Engine, InvalidRequest, Pronunciation, SpeechRequest, Spoken
from studio import dictionary
from studio.catalogue import Catalogue
from studio.cli.normalize import add_normalize_command
from studio.cli.say import add_say_command
from studio.dictionary import Words
from studio.owner import LOCAL

TEXT = "See **SQL** at 5."


@pytest.fixture
def run(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A command without grammars: num2words reads."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for add in (add_normalize_command, add_say_command):
        add(commands, lambda settings: nullcontext(engine))
    folders = ("--grammars", str(tmp_path / "grammars"), "--data", str(tmp_path / "data"))

    def run(*arguments: str) -> tuple[str, str]:
        options = parser.parse_args([*arguments, *folders])
        assert options.run(options) == 0
        shown = capsys.readouterr()
        return shown.out.strip(), shown.err

    return run


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "See S Q L at five."),
        (("--language", "none"), TEXT),
        (("--language", "German"), "See S Q L at fünf."),
        (("--no-normalization",), "See S Q L at 5."),
        (("--no-cleaning",), "See **SQL** at five."),
        (("--no-cleaning", "--no-normalization"), TEXT),
    ],
)
def test_it_shows_what_will_be_spoken(run, tmp_path, options, said) -> None:
    out, err = run("normalize", TEXT, *options)
    assert out == said
    assert "about 1 s, 1 chunk\n" in err
    assert not (tmp_path / "data").exists() and not (tmp_path / "grammars").exists()


def test_notes_stand_beside_it(run) -> None:
    _, err = run("normalize", "It is 5.")
    assert "make grammars" in err


def test_the_own_dictionary_counts(run, tmp_path) -> None:
    catalogue = Catalogue(tmp_path / "data", dictionary.SCHEMA)
    Words(catalogue).put(LOCAL, Pronunciation("SQL", "sequel"))
    catalogue.close()
    assert run("normalize", TEXT)[0] == "See sequel at five."


def test_an_unknown_language_is_refused(run) -> None:
    with pytest.raises(InvalidRequest, match="--language: 'xx'"):
        run("normalize", "Hi.", "--language", "xx")


def test_say_speaks_what_normalize_shows(run, engine, tmp_path, monkeypatch) -> None:
    wishes: list[SpeechRequest] = []
    submit = engine.submit
    monkeypatch.setattr(engine, "submit", lambda wish, *_: wishes.append(wish) or submit(wish))
    out = tmp_path / "a.wav"
    run("say", "At 5.", "--out", str(out), "--seed", "1", "--no-watermark")
    run("say", "At 5.", "--out", str(out), "--seed", "1", "--no-watermark", "--language", "none")
    assert [wish.pieces for wish in wishes] == [(Spoken("At five."),), (Spoken("At 5."),)]
    assert [wish.language for wish in wishes] == ["en_us", None]
    assert soundfile.info(out).frames > 0
