"""The command ``normalize``: what a text becomes before it is spoken, without speaking it.

app.py normalize "It costs $3.50 at 10:30."
app.py normalize "Es kostet 3,50 €." --language German
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial

from engine import Engine, Normaliser, Prepared, Pronunciation, SpeechRequest, forecast
from studio import catalogue
from studio.api.languages import language_code
from studio.api.texts import TextWish, prepared_text, text_wish
from studio.catalogue import Catalogue
from studio.cli import settings_of
from studio.dictionary import SCHEMA, Words
from studio.owner import LOCAL
from studio.settings import MODEL_OPTIONS, Settings, add_options

OpenEngine = Callable[[Settings], AbstractContextManager[Engine]]
# Where the dictionary and the grammars are.
TEXT_OPTIONS = ("data", "grammars")


def add_normalize_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], open_engine: OpenEngine
) -> None:
    """Add the command to ``app.py``."""
    parser = commands.add_parser("normalize", help="show what will be spoken of a text")
    parser.add_argument("text", metavar="TEXT", help="the text")
    add_text_options(parser)
    add_options(parser, (*MODEL_OPTIONS, *TEXT_OPTIONS))
    parser.set_defaults(run=partial(_normalize, open_engine=open_engine))


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """The options about how a text is read."""
    parser.add_argument(
        "--language",
        metavar="L",
        help="name or code, such as English or pt-BR; detect; none leaves the text as it is; the"
        " model's own if left out",
    )
    parser.add_argument(
        "--no-normalization", action="store_true", help="leave numbers and signs as written"
    )
    parser.add_argument(
        "--no-cleaning", action="store_true", help="leave Markdown, links, [pause 1s] as written"
    )


def wish_of(options: argparse.Namespace, engine: Engine) -> TextWish:
    """What is to become of the text; raises ``InvalidRequest`` for an unknown language."""
    named = options.language or engine.family.default_language or "none"
    language = None if named.strip().lower() == "none" else language_code(named, "--language")
    is_cleaned = language is not None and not options.no_cleaning
    return text_wish(
        language,
        text_normalization=language is not None and not options.no_normalization,
        cleaning=is_cleaned,
        markup=is_cleaned,
    )


def prepared_for(settings: Settings, text: str, wish: TextWish) -> Prepared:
    """``text`` as it is spoken, with the words of the own dictionary, and its notes on stderr.

    Where nothing was ever stored, no data folder is made; grammars are used but not built.
    """
    with closing(Normaliser(settings.grammar_folder, can_build=False)) as normaliser:
        prepared = prepared_text(text, wish, _own_words(settings), normaliser)
    for note in prepared.notes:
        print(note, file=sys.stderr)
    return prepared


def request_of(text: str, prepared: Prepared) -> SpeechRequest:
    """The request that speaks a prepared text."""
    return SpeechRequest(
        text if prepared.pieces else "",  # nothing is left, and the engine says so
        language=next(iter(prepared.languages), None),
        pieces=prepared.pieces,
    )


def _own_words(settings: Settings) -> tuple[Pronunciation, ...]:
    if not (settings.data_folder / catalogue.FILE).exists():
        return ()
    with closing(Catalogue(settings.data_folder, SCHEMA)) as opened:
        return Words(opened).entries(LOCAL)


def _normalize(options: argparse.Namespace, open_engine: OpenEngine) -> int:
    settings = settings_of(options)
    with open_engine(settings) as engine:
        prepared = prepared_for(settings, options.text, wish_of(options, engine))
        expected = forecast(request_of(options.text, prepared), engine.family)
    print(prepared.text)
    chunks = "1 chunk" if len(expected.chunks) == 1 else f"{len(expected.chunks)} chunks"
    print(f"about {expected.duration_s:.0f} s, {chunks}", file=sys.stderr)
    return 0
