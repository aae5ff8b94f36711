"""The delta rule: the formula, both its forms, and a stretch cut anywhere."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from engine.zonos3.config import Zonos3Config
from engine.zonos3.delta import DeltaMixer, chunked, recurrent

Rows = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def rows(num_rows: int, seed: int, beta_max: float = 1.0) -> tuple[Rows, Tensor]:
    """Random q, k (unit vectors), v, decay, beta of two sequences, and a state to begin with."""
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 2, 3, num_rows, 8, generator=generator).unbind()
    k = torch.nn.functional.normalize(k, dim=-1)
    q = torch.nn.functional.normalize(q, dim=-1) * 8**-0.5
    v = torch.randn(2, 3, num_rows, 5, generator=generator)
    beta = beta_max * torch.rand(2, 3, num_rows, generator=generator)
    decay = -1.6 * torch.rand(2, 3, num_rows, generator=generator)
    return (q, k, v, decay, beta), torch.randn(2, 3, 8, 5, generator=generator)


def test_recurrent_is_the_papers_matrix_formula() -> None:
    (q, k, v, decay, beta), start = rows(12, seed=0)
    heard, end = recurrent(q, k, v, decay, beta, start)
    # S <- e^g (1 - beta k k^T) S + beta k v^T, in float64, one sequence and head at a time.
    for b, h in ((0, 0), (1, 2)):
        state = start[b, h].double()
        for t in range(12):
            key, strength = k[b, h, t].double(), beta[b, h, t].double()
            erase = torch.eye(8, dtype=torch.float64) - strength * torch.outer(key, key)
            written = strength * torch.outer(key, v[b, h, t].double())
            state = decay[b, h, t].double().exp() * (erase @ state) + written
            expected = state.T @ q[b, h, t].double()
            torch.testing.assert_close(heard[b, h, t].double(), expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(end[b, h].double(), state, atol=1e-6, rtol=0)


@pytest.mark.parametrize("beta_max", [1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_chunked_is_recurrent_at_any_cut(seed: int, beta_max: float) -> None:
    rng = random.Random(seed)
    num_rows = rng.randint(2, 150)
    sequence, start = rows(num_rows, seed, beta_max)
    expected, expected_end = recurrent(*sequence, start)
    cuts = sorted({0, num_rows, *(rng.randrange(num_rows) for _ in range(4))})
    state, pieces = start, []
    for begin, end in pairwise(cuts):
        part = (tensor[:, :, begin:end] for tensor in sequence)
        heard, state = chunked(*part, state, chunk_rows=rng.choice([1, 7, 16, 64]))
        pieces.append(heard)
    torch.testing.assert_close(torch.cat(pieces, dim=2), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(state, expected_end, atol=1e-5, rtol=0)


def test_a_strong_decay_stays_finite() -> None:
    (q, k, v, decay, beta), start = rows(64, seed=1)
    expected, end = recurrent(q, k, v, decay * 40, beta, start)
    heard, state = chunked(q, k, v, decay * 40, beta, start)
    torch.testing.assert_close(heard, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(state, end, atol=1e-5, rtol=0)


def test_rows_without_strength_and_decay_leave_the_state_alone() -> None:
    (q, k, v, decay, beta), start = rows(9, seed=2)
    for rule in (recurrent, chunked):
        assert torch.allclose(rule(q, k, v, decay * 0, beta * 0, start)[1], start, atol=1e-6)


def layer(config: Zonos3Config) -> tuple[DeltaMixer, tuple[Tensor, Tensor]]:
    """A layer of random weights, and the memory of a sequence that has not begun."""
    mixer = DeltaMixer(config)
    torch.nn.init.normal_(mixer.conv)
    torch.nn.init.zeros_(mixer.decay_log)
    torch.nn.init.zeros_(mixer.decay_bias)
    matrix = (1, config.delta_value_heads, config.delta_key_dim, config.delta_value_dim)
    tail = (1, config.delta_conv_kernel - 1, config.delta_channels)
    return mixer, (torch.zeros(matrix), torch.zeros(tail))


@pytest.mark.parametrize("seed", range(4))
def test_a_layer_carries_its_past_over_any_cut(config: Zonos3Config, seed: int) -> None:
    """Convolution, rule and gate: whole at once, in pieces, and row by row."""
    torch.manual_seed(seed)
    mixer, fresh = layer(config)
    x = torch.randn(1, 90, config.dim)
    rng = random.Random(seed)
    with torch.inference_mode():
        whole, *end = mixer(x, *fresh)
        for cuts in (sorted({0, 90, *rng.sample(range(90), 5)}), list(range(91))):
            past, pieces = list(fresh), []
            for begin, stop in pairwise(cuts):
                piece, *past = mixer(x[:, begin:stop], *past)
                pieces.append(piece)
            torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)
            for carried, expected in zip(past, end, strict=True):
                torch.testing.assert_close(carried, expected, atol=1e-5, rtol=0)


@torch.inference_mode()
def test_the_strength_reaches_what_the_configuration_allows(config: Zonos3Config) -> None:
    """Half of 2 is what the sigmoid's end is of 1."""
    torch.manual_seed(0)
    mixer, fresh = layer(config)
    x = torch.randn(1, 20, config.dim)
    x[..., 0] = 1.0
    torch.nn.init.zeros_(mixer.beta.weight)
    half = mixer(x, *fresh)[0]
    mixer.beta_max = 2 * config.delta_beta_max
    one = mixer(x, *fresh)[0]
    mixer.beta_max = config.delta_beta_max
    mixer.beta.weight[:, 0] = 50.0
    torch.testing.assert_close(mixer(x, *fresh)[0], one, atol=1e-5, rtol=0)
    assert (one - half).abs().max() > 1e-2
