"""Experts in one byte a number: int8 or float8 beside a scale per output row, the spine untouched.

The largest number of each row becomes the type's largest, so an int8 number is off by at most 1/254
of it. Experts are 94 % of the release; what the spine routes and attends by keeps its precision.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The largest number that each type holds.
NARROW_MAX = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
NARROW_TENSORS = {".experts.w13": "scale13", ".experts.w2": "scale2"}  # name's end -> its scale


def narrowed(matrix: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A matrix [..., in] in ``dtype``, and its scales [...] float32."""
    wide = matrix.float()
    scale = wide.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / NARROW_MAX[dtype]
    wide = wide / scale
    return (wide.round() if dtype is torch.int8 else wide).to(dtype), scale[..., 0]


def scale_name(name: str) -> str | None:
    """The name of the scale that belongs to the tensor ``name``, or None for the spine's."""
    for end, scale in NARROW_TENSORS.items():
        if name.endswith(end):
            return name.rpartition(".")[0] + "." + scale
    return None
