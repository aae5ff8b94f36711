"""The studio as it is started by hand, in a process of its own, and where figures are written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.machine import describe, loaded_reason

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
START_S = 180.0


@dataclass
class Studio:
    """A running studio: its address, its process, and the folders that only it uses."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path
    temporary: Path

    def held(self) -> dict[str, int]:
        """Resident bytes, descriptors, threads and temporary files."""
        proc = Path(f"/proc/{self.process.pid}")
        status = (proc / "status").read_text()
        numbers = {name: int(n) for name, n in re.findall(r"(VmRSS|Threads):\s+(\d+)", status)}
        return {
            "rss_bytes": numbers["VmRSS"] * 1024,
            "descriptors": len(list((proc / "fd").iterdir())),
            "threads": numbers["Threads"],
            "temporary_files": sum(path.is_file() for path in self.temporary.rglob("*")),
        }

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics by its name and labels."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}


@contextmanager
def running(folder: Path, **options: object) -> Iterator[Studio]:
    """A studio over the embedded model with ``options``; it has to end with 0."""
    temporary = folder / "temporary"
    temporary.mkdir()
    log = folder / "log"
    flags = {"port": 0, "device": "cpu", "data": folder / "data"} | options
    command = [sys.executable, "app.py", "serve"]
    for name, value in flags.items():
        command += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=os.environ | {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
            stdout=out,
            stderr=out,
        )
        try:
            deadline_s = time.monotonic() + START_S
            while not (found := re.search(r"open at (http://\S+)", log.read_text())):
                assert process.poll() is None and time.monotonic() < deadline_s, log.read_text()
                time.sleep(0.1)
            yield Studio(found[1], process, log, temporary)
            process.send_signal(signal.SIGTERM)
            assert process.wait(90) == 0, log.read_text()[-4000:]
            assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def record() -> Callable[[str, dict[str, Any]], None]:
    """Write the figures of a test beside what they were measured on."""
    was_loaded = loaded_reason()

    def write(name: str, figures: dict[str, Any]) -> None:
        machine = {"machine_was_loaded": was_loaded} | describe(torch.device("cpu"))
        text = json.dumps(figures | {"machine": machine}, indent=1)
        (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")

    return write
