"""Attention of one new row per slot over exactly the rows that its slot has written.

- The past is cut into stretches of a fixed number of rows. Each is summed by a program of its own
  and they are joined in order, so a slot's result does not depend on how long the others are.
- Stretches beyond a slot's last row end at once: only rows in use are read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

STRETCH_ROWS = 64


def attend_step(q: Tensor, keys: Tensor, values: Tensor, places: Tensor) -> Tensor:
    """q [S, KV, G, hd], keys and values [S, KV, R, hd], places [S] of the new rows -> as q.

    The new rows' own keys and values are already written at ``places``.
    """
    run = launch if q.is_cuda else plain
    return run(q, keys, values, places)


def plain(q: Tensor, keys: Tensor, values: Tensor, places: Tensor) -> Tensor:
    """The twin: one call per slot."""
    out = torch.empty_like(q)
    for slot, place in enumerate(places.tolist()):
        past = slice(slot, slot + 1), slice(None), slice(place + 1)
        out[slot] = F.scaled_dot_product_attention(q[slot : slot + 1], keys[past], values[past])[0]
    return out


def launch(q: Tensor, keys: Tensor, values: Tensor, places: Tensor) -> Tensor:
    """The kernels themselves; every shape is fixed by the slots, so a CUDA graph can hold them."""
    import triton

    part, join = _kernels()
    num_slots, num_kv, group, head_dim = q.shape
    num_rows = keys.shape[2]
    num_parts = triton.cdiv(num_rows, STRETCH_ROWS)
    sums = q.new_empty(num_slots, num_kv, num_parts, group, head_dim, dtype=torch.float32)
    # Of each stretch: the largest score, and the sum of exponentials below it.
    heights = q.new_empty(num_slots, num_kv, num_parts, group, 2, dtype=torch.float32)
    out = torch.empty_like(q)
    sizes = {"GROUP": group, "HEAD_DIM": head_dim, "STRETCH_ROWS": STRETCH_ROWS}
    part[(num_slots, num_kv, num_parts)](
        q.contiguous(), keys, values, places, sums, heights, keys.stride(0), keys.stride(1),
        keys.stride(2), num_kv, num_parts, head_dim**-0.5, **sizes,
    )  # fmt: skip
    join[(num_slots, num_kv)](sums, heights, places, out, num_kv, num_parts, **sizes)
    return out


@lru_cache(maxsize=1)
def _kernels() -> tuple[Any, Any]:
    from engine.kernels import attention_triton

    return attention_triton.part, attention_triton.join
