"""The ZONOS2 decoder: rows in, logits of every codebook out.

- One definition for inference and training; parameter names are the checkpoint's (507 tensors in
  the release), so a state dict loads and saves unchanged.
- How rows attend is given by the caller (``Attend``): a whole prompt, a decode step, or training.
- ``trace(name, layer, tensor)`` shows intermediate values to golden tests and to training losses.
- Source: spec/zonos2.md section 2.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.zonos2.attention import Attend, Attention, rope_table
from engine.zonos2.config import Zonos2Config
from engine.zonos2.moe import DenseFeedForward, MoeFeedForward, Trace


class MultiEmbedder(nn.Module):
    """One table per column of a row; the rows' embedding is the sum of all columns."""

    def __init__(self, config: Zonos2Config) -> None:
        super().__init__()
        sizes = [config.audio_vocab] * config.num_codebooks + [config.text_vocab + 1]
        # Given weights skip Embedding's own initialisation, which on the meta device imports all of
        # torch._dynamo (1.2 s at every start).
        tables = [torch.empty(size, config.dim) for size in sizes]
        self.embedders = nn.ModuleList(
            nn.Embedding.from_pretrained(table, freeze=False) for table in tables
        )

    def forward(self, rows: Tensor) -> Tensor:
        """rows [..., C + 1] int64 -> [..., dim]. Pad ids are trained rows like any other."""
        total: Tensor = self.embedders[0](rows[..., 0])
        for column, table in enumerate(self.embedders[1:], start=1):
            total = total + table(rows[..., column])
        return total


class Layer(nn.Module):
    """Attention and feed-forward, each on the normalised residual stream."""

    def __init__(self, config: Zonos2Config, layer: int) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.ffn_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.feed_forward: DenseFeedForward | MoeFeedForward = (
            MoeFeedForward(config, layer) if config.is_moe(layer) else DenseFeedForward(config)
        )


class Backbone(nn.Module):
    """All layers, embeddings and head of one checkpoint."""

    rope: Tensor

    def __init__(self, config: Zonos2Config) -> None:
        super().__init__()
        self.config = config
        self.multi_embedder = MultiEmbedder(config)
        self.layers = nn.ModuleList(Layer(config, layer) for layer in range(config.n_layers))
        self.out_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.multi_output = nn.Linear(
            config.dim, config.num_codebooks * config.audio_vocab, bias=False
        )
        if config.speaker_dim is not None:
            width = config.speaker_lda_dim or config.speaker_dim
            if config.speaker_lda_dim:
                self.speaker_lda_projection = nn.Linear(config.speaker_dim, width)
            self.speaker_projection = nn.Linear(width, config.dim)
        self.register_buffer("rope", torch.empty(0), persistent=False)

    def prepare(self) -> None:
        """Compute what is derived, not stored: the angle table, on the weights' device."""
        self.rope = rope_table(self.config, self.config.max_rows, self.out_norm.weight.device)

    def project_speaker(self, speaker: Tensor) -> Tensor:
        """Speaker embedding [..., speaker_dim] -> the hidden row that replaces row 0 [..., dim]."""
        row = speaker.to(self.speaker_projection.weight.dtype)
        if self.config.speaker_lda_dim:
            row = self.speaker_lda_projection(row)
        projected: Tensor = self.speaker_projection(row)
        return projected

    def embed(
        self, rows: Tensor, speaker_row: Tensor | None = None, has_speaker: Tensor | None = None
    ) -> Tensor:
        """rows [B, T, C + 1] -> [B, T, dim], normalised.

        ``speaker_row`` [B, dim] replaces row 0, in training batches only where ``has_speaker`` [B].
        """
        x = self.multi_embedder(rows)
        if speaker_row is not None:
            first = speaker_row.to(x.dtype)
            if has_speaker is not None:
                first = torch.where(has_speaker[:, None], first, x[:, 0])
            x = torch.cat([first[:, None], x[:, 1:]], dim=1)
        return F.rms_norm(x, x.shape[-1:], eps=self.config.norm_eps)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        attend: Attend,
        *,
        is_step: bool = False,
        trace: Trace | None = None,
    ) -> Tensor:
        """Embedded rows x [B, T, dim] at positions [B, T] -> hidden states [B, T, dim].

        ``is_step`` marks a decode step of B slots, idle ones included: every product then has one
        fixed shape, so that a row is bit-equal whatever its neighbours are.
        """
        table = self.rope[positions]  # [B, T, 2, hd / 2]
        router_state: Tensor | None = None
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            attended = layer.attention(layer.attention_norm(x), table, index, attend)
            x = x + attended
            if trace is not None:
                trace("attn_out", index, attended)
                trace("residual", index, x)
            normed = layer.ffn_norm(x)
            if isinstance(layer.feed_forward, MoeFeedForward):
                out, router_state = layer.feed_forward(
                    normed, router_state, is_step=is_step, trace=trace
                )
            else:
                out, router_state = layer.feed_forward(normed), None
            x = x + out
            if trace is not None:
                trace("ffn_out", index, out)
                trace("layer_out", index, x)
        hidden: Tensor = self.out_norm(x)
        return hidden

    def head(self, hidden: Tensor) -> Tensor:
        """hidden [..., dim] -> soft-capped logits [..., codebooks, audio_vocab] float32."""
        return self.capped(self.multi_output(hidden))

    def capped(self, logits: Tensor) -> Tensor:
        """The head's product [..., codebooks * audio_vocab] -> soft-capped float32, by codebook."""
        cap = self.config.loss_softcap
        logits = logits.float().unflatten(-1, (self.config.num_codebooks, self.config.audio_vocab))
        return cap * torch.tanh(logits / cap)
