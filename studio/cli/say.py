"""The command ``say``: one text spoken into one file, whose ending chooses the format.

app.py say "Hello there." --out hello.wav
app.py say "Hello there." --out hello.mp3 --reference me.m4a --seed 7 --keep
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from engine import MAX_SEED, Engine, InvalidReference, InvalidRequest, SpeechRequest, draw_seed
from studio.api.headers import rtf
from studio.api.languages import language_code
from studio.api.speakers import Speaker
from studio.cli import settings_of
from studio.cli.takes import KEEP_OPTIONS, keep_said
from studio.cli.voices import stored_speaker
from studio.media.encode import FORMATS, Encoder, Format, available_formats
from studio.media.intake import read_file
from studio.provenance import Marker
from studio.settings import MODEL_OPTIONS, Settings, add_options

_OPTIONS = (
    *MODEL_OPTIONS,
    *KEEP_OPTIONS,  # among them data, where voices are looked up
    *("no_watermark", "no_metadata", "c2pa_certificate", "c2pa_key"),
)
OpenEngine = Callable[[Settings], AbstractContextManager[Engine]]


def add_say_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], open_engine: OpenEngine
) -> None:
    """Add the command to ``app.py``."""
    parser = commands.add_parser("say", help="speak a text into a file")
    parser.add_argument("text", metavar="TEXT", help="what to say")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help=f"the file to write: {_endings()}"
    )
    speaker = parser.add_mutually_exclusive_group()
    speaker.add_argument("--reference", metavar="FILE", help="a recording to speak like")
    speaker.add_argument("--voice", metavar="NAME", help="a voice of the library or model")
    parser.add_argument("--language", metavar="L", help="name or code, such as English or pt-BR")
    parser.add_argument("--seed", metavar="N", help="the same seed gives the same samples")
    parser.add_argument("--keep", action="store_true", help="keep it among your takes, too")
    add_options(parser, _OPTIONS)
    parser.set_defaults(run=partial(_say, open_engine=open_engine))


def _say(options: argparse.Namespace, open_engine: OpenEngine) -> int:
    settings = settings_of(options)
    seed, (out, format) = _seed(options.seed), _writable(options.out)
    language = language_code(options.language, "--language")
    marker = Marker(settings)
    with open_engine(settings) as engine:
        speaker = _speaker(engine, settings, options)
        stream = engine.submit(
            SpeechRequest(
                options.text,
                speaker.embedding,
                speaker.voice_id,
                seed=draw_seed() if seed is None else seed,
                language=language,
            )
        )
        samples, sample_rate_hz = stream.read()
        samples = marker.mark(samples, sample_rate_hz)
        tags = marker.tags(model=engine.name, request_id=stream.request_id, seed=stream.seed)
        if options.keep:
            asked = {"input": options.text, "voice": options.voice, "language": language}
            print(keep_said(settings, engine, stream, samples, speaker, tags, **asked))
    encoder = Encoder(format.name, sample_rate_hz, tags=tags, is_live=False)
    body = encoder.feed(samples) + encoder.finish()
    try:
        out.write_bytes(marker.signed(body, format.name, tags))
    except OSError as error:
        raise _unwritable(out, str(error.strerror)) from None
    print(f"seed {stream.seed}, {stream.spoken_s:.2f} s, rtf {rtf(stream):.2f}: {out}")
    return 0


def _speaker(engine: Engine, settings: Settings, options: argparse.Namespace) -> Speaker:
    if options.reference is None:
        return stored_speaker(engine, settings, options.voice)
    encoder = engine.encoder
    if encoder is None:
        raise InvalidReference(
            "--reference: this model came without a speaker encoder; choose a stored voice.",
            field="--reference",
        )
    try:
        reference = read_file(
            Path(options.reference), sample_rate_hz=encoder.sample_rate_hz, field="--reference"
        )
    except OSError as error:
        raise InvalidReference(
            f"--reference: {options.reference!r} cannot be read ({error.strerror}); choose another"
            " file.",
            field="--reference",
        ) from None
    return Speaker(engine.embed(reference.samples, reference.sample_rate_hz), None, "reference")


def _seed(text: str | None) -> int | None:
    if text in (None, "-1"):
        return None
    if not text.isdecimal() or len(text) > 10 or int(text) > MAX_SEED:
        raise InvalidRequest(
            f"--seed: {text[:40]!r} is not allowed; give a whole number from 0 to {MAX_SEED}."
        )
    return int(text)


def _writable(path: str) -> tuple[Path, Format]:
    """``path`` as a file that can be written, checked before the work is done, and its format."""
    out = Path(path)
    format = _by_ending().get(out.suffix.lower())
    if format is None:
        raise _unwritable(out, f"its name must end in {_endings()}")
    if out.is_dir():
        raise _unwritable(out, "it is a folder")
    if not out.parent.is_dir():
        raise _unwritable(out, "its folder does not exist")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise _unwritable(out, "permission denied")
    return out, format


def _by_ending() -> dict[str, Format]:
    return {f".{FORMATS[name].suffix}": FORMATS[name] for name in available_formats()}


def _endings() -> str:
    *most, last = _by_ending()
    return f"{', '.join(most)} or {last}"


def _unwritable(out: Path, reason: str) -> Exception:
    return InvalidRequest(f"--out: {str(out)!r} cannot be written ({reason}); choose another file.")
