"""The whole recipe in seconds, offline and without teachers, as anyone would call it."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_every_stage_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "training", "--smoke"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "every stage ran; the engine opened and spoke" in done.stdout
