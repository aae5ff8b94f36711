"""What becomes of a text before it is spoken."""

from engine.text.detect import DETECT, detect_language, language_runs
from engine.text.grammar_store import GRAMMARS, default_grammar_folder
from engine.text.normalise import Normalised, Normaliser
from engine.text.spans import Span

__all__ = [
    "DETECT",
    "GRAMMARS",
    "Normalised",
    "Normaliser",
    "Span",
    "default_grammar_folder",
    "detect_language",
    "language_runs",
]
