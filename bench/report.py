"""How a bench program tells and keeps what it measured; a loaded machine never goes unsaid.

``--write NAME`` keeps the result as results/NAME.json and is refused while the machine is loaded;
``--despite-load`` keeps it all the same, with the reason in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every program shares."""
    parser.add_argument("--write", metavar="NAME", help="write results/NAME.json")
    parser.add_argument(
        "--despite-load", action="store_true", help="write on a loaded machine, saying so"
    )


def is_refused(options: argparse.Namespace, load: str | None) -> bool:
    """Whether nothing should be measured now, which is then said; ``load`` is why not."""
    if options.write and load and not options.despite_load:
        print(f"bench: {load}.", file=sys.stderr)
        return True
    return False


def keep(options: argparse.Namespace, result: dict[str, Any], load: str | None) -> None:
    """Print ``result`` and, if asked, write it; ``load`` is what was known before it began."""
    text = json.dumps(result | {"machine_was_loaded": load}, indent=1)
    print(text)
    if options.write:
        (RESULTS / f"{options.write}.json").write_text(text + "\n", encoding="utf-8")
