"""The command ``voices``, as a user meets it."""

from __future__ import annotations

import re
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest
import soundfile

import app
from studio.cli.voices import open_library, stored_speaker
from studio.consent import STATEMENT
from studio.owner import LOCAL
from studio.settings import Settings


@pytest.fixture
def run(engine, tmp_path, capsys, monkeypatch):
    """Run one command on an own data folder -> exit code, what it printed, what it complained."""
    monkeypatch.setenv("STUDIO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(app, "open_engine", lambda settings: nullcontext(engine))

    def run(*arguments: object) -> tuple[int, str, str]:
        code = app.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def clip(tmp_path, recording) -> Path:
    path = tmp_path / "clip.wav"
    path.write_bytes(recording)
    return path


def test_a_voice_is_added_used_moved_and_deleted(run, clip, tmp_path, engine):
    assert run("voices", "list")[1].startswith("No voice is stored yet; `app.py voices add")
    add = ("voices", "add", "Zoë", "--reference", clip, "--consent", "--language", "German")
    code, said, _ = run(*add, "--keep-clip", "--reference", clip)
    assert code == 0 and re.search(r"^Zoë \(voice_[\w-]{22}\)$", said, re.MULTILINE)
    assert run(*add)[::2] == (
        2,
        "name: a voice 'Zoë' exists already; choose another name, or overwrite it on purpose.\n",
    )
    assert run(*add, "--overwrite", "--keep-clip")[0] == 0
    listed = run("voices", "list")[1]
    assert re.fullmatch(r"Zoë  \(voice_.{22}, \d{4}-\d\d-\d\d, nano, recording kept\)\n", listed)
    settings = Settings(data=tmp_path / "data")
    speaker = stored_speaker(engine, settings, "zoë")
    assert (speaker.voice_id, speaker.voice_name) == (None, "Zoë")
    assert run("voices", "rename", "zoë", "Ann")[1].startswith("Ann (voice_")
    out = tmp_path / "ann.zip"
    assert run("voices", "export", "ann", "--out", out)[0] == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert run("voices", "delete", "ann")[1] == "Ann was deleted.\n"
    code, _, told = run("voices", "delete", "ann")
    assert (code, told) == (2, "voice: there is no voice 'ann'; store one, or leave it out.\n")
    assert run("voices", "import", out, "--consent", "--name", "Back")[1].startswith("Back (")
    with open_library(settings) as library:
        (voice,) = library.list(LOCAL)
        vector = library.vector(voice, engine.encoder.identity)
    assert vector.tobytes() == speaker.embedding.numpy().tobytes()
    assert (voice.name, voice.card.language, voice.num_clips) == ("Back", "de", 1)
    said = run("say", "Hi.", "--voice", "BACK", "--out", tmp_path / "a.wav")
    assert said[0] == 0 and soundfile.info(tmp_path / "a.wav").duration > 0.2


MISTAKES = [
    (("add", "A", "--reference", "{clip}"), f"--consent: .*{re.escape(STATEMENT[:40])}"),
    (("add", "default", "--reference", "{clip}", "--consent"), "meaning of its own"),
    (("add", "A", "--reference", "{clip}", "--consent", "--language", "Klingon"), "--language"),
    (("add", "A", "--reference", "none.wav", "--consent"), "'none.wav' cannot be read"),
    (("add", "A", "--reference", "{junk}", "--consent"), "--reference cannot be used: .* WAV"),
    (("import", "{junk}"), "--consent: it must be true"),
    (("import", "{junk}", "--consent"), "FILE cannot be used: .* zip archive"),
    (("import", "none.zip", "--consent"), "FILE: 'none.zip' cannot be read"),
    (("rename", "nobody", "B"), "there is no voice 'nobody'"),
    (("export", "nobody", "--out", "x.zip"), "there is no voice 'nobody'"),
]  # fmt: skip


def test_a_mistake_ends_with_one_sentence(run, clip, tmp_path):
    junk = tmp_path / "junk"
    junk.write_bytes(b"no sound")
    for arguments, says in MISTAKES:
        given = [argument.format(clip=clip, junk=junk) for argument in arguments]
        code, said, told = run("voices", *given)
        assert (code, said) == (2, ""), given
        assert (
            re.match(f".*{says}", told) and told.count("\n") == 1 and told.rstrip("'\n")[-1] == "."
        )


def test_say_makes_no_data_folder_where_nothing_was_stored(engine, tmp_path):
    settings = Settings(data=tmp_path / "none")
    assert stored_speaker(engine, settings, "deep").embedding is engine.voices["deep"]
    assert stored_speaker(engine, settings, None).voice_id == engine.default_voice
    assert not (tmp_path / "none").exists()
