"""What the hardware allows: bytes that have to be read and sums that have to be made.

- ``Rates`` are measured in the same run, with the engine's own threads.
- A decode step reads the spine once, every expert that some row chose, and the keys and values of
  its rows: spec/performance.md 3.3, for any checkpoint of that shape.
- A floor is max(bytes / bandwidth, sums / rate). Nothing can be faster; what is measured stands
  beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine import Engine
from engine.codec.base import Codec
from engine.outlet import FIRST_CHUNK_S
from engine.zonos2.config import Zonos2Config

READ_BYTES = 2_000_000_000
CODEC_FRAMES = 16


@dataclass(frozen=True)
class Rates:
    """What this device does with its present threads."""

    read_gb_per_s: float
    gflop_per_s: float  # float32 for the codec
    model_gflop_per_s: float  # in the weights' dtype


def measure_rates(device: torch.device, dtype: torch.dtype, size_bytes: int = READ_BYTES) -> Rates:
    """A streaming read of ``size_bytes`` and square products, the best of three each."""
    buffer = torch.ones(size_bytes // 8, dtype=torch.float64, device=device)
    read_s = _best_s(buffer.sum, device)
    return Rates(
        read_gb_per_s=size_bytes / read_s / 1e9,
        gflop_per_s=_product_gflops(device, torch.float32),
        model_gflop_per_s=_product_gflops(device, dtype),
    )


def _product_gflops(device: torch.device, dtype: torch.dtype) -> float:
    size = 768 if device.type == "cpu" else 8192
    square = torch.randn(size, size, device=device).to(dtype)
    return 2 * size**3 / _best_s(lambda: square @ square, device) / 1e9


def _best_s(work: Callable[[], object], device: torch.device) -> float:
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def step_bytes(config: Zonos2Config, batch: int, itemsize: int, context_rows: int) -> float:
    """What one decode step of ``batch`` rows has to read, with evenly chosen experts."""
    expert = 3 * config.dim * config.ffn_dim
    numbers = float(config.num_codebooks * config.audio_vocab * config.dim)
    for layer in range(config.n_layers):
        heads = 2 * config.n_heads + 2 * config.n_kv_heads
        numbers += config.dim * (heads * config.head_dim + config.n_heads)
        if not config.is_moe(layer):
            numbers += expert
            continue
        width, num_experts = config.moe_router_dim, config.moe_num_experts
        untouched = ((num_experts - config.moe_topk[layer]) / num_experts) ** batch
        numbers += num_experts * (1 - untouched) * expert
        numbers += config.dim * width + 2 * width**2 + width * num_experts
    kv = 2 * config.n_layers * config.n_kv_heads * config.head_dim * context_rows * batch
    return (numbers + kv) * itemsize


def step_flops(config: Zonos2Config, batch: int) -> float:
    """Sums of one decode step: two for every number that one row meets."""
    return 2 * batch * step_bytes(config, 1, 1, 0)


def codec_flops_per_frame(codec: Codec) -> float:
    """Sums per frame of a whole decode, without any context made twice.

    Products and convolutions only: two for every number of a weight and place it is used at.
    """
    total = 0.0

    def count(module: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        nonlocal total
        if isinstance(module, nn.Linear):
            places = made.numel() // made.shape[-1]
        else:
            places = (given[0] if isinstance(module, nn.ConvTranspose1d) else made).shape[-1]
        total += 2 * places * module.weight.numel()  # type: ignore[union-attr, operator]

    modules = codec.modules() if isinstance(codec, nn.Module) else ()
    kinds = (nn.Linear, nn.Conv1d, nn.ConvTranspose1d)
    hooks = [m.register_forward_hook(count) for m in modules if isinstance(m, kinds)]
    codes = torch.zeros(1, CODEC_FRAMES, codec.num_codebooks, dtype=torch.int64)
    with torch.no_grad():
        codec.decode(codes.to(codec.device))
    for hook in hooks:
        hook.remove()
    return total / CODEC_FRAMES


@dataclass(frozen=True)
class Shape:
    """What a floor needs to know of an open checkpoint, which may be closed again."""

    config: Zonos2Config
    itemsize: int  # bytes of one weight
    num_numbers: int
    frame_s: float
    context_right: int
    codec_flops: float  # per frame

    @classmethod
    def of(cls, engine: Engine) -> Shape | None:
        """The shape of ``engine``'s checkpoint; None for families that have no floor yet."""
        config, codec = getattr(engine.family, "config", None), engine.codec
        if not isinstance(config, Zonos2Config):
            return None
        return cls(
            config,
            engine.family.dtype.itemsize,
            engine.family.num_numbers,
            codec.hop / codec.sample_rate_hz,
            codec.context_right,
            codec_flops_per_frame(codec),
        )

    def floors(self, rates: Rates, concurrency: int, context_rows: int) -> dict[str, float]:
        """Least rtf and ttfa, and most audio seconds per second, of so many streams at once."""
        config = self.config
        size_bytes = step_bytes(config, concurrency, self.itemsize, context_rows)
        read_s = size_bytes / rates.read_gb_per_s / 1e9
        step_s = max(read_s, step_flops(config, concurrency) / rates.model_gflop_per_s / 1e9)
        codec_s = self.codec_flops / rates.gflop_per_s / 1e9
        prefill_s = max(
            self.num_numbers * self.itemsize / rates.read_gb_per_s / 1e9,
            step_flops(config, context_rows // 2) / rates.model_gflop_per_s / 1e9,
        )
        first_frames = max(1, round(FIRST_CHUNK_S / self.frame_s))
        num_steps = config.num_codebooks - 1 + first_frames + self.context_right
        first_s = num_steps * step_s + (first_frames + self.context_right) * codec_s
        whole_s = step_s + concurrency * codec_s
        return {
            "step_mb": round(size_bytes / 1e6, 1),
            "step_ms": round(step_s * 1e3, 3),
            "rtf": round(whole_s / self.frame_s, 4),
            "audio_s_per_s": round(concurrency * self.frame_s / whole_s, 2),
            "ttfa_ms": round((concurrency * prefill_s + first_s) * 1e3, 1),
        }
