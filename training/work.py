"""Where a run keeps its files, and how it tells what it is doing.

- Everything large lives below one work folder outside the tree; a stage that finds its result
  there does nothing, so every stage can be stopped at any time and started again.
- ``Journal`` appends one JSON object per line; ``python -m training report`` plots those files.
- A file appears under its name only when it is complete.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_WORK = Path("~/.cache/zonos2-studio/training")


@dataclass(frozen=True)
class Work:
    """The work folder of one run: ``texts.jsonl``, ``speech/``, ``shards/``, ``codec/``, ..."""

    root: Path

    @classmethod
    def at(cls, folder: str | Path) -> Work:
        """Open (and make) a work folder."""
        root = Path(folder).expanduser()
        root.mkdir(parents=True, exist_ok=True)
        return cls(root)

    def folder(self, name: str) -> Path:
        """A subfolder, made if absent."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def journal(self, stage: str) -> Journal:
        """The losses and progress of ``stage``."""
        return Journal(self.folder("journal") / f"{stage}.jsonl")


class Journal:
    """Append-only numbers of one stage, one JSON object per line; also printed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **values: Any) -> None:
        """Append one line with the wall clock in ``unix_s``."""
        entry = {"unix_s": round(time.time(), 1), **values}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        print(" ".join(f"{name} {_short(value)}" for name, value in values.items()), flush=True)

    def read(self) -> list[dict[str, Any]]:
        """All lines so far."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + " ".join(_short(item) for item in value) + "]"
    return str(value)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name when the block ends without error."""
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class Eta:
    """Seconds left, from the share of the work that is done."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start_s = clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start_s

    def left_s(self, share_done: float) -> int | None:
        """Whole seconds until ``share_done`` reaches 1 at the pace so far; None before any."""
        if share_done <= 0:
            return None
        return round(self.elapsed_s * (1 - share_done) / share_done)
