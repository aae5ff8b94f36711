"""C40: memory, files and threads stay where they were, however many voices come by."""

from __future__ import annotations

import base64
import contextlib
import gc
import http.client
import io
import json
import re
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile

NUM_WARM_UP, NUM_REQUESTS = 20, 300
WORDS = "the small boat is still tied to the pier and nobody has seen the old man since noon"


def held() -> tuple[int, int, int]:
    """Resident bytes, open files and threads of this process."""
    gc.collect()
    rss = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert rss is not None
    return int(rss[1]) * 1024, len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def reference(recording: bytes, number: int) -> str:
    """The recording in another loudness, from another moment on: another voice each time."""
    samples, rate_hz = soundfile.read(io.BytesIO(recording), dtype="float32")
    changed = samples[number * 37 :] * (0.2 + 0.7 * (number % 97) / 97)
    file = io.BytesIO()
    soundfile.write(file, changed, rate_hz, format="WAV", subtype="PCM_16")
    return "data:audio/wav;base64," + base64.b64encode(file.getvalue()).decode()


def ask(address: str, recording: bytes, number: int, *, leaves: bool) -> None:
    """One request with a voice of its own; who ``leaves`` reads nothing of the answer."""
    place = urlsplit(address)
    words = (WORDS.split() * 4)[: 5 + number % 56]
    body = {
        "input": " ".join(words) + ".",
        "ref_audio": reference(recording, number),
        "seed": number,
        "max_new_tokens": 16,
        "stream": leaves,
    }
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    with contextlib.closing(connection):
        connection.request(
            "POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        assert answer.status == 200
        if not leaves:
            samples, _ = soundfile.read(io.BytesIO(answer.read()))
            assert np.abs(samples).max() > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_hundred_voices_leave_nothing_behind(server, engine, recording) -> None:
    address = getattr(server, "address", server)
    for number in range(NUM_WARM_UP):
        ask(address, recording, number, leaves=False)
    rss, files, threads = held()
    for number in range(NUM_WARM_UP, NUM_WARM_UP + NUM_REQUESTS):
        ask(address, recording, number, leaves=number % 10 == 0)
    while engine.stats.num_live or engine.stats.num_waiting:
        threading.Event().wait(0.05)
    deadline_s = time.monotonic() + 60
    # The server closes the last connections a little after their clients.
    while held()[1] > files and time.monotonic() < deadline_s:
        time.sleep(0.05)
    rss_after, files_after, threads_after = held()
    assert rss_after - rss <= 150e6
    assert files_after <= files + 5
    assert threads_after <= threads + 5
    assert len(engine._embeddings) <= 256
