"""The command line, as a user meets it."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import soundfile

import app
from engine import ChunkFrames, Engine
from studio.media.pcm import to_int16
from studio.provenance import Marker
from studio.settings import Settings

TEXT = "Hello, this is what the studio says."
REPOSITORY = Path(__file__).resolve().parents[1]


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "app.py", *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> Path:
    """What ``say`` wrote, from a process of its own."""
    out = tmp_path_factory.mktemp("say") / "hello.wav"
    process = start("say", TEXT, "--out", str(out), "--voice", "deep", "--seed", "7")
    printed, log = process.communicate(timeout=240)
    assert process.returncode == 0, log
    assert re.fullmatch(r"seed 7, \d+\.\d\d s, rtf \d+\.\d\d: .*hello\.wav\n", printed)
    return out


def test_say_writes_the_engines_samples_as_16_bit_wav(said):
    info = soundfile.info(said)
    assert (info.format, info.subtype, info.channels) == ("WAV", "PCM_16", 1)
    samples, rate_hz = soundfile.read(said, dtype="int16")
    with Engine.open(app.EMBEDDED_MODEL, device="cpu") as engine:
        spoken, engine_rate_hz = engine.speak(TEXT, voice="deep", seed=7).read()
    assert rate_hz == engine_rate_hz
    marked = Marker(Settings()).mark(spoken, rate_hz)
    np.testing.assert_array_equal(samples, to_int16(marked))
    assert np.abs(samples - to_int16(spoken).astype(int)).max() > 0


def test_without_marks_say_writes_the_engines_own_samples_in_the_format_of_the_ending(
    tmp_path, capsys
):
    heard = []
    for name in ("a.wav", "a.flac", "a.mp3"):
        out = tmp_path / name
        command = ["say", "Hi.", "--out", str(out), "--seed", "3"]
        assert app.main([*command, "--no-watermark", "--no-metadata"]) == 0, capsys.readouterr()
        heard.append(soundfile.read(out, dtype="int16")[0])
        assert b"AI-generated" not in out.read_bytes()
    with Engine.open(app.EMBEDDED_MODEL, device="cpu") as engine:
        spoken = to_int16(engine.speak("Hi.", seed=3).read()[0])
    np.testing.assert_array_equal(heard[0], spoken)
    np.testing.assert_array_equal(heard[1], spoken)
    assert soundfile.info(tmp_path / "a.mp3").format == "MP3"
    assert abs(len(heard[2]) - len(spoken)) < 0.12 * 44_100


def test_say_speaks_like_a_reference(said, tmp_path, capsys):
    out = tmp_path / "like.wav"
    arguments = ["say", "Hi.", "--out", str(out), "--reference", str(said), "--language", "English"]
    assert app.main(arguments) == 0
    assert soundfile.info(out).duration > 0.2
    assert re.match(r"seed \d+, ", capsys.readouterr().out)


def test_say_needs_neither_gradio_nor_fastapi():
    code = "import sys, app; sys.exit(bool({'gradio', 'fastapi'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY).returncode == 0


def test_check_prints_one_line_of_json(capsys):
    assert app.main(["check", "--device", "cpu"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    facts = json.loads(line)
    assert list(facts) == ["model", "family", "device", "dtype", "sample_rate_hz", "rtf", "ttfa_ms"]
    assert facts["model"] == "nano" and facts["sample_rate_hz"] == 44_100
    assert facts["rtf"] > 0 and facts["ttfa_ms"] > 0


SAY = ("say", "Hi.", "--out", "{folder}/a.wav")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("say", "", "--out", "{folder}/a.wav"), "input: '' has no letter or number"),
        (("say", "Hi.", "--out", "{folder}/none/a.wav"), "its folder does not exist"),
        (("say", "Hi.", "--out", "{folder}"), "must end in .wav, .mp3"),
        (("say", "Hi.", "--out", "{folder}/a.txt"), "must end in .wav, .mp3"),
        ((*SAY, "--voice", "nobody"), "there is no voice 'nobody'; choose one of"),
        ((*SAY, "--reference", "{folder}/none.wav"), "cannot be read (No such file"),
        ((*SAY, "--reference", "{folder}"), "cannot be read (Is a directory)"),
        ((*SAY, "--reference", "{folder}/notes.txt"), "not a recording in an accepted format"),
        ((*SAY, "--language", "Klingon"), "--language: 'Klingon'"),
        ((*SAY, "--seed", "4294967296"), "0 to 4294967295"),
        ((*SAY, "--seed", "x"), "0 to 4294967295"),
        ((*SAY, "--device", "tpu"), "--device: 'tpu'"),
        (("check", "--codec-device", "tpu"), "--codec-device: 'tpu' is not allowed; choose cpu"),
        ((*SAY, "--model", "/no/such/folder"), "model: there is no folder '/no/such/folder'"),
        (("check", "--model", "{folder}"), "has no params.json"),
        (("check", "--model", "{folder}/broken"), "model: "),
        (("serve", "--port", "{taken}"), "--port: cannot listen on 127.0.0.1 port {taken}"),
        (("--port", "70000"), "--port: '70000' is not allowed"),
        (("--chunk-frames", "1001"), "--chunk-frames: '1001' is not allowed; give a whole number"),
        (
            ("--port", "0", "--first-chunk-frames", "9", "--chunk-frames", "3"),
            "--first-chunk-frames: 9 is more than --chunk-frames 3; give at most 3",
        ),
        (("--prefill-rows", "0"), "--prefill-rows: '0' is not allowed; give a whole number from 1"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, says, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("not a recording, but some words that are long enough")
    broken = tmp_path / "broken"
    broken.mkdir()
    shutil.copy(app.EMBEDDED_MODEL / "params.json", broken)
    (broken / "model.safetensors").write_bytes(b"\0" * 100)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {"folder": tmp_path, "taken": taken.getsockname()[1]}
        assert app.main([argument.format(**names) for argument in arguments]) == 2
        shown = capsys.readouterr()
        assert says.format(**names) in shown.err
        assert shown.err.count("\n") == 1 and shown.err.endswith(".\n")
        assert not shown.out
    assert not (tmp_path / "a.wav").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_told_before_the_work(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert app.main(["say", "Hi.", "--out", str(tmp_path / "a.wav")]) == 2
    assert "permission denied" in capsys.readouterr().err


def test_a_gpu_that_is_not_there_is_told(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert app.main(["check", "--device", "cuda"]) == 2
    assert "--device: 'cuda' is not here" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--device", "--codec-device"])
@pytest.mark.parametrize(
    ("num_gpus", "device", "remedy"),
    [
        (0, "cuda:1", "cpu, or install a CUDA build of PyTorch on a machine with a GPU."),
        (1, "cuda:1", "cpu or cuda."),
        (2, "cuda:2", "cpu, or one of cuda:0 to cuda:1."),
    ],
)
def test_a_gpu_of_another_number_is_told(option, num_gpus, device, remedy, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: num_gpus > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: num_gpus)
    assert app.main(["check", option, device]) == 2
    assert capsys.readouterr().err == f"{option}: {device!r} is not here; choose {remedy}\n"


def test_what_the_options_ask_for_reaches_the_engine(monkeypatch):
    asked = {}
    monkeypatch.setattr(Engine, "open", lambda model, **keywords: asked.update(keywords))
    app.open_engine(Settings())
    assert (asked["prefill_rows"], asked["chunks"]) == (None, ChunkFrames())
    assert asked["codec_device"] is None
    app.open_engine(Settings(codec_device="cpu"))
    assert asked["codec_device"] == "cpu"
    app.open_engine(Settings(prefill_rows=300, first_chunk_frames=2, chunk_frames=9))
    assert (asked["prefill_rows"], asked["chunks"]) == (300, ChunkFrames(2, 9))


def test_the_interpreters_own_programs_come_first():
    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert os.environ["OMP_WAIT_POLICY"] == "passive"


def test_serve_opens_page_and_routes_and_ends_with_0():
    process = start("--port", "0", STUDIO_SLOTS="2")
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        address = re.search(r"http://\S+", lines[1])
        assert address is not None, lines
        assert "slots=2" in lines[0]
        # The socket listens already: what comes now is answered as soon as the server runs.
        for path, expected in (("/health", "healthy"), ("/", "<html"), ("/v1/models", "nano")):
            with urllib.request.urlopen(address[0] + path, timeout=60) as response:
                assert expected in response.read().decode()
        for path, status in (("/v1/audio/speech", 405), ("/v1/nothing", 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:  # the routes', not the page's
                urllib.request.urlopen(address[0] + path, timeout=60)
            assert caught.value.code == status
            assert json.load(caught.value)["error"]["code"]
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=120)
        assert process.returncode == 0, log
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("flags", "is_warned"),
    [
        (("--host", "0.0.0.0"), True),
        (("--host", "0.0.0.0", "--public"), False),
        (("--host", "0.0.0.0", "--api-key", "a-key-of-16-chars"), False),
        ((), False),
    ],
)
def test_a_studio_that_the_network_reaches_without_a_key_warns_loudly(
    monkeypatch, capsys, flags, is_warned
):
    monkeypatch.setattr("studio.server.listen", lambda host, port: socket.socket())
    monkeypatch.setattr("studio.server.serve", lambda *_: True)
    monkeypatch.setattr("socket.socket.getsockname", lambda self: ("0.0.0.0", 7860), raising=False)
    assert app.main(["serve", *flags]) == 0
    assert ("WARNING: everybody who reaches this machine" in capsys.readouterr().err) is is_warned


@pytest.mark.slow
def test_a_stop_while_the_model_loads_ends_at_once_with_0(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = start("--port", str(port), TMPDIR=str(tmp_path))
    try:
        deadline_s = time.monotonic() + 120
        while True:
            assert process.poll() is None and time.monotonic() < deadline_s
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=60)
                break  # it was quicker than this test
            except urllib.error.HTTPError as error:
                assert error.code == 503 and json.load(error)["status"] == "loading"
                break
            except OSError:
                time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=120)
        assert process.returncode == 0, log
        assert list(tmp_path.iterdir()) == []
    finally:
        process.kill()
