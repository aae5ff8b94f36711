"""The sampler as the engine loop uses it: settings and history by slot, one call per step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.sampling.sampler import History, SamplingRows, draw, probabilities
from engine.sampling.settings import ResolvedSampling


class SlotSampler:
    """Draws the next row of any set of slots; a slot's codes never depend on the others."""

    def __init__(
        self,
        num_slots: int,
        num_codebooks: int,
        codebook_size: int,
        audio_vocab: int,
        device: torch.device | str,
    ) -> None:
        self._rows = SamplingRows(num_slots, audio_vocab, device=device)
        self._history = History(num_slots, num_codebooks, codebook_size, device=device)
        self._device = device

    def start(self, slot: int, settings: ResolvedSampling, seed: int) -> None:
        """Begin a prompt in ``slot``: its settings, its seed, and nothing drawn yet."""
        self._rows.set(slot, settings, seed)
        self._history.reset(slot)

    def stop(self, slot: int) -> None:
        """Forget ``slot``, so that its settings cost the others nothing."""
        self._rows.clear(slot)

    def draw(self, slots: Sequence[int], frames: Sequence[int], logits: Tensor) -> Tensor:
        """Codes [n, codebooks] int64 from logits [n, codebooks, vocab] of ``slots``.

        ``frames`` counts the rows each request has drawn before; with the seed it keys the noise.
        """
        at = torch.tensor(slots, device=self._device)
        chances = probabilities(logits, self._rows, self._history, at)
        codes = draw(chances, self._rows.seed[at], torch.tensor(frames, device=self._device))
        self._history.append(codes, slots=at)
        return codes

    @property
    def bounds(self) -> tuple[int, int, bool, bool]:
        """What the host knows of all slots' settings: it decides what ``draw_all`` computes."""
        rows = self._rows
        return rows.max_top_k, rows.max_window, rows.any_top_p, rows.any_greedy

    def draw_all(self, logits: Tensor, frames: Tensor, is_drawn: Tensor) -> Tensor:
        """Codes [slots, codebooks] of every slot from fixed tensors, as a CUDA graph needs it.

        ``frames`` [slots] as in ``draw``; only those of slots where ``is_drawn`` [slots] count.
        """
        chances = probabilities(logits, self._rows, self._history)
        codes = draw(chances, self._rows.seed, frames)
        self._history.append(codes, is_drawn)
        return codes
