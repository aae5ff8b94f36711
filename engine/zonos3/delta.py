"""The gated delta rule: a layer that remembers in one matrix per head instead of all past rows.

- ``recurrent`` takes row after row, ``chunked`` whole stretches by triangular solves; both compute
  the same numbers from the same state, in float32.
- What a sequence carries on is the matrix and the last inputs of a short convolution. It can be
  copied, never rewound.
- Source: spec/zonos3.md 4.1 (arXiv 2412.06464).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.zonos3.config import Zonos3Config

CHUNK_ROWS = 64
KEY_NORM_EPS = 1e-6


def recurrent(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Row after row: q, k [B, H, T, K], v [B, H, T, V], ``decay`` (log, at most 0) and ``beta``
    [B, H, T], ``state`` [B, H, K, V] -> outputs [B, H, T, V] and the state after them.

    Sums stay inside a row of B: it is bit-equal whatever its neighbours are.
    """
    outputs = []
    for t in range(q.shape[2]):
        key, query = k[:, :, t, :, None], q[:, :, t, :, None]  # [B, H, K, 1]
        state = state * decay[:, :, t, None, None].exp()
        known = (state * key).sum(-2)  # [B, H, V]
        update = beta[:, :, t, None] * (v[:, :, t] - known)
        state = state + key * update[:, :, None]
        outputs.append((state * query).sum(-2))
    return torch.stack(outputs, dim=2), state


def chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
    chunk_rows: int = CHUNK_ROWS,
) -> tuple[Tensor, Tensor]:
    """The same as ``recurrent``, ``chunk_rows`` rows at once."""
    outputs = []
    stretches = (part.split(chunk_rows, dim=2) for part in (q, k, v, decay, beta))
    for query, key, value, log_decay, strength in zip(*stretches, strict=True):
        total = log_decay.cumsum(-1)  # G [B, H, n]
        num_rows = total.shape[-1]
        later = torch.ones(num_rows, num_rows, dtype=torch.bool, device=q.device).triu(1)
        # Masked before exp: above the diagonal it would overflow.
        fading = (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
        grown = total.exp()[..., None]  # e^G [B, H, n, 1]
        scale = strength[..., None]
        mixing = ((scale * (key @ key.mT)) * fading).tril(-1)
        identity = torch.eye(num_rows, dtype=q.dtype, device=q.device)
        sides = torch.cat([scale * value, scale * grown * key], dim=-1)
        solved = torch.linalg.solve_triangular(
            identity + mixing, sides, upper=False, unitriangular=True
        )
        own, read = solved.split([value.shape[-1], key.shape[-1]], dim=-1)  # U, W
        rest = own - read @ state  # R [B, H, n, V]
        outputs.append(grown * (query @ state) + ((query @ key.mT) * fading) @ rest)
        left = (total[..., -1:] - total).exp()[..., None]
        state = grown[..., -1:, :] * state + (left * key).mT @ rest
    return torch.cat(outputs, dim=2), state


class DeltaMixer(nn.Module):
    """Projections, short causal convolution, delta rule, gated norm per head."""

    def __init__(self, config: Zonos3Config) -> None:
        super().__init__()
        heads, value_dim = config.delta_value_heads, config.delta_value_dim
        self.key_heads, self.key_dim = config.delta_key_heads, config.delta_key_dim
        self.value_heads, self.value_dim = heads, value_dim
        self.beta_max = config.delta_beta_max
        self.qkv = nn.Linear(config.dim, config.delta_channels, bias=False)
        self.conv = nn.Parameter(torch.empty(config.delta_channels, config.delta_conv_kernel))
        self.gate = nn.Linear(config.dim, heads * value_dim, bias=False)
        self.decay = nn.Linear(config.dim, heads, bias=False)
        self.beta = nn.Linear(config.dim, heads, bias=False)
        self.decay_log = nn.Parameter(torch.empty(heads))
        self.decay_bias = nn.Parameter(torch.empty(heads))
        self.norm = nn.RMSNorm(value_dim, eps=config.norm_eps)
        self.out = nn.Linear(heads * value_dim, config.dim, bias=False)

    def forward(self, x: Tensor, matrix: Tensor, tail: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, dim], matrix [B, H, K, V] float32, tail [B, kernel - 1, channels] (inputs of the
        convolution before x) -> [B, T, dim] and what the next call is to be given.
        """
        mixed, tail = self._convolve(self.qkv(x), tail)
        keys = self.key_heads * self.key_dim
        q, k, v = mixed.float().split([keys, keys, self.value_heads * self.value_dim], dim=-1)
        q, k = (self._key_like(part) for part in (q, k))
        v = v.unflatten(-1, (self.value_heads, self.value_dim)).transpose(1, 2)
        beta = self.beta_max * torch.sigmoid(self.beta(x).float()).mT  # [B, H, T]
        step = F.softplus(self.decay(x).float() + self.decay_bias.float())
        decay = (-self.decay_log.float().exp() * step).mT
        rule = recurrent if x.shape[1] == 1 else chunked
        heard, matrix = rule(q * self.key_dim**-0.5, k, v, decay, beta, matrix)
        gate = self.gate(x).unflatten(-1, (self.value_heads, self.value_dim))
        normed = self.norm(heard.transpose(1, 2).to(x.dtype)) * F.silu(gate)  # [B, T, H, V]
        return self.out(normed.flatten(-2)), matrix, tail

    def _key_like(self, x: Tensor) -> Tensor:
        """[B, T, heads * K] -> unit vectors [B, H, T, K], each repeated for its value heads."""
        heads = x.unflatten(-1, (self.key_heads, self.key_dim)).transpose(1, 2)
        unit = heads * torch.rsqrt(heads.square().sum(-1, keepdim=True) + KEY_NORM_EPS)
        return unit.repeat_interleave(self.value_heads // self.key_heads, dim=1)

    def _convolve(self, x: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        inputs = torch.cat([tail, x], dim=1)
        windows = inputs.unfold(1, self.conv.shape[1], 1)  # [B, T, channels, kernel]
        return F.silu((windows * self.conv).sum(-1)), inputs[:, x.shape[1] :]
