"""A request's sound as it would leave, without the rest of the engine."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from engine.codec.base import Codec
from engine.codec.streaming import decode_windows
from engine.outlet import ChunkFrames, Outlet


def in_chunks(codec: Codec, codes: Tensor, chunks: ChunkFrames) -> np.ndarray:
    """What an outlet decodes while ``codes`` come one by one."""
    outlet, pieces = Outlet(codec, chunks), []
    for number in range(len(codes)):
        outlet.push(codes[number : number + 1])
        is_end = number == len(codes) - 1
        while window := outlet.next_window(True, is_end, is_end):
            (samples,) = decode_windows(codec, [window])
            pieces.append(outlet.take(window, samples))
    return np.concatenate(pieces)
