"""The command ``verify``, as somebody at a terminal meets it."""

import argparse
import io

import pytest
import soundfile

from engine import InvalidRequest
from studio.cli.verify import add_verify_command
from studio.provenance import Marker
from studio.settings import Settings


@pytest.fixture
def run(capsys):
    parser = argparse.ArgumentParser()
    add_verify_command(parser.add_subparsers())

    def call(path):
        options = parser.parse_args(["verify", str(path)])
        assert options.run(options) == 0
        return capsys.readouterr().out.splitlines()

    return call


def test_a_marked_file_is_told_from_the_same_unmarked(run, recording, tmp_path):
    (tmp_path / "plain.wav").write_bytes(recording)
    samples, rate_hz = soundfile.read(io.BytesIO(recording), dtype="float32")
    soundfile.write(tmp_path / "marked.wav", Marker(Settings()).mark(samples, rate_hz), rate_hz)
    marked, plain = run(tmp_path / "marked.wav"), run(tmp_path / "plain.wav")
    assert marked[0].startswith("A machine spoke here: the sound bears the watermark")
    assert plain[0].startswith("Nothing in this file says that a machine spoke here")
    assert len(marked) == len(plain) == 4
    assert all(line.startswith("- ") and line.endswith(".") for line in marked[1:])


def test_what_cannot_be_read_is_said(run, tmp_path):
    (tmp_path / "words.txt").write_text("no sound")
    for name, sentence in (
        ("missing.wav", "No such file"),
        ("", "directory"),
        ("words.txt", "not in an accepted format"),
    ):
        with pytest.raises(InvalidRequest, match=f"FILE.*{sentence}"):
            run(tmp_path / name)
