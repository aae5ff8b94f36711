"""The ZONOS3 decoder: rows in, logits of every codebook out.

- Each sub-layer (mixer, then feed-forward) reads a learned mean of everything before it: the
  embedding and the outputs of all earlier sub-layers (attention residuals, the full variant).
- Attention layers, the router and the embedding are ZONOS2's own modules.
- Names of tensors are this studio's; widths and layers come from the configuration.
- Source: spec/zonos3.md 4.2 to 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.kernels.experts import mix_experts
from engine.zonos2.attention import Attention, rope_table
from engine.zonos2.backbone import MultiEmbedder
from engine.zonos2.moe import DenseFeedForward, Experts, MoeFeedForward, Trace
from engine.zonos3.config import Zonos3Config, like_zonos2
from engine.zonos3.delta import DeltaMixer
from engine.zonos3.state import Memory


class DepthAttention(nn.Module):
    """A mean over the sources so far, weighted for each row by one learned query.

    A query of zeros gives the plain mean. Rows do not mix: nothing is carried over time.
    """

    def __init__(self, config: Zonos3Config) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.query = nn.Parameter(torch.empty(config.dim))

    def forward(self, sources: Sequence[Tensor]) -> Tensor:
        """sources, each [B, T, dim] -> [B, T, dim]; weights and sum in float32."""
        values = torch.stack(list(sources)).float()  # [n, B, T, dim]
        keys = F.rms_norm(values, self.query.shape, self.norm.weight.float(), self.norm.eps)
        weights = (keys * self.query.float()).sum(-1, keepdim=True).softmax(dim=0)
        return (weights * values).sum(0).to(sources[0].dtype)


class LatentMoe(MoeFeedForward):
    """Experts in a narrow space: rows are routed as they are, computed between ``down`` and ``up``.

    Router, experts and mixing are ZONOS2's.
    """

    def __init__(self, config: Zonos3Config, layer: int) -> None:
        super().__init__(like_zonos2(config), layer)
        latent = config.moe_latent_dim
        self.experts = Experts(like_zonos2(replace(config, dim=latent, ffn_dim=config.moe_ffn_dim)))
        self.down = nn.Linear(config.dim, latent, bias=False)
        self.up = nn.Linear(latent, config.dim, bias=False)

    def forward(
        self,
        x: Tensor,
        state: Tensor | None,
        *,
        is_step: bool = False,
        trace: Trace | None = None,
    ) -> tuple[Tensor, Tensor]:
        """x [B, T, dim] and the last router's state [B, T, r] -> the new rows and the new state."""
        rows = x.flatten(0, -2)
        _, chosen, weights, carried = self.router(
            rows, None if state is None else state.flatten(0, -2)
        )
        latent, weights = self.down(rows), weights.to(rows.dtype)
        if is_step:
            mixed = mix_experts(latent, chosen, weights, self.experts.w13, self.experts.w2)
        else:
            mixed = self._mix_grouped(latent, chosen, weights)
        return self.up(mixed).view_as(x), carried.view(*x.shape[:-1], -1)


class Layer(nn.Module):
    """A mixer over time and a feed-forward, each with its own sources and norm.

    ``place`` counts the layer within its kind: that is how ``Memory`` knows it.
    """

    def __init__(self, config: Zonos3Config, layer: int) -> None:
        super().__init__()
        attends = layer in config.attention_layers
        kind = config.attention_layers if attends else config.delta_layers
        self.place = kind.index(layer)
        self.mixer: Attention | DeltaMixer = (
            Attention(like_zonos2(config)) if attends else DeltaMixer(config)
        )
        self.mixer_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.mixer_sources = DepthAttention(config)
        self.feed_forward: DenseFeedForward | LatentMoe = (
            LatentMoe(config, layer)
            if layer >= config.moe_first_layer
            else DenseFeedForward(like_zonos2(config))
        )
        self.ffn_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.ffn_sources = DepthAttention(config)

    def mix(self, x: Tensor, table: Tensor, memory: Memory) -> Tensor:
        """Rows x [B, T, dim] with what came before them -> [B, T, dim]."""
        if isinstance(self.mixer, Attention):
            attended: Tensor = self.mixer(x, table, self.place, memory.attend)
            return attended
        out, matrix, tail = self.mixer(x, *memory.read(self.place))
        memory.write(self.place, matrix, tail)
        return out


class Backbone(nn.Module):
    """All layers, embeddings and head of one checkpoint."""

    rope: Tensor

    def __init__(self, config: Zonos3Config) -> None:
        super().__init__()
        self.config = config
        self.embedder = MultiEmbedder(like_zonos2(config))
        self.speaker_projection = nn.Linear(config.speaker_dim, config.dim)
        self.layers = nn.ModuleList(Layer(config, layer) for layer in range(config.n_layers))
        self.out_sources = DepthAttention(config)
        self.out_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.head = nn.Linear(config.dim, config.num_codebooks * config.audio_vocab, bias=False)
        self.register_buffer("rope", torch.empty(0), persistent=False)

    def prepare(self) -> None:
        """Compute what is derived, not stored: the angle table, on the weights' device."""
        device = self.out_norm.weight.device
        self.rope = rope_table(like_zonos2(self.config), self.config.max_rows, device)

    def project_speaker(self, speaker: Tensor) -> Tensor:
        """Speaker embedding [speaker_dim] -> the hidden row that replaces row 0 [dim]."""
        row: Tensor = self.speaker_projection(speaker.to(self.speaker_projection.weight.dtype))
        return row

    def embed(self, rows: Tensor, speaker_row: Tensor | None = None) -> Tensor:
        """rows [B, T, C + 1] -> [B, T, dim], normalised; ``speaker_row`` [dim] replaces row 0."""
        x = self.embedder(rows)
        if speaker_row is not None:
            x = torch.cat([speaker_row.to(x.dtype).expand(len(x), 1, -1), x[:, 1:]], dim=1)
        return F.rms_norm(x, x.shape[-1:], eps=self.config.norm_eps)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        memory: Memory,
        *,
        is_step: bool = False,
    ) -> Tensor:
        """Embedded rows x [B, T, dim] at positions [B, T] -> hidden states [B, T, dim].

        ``is_step`` marks a decode step of B slots, idle ones included.
        """
        table = self.rope[positions]  # [B, T, 2, hd / 2]
        sources = [x]
        router_state: Tensor | None = None
        for layer in self.layers:
            assert isinstance(layer, Layer)
            sources.append(layer.mix(layer.mixer_norm(layer.mixer_sources(sources)), table, memory))
            normed = layer.ffn_norm(layer.ffn_sources(sources))
            if isinstance(layer.feed_forward, LatentMoe):
                out, router_state = layer.feed_forward(normed, router_state, is_step=is_step)
            else:
                out = layer.feed_forward(normed)
            sources.append(out)
        hidden: Tensor = self.out_norm(self.out_sources(sources))
        return hidden

    def logits(self, hidden: Tensor, live_rows: Sequence[int] | None = None) -> Tensor:
        """hidden [N, dim] -> soft-capped logits [n, codebooks, audio_vocab], all in float32.

        The product is made for all N rows, whose number is fixed in a decode step, and kept for
        ``live_rows``.
        """
        logits = F.linear(hidden.float(), self.head.weight.float())
        if live_rows is not None:
            logits = logits[live_rows]
        logits = logits.unflatten(-1, (self.config.num_codebooks, self.config.audio_vocab))
        cap = self.config.loss_softcap
        return cap * torch.tanh(logits / cap)
