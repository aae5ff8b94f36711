"""How fast a checkpoint speaks here: ``python -m bench.speed [--model DIR] [--write]``.

Closed loop through ``Engine``: one request at a time, then eight at once; definitions of rtf, ttfa
and audio seconds per second in README.md. With ``--write`` the result goes to ``results/`` and a
loaded machine is refused.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.machine import describe, loaded_reason
from engine import Engine

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
RESULTS = Path(__file__).parent / "results"


def closed_loop(engine: Engine, concurrency: int, rounds: int) -> dict[str, float]:
    """``rounds`` times ``concurrency`` requests at once, each round awaited whole."""
    rtf: list[float] = []
    ttfa_ms: list[float] = []
    audio_s = wall_s = 0.0
    for number in range(rounds):
        begin = time.perf_counter()
        streams = [
            engine.speak(SENTENCES[(number + place) % len(SENTENCES)], seed=number * 100 + place)
            for place in range(concurrency)
        ]
        for stream in streams:
            samples, rate = stream.read()
            seconds = len(samples) / rate
            audio_s += seconds
            rtf.append((stream.timings.total_s or 0.0) / seconds)
            ttfa_ms.append(stream.timings.ttfa_ms or 0.0)
        wall_s += time.perf_counter() - begin
    return {
        "concurrency": concurrency,
        "requests": len(rtf),
        "rtf_median": round(statistics.median(rtf), 4),
        "ttfa_ms_median": round(statistics.median(ttfa_ms), 1),
        "ttfa_ms_max": round(max(ttfa_ms), 1),
        "audio_s_per_s": round(audio_s / wall_s, 2),
    }


def measure(model: Path, device: str, rounds: int) -> dict[str, Any]:
    """Alone and eight at once, after one warm-up request."""
    with Engine.open(model, device=device) as engine:
        engine.speak(SENTENCES[0], seed=0).read()
        return {
            "what": "bench.speed",
            "model": engine.name,
            "dtype": str(engine.family.dtype).removeprefix("torch."),
            "machine": describe(engine.family.device),
            "alone": closed_loop(engine, 1, rounds),
            "eight": closed_loop(engine, 8, max(1, rounds // 4)),
        }


def main() -> int:
    """Parse the command line, measure, print and perhaps write."""
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("assets/nano"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write", metavar="NAME", help="write results/NAME.json")
    options = parser.parse_args()
    if options.write and (reason := loaded_reason()):
        print(f"bench: {reason}.", file=sys.stderr)
        return 2
    result = measure(options.model, options.device, options.rounds)
    text = json.dumps(result, indent=1)
    print(text)
    if options.write:
        (RESULTS / f"{options.write}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
