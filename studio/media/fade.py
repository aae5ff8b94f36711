"""A cosine fade over the last milliseconds of a sound, also while it is being made.

The tail is withheld until the end is known, so that the faded pieces are the faded whole.
Source: spec/zonos2.md 8.3; golden misc.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np


async def faded(
    chunks: AsyncIterator[np.ndarray], fade_out_ms: float, sample_rate_hz: int
) -> AsyncIterator[np.ndarray]:
    """``chunks`` of float32 samples, the last ``fade_out_ms`` faded to silence; 0 fades none."""
    num_faded = round(fade_out_ms / 1e3 * sample_rate_hz)
    tail = np.zeros(0, np.float32)
    async for chunk in chunks:
        tail = np.concatenate([tail, chunk])
        num_sure = len(tail) - num_faded
        if num_sure > 0:
            yield tail[:num_sure]
            tail = tail[num_sure:]
    if len(tail):
        yield tail * fade_curve(len(tail))


def fade_curve(num_samples: int) -> np.ndarray:
    """Factors [num_samples] float32 from 1 to 0 along half a cosine."""
    return (0.5 * (1 + np.cos(np.linspace(0, np.pi, num_samples)))).astype(np.float32)
