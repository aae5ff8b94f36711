"""The command that builds the text grammars, one language after the other.

python -m engine.text.grammars [LANGUAGE...] [--folder FOLDER]     (`make grammars`)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.text.grammar_store import GRAMMARS, GrammarStore, default_grammar_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the grammars that are missing; the exit status is the number that failed."""
    parser = argparse.ArgumentParser(prog="engine.text.grammars", description=main.__doc__)
    names = sorted(set(GRAMMARS.values()))
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=" ".join(names))
    parser.add_argument("--folder", type=Path, default=default_grammar_folder())
    asked = parser.parse_args(arguments)
    if unknown := set(asked.languages) - set(names):
        parser.error(f"no grammar for {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    store = GrammarStore(asked.folder)
    if store.version is None:
        print("Without nemo_text_processing and pynini there are no grammars on this platform.")
        return 0
    num_failed = 0
    for name in asked.languages or names:
        is_there = store.find(name) is not None
        try:
            place = store.build(name)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{name}: failed ({error})", flush=True)
            num_failed += 1
            continue
        size_mb = sum(path.stat().st_size for path in place.iterdir()) / 1e6
        print(f"{name}: {'there' if is_there else 'built'}, {size_mb:.0f} MB", flush=True)
    store.close()
    return num_failed


if __name__ == "__main__":
    sys.exit(main())
