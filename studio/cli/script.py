"""The command ``script``: a file of lines for several voices, spoken into one file.

app.py script play.txt --cast Anna=heart --cast Ben=deep --out play.wav
app.py script film.srt --voice deep --out film.mp3 --srt said.srt --vtt said.vtt --lines FOLDER
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import uuid
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine import Engine, InvalidRequest, Normaliser
from studio import catalogue
from studio.api.speakers import Speakers
from studio.api.texts import Texts, rules_of
from studio.cli import settings_of
from studio.cli.files import endings, seed_of, writable, writable_sound, write
from studio.cli.normalize import TEXT_OPTIONS, OpenEngine, add_text_options, wish_of
from studio.mix import DEFAULT_PAUSE_MS, MAX_PAUSE_MS
from studio.owner import LOCAL
from studio.provenance import Marker
from studio.settings import MODEL_OPTIONS, Settings, add_options
from studio.stores import open_stores

if TYPE_CHECKING:
    from studio.api.speaking import Speaking
    from studio.dialogue import Dialogue, Line

_OPTIONS = (
    *MODEL_OPTIONS,
    *TEXT_OPTIONS,  # among them data, where voices and words are looked up
    *("no_watermark", "no_metadata", "c2pa_certificate", "c2pa_key"),
)
# As a text of 50,000 characters in JSON at most, with settings for each of 1000 turns.
MAX_SCRIPT_BYTES = 4_000_000


def add_script_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], open_engine: OpenEngine
) -> None:
    """Add the command to ``app.py``."""
    parser = commands.add_parser("script", help="speak a script of several voices into a file")
    parser.add_argument(
        "script", metavar="FILE", help="lines such as 'Anna: Hello.', JSON turns, SRT or WebVTT"
    )
    parser.add_argument(
        "--out", required=True, metavar="FILE", help=f"the file to write: {endings()}"
    )
    parser.add_argument(
        "--cast",
        action="append",
        default=[],
        metavar="NAME=VOICE",
        help="whose voice a name of the script has; a name without is itself a voice",
    )
    parser.add_argument("--voice", metavar="NAME", help="the voice of lines without a name")
    parser.add_argument(
        "--pause",
        type=int,
        default=DEFAULT_PAUSE_MS,
        metavar="MS",
        help=f"silence between two lines; {DEFAULT_PAUSE_MS} milliseconds if left out",
    )
    add_text_options(parser)
    parser.add_argument("--seed", metavar="N", help="the same seed gives the same samples")
    parser.add_argument("--srt", metavar="FILE", help="also write what is said when, as SubRip")
    parser.add_argument("--vtt", metavar="FILE", help="also write it as WebVTT")
    parser.add_argument(
        "--lines", metavar="FOLDER", help="also write a file for each line, and script.json"
    )
    add_options(parser, _OPTIONS)
    parser.set_defaults(run=partial(_script, open_engine=open_engine))


def _script(options: argparse.Namespace, open_engine: OpenEngine) -> int:
    from studio.dialogue import begin_dialogue  # FastAPI takes seconds that say need not wait
    from studio.dialogue_files import DialogueFiles, FileKind

    settings = settings_of(options)
    script, cast, seed = _read(options.script), _cast(options.cast), seed_of(options.seed)
    out, format = writable_sound(options.out)
    texts = {
        option: writable(path, option)
        for option, path in (("--srt", options.srt), ("--vtt", options.vtt))
        if path is not None
    }
    folder = None if options.lines is None else _folder(options.lines)
    if not 0 <= options.pause <= MAX_PAUSE_MS:
        raise InvalidRequest(
            f"--pause: {options.pause} is not allowed; give milliseconds from 0 to {MAX_PAUSE_MS}."
        )
    request_id = uuid.uuid4().hex
    with open_engine(settings) as engine, _speaking(engine, settings) as speaking:
        wish = wish_of(options, engine)
        fields = {
            "voice": options.voice,
            "language": wish.language,
            "text_normalization": wish.normalises,
            "cleaning": rules_of(wish.cleaning),
        }
        begin = begin_dialogue(
            speaking,
            script,
            LOCAL,
            cast=cast,
            settings={name: value for name, value in fields.items() if value is not None},
            pause_ms=options.pause,
            seed=seed,
        )
        dialogue, lines = asyncio.run(_spoken(begin, request_id))
        mix = dialogue.mix(lines)
        kind, model = FileKind(format.name), engine.name
        files = DialogueFiles(dialogue, lines, mix, kind, speaking.marker, model, request_id)
        write(out, files.mix())
        for option, path in texts.items():
            said = files.srt() if option == "--srt" else files.vtt()
            write(path, said.encode(), option)
        if folder is not None:
            for index in range(len(lines)):
                write(folder / files.line_name(index), files.line(index), "--lines")
            write(folder / "script.json", dict(files.texts())["script.json"].encode(), "--lines")
    warnings = dict.fromkeys((*mix.notes, *(told for line in lines for told in line.warnings)))
    for told in warnings:
        print(told, file=sys.stderr)
    print(f"seed {dialogue.seed}, {len(lines)} lines, {mix.duration_s:.2f} s: {out}")
    return 0


async def _spoken(
    begin: Coroutine[None, None, Dialogue], request_id: str
) -> tuple[Dialogue, Sequence[Line]]:
    dialogue = await begin
    async with aclosing(dialogue.lines(request_id)) as made:
        return dialogue, [line async for line in made]


@contextmanager
def _speaking(engine: Engine, settings: Settings) -> Iterator[Speaking]:
    """What the studio speaks with, over the own voices and words.

    Where nothing was ever stored, no data folder is made; grammars are used but not built.
    """
    from studio.api.speaking import Speaking

    marker = Marker(settings)
    with tempfile.TemporaryDirectory(prefix="zonos2-studio-") as empty:
        if not (settings.data_folder / catalogue.FILE).exists():
            settings = replace(settings, data=Path(empty))
        normaliser = Normaliser(settings.grammar_folder, can_build=False)
        stores = open_stores(settings)
        try:
            speakers = Speakers(engine, settings, stores.voices, stores.sessions)
            texts = Texts(normaliser, stores.words)
            yield Speaking(engine, settings, speakers, stores.history, marker, texts)
        finally:
            normaliser.close()
            stores.close()


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(
            f"FILE: {path!r} cannot be read ({error.strerror}); choose another file."
        ) from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise InvalidRequest(
            f"FILE: {path!r} is larger than {MAX_SCRIPT_BYTES / 1e6:.0f} MB; send it in parts."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest(
            f"FILE: {path!r} is no text in UTF-8; save it as UTF-8 and try again."
        ) from None


def _cast(given: Sequence[str]) -> dict[str, str]:
    cast = {}
    for pair in given:
        name, equals, voice = pair.partition("=")
        if not (equals and name.strip() and voice.strip()):
            raise InvalidRequest(
                f"--cast: {pair[:60]!r} is not allowed; write NAME=VOICE, such as Anna=heart."
            )
        cast[name.strip()] = voice.strip()
    return cast


def _folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"--lines: {path!r} cannot be made ({error.strerror}); choose another folder."
        ) from None
    return folder
