"""Shards give back what was put in, and a code costs ten bits."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from training.pack import pack
from training.shards import (
    NO_ALIGNMENT,
    Utterance,
    pack_codes,
    read_shard,
    split,
    unpack_codes,
    write_shard,
)

CODES = arrays.arrays(np.uint16, st.integers(0, 300), elements=st.integers(0, 1023))


@given(CODES)
def test_packed_codes_come_back(codes: np.ndarray) -> None:
    packed = pack_codes(codes)
    assert packed.dtype == np.uint8
    assert len(packed) == -(-len(codes) // 4) * 5
    assert np.array_equal(unpack_codes(packed, len(codes)), codes)


def test_a_code_that_needs_eleven_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="1024"):
        pack_codes(np.array([3, 1024], np.uint16))


def utterance(rng: np.random.Generator, text: str, num_frames: int, speaker: int = 3) -> Utterance:
    return Utterance(
        text=text,
        speaker=speaker,
        speech_s=num_frames * 0.04,
        trailing_silence_s=0.25,
        codes=rng.integers(0, 1024, (num_frames, 9)).astype(np.uint16),
        byte_index=np.sort(rng.integers(0, len(text) + 1, num_frames)).astype(np.uint16),
        phoneme_id=rng.integers(0, 56, num_frames).astype(np.uint8),
        embedding=rng.standard_normal(128).astype(np.float16),
    )


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=40), st.integers(1, 30)), min_size=1, max_size=5
    )
)
def test_a_shard_comes_back(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, int]]
) -> None:
    rng = np.random.default_rng(0)
    written = [utterance(rng, text, num_frames) for text, num_frames in said]
    written[0].byte_index[:] = NO_ALIGNMENT
    path = tmp_path_factory.mktemp("shards") / "a.npz"
    write_shard(path, written)
    for before, after in zip(written, read_shard(path), strict=True):
        assert (after.text, after.speaker) == (before.text, before.speaker)
        assert after.speech_s == pytest.approx(before.speech_s)
        for name in ("codes", "byte_index", "phoneme_id", "embedding"):
            assert np.array_equal(getattr(after, name), getattr(before, name)), name
            assert getattr(after, name).dtype == getattr(before, name).dtype, name


def test_packing_keeps_to_its_size_and_keeps_the_held_out_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    write_shard(tmp_path / "heldout-a.npz", [utterance(rng, "held", 40)])
    write_shard(tmp_path / "b.npz", [utterance(rng, f"learnt {i}", 100) for i in range(300)])
    packed = tmp_path / "packed"
    packed.mkdir()
    pack(sorted(tmp_path.glob("*.npz")), packed, max_mib=0.1)
    paths = sorted(packed.glob("*.npz"))
    assert sum(path.stat().st_size for path in paths) <= 0.1 * 2**20
    learnt, held = split(paths)
    assert [u.text for u in held] == ["held"]
    assert 20 < len(learnt) < 300
    assert "held" not in {u.text for u in learnt}
