"""Attention of ZONOS2 and the slots that hold its keys and values.

- ``SlotKv`` keeps keys and values of S sequences in fixed slots behind three calls: ``prefill``,
  ``decode`` and nothing else; a slot is reused by overwriting it.
- A decode step reads each slot's keys by itself and exactly as far as they are written, so a
  slot's result cannot depend on its neighbours.
- Source: spec/zonos2.md section 2.4.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.kernels.attention import attend_step
from engine.zonos2.config import Zonos2Config
from engine.zonos2.moe import StackedLinear

# (layer, q [B, H, T, hd], k [B, KV, T, hd], v [B, KV, T, hd]) -> [B, H, T, hd]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

QK_NORM_EPS = 1e-6


def rope_table(config: Zonos2Config, num_rows: int, device: torch.device | str) -> Tensor:
    """Angles of every position: cos and sin [num_rows, 2, head_dim / 2] float32."""
    half = torch.arange(0, config.head_dim, 2, device=device, dtype=torch.float32)
    frequency = 1.0 / config.rope_theta ** (half / config.head_dim)  # in the reference's order
    angle = torch.arange(num_rows, device=device, dtype=torch.float32)[:, None] * frequency
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn adjacent pairs of x [B, T, H, hd] by table [B, T, 2, hd / 2], in float32."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)  # [B, T, H, hd / 2]
    cos, sin = table.unsqueeze(-3).unbind(-2)  # [B, T, 1, hd / 2]
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with normalised, tempered queries and one gate per head."""

    def __init__(self, config: Zonos2Config) -> None:
        super().__init__()
        heads, kv_heads, head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.head_dim = head_dim
        self.wq = nn.Linear(config.dim, heads * head_dim, bias=False)
        self.wkv = StackedLinear(kv_heads * head_dim, config.dim)
        self.wo = nn.Linear(heads * head_dim, config.dim, bias=False)
        self.temp = nn.Parameter(torch.empty(1, heads, 1))
        self.gater = nn.Linear(config.dim, heads, bias=False)

    def forward(self, x: Tensor, table: Tensor, layer: int, attend: Attend) -> Tensor:
        """x [B, T, dim], table [B, T, 2, hd / 2] -> [B, T, dim]."""
        split = (-1, self.head_dim)
        heads = self.temp.shape[1]
        q, (k, v) = self.wq(x), self.wkv(x)
        turned = torch.cat([q, k], dim=-1).unflatten(-1, split)  # [B, T, H + KV, hd]
        turned = F.rms_norm(turned, split[1:], eps=QK_NORM_EPS)
        temper = F.pad(self.temp.abs(), (0, 0, 0, turned.shape[-2] - heads), value=1.0)
        q, k = rotate(turned * temper, table).tensor_split([heads], dim=-2)
        v = v.unflatten(-1, split)  # [B, T, KV, hd]
        out = attend(layer, q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        out = out.transpose(1, 2) * torch.sigmoid(self.gater(x))[..., None]
        mixed: Tensor = self.wo(out.flatten(-2))
        return mixed


def causal_attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention inside one call, without stored keys: whole prompts, tests and training."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


class SlotKv:
    """Keys and values of ``num_slots`` sequences of up to ``max_rows`` rows each."""

    def __init__(
        self,
        config: Zonos2Config,
        num_slots: int,
        max_rows: int,
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> None:
        shape = (config.n_layers, num_slots, config.n_kv_heads, max_rows, config.head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)

    def prefill(self, slot: int) -> Attend:
        """Attention over one prompt [1, ., T, .] that stores its keys and values in ``slot``."""

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.keys[layer, slot, :, : k.shape[2]] = k[0]
            self.values[layer, slot, :, : v.shape[2]] = v[0]
            return causal_attend(layer, q, k, v)

        return attend

    def decode(self, places: Tensor) -> Attend:
        """Attention of one new row per slot [S, ., 1, .], stored at ``places`` [S].

        A slot that does not live writes to a place that its next row will write again.
        """
        slots = torch.arange(len(places), device=places.device)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.keys[layer], self.values[layer]  # [S, KV, R, hd]
            keys[slots, :, places] = k[:, :, 0]
            values[slots, :, places] = v[:, :, 0]
            # The heads of a group ask the same keys.
            grouped = q[:, :, 0].unflatten(1, (keys.shape[1], -1))  # [S, KV, G, hd]
            return attend_step(grouped, keys, values, places).flatten(1, 2)[:, :, None]

        return attend
