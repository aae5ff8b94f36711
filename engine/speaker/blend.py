"""Speaker embeddings between and in the middle of others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# Below this sine the vectors point the same way, or opposite ways with no arc of their own between.
MIN_SINE = 1e-6


def slerp(first: Tensor, second: Tensor, t: float) -> Tensor:
    """Spherical blend of two embeddings [dim]: ``first`` at t = 0, ``second`` at t = 1.

    The angle is that of the directions, the weights apply to the vectors as they are, so lengths
    blend too. (Nearly) parallel vectors blend linearly. Source: spec/zonos2.md 7.4.
    """
    a, b = first.double(), second.double()
    cosine = torch.dot(F.normalize(a, dim=0), F.normalize(b, dim=0)).clamp(-1.0, 1.0)
    angle = torch.arccos(cosine)
    sine = torch.sin(angle)
    if sine < MIN_SINE:
        blend = torch.lerp(a, b, t)
    else:
        blend = (torch.sin((1 - t) * angle) * a + torch.sin(t * angle) * b) / sine
    return blend.to(first.dtype)


def average(embeddings: Sequence[Tensor]) -> Tensor:
    """The mean of one or more embeddings [dim], for example of several recordings of a speaker."""
    return torch.stack(list(embeddings)).mean(0)
