"""The command ``say``: one text spoken into one file, whose ending chooses the format.

app.py say "Hello there." --out hello.wav
app.py say "Hello there." --out hello.mp3 --reference me.m4a --seed 7 --keep
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine import Engine, InvalidReference, draw_seed
from studio.api.headers import rtf
from studio.api.speakers import Speaker
from studio.api.texts import rules_of
from studio.cli import settings_of
from studio.cli.files import endings, seed_of, writable_sound, write
from studio.cli.normalize import (
    TEXT_OPTIONS,
    OpenEngine,
    add_text_options,
    prepared_for,
    request_of,
    wish_of,
)
from studio.cli.takes import KEEP_OPTIONS, keep_said
from studio.cli.voices import stored_speaker
from studio.media.encode import Encoder
from studio.media.intake import read_file
from studio.provenance import Marker
from studio.settings import MODEL_OPTIONS, Settings, add_options

_OPTIONS = (
    *MODEL_OPTIONS,
    *KEEP_OPTIONS,
    *TEXT_OPTIONS,  # among them data, where voices and words are looked up
    *("no_watermark", "no_metadata", "c2pa_certificate", "c2pa_key"),
)


def add_say_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], open_engine: OpenEngine
) -> None:
    """Add the command to ``app.py``."""
    parser = commands.add_parser("say", help="speak a text into a file")
    parser.add_argument("text", metavar="TEXT", help="what to say")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help=f"the file to write: {endings()}"
    )
    speaker = parser.add_mutually_exclusive_group()
    speaker.add_argument("--reference", metavar="FILE", help="a recording to speak like")
    speaker.add_argument("--voice", metavar="NAME", help="a voice of the library or model")
    add_text_options(parser)
    parser.add_argument("--seed", metavar="N", help="the same seed gives the same samples")
    parser.add_argument("--keep", action="store_true", help="keep it among your takes, too")
    add_options(parser, _OPTIONS)
    parser.set_defaults(run=partial(_say, open_engine=open_engine))


def _say(options: argparse.Namespace, open_engine: OpenEngine) -> int:
    settings = settings_of(options)
    seed, (out, format) = seed_of(options.seed), writable_sound(options.out)
    marker = Marker(settings)
    with open_engine(settings) as engine:
        wish = wish_of(options, engine)
        speaker = _speaker(engine, settings, options)
        prepared = prepared_for(settings, options.text, wish)
        stream = engine.submit(
            replace(
                request_of(options.text, prepared),
                speaker=speaker.embedding,
                voice_id=speaker.voice_id,
                seed=draw_seed() if seed is None else seed,
            )
        )
        samples, sample_rate_hz = stream.read()
        samples = marker.mark(samples, sample_rate_hz)
        tags = marker.tags(model=engine.name, request_id=stream.request_id, seed=stream.seed)
        if options.keep:
            asked = {"input": options.text, "voice": options.voice, "language": wish.language}
            asked |= {"text_normalization": wish.normalises, "markup": wish.cleaning.reads_markup}
            asked |= {"cleaning": rules_of(wish.cleaning)}
            print(keep_said(settings, engine, stream, samples, speaker, tags, **asked))
    encoder = Encoder(format.name, sample_rate_hz, tags=tags, is_live=False)
    body = encoder.feed(samples) + encoder.finish()
    write(out, marker.signed(body, format.name, tags))
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
