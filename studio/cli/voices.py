"""The command ``voices``: the library of this computer, as its page and its scripts see it too.

app.py voices list
app.py voices add NAME --reference FILE [--reference FILE ...] --consent [--keep-clip]
app.py voices rename VOICE NAME
app.py voices delete VOICE
app.py voices export VOICE --out FILE
app.py voices import FILE --consent [--name NAME]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from engine import Engine, InvalidReference, InvalidRequest
from studio import catalogue, consent, voices
from studio.api.asks import Sound
from studio.api.languages import language_code
from studio.api.speakers import Speaker, Speakers
from studio.api.voice_maker import Made, VoiceMaker, export_file
from studio.cli import settings_of
from studio.cli.takes import open_takes
from studio.media.limits import DEFAULT_LIMITS
from studio.owner import LOCAL
from studio.session_voices import SessionVoices
from studio.settings import MODEL_OPTIONS, Settings, add_options
from studio.voice_card import Card
from studio.voice_file import MAX_FILE_BYTES
from studio.voices import VoiceLibrary

OpenEngine = Callable[[Settings], AbstractContextManager[Engine]]
LIBRARY_OPTIONS = ("data", "max_voices")


def add_voices_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], open_engine: OpenEngine
) -> None:
    """Add the command to ``app.py``; what has to hear a recording opens an engine."""
    parser = commands.add_parser("voices", help="list, add, rename, delete, export, import voices")
    actions = parser.add_subparsers(required=True, metavar="{list,add,rename,delete,export,import}")

    def add(name: str, run: Callable[..., int], help: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=help)
        hears = run in (_add, _import)
        action.set_defaults(run=partial(run, open_engine=open_engine) if hears else run)
        add_options(action, (*LIBRARY_OPTIONS, *(MODEL_OPTIONS if hears else ())))
        return action

    add("list", _list, "every stored voice, one a line")
    adding = add("add", _add, "store the voice of one or more recordings")
    adding.add_argument("name", metavar="NAME", help="what to call it")
    adding.add_argument(
        "--reference",
        required=True,
        action="append",
        metavar="FILE",
        help="a recording of the voice; several are averaged",
    )
    adding.add_argument("--language", metavar="L", help="its language, a name or a code")
    adding.add_argument(
        "--keep-clip", action="store_true", help="keep the recording, for other models to hear"
    )
    renaming = add("rename", _rename, "give a voice another name")
    renaming.add_argument("voice", metavar="VOICE", help="name or id")
    renaming.add_argument("name", metavar="NAME", help="the new name")
    deleting = add("delete", _delete, "delete a voice and everything that was kept of it")
    deleting.add_argument("voice", metavar="VOICE", help="name or id")
    exporting = add("export", _export, "write a voice into one file")
    exporting.add_argument("voice", metavar="VOICE", help="name or id")
    exporting.add_argument("--out", required=True, metavar="FILE", help="the file to write (.zip)")
    importing = add("import", _import, "store the voice in an exported file")
    importing.add_argument("file", metavar="FILE", help="a file that export wrote")
    importing.add_argument("--name", metavar="NAME", help="another name than the one in the file")
    for action in (adding, importing):
        action.add_argument("--consent", action="store_true", help=f"declares: {consent.STATEMENT}")
        action.add_argument(
            "--overwrite", action="store_true", help="replace the voice that has the name"
        )


@contextmanager
def open_library(settings: Settings) -> Iterator[VoiceLibrary]:
    """The library in the data folder, closed at the end."""
    opened = catalogue.Catalogue(settings.data_folder, consent.SCHEMA, voices.SCHEMA)
    try:
        with open_takes(settings) as takes:
            yield VoiceLibrary(opened, settings.max_voices, forget=takes.forget_voice)
    finally:
        opened.close()


def stored_speaker(engine: Engine, settings: Settings, voice: str | None) -> Speaker:
    """The voice that ``say --voice`` means: of the library, or of the model.

    Raises ``NotFound`` with near names. Where nothing was ever stored, no data folder is made.
    """
    if voice is None or not (settings.data_folder / catalogue.FILE).exists():
        name = engine.default_voice if voice in (None, "default") else voice
        return Speaker(engine.voice(name), name, name or "")
    with open_library(settings) as library:
        return Speakers(engine, settings, library, SessionVoices()).stored(voice, LOCAL)


def _list(options: argparse.Namespace) -> int:
    with open_library(settings_of(options)) as library:
        stored = library.list(LOCAL)
    for voice in stored:
        made = time.strftime("%Y-%m-%d", time.localtime(voice.created_s))
        models = ", ".join(sorted(set(voice.models.values())))
        kept = ", recording kept" if voice.has_clip else ""
        print(f"{voice.name}  ({voice.id}, {made}, {models}{kept})")
    if not stored:
        print("No voice is stored yet; `app.py voices add NAME --reference FILE` stores one.")
    return 0


def _add(options: argparse.Namespace, open_engine: OpenEngine) -> int:
    settings = settings_of(options)
    card = Card(options.name, language_code(options.language, "--language"))
    consent.require(options.consent, "--consent")
    sounds = [
        Sound("--reference", data=_read(path, "--reference", DEFAULT_LIMITS.size_bytes))
        for path in options.reference
    ]
    with open_library(settings) as library, open_engine(settings) as engine:
        made = _maker(engine, settings, library).record(
            LOCAL,
            card,
            sounds,
            has_consent=True,
            keep_clip=options.keep_clip,
            overwrite=options.overwrite,
        )
    return _stored(made)


def _import(options: argparse.Namespace, open_engine: OpenEngine) -> int:
    settings = settings_of(options)
    consent.require(options.consent, "--consent")
    data = _read(options.file, "FILE", MAX_FILE_BYTES)
    with open_library(settings) as library, open_engine(settings) as engine:
        made = _maker(engine, settings, library).import_file(
            LOCAL,
            data,
            has_consent=True,
            name=options.name,
            overwrite=options.overwrite,
            field="FILE",
        )
    return _stored(made)


def _rename(options: argparse.Namespace) -> int:
    with open_library(settings_of(options)) as library:
        voice = library.change(LOCAL, options.voice, name=options.name)
    print(f"{voice.name} ({voice.id})")
    return 0


def _delete(options: argparse.Namespace) -> int:
    with open_library(settings_of(options)) as library:
        voice, _ = library.delete(LOCAL, options.voice)
    print(f"{voice.name} was deleted.")
    return 0


def _export(options: argparse.Namespace) -> int:
    with open_library(settings_of(options)) as library:
        voice = library.own(LOCAL, options.voice)
        data = export_file(library, voice)
    try:
        # It holds somebody's voice: only this user may read it.
        descriptor = os.open(options.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise InvalidRequest(
            f"--out: {options.out!r} cannot be written ({error.strerror}); choose another file."
        ) from None
    print(f"{voice.name}, {len(data) / 1e3:.0f} kB: {options.out}")
    return 0


def _maker(engine: Engine, settings: Settings, library: VoiceLibrary) -> VoiceMaker:
    return VoiceMaker(engine, Speakers(engine, settings, library, SessionVoices()), library)


def _read(path: str, field: str, max_bytes: int) -> bytes:
    """A file, and one byte more than allowed of one that is too large: its reader will say so."""
    try:
        with Path(path).open("rb") as file:
            return file.read(max_bytes + 1)
    except OSError as error:
        raise InvalidReference(
            f"{field}: {path!r} cannot be read ({error.strerror}); choose another file.",
            field=field,
        ) from None


def _stored(made: Made) -> int:
    if made.warnings:
        print(made.warnings)
    print(f"{made.voice.name} ({made.voice.id})")
    return 0
