"""Stage ``pack``: as much of the corpus as fits a given size, to carry to another machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.shards import HELD_OUT, split, write_shard

PER_SHARD = 2000
SEED = 5


def pack(shards: list[Path], folder: Path, max_mib: float) -> None:
    """Draw utterances into ``folder`` up to ``max_mib``; the held-out ones come along."""
    budget = max_mib * 2**20
    utterances, held = split(shards)
    if held:
        budget -= write_shard(folder / f"{HELD_OUT}.npz", held)
    order = np.random.default_rng(SEED).permutation(len(utterances))
    for start in range(0, len(order), PER_SHARD):
        chosen = [utterances[i] for i in order[start : start + PER_SHARD]]
        path = folder / f"part-{start // PER_SHARD:03d}.npz"
        size = write_shard(path, chosen)
        if size > budget:
            path.unlink()
            fitting = chosen[: int(len(chosen) * 0.97 * max(budget, 0) / size)]
            if fitting:
                write_shard(path, fitting)
            return
        budget -= size
