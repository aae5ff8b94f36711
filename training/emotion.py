"""Stage ``emotion``: arousal as a direction among speaker embeddings.

Every pseudo-speaker has a calm, a plain and an excited variant (``training.voices``): same throat,
other pitch range, pace and tilt. The direction is the mean difference between excited and calm,
over voices; its length is one step of arousal. It is synthetic: nobody felt anything.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import torch
from torch import Tensor

from training.emotion_directions import write_directions
from training.shards import read_shards
from training.voices import FIRST_FOLDED, MOODS

MIN_SPEECH_S = 1.5


def arousal_direction(shards: list[Path]) -> tuple[Tensor, float]:
    """Half the mean difference excited - calm [dim], and the mean length of an embedding.

    Raises ``ValueError`` when no voice speaks in both moods.
    """
    moods: dict[int, dict[int, list[Tensor]]] = defaultdict(lambda: defaultdict(list))
    for utterance in read_shards(shards):
        if utterance.speaker >= FIRST_FOLDED and utterance.speech_s >= MIN_SPEECH_S:
            voice, mood = divmod(utterance.speaker - FIRST_FOLDED, len(MOODS))
            moods[voice][mood].append(torch.from_numpy(utterance.embedding).float())
    means = [
        {mood: torch.stack(vectors).mean(0) for mood, vectors in by_mood.items()}
        for by_mood in moods.values()
    ]
    differences = [mean[2] - mean[0] for mean in means if 0 in mean and 2 in mean]
    if not differences:
        raise ValueError("no voice in these shards speaks both calmly and excitedly")
    lengths = [vector.norm() for mean in means for vector in mean.values()]
    return torch.stack(differences).mean(0) / 2, float(torch.stack(lengths).mean())


def make_directions(shards: list[Path], folder: Path) -> None:
    """Write a folder of directions as ``engine.zonos2.emotion`` reads it, with this axis alone."""
    direction, length = arousal_direction(shards)
    write_directions(folder, "raw", {}, {"arousal": direction}, ref_base_norm=length)
