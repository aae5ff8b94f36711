"""Each Triton kernel gives its plain twin's numbers, in Triton's interpreter; row by row alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

REPOSITORY = Path(__file__).parents[2]


def experts_agree() -> None:
    """Run by the child: float32, int8 with scales, two experts a row, and a row by itself."""
    from engine.kernels import experts
    from engine.weights import store_rows

    generator = torch.Generator().manual_seed(0)
    for num_rows, topk, dim, ffn_dim in ((5, 1, 72, 40), (18, 2, 40, 72)):
        rows = torch.randn(num_rows, dim, generator=generator)
        w13 = torch.randn(4, 2 * ffn_dim, dim, generator=generator) * dim**-0.5
        w2 = torch.randn(4, dim, ffn_dim, generator=generator) * ffn_dim**-0.5
        ranks = torch.rand(num_rows, 4, generator=generator)
        chosen = ranks.topk(topk).indices
        weights = torch.rand(num_rows, topk, generator=generator)
        found = experts.launch(rows, chosen, weights, w13, w2)
        torch.testing.assert_close(found, experts.plain(rows, chosen, weights, w13, w2))
        alone = experts.launch(rows[2:3], chosen[2:3], weights[2:3], w13, w2)
        assert torch.equal(alone[0], found[2])
        (narrow13, scale13), (narrow2, scale2) = store_rows(w13), store_rows(w2)
        narrow = narrow13, narrow2, (scale13[..., 0], scale2[..., 0])
        found = experts.launch(rows, chosen, weights, *narrow)
        torch.testing.assert_close(found, experts.plain(rows, chosen, weights, *narrow))


def attention_agrees() -> None:
    """Run by the child: slots of all lengths, and a slot beside longer and shorter ones."""
    from engine.kernels import attention

    generator = torch.Generator().manual_seed(1)
    q = torch.randn(4, 2, 2, 16, generator=generator)
    keys = torch.randn(4, 2, 150, 16, generator=generator)
    values = torch.randn(4, 2, 150, 16, generator=generator)
    places = torch.tensor([0, 63, 64, 140])
    found = attention.launch(q, keys, values, places)
    torch.testing.assert_close(found, attention.plain(q, keys, values, places))
    others = attention.launch(q, keys, values, torch.tensor([149, 63, 5, 140]))
    assert torch.equal(found[1], others[1]) and torch.equal(found[3], others[3])


def test_kernels_agree_with_their_twins() -> None:
    """In a child, because Triton asks for its interpreter when it is imported."""
    pytest.importorskip("triton")
    own = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, __file__]
    subprocess.run(command, env={**os.environ, **own}, check=True, timeout=240)


if __name__ == "__main__":
    experts_agree()
    attention_agrees()
