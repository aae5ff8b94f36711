"""The release at full size with random weights: ``python -m bench.full --folder DIR``.

Makes 15.3 GB of random bfloat16 weights in DIR unless they are there, opens them as any checkpoint
is opened, and speaks some frames through a DAC of full width. Says memory and time per frame beside
the time that a single read of the touched weights takes here.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bench.machine import describe, loaded_reason
from bench.speed import RESULTS
from engine import Engine, Sampling
from engine.codec.dac import DacCodec
from engine.codec.dac_files import DacConfig
from engine.weights import shapes_of
from engine.zonos2.checkpoint import empty_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.family import Zonos2Family

# spec/zonos2.md 1.2 and 8.1; controls add no tensors and are left out.
PARAMS: dict[str, Any] = {
    "model_type": "zonos2",
    "dtype": "bfloat16",
    "n_layers": 28,
    "dim": 2048,
    "head_dim": 128,
    "n_kv_heads": 4,
    "ffn_dim_multiplier": 1.5,
    "multiple_of": 256,
    "norm_eps": 1e-5,
    "rope_theta": 10000,
    "max_seqlen": 6144,
    "n_codebooks": 9,
    "codebook_size": 1024,
    "eoa_id": 1024,
    "audio_pad_id": 1025,
    "text_vocab": 519,
    "loss_softcap": 15.0,
    "speaker_enabled": True,
    "speaker_embedding_dim": 2048,
    "speaker_lda_dim": 1024,
    "moe_n_experts": 16,
    "moe_router_topk": 1,
    "moe_start_from_layer": 3,
    "moe_end_from_layer": 1,
    "moe_router_dim": 128,
    "special_topk_layers": {"26": 2},
}
CODEC = DacConfig(
    sample_rate_hz=44_100,
    num_codebooks=9,
    codebook_size=1024,
    codebook_dim=8,
    latent_dim=1024,
    width=1536,
    strides=(8, 8, 4, 2),
)
SHARD_BYTES = 1 << 30
NOISE_NUMBERS = 1 << 24  # random numbers drawn once and laid over every tensor
TEXT = "The morning train was late again."


def make_checkpoint(folder: Path) -> None:
    """Write random weights of the release's names and shapes as safetensors shards."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = shapes_of(empty_backbone(Zonos2Config.from_dict(PARAMS)))
    noise = torch.randn(NOISE_NUMBERS, generator=torch.Generator().manual_seed(0)).bfloat16()
    shard: dict[str, Tensor] = {}
    where: dict[str, str] = {}

    def flush() -> None:
        name = f"model-{len(set(where.values())) + 1:05}.safetensors"
        save_file(shard, folder / name)
        where.update(dict.fromkeys(shard, name))
        shard.clear()

    for name, shape in shapes.items():
        shard[name] = _random(name, torch.Size(shape), noise)
        if sum(tensor.nbytes for tensor in shard.values()) > SHARD_BYTES:
            flush()
    flush()
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "params.json").write_text(json.dumps(PARAMS))


def _random(name: str, shape: torch.Size, noise: Tensor) -> Tensor:
    count = shape.numel()
    start = hash_of(name) % (len(noise) // 2)
    repeats = -(-count // (len(noise) // 2))
    drawn = noise[start : start + len(noise) // 2].repeat(repeats)[:count].view(shape)
    if "norm" in name or name.endswith("temp"):
        return (1 + 0.1 * drawn).contiguous()
    return (drawn * shape[-1] ** -0.5).contiguous()


def hash_of(name: str) -> int:
    """A number that is the same in every process."""
    return sum((index + 1) * byte * 7919 for index, byte in enumerate(name.encode()))


def random_codec() -> DacCodec:
    """A DAC of the release's size with small random weights."""
    generator = torch.Generator().manual_seed(1)
    codec = DacCodec(CODEC).requires_grad_(False).eval()
    for name, parameter in codec.named_parameters():
        if name.endswith("alpha"):
            parameter.fill_(1.0)
        else:
            parameter.normal_(0.0, 0.02, generator=generator)
    return codec


def read_gb_per_s() -> float:
    """How fast memory is read here with the engine's threads: a buffer of 2 GB, summed."""
    buffer = torch.ones(1 << 28, dtype=torch.float64)
    buffer.sum()
    begin = time.perf_counter()
    buffer.sum()
    return buffer.nbytes / (time.perf_counter() - begin) / 1e9


def measure(folder: Path, num_frames: int) -> dict[str, Any]:
    """Open the checkpoint, speak ``num_frames`` rows, say memory and times."""
    device = torch.device("cpu")
    rate = read_gb_per_s()
    begin = time.perf_counter()
    Zonos2Family.check(folder, device, None, 1)
    family = Zonos2Family.open(folder, device, None)
    open_s = time.perf_counter() - begin
    with Engine(
        family, random_codec(), None, {}, name="release size, random", num_slots=1
    ) as engine:
        stream = engine.speak(
            TEXT, sampling=Sampling(temperature=1.0), seed=1, max_new_frames=num_frames
        )
        samples, sample_rate_hz = stream.read()
        timings = stream.timings
    assert timings.admitted_s is not None and timings.finished_s is not None
    return {
        "what": "bench.full",
        "dtype": str(family.dtype).removeprefix("torch."),
        "machine": describe(device),
        "open_s": round(open_s, 1),
        "rows": num_frames,
        "audio_s": round(len(samples) / sample_rate_hz, 3),
        "first_chunk_s": round((timings.ttfa_ms or 0.0) / 1e3, 2),
        "seconds_per_row": round((timings.finished_s - timings.admitted_s) / num_frames, 3),
        "memory_read_gb_per_s": round(rate, 1),
        "floor_seconds_per_row": round(868e6 * family.dtype.itemsize / rate / 1e9, 3),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def main() -> int:
    """Parse the command line, make what is missing, measure, print and perhaps write."""
    parser = argparse.ArgumentParser(prog="python -m bench.full", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the 15.3 GB lie or go")
    parser.add_argument("--rows", type=int, default=28, help="rows to draw; 8 fewer are heard")
    parser.add_argument("--write", metavar="NAME", help="write results/NAME.json")
    options = parser.parse_args()
    if options.write and (reason := loaded_reason()):
        print(f"bench: {reason}.", file=sys.stderr)
        return 2
    if not (options.folder / "params.json").exists():
        make_checkpoint(options.folder)
    text = json.dumps(measure(options.folder, options.rows), indent=1)
    print(text)
    if options.write:
        (RESULTS / f"{options.write}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
