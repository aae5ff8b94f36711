"""How fast a checkpoint speaks here, beside what the hardware allows: ``python -m bench.speed``.

    python -m bench.speed                                   # the embedded voice, alone and eight
    python -m bench.speed --random reduced --folder DIR     # random weights of a size
    python -m bench.speed --through http --poisson 0.5 2    # over a socket, open loop
    python -m bench.speed --slots 16 --sustained 1 2 4 8 12 16

Every load runs through ``Engine`` or, with ``--through http``, against ``app.py serve`` in a
process of its own. Definitions of all figures and floors are in README.md.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.floor import Rates, Shape, measure_rates
from bench.loads import (
    SENTENCES,
    Speaker,
    closed_loop,
    poisson,
    sustained,
    through_engine,
    through_http,
)
from bench.machine import describe, loaded_reason
from bench.random_model import SAMPLING, SIZES, make_checkpoint
from bench.report import add_options, is_refused, keep
from engine import Engine
from engine.memory import available_bytes

REPOSITORY = Path(__file__).parents[1]
RANDOM_FRAMES = 130  # of a request to a random checkpoint: 1.4 s of sound
OPEN_WAIT_S = 600.0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Open the model, run the loads that were asked for, each beside its floor."""
    folder = options.model
    if options.random:
        folder = make_checkpoint(options.folder, options.random)
    frames = RANDOM_FRAMES if options.random else None
    dtype = None if options.dtype == "auto" else getattr(torch, options.dtype)
    if options.threads:
        torch.set_num_threads(options.threads)  # of a large model's steps, which the engine takes
    with Engine.open(folder, device=options.device, dtype=dtype, num_slots=options.slots) as engine:
        if options.threads:
            torch.set_num_threads(options.threads)  # of a small model's codec and prompts
        device = engine.family.device
        rates = measure_rates(device, engine.family.dtype)
        shape = Shape.of(engine)
        told: dict[str, Any] = {
            "what": "bench.speed",
            "model": options.random or engine.name,
            "through": options.through,
            "dtype": str(engine.family.dtype).removeprefix("torch."),
            "slots": options.slots,
            "machine": describe(device),
            "rates": {name: round(value, 1) for name, value in asdict(rates).items()},
        }
        if options.through == "engine":
            sampling = SAMPLING if options.random else None
            told["loads"] = run_loads(options, through_engine(engine, frames, sampling))
            left = available_bytes(device)
            told["memory_left_gb"] = None if left is None else round(left / 1e9, 1)
    if options.through == "http":
        del engine  # two copies of a large model would not fit
        body = {} if frames is None else {"max_new_tokens": frames, **http_sampling()}
        with studio(options, folder) as url:
            told["loads"] = run_loads(options, through_http(url, body))
    for load in told["loads"]:
        add_floors(load, shape, rates)
    return told


def run_loads(options: argparse.Namespace, speak: Speaker) -> list[dict[str, Any]]:
    """Every load that was asked for, after one warm-up request."""
    list(speak(SENTENCES[0], 0))
    loads = [
        closed_loop(speak, concurrency, max(1, options.rounds // concurrency))
        for concurrency in options.concurrency
    ]
    loads += [poisson(speak, rate, options.requests) for rate in options.poisson]
    if options.sustained:
        loads.append(sustained(speak, sorted(options.sustained), 2))
    return loads


def add_floors(load: dict[str, Any], shape: Shape | None, rates: Rates) -> None:
    """Write the floor beside a closed loop's figures, and what share of it was reached."""
    for level in load.get("levels", [load]):
        if shape is None or "concurrency" not in level or "rtf_median" not in level:
            continue
        # The prompt's rows, and on average half of the sound's.
        rows = len(SENTENCES[0]) + 30 + round(level["mean_audio_s"] / shape.frame_s / 2)
        level["floor"] = shape.floors(rates, level["concurrency"], rows)
        share = level["audio_s_per_s"] / level["floor"]["audio_s_per_s"]
        level["share_of_floor"] = round(share, 3)


def http_sampling() -> dict[str, Any]:
    """The sampling of random checkpoints as the route spells it."""
    return {name: value for name, value in asdict(SAMPLING).items() if value is not None}


@contextmanager
def studio(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """``app.py serve`` in a process of its own -> its address, once it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(REPOSITORY / "app.py"), "serve", "--model", str(folder)]
    command += ["--port", str(port), "--slots", str(options.slots), "--dtype", options.dtype]
    command += ["--device", options.device, "--max-waiting-per-owner", "256"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline_s = time.monotonic() + OPEN_WAIT_S
        while not _is_ready(url):
            if process.poll() is not None:
                told = process.stderr.read().decode()[-500:] if process.stderr else ""
                raise SystemExit(f"bench: the studio did not open: {told}")
            if time.monotonic() > deadline_s:
                raise SystemExit(f"bench: the studio was not ready after {OPEN_WAIT_S:.0f} s.")
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description=__doc__)
    parser.add_argument("--model", type=Path, default=REPOSITORY / "assets" / "nano")
    parser.add_argument("--random", choices=SIZES, help="a random checkpoint instead of a model")
    parser.add_argument("--folder", type=Path, help="where the random checkpoint lies or goes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=0, help="0: as the engine chooses")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--through", choices=("engine", "http"), default="engine")
    parser.add_argument("--concurrency", type=int, nargs="*", default=[1, 8], help="closed loops")
    parser.add_argument("--poisson", type=float, nargs="*", default=[], help="requests per second")
    parser.add_argument("--sustained", type=int, nargs="*", default=[], help="levels to try")
    parser.add_argument("--rounds", type=int, default=24, help="requests of a closed loop")
    parser.add_argument("--requests", type=int, default=24, help="requests of a Poisson load")
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.random and options.folder is None:
        parser.error("--random needs --folder, where the weights lie or go")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, measure, print and perhaps write."""
    options = parsed(arguments)
    load = loaded_reason()
    if is_refused(options, load):
        return 2
    keep(options, measure(options), load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
