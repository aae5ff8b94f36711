"""The command ``takes``: what this computer's scripts have kept (``say --keep``, ``store`` in /v1).

app.py takes list
app.py takes export --out FILE.zip
app.py takes delete ID | --all [--starred]
"""

from __future__ import annotations

import argparse
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from engine import Engine, InvalidRequest, SpeechStream, StorageFailed
from studio.api.headers import repairs
from studio.api.keeping import making_of
from studio.api.schemas import SpeechBody
from studio.api.speakers import Speaker
from studio.catalogue import Catalogue
from studio.cli import settings_of
from studio.history import MAX_PAGE, SCHEMA, History
from studio.media.pcm import to_int16
from studio.owner import LOCAL
from studio.settings import Settings, add_options
from studio.take_export import all_takes, zipped
from studio.takes import one_line
from studio.visits import TAKES

# What `say --keep` needs besides its own; the studio that shows the takes should get the same.
KEEP_OPTIONS = ("data", "max_takes", "takes_days", "takes_mb")
_TEXT_CHARS = 72


def add_takes_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to ``app.py``. No engine is needed for it."""
    parser = commands.add_parser("takes", help="list, export or delete what was kept")
    actions = parser.add_subparsers(required=True, metavar="{list,export,delete}")

    def add(name: str, run: Callable[..., int], help: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=help)
        action.set_defaults(run=run)
        add_options(action, ("data",))
        return action

    add("list", _list, "every take, the newest first, one a line; * marks a star")
    exporting = add("export", _export, "write all takes and their settings into one ZIP file")
    exporting.add_argument("--out", required=True, metavar="FILE", help="the file to write (.zip)")
    deleting = add("delete", _delete, "delete takes and everything that was kept of them")
    which = deleting.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", metavar="ID", help="one take, starred or not")
    which.add_argument("--all", action="store_true", help="all takes that have no star")
    deleting.add_argument("--starred", action="store_true", help="with --all: those too")


@contextmanager
def open_takes(settings: Settings) -> Iterator[History]:
    """The takes in the data folder, closed at the end."""
    catalogue = Catalogue(settings.data_folder, SCHEMA)
    try:
        yield History(
            catalogue,
            settings.data_folder / TAKES,
            settings.max_takes,
            settings.takes_days,
            settings.takes_mb,
        )
    finally:
        catalogue.close()


def keep_said(
    settings: Settings,
    engine: Engine,
    stream: SpeechStream,
    samples: np.ndarray,
    speaker: Speaker,
    tags: Mapping[str, str],
    **asked: object,
) -> str:
    """Keep what ``say`` has spoken, ``asked`` for by fields of /v1 -> a sentence to print.

    ``samples`` is all of its sound, float32.
    """
    body = SpeechBody.model_validate(asked)
    try:
        with open_takes(settings) as history:
            making = making_of(engine, body, speaker, stream, tags)
            recorder = history.record(LOCAL, making, stream.sample_rate_hz)
            try:
                recorder.write(to_int16(samples))
                return f"Kept as {recorder.keep(repairs(stream)).id}."
            finally:
                recorder.discard()
    except StorageFailed as error:  # it was spoken all the same
        return error.message


def _list(options: argparse.Namespace) -> int:
    is_empty = True
    with open_takes(settings_of(options)) as history:
        for take in all_takes(history, LOCAL):
            is_empty = False
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(take.created_s))
            star = "*" if take.is_starred else " "
            words = one_line(take.title or take.text)[:_TEXT_CHARS]
            print(
                f"{take.id} {star} {made} {take.duration_s:6.1f} s  {one_line(take.voice)}: {words}"
            )
    if is_empty:
        print("No take is kept yet; `app.py say TEXT --out FILE --keep` keeps one.")
    return 0


def _export(options: argparse.Namespace) -> int:
    out = Path(options.out)
    part = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    with open_takes(settings_of(options)) as history:
        try:
            # What somebody said: only this user may read it.
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    for piece in zipped(history, LOCAL):
                        file.write(piece)
                part.replace(out)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidRequest(
                f"--out: {options.out!r} cannot be written ({error.strerror}); choose another file."
            ) from None
    print(f"{out.stat().st_size / 1e6:.1f} MB: {out}")
    return 0


def _delete(options: argparse.Namespace) -> int:
    with open_takes(settings_of(options)) as history:
        if options.all:
            num_deleted = history.delete_all(LOCAL, starred=options.starred)
            print(f"{num_deleted} takes were deleted.")
            left = len(history.newest(LOCAL, MAX_PAGE))
            if left:
                print(f"Starred ones are left ({left}); --all --starred deletes those too.")
        else:
            history.delete(LOCAL, options.id)
            print(f"{options.id} was deleted.")
    return 0
