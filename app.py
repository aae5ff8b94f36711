"""ZONOS2 Studio: a page, an HTTP API and a command line over one speech engine.

    python app.py                                   the studio at http://127.0.0.1:7860
    python app.py say "Hello there." --out hello.wav
    python app.py script play.txt --out play.wav    lines of several voices as one file
    python app.py normalize "It costs $3.50."       what will be spoken of a text
    python app.py check                             one line of JSON about model and speed
    python app.py voices list                       the voice library: add, rename, delete, ...
    python app.py takes list                        what was kept: list, export, delete
    python app.py verify hello.wav                  what a file says about how it was made

Here, and only here, engine and studio are joined. A user's mistake ends with one sentence on
stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

# Before anything that reads it is imported. The wheel's ffmpeg lies beside the interpreter.
os.environ["PATH"] = os.pathsep.join(
    (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
)
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from engine import ChunkFrames, Engine, InvalidRequest, SpeechStream, StudioError
from studio.api.headers import rtf
from studio.cli import settings_of
from studio.cli.normalize import add_normalize_command
from studio.cli.say import add_say_command
from studio.cli.script import add_script_command
from studio.cli.takes import add_takes_command
from studio.cli.verify import add_verify_command
from studio.cli.voices import add_voices_command
from studio.settings import MODEL_OPTIONS, Settings, add_options

if TYPE_CHECKING:
    from fastapi import FastAPI

EMBEDDED_MODEL = Path(__file__).parent / "assets" / "nano"
CHECK_SENTENCE = "The quick brown fox jumps over the lazy dog while the river runs on."
EXPOSED = """
  WARNING: everybody who reaches this machine can use this studio, without a key and without limits.
  Set --api-key KEY to ask for one, or --public to meet strangers safely, or leave out --host.
"""
COMMANDS = ("serve", "say", "script", "normalize", "check", "voices", "takes", "verify")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (given[0] not in COMMANDS and given[0] not in ("-h", "--help")):
        given.insert(0, "serve")
    options = _parser().parse_args(given)
    try:
        return int(options.run(options))
    except StudioError as error:
        print(error.message, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def serve(options: argparse.Namespace) -> int:
    """Page and routes, until SIGTERM or Ctrl-C."""
    settings = settings_of(options)
    from studio import server  # FastAPI and Gradio take seconds that say need not wait

    # A taken port is told before the model loads.
    listener = server.listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    if settings.is_exposed:
        print(EXPOSED, file=sys.stderr, flush=True)

    def open_studio() -> tuple[FastAPI, Engine]:
        engine = open_engine(settings)
        try:
            warm_encoder(engine)
            return server.create_app(engine, settings), engine
        except BaseException:
            engine.close()
            raise

    def opened(engine: Engine) -> None:
        print(f"{engine.name} on {engine.family.device}; settings: {settings}")
        print(f"The studio is open at http://{f'[{host}]' if ':' in host else host}:{port}")
        sys.stdout.flush()

    with private_folder() as uploads:
        os.environ["GRADIO_TEMP_DIR"] = uploads  # recordings and takes of the page
        was_open = server.serve(open_studio, settings, listener, opened)
    if not was_open:
        # The thread that still loads would abort the interpreter on its way out.
        os._exit(0)
    return 0


def check(options: argparse.Namespace) -> int:
    """One line of JSON: what is open and how fast it speaks one sentence."""
    with open_engine(settings_of(options)) as engine:
        _spoken(engine, "Hello.")  # the first request also pays for memory and kernels
        stream = _spoken(engine, CHECK_SENTENCE)
        facts = {
            "model": engine.name,
            "family": engine.family.name,
            "device": str(engine.family.device),
            "dtype": str(engine.family.dtype).removeprefix("torch."),
            "sample_rate_hz": stream.sample_rate_hz,
            "rtf": round(rtf(stream), 3),
            "ttfa_ms": round(stream.timings.ttfa_ms or 0.0, 1),
        }
    print(json.dumps(facts))
    return 0


def open_engine(settings: Settings) -> Engine:
    """The engine that ``settings`` ask for: the given model or none; the embedded one if absent."""
    _check_device("device", settings.device)
    _check_device("codec_device", settings.codec_device or settings.device)
    return Engine.open(
        settings.model or EMBEDDED_MODEL,
        device=settings.device,
        codec_device=settings.codec_device,
        dtype=None if settings.dtype == "auto" else getattr(torch, settings.dtype),
        num_slots=settings.slots,
        max_waiting=settings.max_waiting,
        max_waiting_per_owner=settings.max_waiting_per_owner,
        emotion_directions=settings.emotion_directions,
        unload_after_s=settings.unload_after,
        prefill_rows=settings.prefill_rows,
        chunks=ChunkFrames(settings.first_chunk_frames, settings.chunk_frames),
    )


def _check_device(field: str, device: str) -> None:
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not device.startswith("cuda") or int(device.partition(":")[2] or 0) < num_gpus:
        return
    remedy = f"cpu, or one of cuda:0 to cuda:{num_gpus - 1}" if num_gpus > 1 else "cpu or cuda"
    if not num_gpus:
        remedy = "cpu, or install a CUDA build of PyTorch on a machine with a GPU"
    flag = "--" + field.replace("_", "-")
    raise InvalidRequest(f"{flag}: {device!r} is not here; choose {remedy}.", field=field)


def private_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that only this user can read, gone when the studio ends."""
    return tempfile.TemporaryDirectory(prefix="zonos2-studio-")


def warm_encoder(engine: Engine) -> None:
    """Load the speaker encoder beside everything else: the first recording need not wait."""
    encoder = engine.encoder
    if encoder is None:
        return

    def warm() -> None:
        try:
            encoder.warm()
        except StudioError as error:  # each reference will say so again
            logging.getLogger(__name__).warning("%s", error.message)

    threading.Thread(target=warm, name="warm", daemon=True).start()


def _spoken(engine: Engine, text: str) -> SpeechStream:
    stream = engine.speak(text, seed=1)
    stream.read()
    return stream


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="app.py",
        description="Speech from text and a voice. The command may be left out: serve.",
    )
    commands = parser.add_subparsers(required=True, metavar=f"{{{','.join(COMMANDS)}}}")
    serving = commands.add_parser("serve", help="open the page and the HTTP routes")
    checking = commands.add_parser("check", help="print one line of JSON about model and speed")
    for command, run in ((serving, serve), (checking, check)):
        command.set_defaults(run=run)
        add_options(command, None if command is serving else MODEL_OPTIONS)
    add_say_command(commands, open_engine)
    add_script_command(commands, open_engine)
    add_normalize_command(commands, open_engine)
    add_voices_command(commands, open_engine)
    add_takes_command(commands)
    add_verify_command(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
