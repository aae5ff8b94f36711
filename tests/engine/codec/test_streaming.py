"""Audio in pieces is the audio of a whole decode, for nano and for codecs of any context."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.codec.base import Codec
from engine.codec.nano import NanoCodec
from engine.codec.streaming import CodecStream, Window, decode_windows
from engine.outlet import ChunkFrames
from tests.engine.codec.chunked import in_chunks

NUM_FRAMES = 90


class MovingSumCodec:
    """Two samples per frame, each a weighted sum of the frames in its context: exact in float32."""

    sample_rate_hz, hop, num_codebooks, codebook_size = 8000, 2, 2, 16
    device = torch.device("cpu")

    def __init__(self, left: int, right: int, decode_rows: int = 1) -> None:
        self.context_left, self.context_right, self.decode_rows = left, right, decode_rows
        self.calls: list[Tensor] = []

    def decode(self, codes: Tensor) -> Tensor:
        self.calls.append(codes)
        values = (codes + 1).sum(-1, keepdim=True).mT.float()  # [B, 1, T]
        padded = F.pad(values, (self.context_left, self.context_right))
        taps = torch.arange(1.0, 2 * (self.context_left + self.context_right + 1) + 1)
        sums = F.conv1d(padded, taps.view(2, 1, -1))  # [B, hop, T]
        return sums.mT.flatten(1)


def random_codes(num_frames: int, codec: Codec, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    size = (num_frames, codec.num_codebooks)
    return torch.randint(0, codec.codebook_size, size, generator=generator)


def stream(
    codec: Codec, codes: Tensor, piece_frames: Sequence[int], push_frames: int = 1
) -> Iterator[tuple[Window, Tensor]]:
    """Push ``codes`` a few frames at a time; ask for pieces of the given sizes, the last one on."""
    codec_stream, sizes = CodecStream(codec), list(piece_frames)
    parts = codes.split(push_frames) if len(codes) else (codes,)
    for number, frames in enumerate(parts):
        codec_stream.push(frames)
        while window := codec_stream.window(sizes[0], final=number == len(parts) - 1):
            (samples,) = decode_windows(codec, [window])
            codec_stream.accept(window, samples)
            sizes = sizes[1:] or sizes
            yield window, samples


def pieces_of(codec: Codec, codes: Tensor, piece_frames: Sequence[int], push: int = 1) -> Tensor:
    pieces = [samples for _, samples in stream(codec, codes, piece_frames, push)]
    return torch.cat([torch.empty(0), *pieces])


def relative_error(pieces: Tensor, whole: Tensor) -> float:
    assert pieces.shape == whole.shape
    return float((pieces - whole).abs().max() / whole.square().mean().sqrt())


@pytest.fixture(scope="module")
def codes(nano: NanoCodec) -> Tensor:
    return random_codes(NUM_FRAMES, nano)


@pytest.fixture(scope="module")
def whole(nano: NanoCodec, codes: Tensor) -> Tensor:
    with torch.inference_mode():
        return nano.decode(codes[None])[0]


@pytest.mark.parametrize(
    "piece_frames",
    [[1], [7], [24], [32], [3, 17, 1, 40, 2, 9], [NUM_FRAMES]],
    ids=["1", "7", "24", "32", "random", "all"],
)
def test_nano_in_pieces_is_the_whole_decode(
    nano: NanoCodec, codes: Tensor, whole: Tensor, piece_frames: list[int]
) -> None:
    assert relative_error(pieces_of(nano, codes, piece_frames), whole) < 1e-4


@pytest.mark.parametrize(
    ("left", "right"), [(10, 1), (10, 3), (20, 1)], ids=["both", "left", "right"]
)
def test_half_the_context_is_not_enough(
    nano: NanoCodec,
    codes: Tensor,
    whole: Tensor,
    left: int,
    right: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nano, "context_left", left)
    monkeypatch.setattr(nano, "context_right", right)
    assert relative_error(pieces_of(nano, codes, [24]), whole) > 1e-4


@pytest.mark.parametrize("num_frames", [1, 2, 3, 4, 5, 19, 23, 24])
def test_audio_shorter_than_the_context_is_the_whole_decode(
    nano: NanoCodec, num_frames: int
) -> None:
    codes = random_codes(num_frames, nano, seed=num_frames)
    whole = nano.decode(codes[None])[0]
    assert relative_error(pieces_of(nano, codes, [4]), whole) < 1e-4


def test_no_frames_give_no_window(nano: NanoCodec) -> None:
    codec_stream = CodecStream(nano)
    assert codec_stream.window(1, final=False) is None
    assert codec_stream.window(1, final=True) is None
    codec_stream.push(torch.empty(0, nano.num_codebooks, dtype=torch.int64))
    assert codec_stream.window(1, final=True) is None
    assert decode_windows(nano, []) == []


def test_a_window_waits_for_its_right_context_and_keeps_no_old_frames(nano: NanoCodec) -> None:
    codec_stream, frames = CodecStream(nano), random_codes(200, nano)
    codec_stream.push(frames[: 4 + nano.context_right - 1])
    assert codec_stream.window(4, final=False) is None
    codec_stream.push(frames[4 + nano.context_right - 1 :])
    while window := codec_stream.window(4, final=False):
        assert window.num_frames == 4
        assert len(window.codes) <= nano.context_left + 4 + nano.context_right
        codec_stream.accept(window, torch.empty(4 * nano.hop))
    assert len(codec_stream._frames) < nano.context_left + 4 + nano.context_right


def test_windows_and_samples_do_not_depend_on_when_frames_arrive(nano: NanoCodec) -> None:
    codes = random_codes(50, nano)
    one_by_one = list(stream(nano, codes, [4, 16], push_frames=1))
    late = list(stream(nano, codes, [4, 16], push_frames=50))
    assert [w.num_frames for w, _ in one_by_one] == [4, 16, 16, 14]
    for (window, samples), (other_window, other_samples) in zip(one_by_one, late, strict=True):
        assert torch.equal(window.codes, other_window.codes)
        assert torch.equal(samples, other_samples)


@pytest.mark.parametrize(("decode_rows", "tolerance"), [(1, 0.0), (4, 1e-6)])
def test_samples_are_the_same_alone_and_beside_others(
    nano: NanoCodec, decode_rows: int, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NanoCodec, "decode_rows", decode_rows)
    windows = []
    for number, num_frames in enumerate((7, 30, 7, 7, 12, 7, 7)):
        codec_stream = CodecStream(nano)
        codec_stream.push(random_codes(num_frames, nano, seed=number))
        window = codec_stream.window(num_frames, final=True)
        assert window is not None
        windows.append(window)
    together = decode_windows(nano, windows)
    for window, samples in zip(windows, together, strict=True):
        (alone,) = decode_windows(nano, [window])
        torch.testing.assert_close(samples, alone, atol=tolerance, rtol=0)


def test_every_call_has_the_codecs_number_of_rows() -> None:
    codec = MovingSumCodec(1, 1, decode_rows=3)
    codes = random_codes(5, codec)
    windows = [Window(codes, 0, 0, 5)] * 4 + [Window(codes[:3], 0, 0, 3)]
    pieces = decode_windows(codec, windows)
    assert [tuple(call.shape) for call in codec.calls] == [(3, 5, 2), (3, 5, 2), (3, 3, 2)]
    assert [len(piece) for piece in pieces] == [10, 10, 10, 10, 6]


def test_a_window_out_of_turn_or_not_whole_is_refused() -> None:
    codec = MovingSumCodec(1, 0)
    codec_stream = CodecStream(codec)
    codec_stream.push(random_codes(4, codec))
    window = codec_stream.window(2, final=False)
    assert window is not None
    with pytest.raises(ValueError, match="not 2 frames"):
        codec_stream.accept(window, torch.empty(3))
    codec_stream.accept(window, torch.empty(4))
    with pytest.raises(ValueError, match="begins at 2, not 0"):
        codec_stream.accept(window, torch.empty(4))


@settings(deadline=None)
@given(
    context=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    num_frames=st.integers(0, 40),
    piece_frames=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    push_frames=st.integers(1, 15),
)
def test_any_codec_in_any_pieces_is_its_whole_decode(
    context: tuple[int, int], num_frames: int, piece_frames: list[int], push_frames: int
) -> None:
    codec = MovingSumCodec(*context)
    codes = random_codes(num_frames, codec)
    whole = codec.decode(codes[None])[0] if num_frames else torch.empty(0)
    assert torch.equal(pieces_of(codec, codes, piece_frames, push_frames), whole)


def test_nano_in_chunks_of_any_size_is_the_same_to_the_bit(
    nano: NanoCodec, codes: Tensor, whole: Tensor
) -> None:
    draw = random.Random(3)
    expected = in_chunks(nano, codes, ChunkFrames())
    assert relative_error(torch.from_numpy(expected).flatten(), whole) < 1e-4
    for _ in range(3):
        chunks = ChunkFrames(*sorted(draw.choices(range(1, 70), k=2)))
        assert np.array_equal(in_chunks(nano, codes, chunks), expected)
    short = in_chunks(nano, codes[:12], ChunkFrames())
    assert np.array_equal(in_chunks(nano, codes[:12], ChunkFrames(first=1)), short)


@settings(deadline=None, max_examples=40)
@given(
    context=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    num_frames=st.integers(1, 90),
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 30)).map(sorted),
)
def test_any_codec_in_chunks_of_any_size_is_its_whole_decode(
    context: tuple[int, int], num_frames: int, sizes: list[int]
) -> None:
    codec = MovingSumCodec(*context)
    codec.hop = 400  # 20 frames per second
    codec.decode = lambda codes: MovingSumCodec.decode(codec, codes).repeat_interleave(200, dim=1)  # type: ignore[method-assign]
    codes = random_codes(num_frames, codec)
    whole = codec.decode(codes[None])[0]
    pieces = in_chunks(codec, codes, ChunkFrames(*sizes))
    assert np.array_equal(pieces.reshape(-1), whole.numpy())
    lengths = {len(call[0]) for call in codec.calls[1:]}
    assert len(lengths) <= 10  # windows of 3, 6, 12 and 20 frames, the first ones' and the end's
