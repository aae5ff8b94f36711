"""The command ``verify``: what a sound file carries that says a machine spoke.

app.py verify FILE
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engine import InvalidRequest
from studio.inspection import inspect


def add_verify_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to ``app.py``. No engine is needed for it."""
    parser = commands.add_parser("verify", help="say whether a sound file is marked as AI-made")
    parser.add_argument("file", metavar="FILE", help="the sound file")
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    try:
        with Path(options.file).open("rb", buffering=0) as file:
            found = inspect(file, "FILE")
    except OSError as error:
        raise InvalidRequest(
            f"FILE: {options.file!r} cannot be read ({error.strerror}); choose another file."
        ) from None
    print(found.summary)
    for sentence in (found.watermark_sentence, found.tags_sentence, found.statement_sentence):
        print(f"- {sentence}")
    return 0
