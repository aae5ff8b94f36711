"""Voice, controls and text as the rows the model reads, in this order.

- The voice is the frames of its clip, delayed like generated ones and carried to their end, or one
  row whose hidden state the speaker vector replaces.
- Then one row per control, then the text between its begin and end ids.
- Text ids: the tokenizer's, then each control's buckets with "unknown" last, then pad.
- Source: spec/zonos3.md 1.4, 2 and section 7, point 3. What is not public there is ZONOS2's way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from engine.codec.delay import shear
from engine.zonos3.config import Zonos3Config


def clip_rows(config: Zonos3Config, clip: Tensor) -> Tensor:
    """A clip's codes [T, C] as rows [T + C - 1, C + 1]: every code of it is in one of them."""
    missing = clip.new_full((config.num_codebooks - 1, config.num_codebooks), config.audio_pad_id)
    codes = shear(torch.cat([clip, missing]), config.audio_pad_id)
    return torch.cat([codes, codes.new_full((len(codes), 1), config.text_vocab)], dim=1)


def speaker_slot(config: Zonos3Config) -> Tensor:
    """The row [1, C + 1] that a speaker vector replaces."""
    return _text_rows(config, [config.text_vocab])


def content_rows(config: Zonos3Config, controls: Mapping[str, int], text: Sequence[int]) -> Tensor:
    """Controls (each with its index) and text ids as rows [T, C + 1]; speech starts after them."""
    ids = []
    first = config.tokenizer_size
    for name, edges in config.condition_edges.items():
        ids.append(first + controls[name])
        first += len(edges) + 2
    return _text_rows(config, [*ids, config.bos_id, *text, config.eos_id])


def _text_rows(config: Zonos3Config, ids: Sequence[int]) -> Tensor:
    rows = torch.full((len(ids), config.row_width), config.audio_pad_id, dtype=torch.int64)
    rows[:, -1] = torch.tensor(ids)
    return rows
