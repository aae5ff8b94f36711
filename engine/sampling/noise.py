"""Noise from a counter: the same (seed, frame, codebook) gives the same number everywhere.

- No generator, no state: a draw cannot depend on who else is in the batch or on what came before.
- Only wrapping 64-bit integer arithmetic, so CPU and CUDA agree bit for bit.
- Source: SplitMix64 (Steele, Lea, Flood 2014) with its published constants.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Unsigned constants of SplitMix64, written as the signed numbers that int64 tensors hold.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
# Counters of neighbouring frames lie this many bits apart: room for 65,536 codebooks.
_CODEBOOK_BITS = 16


def uniforms(seeds: Tensor, frames: Tensor, num_codebooks: int) -> Tensor:
    """Return one number in [0, 1) per row and codebook.

    ``seeds`` [rows] int64 (any value), ``frames`` [rows] int64 (the frame's number in its request,
    from 0) -> [rows, codebooks] float64, multiples of 2^-53.
    """
    codebooks = torch.arange(1, num_codebooks + 1, device=seeds.device)
    counter = (frames.unsqueeze(-1) << _CODEBOOK_BITS) + codebooks  # [rows, codebooks]
    key = mix(seeds + _GOLDEN).unsqueeze(-1)  # [rows, 1]; seeds 0, 1, 2 land far apart
    bits = mix(counter.mul_(_GOLDEN).add_(key))
    return _shift_right(bits, 11).to(torch.float64).mul_(2.0**-53)


def mix(bits: Tensor) -> Tensor:
    """Return SplitMix64's output function of int64 ``bits``, a bijection on 64-bit words."""
    bits = (bits ^ _shift_right(bits, 30)).mul_(_FIRST)
    bits = (bits ^ _shift_right(bits, 27)).mul_(_SECOND)
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, distance: int) -> Tensor:
    # int64 tensors shift their sign in; the mask turns that into the shift of an unsigned word.
    return (bits >> distance).bitwise_and_((1 << (64 - distance)) - 1)
