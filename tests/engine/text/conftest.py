"""Real grammars for the tests that need them: built once per machine, kept between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.text.grammar_store import GRAMMARS, GrammarStore
from engine.text.normalise import Normalised, Normaliser

Read = Callable[[str, str], Normalised]


@pytest.fixture(scope="session")
def nine_languages(grammar_folder: Path) -> Iterator[Normaliser]:
    normaliser = Normaliser(grammar_folder, max_processes=9)
    yield normaliser
    normaliser.close()


@pytest.fixture(scope="session")
def read(grammar_folder: Path, nine_languages: Normaliser) -> Read:
    """Reads a text in a language with its real grammar, which is built if it is missing."""
    store = GrammarStore(grammar_folder)

    def read(text: str, language: str) -> Normalised:
        if language in GRAMMARS:
            store.build(GRAMMARS[language])
        return nine_languages.normalise(text, language, deadline_s=120)

    return read
