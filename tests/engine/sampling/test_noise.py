"""Noise by counter: exact, stateless, uniform, and unrelated between neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.sampling.noise import mix, uniforms

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_EXTREME_SEEDS = [0, 1, 2**32 - 1, 2**53 + 1, 2**63 - 1, -1, -(2**63)]
# Bounds of 6 standard deviations: a fixed seed set either passes always or shows a real fault.
_SIGMAS = 6.0


def _slow_mix(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _WORD
    return bits ^ (bits >> 31)


def _slow_uniform(seed: int, frame: int, codebook: int) -> float:
    key = _slow_mix((seed + _GOLDEN) & _WORD)
    counter = (frame << 16) + codebook + 1
    return (_slow_mix((key + counter * _GOLDEN) & _WORD) >> 11) * 2.0**-53


def _block(num_seeds: int, num_frames: int, num_codebooks: int = 9) -> Tensor:
    """[seeds, frames, codebooks] of seeds 0, 1, 2, ..., each from its frame 0 on."""
    seeds = torch.arange(num_seeds).repeat_interleave(num_frames)
    frames = torch.arange(num_frames).repeat(num_seeds)
    return uniforms(seeds, frames, num_codebooks).view(num_seeds, num_frames, num_codebooks)


def _z_score_of_chi_square(counts: Tensor) -> float:
    expected = counts.sum() / counts.numel()
    freedom = counts.numel() - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / (2 * freedom) ** 0.5)


def test_the_mixer_is_splitmix64() -> None:
    state, outputs = 1234567, []
    for _ in range(5):
        state = (state + _GOLDEN) & _WORD
        signed = state - (1 << 64) if state >> 63 else state
        outputs.append(int(mix(torch.tensor([signed]))[0]) & _WORD)
    # The published sequence of SplitMix64 for this seed.
    assert outputs[:2] == [6457827717110365317, 3203168211198807973]
    assert outputs[2:] == [9817491932198370423, 4593380528125082431, 16408922859458223821]


def test_numbers_are_those_of_unbounded_integer_arithmetic() -> None:
    frames = [0, 1, 6143, 2**40, 7, 8, 9]
    got = uniforms(torch.tensor(_EXTREME_SEEDS), torch.tensor(frames), 9)
    expected = [
        [_slow_uniform(seed, frame, codebook) for codebook in range(9)]
        for seed, frame in zip(_EXTREME_SEEDS, frames, strict=True)
    ]
    assert got.dtype == torch.float64
    assert got.tolist() == expected


def test_a_number_depends_on_its_own_key_only() -> None:
    seeds, frames = torch.arange(64), torch.arange(64) * 3
    together = uniforms(seeds, frames, 9)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(uniforms(seeds[order], frames[order], 9), together[order])
    assert torch.equal(uniforms(seeds[5:6], frames[5:6], 4), together[5:6, :4])


@pytest.mark.parametrize("bins", [2, 16, 1000])
def test_numbers_are_uniform(bins: int) -> None:
    numbers = _block(256, 128)
    assert float(numbers.min()) >= 0 and float(numbers.max()) < 1
    counts = torch.bincount((numbers.flatten() * bins).long(), minlength=bins).double()
    assert abs(_z_score_of_chi_square(counts)) < _SIGMAS


@pytest.mark.parametrize("seed", _EXTREME_SEEDS)
def test_numbers_of_one_seed_are_uniform_whatever_the_seed(seed: int) -> None:
    numbers = uniforms(torch.full((4000,), seed), torch.arange(4000), 9)
    counts = torch.bincount((numbers.flatten() * 64).long(), minlength=64).double()
    assert abs(_z_score_of_chi_square(counts)) < _SIGMAS


def _correlation(first: Tensor, second: Tensor) -> float:
    """Correlation coefficient in units of its standard deviation under independence."""
    pair = torch.stack([first.flatten(), second.flatten()])
    return float(torch.corrcoef(pair)[0, 1] * first.numel() ** 0.5)


@pytest.mark.parametrize("lag", [1, 2, 3, 7, 16, 64])
def test_neighbouring_frames_codebooks_and_seeds_are_unrelated(lag: int) -> None:
    numbers = _block(128, 128)
    assert abs(_correlation(numbers[:, lag:], numbers[:, :-lag])) < _SIGMAS
    assert abs(_correlation(numbers[lag:], numbers[:-lag])) < _SIGMAS
    assert abs(_correlation(numbers[lag:, lag:], numbers[:-lag, :-lag])) < _SIGMAS
    if lag < 9:
        assert abs(_correlation(numbers[..., lag:], numbers[..., :-lag])) < _SIGMAS
        assert abs(_correlation(numbers[:, lag:, lag:], numbers[:, :-lag, :-lag])) < _SIGMAS


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["seed", "frame", "codebook"])
def test_pairs_of_neighbours_fill_the_square_evenly(axis: int) -> None:
    numbers = _block(128, 128)
    length = numbers.shape[axis] - 1
    first, second = numbers.narrow(axis, 0, length), numbers.narrow(axis, 1, length)
    cells = (first * 32).long() * 32 + (second * 32).long()
    counts = torch.bincount(cells.flatten(), minlength=1024).double()
    assert abs(_z_score_of_chi_square(counts)) < _SIGMAS


def test_every_bit_is_fair_and_flipping_a_key_bit_flips_half_of_them() -> None:
    words = (_block(64, 64) * 2.0**53).long()
    bits = (words.unsqueeze(-1) >> torch.arange(53)) & 1
    deviation = (bits.double().mean((0, 1, 2)) - 0.5) * 2 * (words.numel() ** 0.5)
    assert float(deviation.abs().max()) < _SIGMAS
    seeds, frames = torch.arange(200), torch.arange(200)
    plain = (uniforms(seeds, frames, 9) * 2.0**53).long()
    for position in (0, 1, 5, 31, 62):
        for moved in (
            uniforms(seeds ^ (1 << position), frames, 9),
            uniforms(seeds, frames ^ (1 << min(position, 30)), 9),
        ):
            changed = plain ^ (moved * 2.0**53).long()
            share = float(((changed.unsqueeze(-1) >> torch.arange(53)) & 1).double().mean())
            assert abs(share - 0.5) < _SIGMAS * 0.5 / (plain.numel() * 53) ** 0.5


def test_no_two_keys_share_a_number() -> None:
    numbers = _block(64, 512)
    assert np.unique(numbers.numpy()).size == numbers.numel()
