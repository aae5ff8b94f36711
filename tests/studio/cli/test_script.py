"""The command ``script``, as a user meets it."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import soundfile

import app
from studio.api.speakers import default_id


@pytest.fixture
def run(engine, tmp_path, capsys, monkeypatch):
    """Run the command on an own data folder -> exit code, what it printed, what it complained."""
    monkeypatch.setenv("STUDIO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(app, "open_engine", lambda settings: nullcontext(engine))

    def run(*arguments: object) -> tuple[int, str, str]:
        code = app.main(["script", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def test_a_file_of_lines_becomes_sound_subtitles_and_a_file_a_line(run, tmp_path):
    play, folder = tmp_path / "play.txt", tmp_path / "lines"
    play.write_text("\ufeffAnna: Yes.\nBen: No. [pause 200ms]\n", encoding="utf-8")
    given = ("--cast", "Anna=heart", "--cast", f"ben = {default_id('deep')}", "--seed", 7)
    given += ("--language", "none")
    out, srt, vtt = (tmp_path / f"said.{kind}" for kind in ("wav", "srt", "vtt"))
    also = ("--srt", srt, "--vtt", vtt, "--lines", folder)
    code, printed, _ = run(play, *given, "--out", out, *also)
    assert (code, printed[:15]) == (0, "seed 7, 2 lines")
    samples, rate_hz = soundfile.read(out)
    assert len(samples) > 0.5 * rate_hz
    assert "\nBen: No.\n" in srt.read_text() and vtt.read_text().startswith("WEBVTT")
    assert sorted(file.name for file in folder.iterdir()) == [
        "001-Anna.wav",
        "002-Ben.wav",
        "script.json",
    ]
    assert not (tmp_path / "data").exists()
    # The script that it wrote says the same again.
    again = tmp_path / "again.wav"
    assert run(folder / "script.json", *given, "--out", again)[0] == 0
    assert (soundfile.read(again)[0] == samples).all()
    assert json.loads((folder / "script.json").read_text())["seed"] == 7


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        ("Anna: Hi.", (), "turns[0].voice: there is no voice 'Anna'"),
        ("heart: Hi.", ("--cast", "Anna"), "--cast: 'Anna' is not allowed; write NAME=VOICE"),
        ("heart: Hi.", ("--pause", "-1"), "--pause: -1 is not allowed"),
        ("heart: Hi.", ("--seed", "x"), "--seed: 'x' is not allowed"),
        ("heart: Hi.", ("--srt", "/nowhere/x.srt"), "--srt: '/nowhere/x.srt' cannot be written"),
        ("", (), "script: nobody says anything"),
        (b"\xff\xfe\xfd", (), "is no text in UTF-8"),
    ],
)
def test_a_mistake_is_one_sentence(run, tmp_path, script, options, words):
    file, out = tmp_path / "script", tmp_path / "out.wav"
    file.write_bytes(script if isinstance(script, bytes) else script.encode())
    code, printed, complained = run(file, "--out", out, *options)
    assert (code, printed) == (2, "")
    assert words in complained and not out.exists()


def test_a_missing_file_is_told(run, tmp_path):
    code, _, complained = run(tmp_path / "none", "--out", tmp_path / "out.wav")
    assert code == 2 and "cannot be read (No such file or directory)" in complained
