"""The command ``takes``, as a script meets it."""

import argparse
import io
import json
import zipfile

import numpy as np
import pytest
import soundfile

from engine import InvalidRequest, NotFound
from studio.api.speakers import Speaker
from studio.cli.takes import add_takes_command, keep_said, open_takes
from studio.owner import LOCAL, Owner
from studio.settings import Settings
from studio.takes import Making

TAGS = {"comment": "AI-generated speech."}


@pytest.fixture
def run(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    add_takes_command(parser.add_subparsers())

    def call(*arguments):
        options = parser.parse_args(["takes", *arguments, "--data", str(tmp_path / "data")])
        assert options.run(options) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def keep(tmp_path):
    def call(text, owner=LOCAL, star=False):
        making = Making(text, {"input": text}, 7, "heart", "heart", "nano", None)
        with open_takes(Settings(data=tmp_path / "data")) as history:
            recorder = history.record(owner, making, 44_100)
            recorder.write(np.arange(4410, dtype=np.int16))
            take = recorder.keep()
            if star:
                history.change(owner, take.id, is_starred=True)
        return take.id

    return call


def test_takes_are_listed_one_a_line(run, keep):
    assert run("list").startswith("No take is kept yet")
    first, second = keep("One\n two\x1b[31m."), keep("Two.", star=True)
    keep("Not yours.", Owner("visitor:alice"))
    lines = run("list").splitlines()
    assert [line.split()[0] for line in lines] == [second, first]
    assert " * " in lines[0] and lines[0].endswith("0.1 s  heart: Two.")
    assert "\x1b" not in lines[1]


def test_they_are_exported_into_one_private_file(run, keep, tmp_path):
    take = keep("One.")
    out = tmp_path / "takes.zip"
    out.write_text("an older one")
    assert str(out) in run("export", "--out", str(out))
    assert out.stat().st_mode & 0o777 == 0o600
    archive = zipfile.ZipFile(io.BytesIO(out.read_bytes()))
    assert archive.testzip() is None
    assert [about["id"] for about in json.loads(archive.read("takes.json"))] == [take]
    with pytest.raises(InvalidRequest, match=r"--out: .* cannot be written"):
        run("export", "--out", str(tmp_path / "nowhere" / "takes.zip"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "takes.zip"]


def test_one_or_all_are_deleted(run, keep):
    one, _, starred = keep("One."), keep("Two."), keep("Three.", star=True)
    others = Owner("visitor:alice")
    not_ours = keep("Not yours.", others)
    assert run("delete", one) == f"{one} was deleted.\n"
    for unknown in (one, not_ours):
        with pytest.raises(NotFound, match="there is no take"):
            run("delete", unknown)
    assert run("delete", "--all").startswith("1 takes were deleted.\nStarred ones are left (1)")
    assert starred in run("list")
    assert run("delete", "--all", "--starred") == "1 takes were deleted.\n"


def test_what_was_said_is_kept_with_its_settings(run, engine, tmp_path):
    settings = Settings(data=tmp_path / "data")
    stream = engine.speak("Hi.", voice="deep", seed=3, max_new_frames=12)
    samples, _ = stream.read()
    speaker = Speaker(engine.voices["deep"], "deep", "deep")
    asked = {"input": "Hi.", "voice": "deep", "language": "en-US"}
    sentence = keep_said(settings, engine, stream, samples, speaker, TAGS, **asked)
    take_id = sentence.split()[-1].rstrip(".")
    assert take_id in run("list")
    with open_takes(settings) as history:
        take = history.find(LOCAL, take_id)
        assert soundfile.SoundFile(history.path(take)).comment == TAGS["comment"]
        np.testing.assert_array_equal(
            history.speaker(LOCAL, take_id), engine.voices["deep"].numpy()
        )
    assert (take.seed, take.voice_id, take.num_samples) == (3, "deep", len(samples))
    assert take.settings["language"] == "en_us" and take.settings["voice"] == "deep"
    off = Settings(data=tmp_path / "off", max_takes=0)
    assert "--max-takes 0" in keep_said(off, engine, stream, samples, speaker, TAGS, **asked)
