"""What the language model is taught by, besides the codes themselves.

- Cross entropy per codebook, the first ones weighing most; the fine ones on a quarter of the rows.
- The phoneme being spoken, read from a middle layer by a linear head that is not exported.
- Guided attention: head 0 of three layers shall look at the byte being spoken.
- Balance of the experts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.zonos2.backbone import Backbone
from engine.zonos2.config import Zonos2Config
from training.alignment import NUM_PHONEME_IDS
from training.batches import IGNORED, Batch

BOOK_WEIGHTS = (3.0, 1.5, 1.0, 0.6, 0.5, 0.4, 0.3, 0.3, 0.3)
NUM_COARSE_BOOKS = 3
PHONEME_WEIGHT, BALANCE_WEIGHT = 0.7, 0.01
GUIDED_HEAD, GUIDED_REACH_BYTES = 0, 2
ROW_MULTIPLE = 32  # oneDNN prepares every new shape at a cost above that of the product


@dataclass(eq=False)
class Taught:
    """Losses of one batch: ``total`` to descend, the others to be told."""

    total: Tensor
    books: Tensor  # [C]
    guided: Tensor
    guided_mass: Tensor
    phoneme: Tensor
    phoneme_accuracy: Tensor
    expert_shares: Tensor  # [MoE layers, E]


@dataclass(eq=False)
class Watch:
    """Attention for training, and the intermediate values that the losses read."""

    config: Zonos2Config
    guided_layers: tuple[int, ...]
    phoneme_layer: int
    maps: list[Tensor] = field(default_factory=list)  # [B, T, T] per guided layer
    middle: Tensor | None = None
    probabilities: list[Tensor] = field(default_factory=list)
    chosen: list[Tensor] = field(default_factory=list)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Plain products: three times faster than the fused kernel on a CPU for short rows."""
        batch, heads, rows, dim = q.shape
        share = heads // k.shape[1]
        k, v = (x.repeat_interleave(share, 1).flatten(0, 1) for x in (k, v))
        mask = torch.full((rows, rows), float("-inf"), device=q.device, dtype=v.dtype).triu(1)
        q = (q * dim**-0.5).flatten(0, 1).to(v.dtype)
        weights = torch.baddbmm(mask.expand(batch * heads, -1, -1), q, k.to(v.dtype).mT).softmax(-1)
        if layer in self.guided_layers:
            self.maps.append(weights.view(batch, heads, rows, rows)[:, GUIDED_HEAD])
        return torch.bmm(weights.to(v.dtype), v).view(batch, heads, rows, dim)

    def trace(self, name: str, layer: int, value: Tensor) -> None:
        """Keep what ``Backbone.forward`` shows."""
        if name == "layer_out" and layer == self.phoneme_layer:
            self.middle = value
        elif name == "expert_prob":
            self.probabilities.append(value)
        elif name == "topk_ids":
            self.chosen.append(value)


class Teacher(nn.Module):
    """The backbone with the phoneme head that only training needs."""

    def __init__(self, model: Backbone) -> None:
        super().__init__()
        self.model = model
        self.phoneme_head = nn.Linear(model.config.dim, NUM_PHONEME_IDS)
        layers = model.config.n_layers
        self.phoneme_layer = layers // 2
        self.guided_layers = tuple(range(1, self.phoneme_layer + 1))

    def watch(self, batch: Batch) -> tuple[Tensor, Watch]:
        """Hidden states [B, T, dim] of a batch and what was watched on the way."""
        watch = Watch(self.model.config, self.guided_layers, self.phoneme_layer)
        speaker_row = self.model.project_speaker(batch.speaker)
        x = self.model.embed(batch.rows, speaker_row, batch.has_speaker)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        hidden = self.model(x, positions, watch.attend, trace=watch.trace)
        return hidden, watch

    def forward(self, batch: Batch, guide_weight: float, fine_share: float) -> Taught:
        """Losses of a batch; books from 3 on see ``fine_share`` of the rows."""
        hidden, watch = self.watch(batch)
        asked = _padded_rows((batch.targets[..., 0] != IGNORED).flatten())
        rows, targets = hidden.flatten(0, 1)[asked], batch.targets.flatten(0, 1)[asked]
        num_fine = max(ROW_MULTIPLE, int(len(rows) * fine_share) // ROW_MULTIPLE * ROW_MULTIPLE)
        fine = torch.randperm(len(rows), device=rows.device)[:num_fine]
        books = torch.cat(
            [
                book_losses(self.model, rows, targets, 0, NUM_COARSE_BOOKS),
                book_losses(
                    self.model, rows[fine], targets[fine], NUM_COARSE_BOOKS, targets.shape[1]
                ),
            ]
        )
        weights = books.new_tensor(BOOK_WEIGHTS[: len(books)])
        phoneme, accuracy = self.phoneme_loss(watch, batch)
        guided, mass = guided_loss(watch.maps, batch.text_row)
        balance, shares = balance_loss(watch)
        total = (books * weights).sum() / weights.sum() + PHONEME_WEIGHT * phoneme
        total = total + guide_weight * guided + BALANCE_WEIGHT * balance
        return Taught(total, books.detach(), guided, mass, phoneme, accuracy, shares)

    def phoneme_loss(self, watch: Watch, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross entropy and accuracy of the phoneme read from the middle layer."""
        known = _padded_rows((batch.phoneme != IGNORED).flatten())
        assert watch.middle is not None
        if len(known) == 0:
            return watch.middle.new_zeros(()), watch.middle.new_zeros(())
        middle = watch.middle.flatten(0, 1)[known]
        scores = self.phoneme_head(F.rms_norm(middle, middle.shape[-1:])).float()
        wanted = batch.phoneme.flatten()[known]
        accuracy = (scores.argmax(-1) == wanted).float().mean()
        return F.cross_entropy(scores, wanted), accuracy


def _padded_rows(mask: Tensor) -> Tensor:
    """Indices of a mask, a few repeated so that their number is a multiple of ``ROW_MULTIPLE``."""
    rows = mask.nonzero()[:, 0]
    missing = -len(rows) % ROW_MULTIPLE
    if len(rows) == 0 or missing == 0:
        return rows
    return torch.cat([rows, rows[torch.randint(len(rows), (missing,), device=rows.device)]])


def book_losses(model: Backbone, rows: Tensor, targets: Tensor, first: int, last: int) -> Tensor:
    """Mean cross entropy of books ``first`` .. ``last`` - 1: [last - first]."""
    vocab, cap = model.config.audio_vocab, model.config.loss_softcap
    weight = model.multi_output.weight[first * vocab : last * vocab]
    logits = F.linear(rows, weight).float().unflatten(-1, (last - first, vocab))
    losses: Tensor = SoftCappedCrossEntropy.apply(logits, targets[:, first:last], cap)
    return losses.mean(0)


class SoftCappedCrossEntropy(torch.autograd.Function):
    """Cross entropy of ``cap * tanh(logits / cap)``, in two buffers instead of seven.

    logits [n, books, vocab] float32 and targets [n, books] -> losses [n, books]. On a CPU the plain
    formula spends a seventh of a training step on fresh memory.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, cap: float) -> Tensor:
        capped = logits.div(cap).tanh_().mul_(cap)
        log_sum = capped.logsumexp(-1)
        ctx.save_for_backward(capped, targets, log_sum)
        ctx.cap = cap
        return log_sum - capped.gather(-1, targets[..., None])[..., 0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        capped, targets, log_sum = ctx.saved_tensors
        slope = (capped - log_sum[..., None]).exp_()
        slope.scatter_add_(-1, targets[..., None], -torch.ones_like(log_sum)[..., None])
        slope.mul_(grad[..., None])
        kept = capped.square().mul_(-1 / ctx.cap**2).add_(1)
        return slope.mul_(kept), None, None


def guided_loss(maps: list[Tensor], text_row: Tensor) -> tuple[Tensor, Tensor]:
    """Mean negative log of the attention near the byte being spoken, and the best layer's mass."""
    batch_index, row_index = (text_row != IGNORED).nonzero(as_tuple=True)
    if len(row_index) == 0:
        return maps[0].new_zeros(()), maps[0].new_zeros(())
    reach = torch.arange(-GUIDED_REACH_BYTES, GUIDED_REACH_BYTES + 1, device=text_row.device)
    near = (text_row[batch_index, row_index][:, None] + reach).clamp(0, text_row.shape[1] - 1)
    masses = torch.stack(
        [m[batch_index[:, None], row_index[:, None], near].float().sum(-1) for m in maps]
    )
    return -(masses + 1e-4).log().mean(), masses.mean(1).max().detach()


def balance_loss(watch: Watch) -> tuple[Tensor, Tensor]:
    """Load times probability, 1 when even; and each expert's share of the rows."""
    terms, shares = [], []
    for probabilities, chosen in zip(watch.probabilities, watch.chosen, strict=True):
        experts = probabilities.shape[-1]
        share = torch.bincount(chosen.flatten(), minlength=experts).float() / chosen.numel()
        shares.append(share)
        terms.append(experts * (share * probabilities.mean(0)).sum())
    if not terms:
        return torch.zeros(()), torch.zeros(0, 0)
    return torch.stack(terms).mean(), torch.stack(shares)
