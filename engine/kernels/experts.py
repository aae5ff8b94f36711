"""Rows through the experts they chose, in one call without asking the host.

- Pairs of row and expert are sorted by expert on the device; a program takes a fixed tile of one
  expert's pairs and a block of columns, so an expert is read once per tile and only if some row
  chose it, and a row's result does not depend on who shares its tile.
- Weights may be int8 or float8 beside a scale per output row: they are widened tile by tile.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def mix_experts(
    rows: Tensor,
    chosen: Tensor,
    weights: Tensor,
    w13: Tensor,
    w2: Tensor,
    scales: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The weighted sum of what each row's experts give: rows [N, dim] -> [N, dim].

    ``chosen`` and ``weights`` [N, k]; ``w13`` [E, 2 * ffn, dim], gate (even) and up (odd) in turn;
    ``w2`` [E, dim, ffn]; ``scales`` [E, 2 * ffn] and [E, dim] float32 of narrow weights.
    """
    if rows.is_cuda:
        return launch(rows, chosen, weights, w13, w2, scales)
    return plain(rows, chosen, weights, w13, w2, scales)


def plain(
    rows: Tensor,
    chosen: Tensor,
    weights: Tensor,
    w13: Tensor,
    w2: Tensor,
    scales: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The twin: every expert that was chosen computes all rows, and adds zero to the others."""
    gates = weights.new_zeros(len(rows), len(w2)).scatter(1, chosen, weights)  # [N, E]
    out = torch.zeros_like(rows)
    for expert in chosen.unique().tolist():
        into, out_of = w13[expert], w2[expert]
        if scales is not None:
            into = (into.float() * scales[0][expert, :, None]).to(rows.dtype)
            out_of = (out_of.float() * scales[1][expert, :, None]).to(rows.dtype)
        gate, up = F.linear(rows, into).unflatten(-1, (-1, 2)).unbind(-1)  # [N, ffn]
        out = out + F.linear(F.silu(gate) * up, out_of) * gates[:, [expert]]
    return out


def launch(
    rows: Tensor,
    chosen: Tensor,
    weights: Tensor,
    w13: Tensor,
    w2: Tensor,
    scales: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The kernels themselves; every shape is fixed by N, so a CUDA graph can hold them."""
    import triton

    into, out_of = _kernels()
    (num_rows, topk), (num_experts, ffn_dim, dim) = (
        chosen.shape,
        (len(w2), w2.shape[2], w2.shape[1]),
    )
    flat = chosen.flatten()
    order = flat.argsort(stable=True)  # pairs by expert
    counts = (flat[:, None] == torch.arange(num_experts, device=flat.device)).sum(0)
    begins = F.pad(counts.cumsum(0), (1, 0))  # [E + 1]
    tile_rows, columns, depth = 16, 64, 64
    tiles = triton.cdiv(num_rows, tile_rows)
    hidden = rows.new_empty(num_rows * topk, ffn_dim)
    out = rows.new_empty(num_rows * topk, dim)
    scale13, scale2 = scales if scales is not None else (begins, begins)
    shape = {
        "TILES": tiles,
        "TILE_ROWS": tile_rows,
        "COLUMNS": columns,
        "DEPTH": depth,
        "IS_SCALED": scales is not None,
    }
    grid = num_experts * tiles, triton.cdiv(ffn_dim, columns)
    into[grid](rows, w13, scale13, order, begins, hidden, dim, ffn_dim, TOPK=topk, **shape)
    grid = num_experts * tiles, triton.cdiv(dim, columns)
    out_of[grid](hidden, w2, scale2, order, begins, weights.float(), out, dim, ffn_dim, **shape)
    return out.view(num_rows, topk, dim).sum(1)


@lru_cache(maxsize=1)
def _kernels() -> tuple[Any, Any]:
    from engine.kernels import experts_triton

    return experts_triton.into, experts_triton.out_of
