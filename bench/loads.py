"""Kinds of load: closed loop, Poisson arrivals, and how many streams a machine sustains.

A ``Speaker`` is a way to the sound (``through_engine``, ``through_http``): text and seed in, the
seconds of each piece out as it comes.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.heard import Heard, summary
from engine import Engine, Sampling

SENTENCES = (
    "The morning train was late again because of heavy rain.",
    "She poured the hot coffee into a small blue cup.",
    "Please remember to close the window before you leave.",
    "Our neighbors planted seven apple trees along the fence.",
    "The quick answer is not always the right answer.",
    "Every student should bring a notebook and two pencils.",
    "The old house on the hill has a bright red door.",
    "They found a lost dog sleeping under the kitchen table.",
)
# A load is sustained when this share of its streams never had nothing to play.
SUSTAINED_SHARE = 0.95

Speaker = Callable[[str, int], Iterator[float]]  # (text, seed) -> seconds of each piece


def through_engine(
    engine: Engine, max_new_frames: int | None = None, sampling: Sampling | None = None
) -> Speaker:
    """Straight into ``engine``."""

    def speak(text: str, seed: int) -> Iterator[float]:
        stream = engine.speak(text, seed=seed, max_new_frames=max_new_frames, sampling=sampling)
        for chunk in stream:
            yield len(chunk) / stream.sample_rate_hz

    return speak


def through_http(url: str, body: dict[str, Any]) -> Speaker:
    """Over a socket to a studio at ``url``: raw 16-bit samples while they are made."""
    import httpx

    client = httpx.Client(base_url=url, timeout=600.0, limits=httpx.Limits(max_connections=None))

    def speak(text: str, seed: int) -> Iterator[float]:
        asked = {"input": text, "seed": seed, "response_format": "pcm", "stream": True, **body}
        with client.stream("POST", "/v1/audio/speech", json=asked) as reply:
            if reply.status_code != 200:
                raise RuntimeError(reply.read().decode()[:300])
            rate_hz = int(reply.headers["X-Sample-Rate"])
            for piece in reply.iter_raw():
                yield len(piece) / 2 / rate_hz

    return speak


def closed_loop(speak: Speaker, concurrency: int, rounds: int) -> dict[str, Any]:
    """``rounds`` times ``concurrency`` requests at once, each round awaited whole."""
    heard: list[Heard] = []
    begin_s = time.perf_counter()
    for number in range(rounds):
        readers = [
            _Reader(speak, SENTENCES[(number + place) % len(SENTENCES)], number * 100 + place)
            for place in range(concurrency)
        ]
        heard += [reader.wait() for reader in readers]
    wall_s = time.perf_counter() - begin_s
    return {"load": "closed loop", "concurrency": concurrency, **summary(heard, wall_s)}


def poisson(speak: Speaker, requests_per_s: float, number: int, seed: int = 0) -> dict[str, Any]:
    """``number`` requests that arrive independently of each other and of what was answered."""
    rng = random.Random(seed)
    begin_s = due_s = time.perf_counter()
    readers = []
    for index in range(number):
        time.sleep(max(0.0, due_s - time.perf_counter()))
        readers.append(_Reader(speak, SENTENCES[index % len(SENTENCES)], index))
        due_s += rng.expovariate(requests_per_s)
    heard = [reader.wait() for reader in readers]
    wall_s = time.perf_counter() - begin_s
    return {"load": "Poisson", "arrivals_per_s": requests_per_s, **summary(heard, wall_s)}


def sustained(speak: Speaker, levels: Sequence[int], rounds: int) -> dict[str, Any]:
    """The largest of ``levels`` (rising) at which the streams play through, and each level."""
    best, runs = 0, []
    for level in levels:
        run = closed_loop(speak, level, rounds)
        runs.append(run)
        if run["requests"] * SUSTAINED_SHARE > run.get("streams_without_underrun", 0):
            break
        best = level
    return {"sustained_streams": best, "levels": runs}


class _Reader(threading.Thread):
    """Reads one request as it comes."""

    def __init__(self, speak: Speaker, text: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._pieces = lambda: speak(text, seed)
        self._heard = Heard(time.perf_counter())
        self.start()

    def run(self) -> None:
        try:
            for duration_s in self._pieces():
                self._heard.pieces.append((time.perf_counter(), duration_s))
        except Exception as error:
            self._heard.error = f"{type(error).__name__}: {error}"

    def wait(self) -> Heard:
        """What was heard, once it has ended."""
        self.join()
        return self._heard
