"""What a ZONOS2-shaped checkpoint takes in memory, known from what it declares alone."""

from __future__ import annotations

import torch

from engine.memory import Footprint
from engine.weights import shapes_of
from engine.zonos2.checkpoint import empty_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.narrow import scale_name


def footprint(
    config: Zonos2Config, dtype: torch.dtype, experts_dtype: torch.dtype | None = None
) -> Footprint:
    """Weights, one slot's keys and values, and the work of the longest prefill, in ``dtype``.

    Experts are in ``experts_dtype`` if that is given, beside a float32 scale per row. However small
    a GGUF file is, its weights are these: they are computed with in ``dtype``. While it loads, one
    matrix of it is in float32 beside them, which is less than the work.

    The work is measured: 43.2 kB a row at dim 512 and ffn 768 in float32 on a CPU (31.7 kB in
    bfloat16, which still rotates and normalises in float32); the codec's windows are not in it.
    """
    weights = 0
    for name, shape in shapes_of(empty_backbone(config)).items():
        count = torch.Size(shape).numel()
        if experts_dtype is None or scale_name(name) is None:
            weights += count * dtype.itemsize
        else:
            weights += count * experts_dtype.itemsize + count // shape[-1] * 4
    row_numbers = 2 * config.n_layers * config.n_kv_heads * config.head_dim  # keys and values
    return Footprint(
        weights=weights,
        slot=config.max_rows * row_numbers * dtype.itemsize,
        working=config.max_rows * (12 * config.dim + 6 * config.ffn_dim) * 4,
    )
