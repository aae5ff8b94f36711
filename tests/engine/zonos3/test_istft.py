"""The causal codec: what is streamed is the whole, and no sample waits for a later frame."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from engine.codec.base import open_codec
from engine.codec.istft import IstftCodec, IstftCodecConfig, IstftHead, Resolution
from engine.codec.streaming import CodecStream, decode_windows
from engine.errors import CheckpointError
from tests.engine.zonos3.random_checkpoint import CODEC

ATOL = 2e-6


@pytest.fixture(scope="module")
def codec(folder: Path) -> IstftCodec:
    opened = open_codec(folder, "cpu")
    assert isinstance(opened, IstftCodec)
    return opened


def frames(num_frames: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(
        0, 64, (num_frames, 10), generator=torch.Generator().manual_seed(seed), dtype=torch.int64
    )


@torch.inference_mode()
@pytest.mark.parametrize("seed", range(5))
def test_streamed_is_whole(codec: IstftCodec, seed: int) -> None:
    rng = random.Random(seed)
    codes = frames(rng.randint(1, 60), seed)
    whole = codec.decode(codes[None])[0]
    assert len(whole) == len(codes) * 2940 and whole.std() > 0.01
    stream, pieces, pushed = CodecStream(codec), [], 0
    while pushed < len(codes):
        count = rng.randint(1, 7)
        stream.push(codes[pushed : pushed + count])
        pushed += count
        while window := stream.window(rng.randint(1, 5), final=pushed >= len(codes)):
            (samples,) = decode_windows(codec, [window])
            stream.accept(window, samples)
            pieces.append(samples)
    torch.testing.assert_close(torch.cat(pieces), whole, atol=ATOL, rtol=0)


@torch.inference_mode()
def test_no_look_ahead_and_the_context_is_needed_in_full(codec: IstftCodec) -> None:
    assert codec.context_right == 0
    codes = frames(30)
    changed = codes.clone()
    changed[12] = (changed[12] + 1) % 64
    whole, other = codec.decode(codes[None])[0], codec.decode(changed[None])[0]
    differs = (whole - other).view(30, -1).abs().amax(-1) > ATOL
    reached = differs.nonzero().flatten().tolist()
    assert reached[0] == 12 and reached[-1] == 12 + codec.context_left
    # One frame less of context is heard.
    short = codec.decode(codes[None, 20 - codec.context_left + 1 : 21])[0, -2940:]
    assert (short - whole[20 * 2940 : 21 * 2940]).abs().max() > ATOL


@torch.inference_mode()
def test_a_head_is_overlap_add_divided_by_the_windows_so_far() -> None:
    """Against the plain loop of the specification, buffers and all."""
    config = IstftCodecConfig.from_dict(CODEC)
    head = IstftHead(config, Resolution(n_fft=1176, hop=294))
    steps = torch.randn(1, 3, config.width)
    spectra = head.out(steps).view(30, 2, 589)
    window = torch.hann_window(1176)
    sound, power, out = torch.zeros(1176), torch.zeros(1176), []
    for log_magnitude, phase in spectra:
        magnitude = log_magnitude.exp().clamp(max=100.0)
        spectrum = magnitude * (phase.cos() + 1j * phase.sin())
        sound += torch.fft.irfft(spectrum, 1176) * window
        power += window**2
        out.append(sound[:294] / power[:294].clamp(min=0.1))
        sound = torch.cat([sound[294:], torch.zeros(294)])
        power = torch.cat([power[294:], torch.zeros(294)])
    torch.testing.assert_close(head(steps)[0], torch.cat(out), atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_rows_of_a_batch_do_not_mix(codec: IstftCodec) -> None:
    batch = torch.stack([frames(9, 1), frames(9, 2)])
    torch.testing.assert_close(
        codec.decode(batch)[1], codec.decode(batch[1:])[0], atol=ATOL, rtol=0
    )
    assert codec.decode(batch[:, :0]).shape == (2, 0)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"hop": 2941}, "it must divide 2941"),
        ({"sample_rate_hz": "fast"}, "unusable value"),
        ({"decoder": {}}, "lacks the key 'width'"),
    ],
)
def test_a_codec_that_cannot_be_is_told(changed: dict[str, object], says: str) -> None:
    with pytest.raises(CheckpointError, match=says):
        IstftCodecConfig.from_dict(CODEC | changed)
