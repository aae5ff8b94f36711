"""Feed-forward blocks of ZONOS2: one dense block, or experts behind a router.

- Names and layouts are the checkpoint's own (spec/zonos2.md 1.3), so a state dict loads unchanged.
- The router's state travels across layers for the same row, never across time.
- A row's result does not depend on its neighbours: in a decode step ``engine.kernels.experts``
  gives each expert its rows in tiles of one shape.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.kernels.experts import mix_experts
from engine.zonos2.config import Zonos2Config

Trace = Callable[[str, int, Tensor], None]


class StackedLinear(nn.Module):
    """Two matrices stored as one tensor [2, out, in]; ``forward`` returns both products."""

    def __init__(self, out_dim: int, in_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, out_dim, in_dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = F.linear(x, self.weight.flatten(0, 1)).chunk(2, dim=-1)
        return first, second


class DenseFeedForward(nn.Module):
    """``w_out(up * silu(gate))``; index 0 of ``w_in`` is up, 1 is gate."""

    def __init__(self, config: Zonos2Config) -> None:
        super().__init__()
        self.w_in = StackedLinear(config.ffn_dim, config.dim)
        self.w_out = nn.Linear(config.ffn_dim, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        up, gate = self.w_in(x)
        out: Tensor = self.w_out(up * F.silu(gate))
        return out


class Router(nn.Module):
    """Scores experts for each row and hands its state to the next layer's router."""

    balancing_biases: Tensor

    def __init__(self, config: Zonos2Config, layer: int) -> None:
        super().__init__()
        width, experts = config.moe_router_dim, config.moe_num_experts
        self.topk, self.bias_sign = config.moe_topk[layer], config.moe_bias_sign
        self.down_proj = nn.Linear(config.dim, width)
        self.router_mlp = nn.Sequential(
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, experts, bias=False),
        )
        self.rmsnorm_eda = nn.RMSNorm(width, eps=config.norm_eps)
        self.register_buffer("balancing_biases", torch.empty(experts))
        self.router_states_scale = (
            nn.Parameter(torch.empty(width)) if layer != config.moe_first_layer else None
        )

    def forward(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows x [N, dim] -> probabilities [N, E], chosen [N, k], weights [N, k], state [N, r].

        Weights are the unbiased probabilities, not renormalised; the bias only chooses.
        """
        hidden = self.down_proj(x)
        if self.router_states_scale is not None and state is not None:
            hidden = hidden + state * self.router_states_scale
        scores = self.router_mlp(self.rmsnorm_eda(hidden))
        probabilities = scores.float().softmax(dim=-1)
        ranking = probabilities + self.bias_sign * self.balancing_biases.float()
        chosen = ranking.topk(self.topk, dim=-1).indices
        return probabilities, chosen, probabilities.gather(-1, chosen), hidden


class Experts(nn.Module):
    """All experts of one layer; rows of ``w13`` alternate gate (even) and up (odd).

    Narrow weights (int8, float8) have a scale per output row beside them: see ``narrow``.
    """

    scale13: Tensor | None  # [E, 2 * ffn] float32
    scale2: Tensor | None  # [E, dim] float32

    def __init__(self, config: Zonos2Config) -> None:
        super().__init__()
        experts, ffn_dim, dim = config.moe_num_experts, config.ffn_dim, config.dim
        self.w13 = nn.Parameter(torch.empty(experts, 2 * ffn_dim, dim))
        self.w2 = nn.Parameter(torch.empty(experts, dim, ffn_dim))
        self.register_buffer("scale13", None, persistent=False)
        self.register_buffer("scale2", None, persistent=False)

    @property
    def scales(self) -> tuple[Tensor, Tensor] | None:
        """The scales of narrow weights, else None."""
        return None if self.scale13 is None or self.scale2 is None else (self.scale13, self.scale2)

    def weights_of(self, expert: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """One expert's two matrices in ``dtype``."""
        into, out_of = self.w13[expert], self.w2[expert]
        if self.scale13 is None or self.scale2 is None:
            return into, out_of
        return (
            (into.float() * self.scale13[expert, :, None]).to(dtype),
            (out_of.float() * self.scale2[expert, :, None]).to(dtype),
        )

    def one(self, expert: int, x: Tensor) -> Tensor:
        """Rows x [n, dim] through one expert -> [n, dim]."""
        into, out_of = self.weights_of(expert, x.dtype)
        hidden = F.linear(x, into).unflatten(-1, (-1, 2))  # [n, ffn, 2]
        return F.linear(F.silu(hidden[..., 0]) * hidden[..., 1], out_of)


class MoeFeedForward(nn.Module):
    """Router and experts; returns the mixed rows and the router's state."""

    def __init__(self, config: Zonos2Config, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.router = Router(config, layer)
        self.experts = Experts(config)

    def forward(
        self,
        x: Tensor,
        state: Tensor | None,
        *,
        is_step: bool = False,
        trace: Trace | None = None,
    ) -> tuple[Tensor, Tensor]:
        """x [..., dim] and the last router's state [..., r] -> the mixed rows and the new state.

        ``is_step`` marks a decode step: one row of every slot, in products of one fixed shape.
        """
        rows = x.flatten(0, -2)  # [N, dim]
        probabilities, chosen, weights, new_state = self.router(
            rows, None if state is None else state.flatten(0, -2)
        )
        if trace is not None:
            trace("expert_prob", self.layer, probabilities)
            trace("topk_ids", self.layer, chosen)
            trace("topk_weights", self.layer, weights)
            trace("router_state", self.layer, new_state)
        weights = weights.to(rows.dtype)
        # On a GPU whole prompts go this way too, without asking the host; gradients do not.
        if is_step or (rows.is_cuda and not rows.requires_grad):
            matrices = self.experts.w13, self.experts.w2, self.experts.scales
            out = mix_experts(rows, chosen, weights, *matrices)
        else:
            out = self._mix_grouped(rows, chosen, weights)
        return out.view_as(x), new_state.view(*x.shape[:-1], -1)

    def _mix_grouped(self, rows: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Each expert sees only its own rows: for whole prompts and for training."""
        out = torch.zeros_like(rows)
        for expert in range(self.experts.w13.shape[0]):
            row_index, rank = (chosen == expert).nonzero(as_tuple=True)
            if len(row_index):
                part = self.experts.one(expert, rows[row_index]) * weights[row_index, rank, None]
                out = out.index_add(0, row_index, part)
        return out
