"""Is this device right, and how fast: ``python -m bench.gpu_check [--device cuda|cpu]``.

- Runs without network and with torch, numpy, safetensors and (on a GPU) triton alone, in less than
  eight minutes on one GPU.
- Right: forward pass, sampler and codec streaming against the golden data in tests/golden, kernels
  against their twins, a request alone against the same one in company, graphs on against off.
- Fast: the table of README.md at the release's size with random weights, each figure beside its
  floor; one decode step with and without a graph; the codec alone; memory.
- Prints one JSON object and exits 1 when a check failed; on a CPU it is a dry run at tiny size.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.floor import Shape, measure_rates
from bench.loads import SENTENCES, closed_loop, through_engine
from bench.machine import describe, loaded_reason
from bench.random_model import CODEC_WIDTH, SAMPLING, SIZES, random_dac, random_family
from bench.report import add_options, is_refused, keep
from bench.speed import RANDOM_FRAMES, add_floors
from engine import Engine, Sampling
from engine.codec.base import open_codec
from engine.codec.dac import DacCodec
from engine.codec.streaming import CodecStream, decode_windows
from engine.family import Lanes, Prompt
from engine.kernels import attention, experts
from engine.request import SpeechRequest
from engine.sampling.sampler import History, SamplingRows, probabilities
from engine.sampling.settings import OPEN_TOP_K, ResolvedSampling, resolve
from engine.sampling.slots import SlotSampler
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.family import Zonos2Family, Zonos2Runner

REPOSITORY = Path(__file__).parents[1]
GOLDEN = REPOSITORY / "tests" / "golden"
NANO = REPOSITORY / "assets" / "nano"
# Measured noise of float32 is 5e-5 on a CPU; a GPU adds in another order.
FORWARD_ATOL = {"cpu": 2e-4, "cuda": 1e-3}
SAMPLER_ATOL = {"cpu": 1e-6, "cuda": 1e-5}
STREAM_TOLERANCE = 1e-4  # of the RMS of the whole decode


def check_forward(device: torch.device) -> dict[str, Any]:
    """Prefill and eight decode steps of the golden checkpoint in float32."""
    with np.load(GOLDEN / "forward.npz") as arrays:
        golden = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packed = GOLDEN / "tiny_checkpoint"
        (folder / "model.pth").write_bytes(lzma.decompress((packed / "model.pth.xz").read_bytes()))
        shutil.copy(packed / "params.json", folder)
        config = Zonos2Config.load(folder)
        model = load_backbone(folder, config, device, torch.float32)
    runner = Zonos2Runner(model, 4, device)
    speaker_row = model.project_speaker(golden["speaker_embeddings"][0].to(device))
    runner.prefill(1, Prompt(golden["a_input_ids"].long(), speaker_row))
    worst = 0.0
    for frame, expected in zip(golden["b_frames"], golden["b_logits"], strict=True):
        logits = runner.decode([1], frame[None, :9].long().to(device))[0].cpu()
        worst = max(worst, float((logits - expected).abs().max()))
    long = Prompt(
        golden["l_input_ids"].long(),
        model.project_speaker(golden["speaker_embeddings"][0].to(device)),
    )
    logits = runner.prefill(2, long)[0].cpu()
    worst = max(worst, float((logits - golden["l_last_logits"]).abs().max()))
    return {"max_difference": worst, "ok": worst <= FORWARD_ATOL[device.type]}


def check_sampler(device: torch.device) -> dict[str, Any]:
    """Probabilities of every golden case but the one that records the reference's coupled batch."""
    cases = json.loads((GOLDEN / "sampler.json").read_text(encoding="utf-8"))["cases"]
    worst, count = 0.0, 0
    with np.load(GOLDEN / "sampler.npz") as arrays:
        logits = torch.from_numpy(arrays["logits"]).to(device)
        histories = torch.from_numpy(arrays["histories"]).long().to(device)
        for case in cases:
            if not case["has_probs"] or case["name"] == "batch_mixed_params":
                continue
            expected = torch.zeros(len(case["params"]), *logits.shape[1:])
            at = torch.from_numpy(arrays[case["name"] + "__idx"]).long().T
            expected[tuple(at)] = torch.from_numpy(arrays[case["name"] + "__p"])
            found = _probabilities(case, logits, histories).cpu()
            worst = max(worst, float((found - expected).abs().max()))
            count += 1
    return {"cases": count, "max_difference": worst, "ok": worst <= SAMPLER_ATOL[device.type]}


def _probabilities(case: dict[str, Any], logits: Tensor, histories: Tensor) -> Tensor:
    count = len(case["params"])
    rows = SamplingRows(count, logits.shape[-1], device=logits.device)
    history = History(count, logits.shape[1], 1024, device=logits.device)
    for slot, (params, row, length) in enumerate(
        zip(case["params"], case["logit_rows"], case["history_lengths"], strict=True)
    ):
        # Straight into the engine's terms: the golden data leaves the ranges of our doors.
        top_k = params["topk"] if params["topk"] >= 1 else OPEN_TOP_K
        others = {name: value for name, value in params.items() if name != "topk"}
        rows.set(slot, ResolvedSampling(top_k=top_k, **others), seed=0)
        for frame in histories[row, histories.shape[1] - length :]:
            history.append(frame[None], slots=torch.tensor([slot], device=logits.device))
    return probabilities(logits[case["logit_rows"]], rows, history)


def check_codec(device: torch.device) -> dict[str, Any]:
    """The codec streamed in pieces of several sizes against its whole decode."""
    codec = open_codec(NANO, device)
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, codec.codebook_size, (60, codec.num_codebooks), generator=generator)
    whole = codec.decode(codes[None].to(device))[0].cpu()
    rms = float(whole.square().mean().sqrt())
    worst = 0.0
    for size in (1, 7, 24) if device.type == "cuda" else (5, 24):
        stream, pieces = CodecStream(codec), []
        for start in range(0, len(codes), size):
            stream.push(codes[start : start + size])
            final = start + size >= len(codes)
            while (window := stream.window(size, final=final)) is not None:
                (samples,) = decode_windows(codec, [window])
                stream.accept(window, samples)
                pieces.append(samples)
        worst = max(worst, float((torch.cat(pieces) - whole).abs().max()) / rms)
    return {"max_difference_of_rms": worst, "ok": worst <= STREAM_TOLERANCE}


def check_kernels(device: torch.device) -> dict[str, Any]:
    """Experts and attention of one step against their plain twins, in float32."""
    if device.type != "cuda":
        return {"ok": True, "skipped": "they run on a GPU; tests run them in Triton's interpreter"}
    rows, chosen = torch.randn(16, 256, device=device), torch.randint(0, 8, (16, 1), device=device)
    w13, w2 = torch.randn(8, 512, 256, device=device) / 16, torch.randn(8, 256, 256, device=device)
    weights = torch.rand(16, 1, device=device)
    found = experts.launch(rows, chosen, weights, w13, w2 / 16)
    worst = float((found - experts.plain(rows, chosen, weights, w13, w2 / 16)).abs().max())
    q = torch.randn(8, 4, 4, 128, device=device)
    keys, values = torch.randn(2, 8, 4, 700, 128, device=device).unbind(0)
    places = torch.arange(8, device=device) * 99
    found = attention.launch(q, keys, values, places)
    worst = max(worst, float((found - attention.plain(q, keys, values, places)).abs().max()))
    return {"max_difference": worst, "ok": worst <= FORWARD_ATOL[device.type]}


def check_isolation(engine: Engine, num_frames: int | None) -> dict[str, Any]:
    """The same request alone and among seven others with other settings."""
    text = SENTENCES[0]
    alone = engine.speak(text, seed=7, max_new_frames=num_frames).read()[0]
    others = [
        engine.speak(
            SENTENCES[place],
            seed=place,
            sampling=Sampling(temperature=1.0, top_k=9),
            max_new_frames=num_frames,
        )
        for place in range(1, 8)
    ]
    company = engine.speak(text, seed=7, max_new_frames=num_frames).read()[0]
    for other in others:
        other.read()
    return {"ok": bool(np.array_equal(alone, company))}


def time_steps(family: Zonos2Family, batches: Sequence[int], repeats: int) -> dict[str, Any]:
    """Milliseconds of one decode step with a graph and without, to logits and to drawn codes."""
    told: dict[str, Any] = {}
    is_equal = True
    prompt = family.plan(SENTENCES[0], SpeechRequest(SENTENCES[0], None)).main
    for batch in batches:
        codes = torch.randint(0, 1024, (batch, family.num_codebooks), device=family.device)
        logits: list[Tensor] = []
        row: dict[str, float] = {}
        drawn: list[Tensor] = []
        for name, uses_graph in (("graph", True), ("plain", False)):
            runner = Zonos2Runner(
                family.model, batch, family.device, compiles=False, uses_graph=uses_graph
            )
            vocabularies = family.num_codebooks, family.codebook_size, family.audio_vocab
            sampler = SlotSampler(batch, *vocabularies, family.device)
            for slot in range(batch):
                runner.prefill(slot, prompt)
                sampler.start(slot, resolve(SAMPLING, family.sampling_defaults), seed=slot)
            decode = partial(runner.decode, range(batch), codes)
            lanes = [Lanes((slot,), (), 0) for slot in range(batch)]
            draw = partial(runner.decode_and_draw, sampler, lanes, codes)
            logits.append(decode().clone())
            row[f"{name}_ms"] = _median_ms(decode, repeats, family.device)
            drawn.append(draw().clone())
            row[f"{name}_drawn_ms"] = _median_ms(draw, repeats, family.device)
        is_equal &= torch.equal(*logits) and torch.equal(*drawn)
        told[str(batch)] = row
    return {"ok": is_equal, "batches": told}


def time_codec(codec: DacCodec, num_frames: int) -> dict[str, float]:
    """Seconds of sound per second when every call is full of windows of ``num_frames`` new ones."""
    length = num_frames + codec.context_left + codec.context_right
    shape = codec.decode_rows, length, codec.num_codebooks
    codes = torch.randint(0, codec.codebook_size, shape, device=codec.device)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        codec.decode(codes)
        _wait(codec.device)
        times.append(time.perf_counter() - begin)
    new_s = codec.decode_rows * num_frames * codec.hop / codec.sample_rate_hz
    return {"new_frames": num_frames, "audio_s_per_s": round(new_s / min(times[1:]), 2)}


def _median_ms(work: Callable[[], Tensor], repeats: int, device: torch.device) -> float:
    times = []
    for _ in range(repeats):
        _wait(device)
        begin = time.perf_counter()
        work()
        _wait(device)
        times.append(time.perf_counter() - begin)
    return round(statistics.median(times) * 1e3, 3)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_size(size: str, device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """The table at one size: random weights, closed loops, each figure beside its floor."""
    is_gpu = device.type == "cuda"
    levels = (1, 8, 16, 64) if is_gpu else (1, 2)
    dtype = torch.bfloat16 if is_gpu else torch.float32
    family = random_family(size, device, dtype)
    codec = random_dac(CODEC_WIDTH if is_gpu else 32, device)
    read_bytes = 2_000_000_000 if is_gpu else 1 << 26
    rates = measure_rates(device, dtype, read_bytes)
    told: dict[str, Any] = {
        "size": size,
        "dtype": str(dtype).removeprefix("torch."),
        "rates": {name: round(value, 1) for name, value in asdict(rates).items()},
        "steps": time_steps(family, levels, 20 if is_gpu else 2),
        "codec": [time_codec(codec, frames) for frames in ((14, 86) if is_gpu else (4,))],
        "loads": [],
    }
    frames = options.frames or RANDOM_FRAMES
    with Engine(family, codec, None, {}, name=size, num_slots=max(levels)) as engine:
        shape = Shape.of(engine)
        speak = through_engine(engine, frames, SAMPLING)
        closed_loop(speak, 1, 1)
        for level in levels:
            load = closed_loop(speak, level, 2 if is_gpu else 1)
            add_floors(load, shape, rates)
            told["loads"].append(load)
    if is_gpu:
        told["peak_memory_gb"] = round(torch.cuda.max_memory_allocated(device) / 1e9, 2)
    return told


def main() -> int:
    """Run every check, print the report, exit 0 only when all are right."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--rounds", type=int, default=8, help="timed requests of the embedded voice"
    )
    parser.add_argument("--frames", type=int, help="of every request; whole sentences if left out")
    parser.add_argument("--size", choices=SIZES, help="release on a GPU, tiny on a CPU if left out")
    add_options(parser)
    options = parser.parse_args()
    load = loaded_reason()
    if is_refused(options, load):
        return 2
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    begin_s = time.perf_counter()
    report: dict[str, Any] = {"what": "bench.gpu_check", "device": device.type}
    checks: dict[str, Callable[[], dict[str, Any]]] = {
        "forward": lambda: check_forward(device),
        "sampler": lambda: check_sampler(device),
        "codec": lambda: check_codec(device),
        "kernels": lambda: check_kernels(device),
    }
    with torch.inference_mode():
        for name, check in checks.items():
            begin = time.perf_counter()
            report[name] = check() | {"seconds": round(time.perf_counter() - begin, 2)}
    with Engine.open(NANO, device=options.device) as engine:
        speak = through_engine(engine, options.frames)
        report["isolation"] = check_isolation(engine, options.frames)
        report["machine"] = describe(device)
        report["nano"] = [
            closed_loop(speak, 1, options.rounds),
            closed_loop(speak, 8, max(1, options.rounds // 4)),
        ]
    with torch.inference_mode():
        size = options.size or ("release" if device.type == "cuda" else "tiny")
        report["table"] = time_size(size, device, options)
    report["graphs"] = report["table"]["steps"]
    report["seconds"] = round(time.perf_counter() - begin_s, 1)
    keep(options, report, load)
    is_right = all(report[name]["ok"] for name in (*checks, "isolation", "graphs"))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
