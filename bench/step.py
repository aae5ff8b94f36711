"""One decode step on a CPU, compiled and plain side by side: ``python -m bench.step``.

    python -m bench.step                                        # the embedded model
    python -m bench.step --random reduced --folder DIR --dtype bfloat16 --threads 2

The ways take turns step by step, and a streaming read of 2 GB stands between them, so that all meet
the same machine. The floor is what the step really has to read: the spine, the experts
that its rows chose, the keys and values in use; at the speed of that read.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from bench.floor import READ_BYTES, step_bytes
from bench.loads import SENTENCES
from bench.machine import describe, loaded_reason
from bench.random_model import SIZES, make_checkpoint
from bench.report import add_options, is_refused, keep
from engine.request import SpeechRequest
from engine.zonos2.family import Zonos2Family, Zonos2Runner
from engine.zonos2.moe import Router

REPOSITORY = Path(__file__).parents[1]
CPU = torch.device("cpu")
READ_EVERY = 5  # steps


@torch.inference_mode()
def measure(family: Zonos2Family, batch: int, num_slots: int, num_steps: int) -> dict[str, Any]:
    """Milliseconds of a step of ``batch`` rows each way, and of reading what it reads."""
    runners = {
        name: Zonos2Runner(family.model, num_slots, CPU, compiles=compiles)
        for name, compiles in (("compiled", True), ("plain", False))
    }
    prompt = family.plan(SENTENCES[0], SpeechRequest(SENTENCES[0], None)).main
    for runner in runners.values():
        for slot in range(batch):
            runner.prefill(slot, prompt)
    buffer = torch.ones(READ_BYTES // 8, dtype=torch.float64)
    buffer.sum()
    generator = torch.Generator().manual_seed(0)
    times: dict[str, list[float]] = {"compiled": [], "plain": [], "read": []}
    touched = 0
    forward = Router.forward

    def counted(router: Router, *given: Any) -> Any:
        nonlocal touched
        routed = forward(router, *given)
        touched += len(routed[1][:batch].unique())  # slots that live come first
        return routed

    with mock.patch.object(Router, "forward", counted):
        for step in range(num_steps):
            codes = torch.randint(
                0, family.codebook_size, (batch, family.num_codebooks), generator=generator
            )
            for name, runner in runners.items():
                times[name].append(_seconds(partial(runner.decode, range(batch), codes)))
            if step % READ_EVERY == 0:
                times["read"].append(_seconds(buffer.sum))
    config, itemsize = family.config, family.dtype.itemsize
    rows = len(prompt.rows) + num_steps // 2
    uniform = step_bytes(config, batch, itemsize, rows)
    expert_bytes = 3 * config.dim * config.ffn_dim * itemsize
    spine = uniform - _uniform_experts(config, batch) * expert_bytes
    size_bytes = spine + touched / num_steps * expert_bytes
    told: dict[str, Any] = {
        "batch": batch,
        "mb": round(size_bytes / 1e6, 1),
        "experts": round(touched / num_steps, 1),
        "experts_if_even": round(_uniform_experts(config, batch), 1),
    }
    for name, quantile in (("median", statistics.median), ("best", min)):
        floor_s = size_bytes / READ_BYTES * quantile(times["read"])
        told[name] = {
            "floor_ms": round(floor_s * 1e3, 2),
            "compiled_ms": round(quantile(times["compiled"]) * 1e3, 2),
            "plain_ms": round(quantile(times["plain"]) * 1e3, 2),
            "share_of_floor": round(floor_s / quantile(times["compiled"]), 3),
            "share_of_floor_plain": round(floor_s / quantile(times["plain"]), 3),
        }
    return told


def _uniform_experts(config: Any, batch: int) -> float:
    """Experts that ``step_bytes`` counts on."""
    layers = [layer for layer in range(config.n_layers) if config.is_moe(layer)]
    number = config.moe_num_experts
    return sum(number * (1 - ((number - config.moe_topk[la]) / number) ** batch) for la in layers)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, measure, print and perhaps write."""
    parser = argparse.ArgumentParser(prog="python -m bench.step", description=__doc__)
    parser.add_argument("--model", type=Path, default=REPOSITORY / "assets" / "nano")
    parser.add_argument("--random", choices=SIZES, help="a random checkpoint instead of a model")
    parser.add_argument("--folder", type=Path, help="where the random checkpoint lies or goes")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--steps", type=int, default=60)
    add_options(parser)
    options = parser.parse_args(arguments)
    load = loaded_reason()
    if is_refused(options, load):
        return 2
    torch.set_num_threads(options.threads)
    folder = options.model
    if options.random:
        folder = make_checkpoint(options.folder, options.random)
    family = Zonos2Family.open(folder, CPU, getattr(torch, options.dtype))
    result = {
        "what": "bench.step",
        "model": options.random or folder.name,
        "dtype": options.dtype,
        "slots": options.slots,
        "machine": describe(CPU),
        "steps": [measure(family, batch, options.slots, options.steps) for batch in options.batch],
    }
    keep(options, result, load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
