"""From logits to codes, every row by its own settings, on the device, without a sync.

- A row's result never depends on its neighbours: per-row thresholds, exact sums, noise by counter.
- The host knows only bounds over all rows (``max_top_k``, ``any_top_p``, ...), to skip work that
  would change nothing.
- Source: spec/zonos2.md section 5; order penalty, temperature, top-k, top-p, min-p, draw.

``slots`` names the slot of each row of ``logits``; without it there is one row per slot, in order.
Passing only the active slots saves time and gives the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.sampling.noise import uniforms
from engine.sampling.settings import MAX_WINDOW, ResolvedSampling

_MIN_TEMPERATURE = 1e-6  # the reference's floor; 0 itself is arg-max here
_TOP_P_OFF = 2.0  # above every sum of probabilities
_TOP_K_OFF = 0
_ALL_CODEBOOKS = 1 << 30
# Probabilities are summed as whole multiples of 2^-48: exact, so the order of summing is free.
_UNIT = 2.0**48


class SamplingRows:
    """The settings of every slot, as columns [slots] on the device."""

    def __init__(
        self, num_slots: int, audio_vocab: int, *, device: torch.device | str = "cpu"
    ) -> None:
        self.audio_vocab = audio_vocab
        self._rounds_bounds = torch.device(device).type == "cuda"
        self.reals = torch.empty(num_slots, 4, device=device)
        self.integers = torch.empty(num_slots, 4, dtype=torch.int64, device=device)
        self.temperature, self.top_p, self.min_p, self.repetition_penalty = self.reals.unbind(1)
        self.top_k, self.repetition_window, self.repetition_codebooks, self.seed = (
            self.integers.unbind(1)
        )
        self._settings: dict[int, ResolvedSampling] = {}
        for slot in range(num_slots):
            self.clear(slot)

    def set(self, slot: int, settings: ResolvedSampling, seed: int) -> None:
        """Give ``slot`` the settings and the seed (-2^63 .. 2^63 - 1) of one request."""
        self._write(slot, settings, seed)
        self._settings[slot] = settings
        self._learn_bounds()

    def clear(self, slot: int) -> None:
        """Give a free slot settings that are cheap to compute with, whatever its logits are."""
        self._write(slot, ResolvedSampling(1.0, self.audio_vocab, 0.0, 1.0, 1.0, 0, 0), seed=0)
        self._settings.pop(slot, None)
        self._learn_bounds()

    def _write(self, slot: int, settings: ResolvedSampling, seed: int) -> None:
        top_p, top_k, codebooks = settings.top_p, settings.top_k, settings.repetition_codebooks
        self.reals[slot] = torch.tensor(
            [
                settings.temperature,
                top_p if 0 < top_p < 1 else _TOP_P_OFF,
                min(settings.min_p, 1.0),  # so the likeliest id stays and no row can become empty
                max(settings.repetition_penalty, 1.0),
            ]
        )
        self.integers[slot] = torch.tensor(
            [
                top_k if top_k < self.audio_vocab else _TOP_K_OFF,
                settings.repetition_window,
                codebooks if codebooks >= 0 else _ALL_CODEBOOKS,
                seed,
            ]
        )

    def _learn_bounds(self) -> None:
        rows = self._settings.values()
        self.max_top_k = max((s.top_k for s in rows if s.top_k < self.audio_vocab), default=0)
        self.max_window = max((s.repetition_window for s in rows if _penalises(s)), default=0)
        self.any_top_p = any(0 < s.top_p < 1 for s in rows)
        self.any_greedy = any(s.temperature == 0 for s in rows)
        if self._rounds_bounds:  # a bound only has to be large enough, and each makes a graph
            self.max_top_k = next(k for k in (0, 128, self.audio_vocab) if k >= self.max_top_k)
            self.max_window = next(w for w in (0, 64, MAX_WINDOW) if w >= self.max_window)


def _penalises(settings: ResolvedSampling) -> bool:
    return settings.repetition_penalty > 1 and settings.repetition_codebooks != 0


class History:
    """The last rows drawn in each slot: a ring [slots, capacity, codebooks] and counts [slots].

    ``counts`` is also the number of the frame about to be drawn. Only codes below
    ``codebook_size`` are ever penalised; end of audio and pad are not.
    """

    def __init__(
        self,
        num_slots: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        capacity: int = MAX_WINDOW,
        device: torch.device | str = "cpu",
    ) -> None:
        self.codebook_size = codebook_size
        self.capacity = capacity
        shape = (num_slots, capacity, num_codebooks)
        self.ring = torch.zeros(shape, dtype=torch.int64, device=device)
        self.counts = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.all_slots = torch.arange(num_slots, device=device)

    def reset(self, slot: int) -> None:
        """Forget what ``slot`` has drawn; prompt rows are never entered."""
        self.counts[slot] = 0

    def append(
        self, codes: Tensor, active: Tensor | None = None, slots: Tensor | None = None
    ) -> None:
        """Enter one row per slot: ``codes`` [rows, codebooks]; rows not ``active`` [rows] stay."""
        slots = self.all_slots if slots is None else slots
        place = self.counts[slots] % self.capacity
        if active is None:
            active = torch.ones_like(slots, dtype=torch.bool)
        self.ring[slots, place] = torch.where(active.unsqueeze(-1), codes, self.ring[slots, place])
        self.counts[slots] += active

    def latest(self, window: int, slots: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the last ``window`` rows, newest first, and how many of them exist.

        -> codes [rows, window, codebooks] int64, counts [rows] int64.
        """
        slots = self.all_slots if slots is None else slots
        counts = self.counts[slots]
        age = torch.arange(window, device=counts.device)
        place = (counts.unsqueeze(-1) - 1 - age) % self.capacity  # [rows, window]
        return self.ring[slots.unsqueeze(-1), place], counts.clamp(max=window)


def probabilities(
    logits: Tensor, rows: SamplingRows, history: History, slots: Tensor | None = None
) -> Tensor:
    """Return the probabilities just before the draw.

    ``logits`` [rows, codebooks, vocabulary] float32 (not changed) -> the same shape, each
    vocabulary summing to 1. Filters only set scores to minus infinity; a softmax renormalises.
    """
    reals = rows.reals if slots is None else rows.reals[slots]
    top_k = rows.top_k if slots is None else rows.top_k[slots]
    temperature, top_p, min_p, _ = reals[:, :, None, None].unbind(1)  # each [rows, 1, 1]

    scores = _with_spare_columns(logits)  # [rows, codebooks, width]
    if rows.max_window:
        penalise(scores, rows, history, slots)
    if rows.any_greedy:
        best = scores.argmax(-1, keepdim=True)
        only_best = torch.full_like(scores, -torch.inf).scatter_(-1, best, 0.0)
        scores = torch.where(temperature == 0, only_best, scores)
    scores /= temperature.clamp(min=_MIN_TEMPERATURE)

    # min-p compares with the likeliest id, which top-k always keeps: without top-p the two filters
    # commute, and top-k is four times faster once min-p has emptied most of the row (29 against
    # 117 us for nine codebooks on one EPYC core).
    uses_top_p = top_p < 1
    chances = scores.softmax(-1)
    scores = _keep(scores, min_p_mask(chances, torch.where(uses_top_p, 0.0, min_p)))
    if rows.max_top_k:
        scores = _keep(scores, _top_k_mask(scores, top_k[:, None, None], rows.max_top_k))
    chances = scores.softmax(-1)
    if rows.any_top_p:
        scores = _keep(scores, top_p_mask(chances, top_p))
        chances = scores.softmax(-1)
        scores = _keep(scores, min_p_mask(chances, torch.where(uses_top_p, min_p, 0.0)))
        chances = scores.softmax(-1)
    return chances[..., : logits.shape[-1]]


def draw(chances: Tensor, seeds: Tensor, frames: Tensor) -> Tensor:
    """Draw one code per row and codebook by the inverse of the cumulated probabilities.

    ``chances`` [rows, codebooks, vocabulary] float32, ``seeds`` and ``frames`` [rows] int64
    -> codes [rows, codebooks] int64. An id of probability 0 is never drawn.
    """
    cumulated = _in_units(chances).cumsum(-1)  # [rows, codebooks, vocabulary]
    total = cumulated[..., -1]
    noise = uniforms(seeds, frames, chances.shape[1])  # [rows, codebooks]
    # The product may round up to the total, which is one beyond the last id.
    target = (noise * total).to(torch.int64).minimum(total - 1).unsqueeze(-1)
    codes = torch.searchsorted(cumulated, target, right=True).squeeze(-1)
    # Only a row of NaN can leave the range; its slot will be stopped, its neighbours go on.
    return codes.clamp_(0, chances.shape[-1] - 1)


def penalise(
    scores: Tensor, rows: SamplingRows, history: History, slots: Tensor | None = None
) -> None:
    """Lower, in place, the scores of ids drawn lately; the last column is spare (minus infinity).

    ``scores`` [rows, codebooks, width]. Each distinct id is penalised once, however often it was
    drawn: repeats read the same score and write the same result.
    """
    reals = rows.reals if slots is None else rows.reals[slots]
    integers = rows.integers if slots is None else rows.integers[slots]
    window, codebooks, penalty = integers[:, 1], integers[:, 2], reals[:, 3, None, None]
    recent, counts = history.latest(min(rows.max_window, history.capacity), slots)
    age = torch.arange(recent.shape[1], device=recent.device)  # recent [rows, window, codebooks]
    codebook = torch.arange(recent.shape[2], device=recent.device)
    is_recent = age < torch.minimum(counts, window).unsqueeze(-1)  # [rows, window]
    is_covered = codebook < codebooks.unsqueeze(-1)  # [rows, codebooks]
    is_code = recent < history.codebook_size  # neither end of audio nor pad
    is_penalised = is_recent.unsqueeze(-1) & is_covered.unsqueeze(1) & is_code
    ids = torch.where(is_penalised, recent, scores.shape[-1] - 1).transpose(1, 2)
    found = scores.gather(-1, ids)  # [rows, codebooks, window]
    scores.scatter_(-1, ids, torch.where(found > 0, found / penalty, found * penalty))


def top_p_mask(chances: Tensor, top_p: Tensor) -> Tensor:
    """Return which ids stay: those whose likelier ids have at most ``top_p`` of the mass."""
    ordered, order = chances.sort(dim=-1, descending=True, stable=True)
    mass = _in_units(ordered)
    stays = mass.cumsum(-1) - mass <= _in_units(top_p)
    return torch.empty_like(stays).scatter_(-1, order, stays)


def min_p_mask(chances: Tensor, min_p: Tensor) -> Tensor:
    """Return which ids stay: those with at least ``min_p`` of the likeliest id's probability."""
    return chances >= min_p * chances.amax(-1, keepdim=True)


def _top_k_mask(scores: Tensor, top_k: Tensor, max_top_k: int) -> Tensor:
    # Ties with the k-th largest score all stay.
    largest = scores.topk(max_top_k, dim=-1).values  # [rows, codebooks, max_top_k]
    place = (top_k - 1).clamp_(min=0).expand(-1, scores.shape[1], -1)
    return scores >= torch.where(top_k > _TOP_K_OFF, largest.gather(-1, place), -torch.inf)


def _with_spare_columns(logits: Tensor) -> Tensor:
    # At least one column of minus infinity after the vocabulary, and a width of whole 16-byte
    # words: every row starts equally aligned, so vectorised reductions add in the same order.
    *shape, vocab = logits.shape
    scores = logits.new_full((*shape, (vocab // 4 + 1) * 4), -torch.inf)
    scores[..., :vocab] = logits
    return scores


def _keep(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, scores, -torch.inf)


def _in_units(chances: Tensor) -> Tensor:
    return (chances * _UNIT).to(torch.int64)
