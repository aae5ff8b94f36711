"""Is this device right, and how fast: ``python -m bench.gpu_check [--device cuda|cpu]``.

- Runs without network and with torch, numpy and safetensors alone.
- Compares forward pass, sampler and codec streaming with the golden data in tests/golden, checks
  that a request is the same alone and in company, and times the embedded voice.
- Prints one JSON object and exits 1 when a check failed; on a CPU the same code is a dry run.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.loads import SENTENCES, closed_loop, through_engine
from bench.machine import describe
from engine import Engine, Sampling
from engine.codec.base import open_codec
from engine.codec.streaming import CodecStream, decode_windows
from engine.family import Prompt
from engine.sampling.sampler import History, SamplingRows, probabilities
from engine.sampling.settings import OPEN_TOP_K, ResolvedSampling
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.family import Zonos2Runner

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
    codes = torch.randint(0, codec.codebook_size, (120, codec.num_codebooks), generator=generator)
    whole = codec.decode(codes[None].to(device))[0].cpu()
    rms = float(whole.square().mean().sqrt())
    worst = 0.0
    for size in (1, 7, 24, 32):
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


def check_isolation(engine: Engine) -> dict[str, Any]:
    """The same request alone and among seven others with other settings."""
    text = SENTENCES[0]
    alone = engine.speak(text, seed=7).read()[0]
    others = [
        engine.speak(SENTENCES[place], seed=place, sampling=Sampling(temperature=1.0, top_k=9))
        for place in range(1, 8)
    ]
    company = engine.speak(text, seed=7).read()[0]
    for other in others:
        other.read()
    return {"ok": bool(np.array_equal(alone, company))}


def main() -> int:
    """Run every check, print the report, exit 0 only when all are right."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=8, help="timed requests")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    report: dict[str, Any] = {"what": "bench.gpu_check", "device": device.type}
    checks: dict[str, Callable[[], dict[str, Any]]] = {
        "forward": lambda: check_forward(device),
        "sampler": lambda: check_sampler(device),
        "codec": lambda: check_codec(device),
    }
    with torch.inference_mode():
        for name, check in checks.items():
            begin = time.perf_counter()
            report[name] = check() | {"seconds": round(time.perf_counter() - begin, 2)}
    with Engine.open(NANO, device=options.device) as engine:
        report["isolation"] = check_isolation(engine)
        report["machine"] = describe(device)
        report["alone"] = closed_loop(through_engine(engine), 1, options.rounds)
        report["eight"] = closed_loop(through_engine(engine), 8, max(1, options.rounds // 4))
    print(json.dumps(report, indent=1))
    is_right = all(report[name]["ok"] for name in (*checks, "isolation"))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
