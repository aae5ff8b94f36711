"""Utterances as bit-packed shards: what the language model learns from, and nothing else.

- A code needs 10 bits, so four codes take five bytes; alignments compress well and are deflated.
- One shard is one ``.npz`` file that needs NumPy alone and holds whole utterances.
- ``NO_ALIGNMENT`` and ``NO_PHONEME`` mark frames of teachers that do not tell durations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.work import replacing

# Shards whose names begin so are never learnt from.
HELD_OUT = "heldout"
NO_ALIGNMENT = 0xFFFF
NO_PHONEME = 0xFF
CODES_PER_GROUP, BYTES_PER_GROUP = 4, 5


@dataclass(frozen=True, eq=False)
class Utterance:
    """One spoken text as codes.

    codes [T, 9] uint16 (aligned, not sheared); byte_index [T] uint16: the UTF-8 byte being spoken,
    the text's length once it is over; phoneme_id [T] uint8; embedding [speaker_dim] float16.
    """

    text: str
    speaker: int
    speech_s: float
    trailing_silence_s: float
    codes: np.ndarray
    byte_index: np.ndarray
    phoneme_id: np.ndarray
    embedding: np.ndarray

    @property
    def num_frames(self) -> int:
        """Frames of speech and trailing silence."""
        return len(self.codes)


def pack_codes(codes: np.ndarray) -> np.ndarray:
    """Codes below 1024, any shape -> uint8 [ceil(n / 4) * 5]."""
    flat = codes.astype(np.uint64).ravel()
    if flat.size and int(flat.max()) >= 1 << 10:
        raise ValueError("a code must be below 1024")
    groups = np.pad(flat, (0, -flat.size % CODES_PER_GROUP)).reshape(-1, CODES_PER_GROUP)
    words = np.zeros(len(groups), np.uint64)
    for place in range(CODES_PER_GROUP):
        words |= groups[:, place] << np.uint64(10 * place)
    shifts = np.arange(BYTES_PER_GROUP, dtype=np.uint64) * np.uint64(8)
    return ((words[:, None] >> shifts) & np.uint64(0xFF)).astype(np.uint8).ravel()


def unpack_codes(packed: np.ndarray, num_codes: int) -> np.ndarray:
    """The inverse of ``pack_codes``: uint16 [num_codes]."""
    groups = packed.reshape(-1, BYTES_PER_GROUP).astype(np.uint64)
    shifts = np.arange(BYTES_PER_GROUP, dtype=np.uint64) * np.uint64(8)
    words = (groups << shifts).sum(axis=1, dtype=np.uint64)
    places = np.arange(CODES_PER_GROUP, dtype=np.uint64) * np.uint64(10)
    codes = (words[:, None] >> places) & np.uint64(0x3FF)
    return codes.astype(np.uint16).ravel()[:num_codes]


def write_shard(path: Path, utterances: Sequence[Utterance]) -> int:
    """Write one shard -> its size in bytes."""
    texts = [utterance.text.encode() for utterance in utterances]
    starts = np.cumsum([0, *(utterance.num_frames for utterance in utterances)])
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file,
            codes=pack_codes(np.concatenate([u.codes for u in utterances])),
            frame_start=starts.astype(np.int64),
            num_codebooks=np.int64(utterances[0].codes.shape[1]),
            # Differences are almost always 0 or small: deflate makes them cheap.
            byte_step=np.diff(
                np.concatenate([u.byte_index for u in utterances]).astype(np.int32), prepend=0
            ),
            phoneme_id=np.concatenate([u.phoneme_id for u in utterances]),
            embedding=np.stack([u.embedding for u in utterances]),
            text=np.frombuffer(b"".join(texts), np.uint8),
            text_start=np.cumsum([0, *map(len, texts)]).astype(np.int64),
            speaker=np.array([u.speaker for u in utterances], np.int32),
            speech_s=np.array([u.speech_s for u in utterances], np.float32),
            trailing_silence_s=np.array([u.trailing_silence_s for u in utterances], np.float32),
        )
    return path.stat().st_size


def read_shard(path: Path) -> list[Utterance]:
    """All utterances of one shard."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    starts, text_starts = arrays["frame_start"], arrays["text_start"]
    num_frames, num_codebooks = int(starts[-1]), int(arrays["num_codebooks"])
    codes = unpack_codes(arrays["codes"], num_frames * num_codebooks)
    codes = codes.reshape(num_frames, num_codebooks)
    byte_index = np.cumsum(arrays["byte_step"]).astype(np.uint16)
    text = arrays["text"].tobytes()
    utterances = []
    for i in range(len(starts) - 1):
        frames = slice(int(starts[i]), int(starts[i + 1]))
        utterances.append(
            Utterance(
                text=text[int(text_starts[i]) : int(text_starts[i + 1])].decode(),
                speaker=int(arrays["speaker"][i]),
                speech_s=float(arrays["speech_s"][i]),
                trailing_silence_s=float(arrays["trailing_silence_s"][i]),
                codes=codes[frames],
                byte_index=byte_index[frames],
                phoneme_id=arrays["phoneme_id"][frames],
                embedding=arrays["embedding"][i],
            )
        )
    return utterances


def read_shards(paths: Iterable[Path]) -> Iterator[Utterance]:
    """The utterances of many shards, one after the other."""
    for path in sorted(paths):
        yield from read_shard(path)


def split(paths: Iterable[Path]) -> tuple[list[Utterance], list[Utterance]]:
    """Utterances to learn from, and those never learnt from."""
    paths = list(paths)
    held = [path for path in paths if path.name.startswith(HELD_OUT)]
    learnt = [path for path in paths if path not in held]
    return list(read_shards(learnt)), list(read_shards(held))
