"""schemathesis over /openapi.json of a running studio: whatever is sent, no fault is ours.

The studio is a process of its own over a shadow of the release. ``STUDIO_FUZZ_S`` sets the seconds,
``make fuzz`` takes three minutes. WebSocket and event streams of requests are left out.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shadow.release import make_release

pytestmark = [pytest.mark.load, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = int(os.environ.get("STUDIO_FUZZ_S", "180"))
SEED = 20_261_129


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address and log of a studio that strangers may use."""
    folder = tmp_path_factory.mktemp("fuzz")
    model = make_release(folder / "release", ends=False)  # what ends at once has no sound
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {"model": model, "device": "cpu", "port": port, "data": folder / "data"}
    # Bound to every address, recordings by URL are off: nothing is fetched from anywhere.
    options |= {"host": "0.0.0.0", "slots": 4, "max-input-chars": 60, "max-voices": 20}
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    log = folder / "log"
    with log.open("wb") as out:
        command = [sys.executable, "app.py", "serve", *flags, "--no-watermark"]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=out, stderr=out)
        address = f"http://127.0.0.1:{port}"
        try:
            deadline_s = time.monotonic() + 90
            while not _is_ready(address):
                assert process.poll() is None and time.monotonic() < deadline_s, log.read_text()
                time.sleep(0.2)
            yield address, log
            assert process.poll() is None, "the studio ended"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_whatever_is_sent_no_fault_is_ours(studio: tuple[str, Path], tmp_path: Path) -> None:
    address, log = studio
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json"]
    command += ["--max-time", str(SECONDS), "--seed", str(SEED), "--checks", "honest_answer"]
    command += ["--phases", "coverage,fuzzing", "--workers", "2"]
    command += ["--exclude-path-regex", "/events$"]
    command += ["--request-timeout", "60", "--suppress-health-check", "all", "--no-color"]
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "fuzz_hooks",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS + 600,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    counted = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
    assert counted and counted[1] == counted[2] and int(counted[1]) > 2 * SECONDS, run.stdout[
        -3000:
    ]
    assert "Traceback" not in log.read_text()
    with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
        assert b'"healthy"' in answer.read()
