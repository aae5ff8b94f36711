"""The release at full size with random weights: ``python -m bench.full --folder DIR``.

Makes 15.3 GB of random bfloat16 weights in DIR unless they are there, opens them as any checkpoint
is opened, and speaks some frames through a DAC of full width. Says memory and time per frame beside
the time that a single read of the touched weights takes here.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch

from bench.floor import measure_rates
from bench.machine import describe, loaded_reason
from bench.random_model import SAMPLING, make_checkpoint
from bench.report import add_options, is_refused, keep
from engine import Engine

TEXT = "The morning train was late again."
ACTIVE_NUMBERS = 868e6  # that one row meets: spec/performance.md 3.3


def measure(folder: Path, num_frames: int) -> dict[str, Any]:
    """Open the checkpoint, speak ``num_frames`` rows, say memory and times."""
    device = torch.device("cpu")
    rate = measure_rates(device, torch.bfloat16).read_gb_per_s
    begin = time.perf_counter()
    with Engine.open(folder, device="cpu", num_slots=1) as engine:
        open_s = time.perf_counter() - begin
        dtype = engine.family.dtype
        stream = engine.speak(TEXT, sampling=SAMPLING, seed=1, max_new_frames=num_frames)
        samples, sample_rate_hz = stream.read()
        timings = stream.timings
    assert timings.admitted_s is not None and timings.finished_s is not None
    return {
        "what": "bench.full",
        "dtype": str(dtype).removeprefix("torch."),
        "machine": describe(device),
        "open_s": round(open_s, 1),
        "rows": num_frames,
        "audio_s": round(len(samples) / sample_rate_hz, 3),
        "first_chunk_s": round((timings.ttfa_ms or 0.0) / 1e3, 2),
        "seconds_per_row": round((timings.finished_s - timings.admitted_s) / num_frames, 3),
        "memory_read_gb_per_s": round(rate, 1),
        "floor_seconds_per_row": round(ACTIVE_NUMBERS * dtype.itemsize / rate / 1e9, 3),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def main() -> int:
    """Parse the command line, make what is missing, measure, print and perhaps write."""
    parser = argparse.ArgumentParser(prog="python -m bench.full", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the 15.3 GB lie or go")
    parser.add_argument("--rows", type=int, default=28, help="rows to draw; 8 fewer are heard")
    add_options(parser)
    options = parser.parse_args()
    load = loaded_reason()
    if is_refused(options, load):
        return 2
    make_checkpoint(options.folder, "release")
    keep(options, measure(options.folder, options.rows), load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
