"""Which byte and which phoneme every 40 ms frame belongs to, from a teacher's phoneme times."""

from __future__ import annotations

import re

import numpy as np

from training.shards import NO_ALIGNMENT, NO_PHONEME
from training.speech import FRAME_SAMPLES, Take
from training.teacher import PHONEMES, TICK_SAMPLES

PHONEME_IDS = {phoneme: index for index, phoneme in enumerate(PHONEMES, start=1)}
NUM_PHONEME_IDS = 64
TICKS_PER_FRAME = FRAME_SAMPLES / TICK_SAMPLES


def align(take: Take) -> tuple[np.ndarray, np.ndarray]:
    """byte_index [frames] uint16 and phoneme_id [frames] uint8 of one take."""
    num_frames = take.num_frames
    byte_index = np.full(num_frames, NO_ALIGNMENT, np.uint16)
    phoneme_id = np.full(num_frames, NO_PHONEME, np.uint8)
    if not take.tick_ends:
        return byte_index, phoneme_id
    # tick_ends[0] ends the pause before the first phoneme, tick_ends[i + 1] phoneme i.
    ends = np.array(take.tick_ends)
    tick = ((np.arange(num_frames) + 0.5) * TICKS_PER_FRAME).astype(int)
    place = np.searchsorted(ends, tick, side="right")  # 0: before the speech
    ids = np.array([0, *(PHONEME_IDS.get(p, NO_PHONEME) for p in take.phonemes), 0])
    phoneme_id[:] = ids[np.minimum(place, len(ids) - 1)]
    spoken = [match.span() for match in re.finditer(r"\S+", take.phonemes)]
    written = [match.span() for match in re.finditer(r"\S+", take.text)]
    if len(spoken) != len(written) or not take.text.isascii():
        return byte_index, phoneme_id
    # Within a word the byte moves evenly; between words it stays on the last one.
    times, bytes_at = [-1.0], [0.0]
    for (first, last), (start, end) in zip(spoken, written, strict=True):
        times += [float(ends[first]), float(max(ends[last], ends[first] + 1)) - 1e-3]
        bytes_at += [float(start), end - 0.01]
    position = np.interp(tick, np.maximum.accumulate(times), bytes_at)
    position = np.where(tick >= ends[len(take.phonemes)], len(take.text), position)
    byte_index[:] = position.astype(np.uint16)
    return byte_index, phoneme_id
