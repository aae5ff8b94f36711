"""Text and conditioning as the rows the model reads.

- A row is one code per codebook and one text id; every id comes from the configuration.
- Order: speaker slot, background, accurate mode, speaking rate, quality features, BOS, bytes, EOS,
  silence. Silence is delayed within its own rows, so its last codebooks are cut off.
- Source: spec/zonos2.md 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from engine.codec.delay import shear
from engine.errors import CheckpointError, InvalidRequest
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import Background, ResolvedControls

_BOS, _EOS = 2, 3
_BYTE_OFFSET = 192
_NUM_BYTE_IDS = _BYTE_OFFSET + 256
_BACKGROUNDS: tuple[Background, ...] = ("clean", "noisy")


@dataclass(frozen=True)
class TextIds:
    """The meaning of the text column's ids in one checkpoint (spec 3.1).

    ``rate`` and ``quality`` hold one id per bucket; what a checkpoint lacks is empty or None.
    """

    bos: int
    eos: int
    byte_offset: int
    pad: int
    rate: range
    quality: Mapping[str, range]
    background: Mapping[Background, int]
    accurate: int | None

    @classmethod
    def of(cls, config: Zonos2Config) -> TextIds:
        """Derive the ids; raises ``CheckpointError`` if the text table cannot hold them all."""
        backgrounds = _BACKGROUNDS if config.has_background_marker else ()
        sizes = [
            config.num_rate_buckets,
            *map(len, config.quality_buckets.values()),
            len(backgrounds),
            int(config.has_accurate_marker),
        ]
        first = config.text_vocab - sum(sizes)
        if first < _NUM_BYTE_IDS:
            raise CheckpointError(
                f"model: text_vocab {config.text_vocab} in params.json is too small for"
                f" {_NUM_BYTE_IDS} byte ids and {sum(sizes)} control ids."
            )
        rate, *quality, background, accurate = (
            range(start, start + size)
            for size, start in zip(sizes, accumulate(sizes, initial=first), strict=False)
        )
        return cls(
            bos=_BOS,
            eos=_EOS,
            byte_offset=_BYTE_OFFSET,
            pad=config.text_vocab,
            rate=rate,
            quality=dict(zip(config.quality_buckets, quality, strict=True)),
            background=dict(zip(backgrounds, background, strict=True)),
            accurate=next(iter(accurate), None),
        )


def build_rows(
    config: Zonos2Config,
    text: str,
    controls: ResolvedControls,
    has_speaker: bool,
    prefix: Tensor | None = None,
) -> Tensor:
    """Return the prompt [rows, codebooks + 1] int64; generation starts on the row after it.

    With ``has_speaker``, row 0 is the slot whose hidden state the speaker vector replaces.
    ``prefix`` [n, codebooks] holds the aligned frames to go on from, in the place of silence.
    Raises ``InvalidRequest`` when the text holds half of a surrogate pair.
    """
    ids = TextIds.of(config)
    markers = [ids.pad] if has_speaker else []
    if controls.background is not None:
        markers.append(ids.background[controls.background])
    if controls.accurate:
        assert ids.accurate is not None  # resolve_controls asks for declared controls only
        markers.append(ids.accurate)
    if controls.rate_bucket is not None:
        markers.append(ids.rate[controls.rate_bucket])
    for feature, bucket_ids in ids.quality.items():
        bucket = controls.quality.get(feature)
        if bucket is not None:
            markers.append(bucket_ids[bucket])
    spoken = [ids.byte_offset + byte for byte in _utf8(text)]
    head = _rows_of_text(config, [*markers, ids.bos, *spoken, ids.eos])
    spoken_before = _silence(config) if prefix is None else prefix
    return torch.cat([head, _delayed(config, spoken_before, ids.pad)])


def _rows_of_text(config: Zonos2Config, text_ids: list[int]) -> Tensor:
    rows = torch.full((len(text_ids), config.row_width), config.audio_pad_id, dtype=torch.int64)
    rows[:, -1] = torch.tensor(text_ids)
    return rows


def _silence(config: Zonos2Config) -> Tensor:
    shape = (len(config.silence_frames), config.num_codebooks)
    return torch.tensor(config.silence_frames, dtype=torch.int64).reshape(shape)


def _delayed(config: Zonos2Config, frames: Tensor, text_pad: int) -> Tensor:
    text = torch.full((len(frames), 1), text_pad)
    return torch.cat([shear(frames, config.audio_pad_id), text], dim=1)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"input: character {error.start + 1} of the text (U+{ord(text[error.start]):04X}) is"
            " half of a surrogate pair and stands for no character; remove it.",
            field="input",
        ) from None
