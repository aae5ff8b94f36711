"""The sampler against the golden data and against a slow reading of the specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.sampling import History, ResolvedSampling, SamplingRows, draw, probabilities, uniforms
from engine.sampling.sampler import min_p_mask, penalise, top_p_mask
from engine.sampling.settings import OPEN_TOP_K

_GOLDEN = Path(__file__).parents[2] / "golden"
_DATA = np.load(_GOLDEN / "sampler.npz")
_CASES = json.loads((_GOLDEN / "sampler.json").read_text(encoding="utf-8"))["cases"]
_LOGITS = torch.from_numpy(_DATA["logits"])
_HISTORIES = torch.from_numpy(_DATA["histories"])
_TOLERANCE = 1e-6
# Upstream gives every request of a batch the smallest top-k and the largest top-p and min-p among
# them. Ours are per request, so this case must equal its members' own settings instead.
# (batch_mixed_temp_zero records the same code path, but its members agree on those three.)
_COUPLED = {"batch_mixed_params"}


def _settings(given: dict[str, Any]) -> ResolvedSampling:
    # The golden data leaves the ranges of our API on purpose (min_p 1.5, penalty 0.5).
    return ResolvedSampling(
        temperature=given["temperature"],
        top_k=given["topk"] if given["topk"] >= 1 else OPEN_TOP_K,
        top_p=given["top_p"],
        min_p=given["min_p"],
        repetition_penalty=given["repetition_penalty"],
        repetition_window=given["repetition_window"],
        repetition_codebooks=given["repetition_codebooks"],
    )


def _slow_probabilities(logits: np.ndarray, history: np.ndarray, s: ResolvedSampling) -> np.ndarray:
    """The specification's order, one row at a time. logits [C, V], history [n, C].

    Penalty and temperature in float32 (they round what the rest starts from), the rest in float64.
    """
    result = np.zeros(logits.shape)
    covered = len(logits) if s.repetition_codebooks < 0 else s.repetition_codebooks
    for codebook, row in enumerate(logits.copy()):
        recent = history[max(0, len(history) - s.repetition_window) :, codebook]
        for code in set(recent.tolist()) if codebook < covered else ():
            if code < 1024:
                penalty = np.float32(max(1.0, s.repetition_penalty))
                row[code] = row[code] / penalty if row[code] > 0 else row[code] * penalty
        if s.temperature == 0:
            result[codebook, row.argmax()] = 1.0
            continue
        row = (row / np.float32(max(s.temperature, 1e-6))).astype(np.float64)
        row[row < np.sort(row)[-min(s.top_k, len(row))]] = -np.inf
        chances = np.exp(row - row.max())
        chances /= chances.sum()
        if 0 < s.top_p < 1:
            mass = 0.0
            for code in np.argsort(-chances, kind="stable"):
                mass, chance = mass + chances[code], chances[code]
                if mass - chance > s.top_p:
                    chances[code] = 0.0
            chances /= chances.sum()
        chances[chances < s.min_p * chances.max()] = 0.0
        result[codebook] = chances / chances.sum() if chances.any() else row == row.max()
    return result


def _prepared(case: dict[str, Any]) -> tuple[Tensor, SamplingRows, History]:
    num_rows = len(case["logit_rows"])
    rows, history = SamplingRows(num_rows, 1026), History(num_rows, 9, 1024)
    for slot, params in enumerate(case["params"]):
        rows.set(slot, _settings(params), seed=slot)
    lengths = torch.tensor(case["history_lengths"])
    for age in range(80, 0, -1):
        frames = torch.stack([_HISTORIES[row, -age] for row in case["logit_rows"]])
        history.append(frames, age <= lengths)
    return _LOGITS[case["logit_rows"]], rows, history


def _dense(name: str, num_rows: int) -> Tensor:
    expected = torch.zeros(num_rows, 9, 1026)
    index = torch.from_numpy(_DATA[f"{name}__idx"].astype(np.int64))
    expected[tuple(index.T)] = torch.from_numpy(_DATA[f"{name}__p"])
    return expected


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["name"])
def test_golden_probabilities(case: dict[str, Any]) -> None:
    logits, rows, history = _prepared(case)
    got = probabilities(logits, rows, history)
    if case["name"] in _COUPLED:
        alone = np.stack(
            [
                _slow_probabilities(row.numpy(), past[len(past) - length :], _settings(given))
                for row, past, length, given in zip(
                    logits,
                    _HISTORIES[case["logit_rows"]].numpy(),
                    case["history_lengths"],
                    case["params"],
                    strict=True,
                )
            ]
        )
        torch.testing.assert_close(got.double(), torch.from_numpy(alone), atol=1e-6, rtol=0)
        coupled = _dense(case["name"], len(logits))
        assert float((got - coupled).abs().max()) > 0.1
    else:
        torch.testing.assert_close(got, _dense(case["name"], len(logits)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["name"])
def test_golden_penalty_window_and_arg_max(case: dict[str, Any]) -> None:
    logits, rows, history = _prepared(case)
    scores = torch.cat([logits, torch.full((*logits.shape[:2], 1), -torch.inf)], -1)
    if rows.max_window:
        penalise(scores, rows, history)
    name = case["name"]
    expected = logits.clone()
    index = torch.from_numpy(_DATA[f"{name}__pen_idx"].astype(np.int64))
    expected[tuple(index.T)] = torch.from_numpy(_DATA[f"{name}__pen_val"])
    torch.testing.assert_close(scores[..., :-1], expected, atol=_TOLERANCE, rtol=0)
    assert scores[..., :-1].argmax(-1).tolist() == _DATA[f"{name}__greedy"].tolist()
    if f"{name}__window_ids" in _DATA and len(logits) == 1:
        golden = _DATA[f"{name}__window_ids"][0]  # [C, W], oldest first, -1 where ignored
        recent, counts = history.latest(golden.shape[1])
        for codebook, window in enumerate(golden):
            kept = window[window >= 0]
            mine = recent[0, : int(counts[0]), codebook].flip(0)
            assert not len(kept) or mine[mine < 1024].tolist() == kept.tolist()


@given(
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.3, 1.0, 4.0]),
    num_past=st.integers(0, 60),
    chosen=st.builds(
        ResolvedSampling,
        temperature=st.sampled_from([0.0, 0.1, 0.7, 1.15, 2.0]),
        top_k=st.sampled_from([1, 2, 50, 106, 513, 1024, 1025, 1026]),
        top_p=st.sampled_from([0.0, 0.05, 0.5, 0.9, 0.999]),
        min_p=st.sampled_from([0.0, 0.02, 0.18, 0.9, 1.0]),
        repetition_penalty=st.sampled_from([1.0, 1.2, 3.0]),
        repetition_window=st.sampled_from([0, 1, 9, 50, 1024]),
        repetition_codebooks=st.integers(-1, 9),
    ),
)
@settings(max_examples=100, deadline=None)
def test_any_settings_equal_a_slow_reading_of_the_specification(
    seed: int, spread: float, num_past: int, chosen: ResolvedSampling
) -> None:
    random = np.random.default_rng(seed)
    logits = (random.standard_normal((9, 1026)) * spread).astype(np.float32)
    past = random.integers(0, 1026, (num_past, 9))
    rows, history = SamplingRows(1, 1026), History(1, 9, 1024)
    rows.set(0, chosen, seed=0)
    for frame in past:
        history.append(torch.from_numpy(frame)[None])
    got = probabilities(torch.from_numpy(logits)[None], rows, history)[0].double().numpy()
    expected = _slow_probabilities(logits, past, chosen)
    # An id within a rounding error of a cut may fall on either side of it, in one codebook.
    assert np.isclose(got, expected, atol=_TOLERANCE, rtol=0).all(-1).sum() >= 8


def test_golden_ties_at_the_cut_all_stay() -> None:
    logits = torch.from_numpy(_DATA["tie_logits"]).unsqueeze(0)
    history = History(1, 9, 1024)
    for name, changed in (
        ("tie_topk1", {"topk": 1}),
        ("tie_topk3", {"topk": 3}),
        ("tie_minp1", {"min_p": 1.0}),
    ):
        rows = SamplingRows(1, 1026)
        plain = {**_CASES[3]["params"][0], **changed}
        rows.set(0, _settings(plain), seed=0)
        expected = torch.from_numpy(_DATA[f"{name}__probs"])
        got = probabilities(logits, rows, history)[0, 0]
        torch.testing.assert_close(got, expected, atol=_TOLERANCE, rtol=0)


def test_golden_boundaries_of_top_p_and_min_p() -> None:
    for mask, name, limits in (
        (top_p_mask, "topp", "topp_boundary_p"),
        (min_p_mask, "minp", "minp_boundary_m"),
    ):
        chances = torch.from_numpy(_DATA[f"{name}_boundary_in"])[None]
        expected = torch.from_numpy(_DATA[f"{name}_boundary_out"])
        for limit, row in zip(_DATA[limits], expected, strict=True):
            kept = chances * mask(chances, torch.full((1, 1, 1), float(limit)))
            torch.testing.assert_close(kept[0, 0] / kept.sum(), row, atol=_TOLERANCE, rtol=0)


def test_temperature_zero_is_the_arg_max_even_among_ties() -> None:
    rows, history = SamplingRows(3, 1026), History(3, 9, 1024)
    given = {**_CASES[0]["params"][0], "temperature": 0.0}
    for slot in range(3):
        rows.set(slot, _settings(given), seed=slot)
    codes = draw(probabilities(_LOGITS, rows, history), rows.seed, history.counts)
    assert codes.tolist() == _DATA["direct_temp0_tokens"][:, :9].tolist()
    tied = torch.from_numpy(_DATA["tie_logits"]).expand(3, -1, -1)
    assert probabilities(tied, rows, history)[0, 0].nonzero().tolist() == [[5]]


def test_end_of_audio_and_pad_are_never_penalised() -> None:
    rows, history = SamplingRows(1, 1026), History(1, 9, 1024)
    rows.set(0, ResolvedSampling(1.0, 1024, 0.0, 0.0, 3.0, 50, -1), seed=0)
    for code in (1023, 1024, 1025):
        history.append(torch.full((1, 9), code))
    scores = torch.ones(1, 9, 1027)
    penalise(scores, rows, history)
    assert scores[0, :, 1023:1026].tolist() == [[pytest.approx(1 / 3), 1, 1]] * 9


def test_the_ring_keeps_the_latest_rows_across_its_end_and_forgets_on_reset() -> None:
    history = History(2, 9, 1024, capacity=5)
    for frame in range(13):
        history.append(torch.full((2, 9), frame), torch.tensor([True, frame % 2 == 0]))
    recent, counts = history.latest(5)
    assert recent[:, :, 0].tolist() == [[12, 11, 10, 9, 8], [12, 10, 8, 6, 4]]
    assert history.counts.tolist() == [13, 7] and counts.tolist() == [5, 5]
    history.reset(0)
    history.append(torch.full((1, 9), 77), slots=torch.tensor([0]))
    recent, counts = history.latest(3)
    assert counts.tolist() == [1, 3]
    assert recent[0, 0].tolist() == [77] * 9 and recent[1, 0, 0] == 12


def test_rows_tell_the_host_only_what_is_in_use() -> None:
    rows = SamplingRows(3, 1026)
    assert (rows.max_top_k, rows.max_window, rows.any_top_p, rows.any_greedy) == (
        0,
        0,
        False,
        False,
    )
    rows.set(0, ResolvedSampling(1.0, 1026, 0.0, 0.0, 1.0, 50, 8), seed=1)
    assert (rows.max_top_k, rows.max_window) == (0, 0)
    rows.set(1, ResolvedSampling(0.0, 106, 0.5, 0.0, 1.2, 30, -1), seed=2**63 - 1)
    assert (rows.max_top_k, rows.max_window, rows.any_top_p, rows.any_greedy) == (
        106,
        30,
        True,
        True,
    )
    assert rows.seed.tolist() == [1, 2**63 - 1, 0]
    rows.clear(1)
    assert (rows.max_top_k, rows.max_window, rows.any_top_p, rows.any_greedy) == (
        0,
        0,
        False,
        False,
    )


def test_draws_follow_the_probabilities() -> None:
    num_draws = 40_000
    weights = torch.tensor([0.0, 0.5, 0.2, 0.1, 0.0, 0.1, 0.05, 0.03, 0.02, 0.0])
    chances = weights.expand(num_draws, 9, -1).contiguous()
    for seeds, frames in (
        (torch.arange(num_draws), torch.zeros(num_draws, dtype=torch.int64)),
        (torch.full((num_draws,), 2**63 - 1), torch.arange(num_draws)),
    ):
        codes = draw(chances, seeds, frames)
        for codebook in range(9):
            counts = torch.bincount(codes[:, codebook], minlength=10).double()
            assert counts[weights == 0].sum() == 0
            expected = weights[weights > 0].double() * num_draws
            chi_square = float((((counts[weights > 0] - expected) ** 2) / expected).sum())
            assert chi_square < 30  # 6 degrees of freedom: passed by 99.996 % of fair draws


def test_the_draw_is_the_inverse_of_the_cumulated_probabilities() -> None:
    chances = _dense("default_nohist", 1)
    seeds, frames = torch.arange(500), torch.arange(500)
    noise = uniforms(seeds, frames, 9).numpy()
    codes = draw(chances.expand(500, -1, -1), seeds, frames).numpy()
    cumulated = chances[0].double().numpy().cumsum(-1)
    for codebook in range(9):
        target = noise[:, codebook] * cumulated[codebook, -1]
        expected = np.searchsorted(cumulated[codebook], target, side="right")
        assert (codes[:, codebook] == expected).all()


@pytest.mark.parametrize(("noise", "code"), [(0.0, 2), (1 - 2**-53, 7)])
def test_the_ends_of_the_noise_draw_the_first_and_last_possible_code(
    noise: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def constant(seeds: Tensor, frames: Tensor, num_codebooks: int) -> Tensor:
        return torch.full((len(seeds), num_codebooks), noise, dtype=torch.float64)

    monkeypatch.setattr("engine.sampling.sampler.uniforms", constant)
    chances = torch.zeros(1, 9, 1026)
    chances[..., 2], chances[..., 5], chances[..., 7] = 0.1, 0.3, 0.6
    key = torch.zeros(1, dtype=torch.int64)
    assert draw(chances, key, key).tolist() == [[code] * 9]


def test_a_broken_row_stays_in_range_and_leaves_its_neighbours_alone() -> None:
    rows, history = SamplingRows(3, 1026), History(3, 9, 1024)
    for slot in range(3):
        rows.set(slot, _settings(_CASES[0]["params"][0]), seed=slot)
    sound = probabilities(_LOGITS, rows, history)
    for value in (torch.nan, torch.inf, -torch.inf):
        broken = _LOGITS.clone()
        broken[1] = value
        got = probabilities(broken, rows, history)
        assert torch.equal(got[::2], sound[::2])
        codes = draw(got, rows.seed, history.counts)
        assert int(codes.min()) >= 0 and int(codes.max()) < 1026
