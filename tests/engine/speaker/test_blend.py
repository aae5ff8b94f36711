"""Blends of embeddings against the golden data and at the edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.speaker.blend import average, slerp

golden = np.load(Path(__file__).parents[2] / "golden" / "misc.npz")
A, B, ZERO = (torch.from_numpy(golden[f"slerp_{name}"]) for name in ("a", "b", "zero"))


@pytest.mark.parametrize(
    ("case", "second"),
    [("ab", B), ("same", A), ("scaled", 3 * A), ("scaled_b", 5 * B), ("zero", ZERO)],
)
def test_slerp_equals_the_golden_blends(case: str, second: torch.Tensor) -> None:
    blends = torch.stack([slerp(A, second, float(t)) for t in golden["slerp_t"]])
    np.testing.assert_allclose(blends.numpy(), golden[f"slerp_out_{case}"], atol=1e-5)


def test_opposite_vectors_blend_through_the_middle() -> None:
    assert torch.allclose(slerp(A, -A, 0.25), 0.5 * A)


def test_the_average_is_the_mean_vector() -> None:
    assert torch.equal(average([A]), A)
    assert torch.allclose(average([A, B, ZERO]), (A + B) / 3)
