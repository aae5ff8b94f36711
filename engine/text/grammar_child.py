"""The program of a grammar's child process: NeMo's text grammars and nothing of this engine.

    python -P grammar_child.py build LANGUAGE FOLDER    write the grammar's files into FOLDER
    python -P grammar_child.py serve LANGUAGE FOLDER    read texts aloud in words, with those files

- serve speaks one JSON object a line, in ASCII: first ``{"ready": true}``, then for every
  ``{"text": …}`` one ``{"text": …}`` or ``{"fault": name of the exception}``; it ends with stdin.
- Torch stays out: stand-ins replace what NeMo would load only to align recorded audio.
- Nothing is printed or logged: NeMo's own messages quote the text.
"""

import contextlib
import difflib
import json
import logging
import os
import resource
import signal
import sys
import types
from pathlib import Path
from typing import Any

# Far above what serving takes (German, the largest: 240 MB, and 1.5 s for the longest window): a
# text that runs away ends the process, and only it.
_SERVE_MEMORY_BYTES = 3 * 2**30
_TEXT_CPU_S = 5.0
# The languages whose punctuation NeMo restores from the input (spec/zonos2.md 9.1).
_PUNCTUATION_RESTORED = {"en", "zh", "ja", "ko"}
# NeMo looks for these two files and never writes them; the names are its own.
_UNWRITTEN_VERBALIZERS = {
    "zh": "zh_tn_True_deterministic_verbalizer.far",
    "ja": "jp_tn_True_deterministic_verbalizer.far",
}


class _Warned(logging.Handler):
    """Remembers that NeMo gave a text up: it logs a warning and hands the input back."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.has_warned = False

    def emit(self, record: logging.LogRecord) -> None:
        self.has_warned = True


def _open(language: str, folder: Path) -> Any:
    for name, member in (("cdifflib", "CSequenceMatcher"), ("editdistance", "eval")):
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], member, difflib.SequenceMatcher)
    from nemo_text_processing.text_normalization.normalize import Normalizer

    input_case = "lower_cased" if language == "ko" else "cased"
    return Normalizer(input_case=input_case, lang=language, cache_dir=str(folder))


def build(language: str, folder: Path) -> None:
    """Make the files of one grammar: 1 s (Chinese) to a minute, and up to 2.7 GB (French)."""
    os.nice(19)
    normalizer = _open(language, folder)
    if language in _UNWRITTEN_VERBALIZERS:
        from nemo_text_processing.text_normalization.en.graph_utils import generator_main

        path = folder / _UNWRITTEN_VERBALIZERS[language]
        generator_main(str(path), {"verbalize": normalizer.verbalizer.fst})


def serve(language: str, folder: Path) -> None:
    """Answer texts until stdin ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_SERVE_MEMORY_BYTES, _SERVE_MEMORY_BYTES))
    # Answers go out by a descriptor of their own, so that no stray print can be one.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(2, 1)
    normalizer = _open(language, folder)
    warned = _Warned()
    logger = logging.getLogger("NeMo-text-processing")
    logger.handlers = [warned]
    logger.propagate = False
    restores_punctuation = language in _PUNCTUATION_RESTORED
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        warned.has_warned = False
        # Nobody handles SIGPROF, so it ends the process even inside a grammar's own code.
        signal.setitimer(signal.ITIMER_PROF, _TEXT_CPU_S)
        answer: dict[str, str]
        try:
            text = json.loads(line)["text"]
            answer = {"text": normalizer.normalize(text, punct_post_process=restores_punctuation)}
        except Exception as error:  # one text's failure is an answer; the next may be fine
            answer = {"fault": type(error).__name__}
        signal.setitimer(signal.ITIMER_PROF, 0)
        if warned.has_warned:
            answer = {"fault": "Unread"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    task, language, folder = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        {"build": build, "serve": serve}[task](language, Path(folder))
