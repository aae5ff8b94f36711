"""Our DAC decoder against descript's own and transformers', alone, in pieces and in batches."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.codec.base import Codec
from engine.codec.dac import DacCodec
from engine.codec.streaming import CodecStream, decode_windows
from engine.compat import ensure_torchaudio
from engine.outlet import ChunkFrames
from tests.engine.codec.chunked import in_chunks

SMALL = {"encoder_dim": 4, "decoder_dim": 32}  # the release's layers, a 48th of its width
NUM_FRAMES = 60
PIECES = {"1": [1], "7": [7], "24": [24], "32": [32], "random": [3, 17, 1, 30, 2, 9]}


def descript_dac(**sizes: Any) -> Any:
    """descript's model with random weights of such size that every layer is heard."""
    ensure_torchaudio()
    import dac

    generator = torch.Generator().manual_seed(0)
    model = dac.DAC(**sizes).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if name.endswith("weight_v") or "codebook" in name:
            parameter.normal_(generator=generator)
        elif name.endswith("alpha"):
            parameter.uniform_(0.5, 2.0, generator=generator)
        elif name.endswith("bias"):
            parameter.normal_(std=0.1, generator=generator)
    for module in model.modules():
        # Every layer keeps the variance; of a transposed one two inputs meet in each output.
        if isinstance(module, nn.ConvTranspose1d):
            module.weight_g.fill_(math.sqrt(module.stride[0] / 2))
        elif isinstance(module, nn.Conv1d):
            module.weight_g.fill_(0.5 if module.kernel_size == (1,) else 1.0)
    # Moderate signals: sin of large ones would amplify the last bits of both sides alike.
    model.decoder.model[0].weight_g.fill_(0.2)
    model.decoder.model[-2].weight_g.fill_(0.1)
    return model


def descript_samples(model: Any, codes: Tensor) -> Tensor:
    return model.decode(model.quantizer.from_codes(codes.mT)[0])[:, 0]


def random_codes(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(0, 1024, shape, generator=torch.Generator().manual_seed(seed))


def rms(samples: Tensor) -> float:
    return float(samples.square().mean().sqrt())


def in_pieces(codec: Codec, codes: Tensor, piece_frames: list[int], push_frames: int = 5) -> Tensor:
    stream, sizes, pieces = CodecStream(codec), list(piece_frames), []
    parts = codes.split(push_frames)
    for number, frames in enumerate(parts):
        stream.push(frames)
        while window := stream.window(sizes[0], final=number == len(parts) - 1):
            (samples,) = decode_windows(codec, [window])
            stream.accept(window, samples)
            pieces.append(samples)
            sizes = sizes[1:] or piece_frames
    return torch.cat(pieces)


@pytest.fixture(scope="module")
def oracle() -> Any:
    return descript_dac(**SMALL)


@pytest.fixture(scope="module")
def descript_file(oracle: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("descript") / "weights_44khz_8kbps_0.0.1.pth"
    oracle.save(str(path), package=False)
    return path


@pytest.fixture(scope="module")
def codec(descript_file: Path) -> DacCodec:
    return DacCodec.open_descript(descript_file, "cpu")


@pytest.fixture(scope="module")
def codes() -> Tensor:
    return random_codes(NUM_FRAMES, 9)


@pytest.fixture(scope="module")
def whole(codec: DacCodec, codes: Tensor) -> Tensor:
    return codec.decode(codes[None])[0]


def test_the_samples_are_descripts(codec: DacCodec, oracle: Any) -> None:
    codes = random_codes(3, 25, 9)
    expected = descript_samples(oracle, codes)
    assert rms(expected) > 0.05 and float(expected.abs().max()) < 0.999
    torch.testing.assert_close(codec.decode(codes), expected, atol=1e-5, rtol=0)


def test_chunks_of_any_size_have_the_same_samples_to_the_bit(
    codec: DacCodec, codes: Tensor, whole: Tensor
) -> None:
    expected = in_chunks(codec, codes, ChunkFrames())
    torch.testing.assert_close(torch.from_numpy(expected).flatten(), whole, atol=1e-5, rtol=0)
    for sizes in [(1, 7), (3, 40), (30, 30)]:
        assert np.array_equal(in_chunks(codec, codes, ChunkFrames(*sizes)), expected)


def test_the_facts_of_the_release(codec: DacCodec) -> None:
    facts = codec.sample_rate_hz, codec.hop, codec.num_codebooks, codec.codebook_size
    assert facts == (44_100, 512, 9, 1024)
    assert (codec.context_left, codec.context_right) == (10, 10)
    assert codec.decode(torch.zeros(2, 0, 9, dtype=torch.int64)).shape == (2, 0)


def test_a_code_outside_its_codebook_is_refused(codec: DacCodec) -> None:
    with pytest.raises(IndexError):
        codec.decode(torch.full((1, 2, 9), 1024))


def test_one_frame_reaches_exactly_as_far_as_the_context_says(descript_file: Path) -> None:
    codec = DacCodec.open_descript(descript_file, "cpu").double()
    codes = torch.zeros(1, 30, 9, dtype=torch.int64)
    changed = codes.clone()
    changed[0, 15] = 500
    difference = (codec.decode(changed) - codec.decode(codes))[0].view(30, codec.hop)
    touched = difference.abs().amax(1).nonzero().flatten().tolist()
    assert touched == list(range(15 - 10, 15 + 10 + 1))


@pytest.mark.parametrize("piece_frames", PIECES.values(), ids=PIECES)
def test_pieces_are_the_whole_decode(
    codec: DacCodec, codes: Tensor, whole: Tensor, piece_frames: list[int]
) -> None:
    pieces = in_pieces(codec, codes, piece_frames)
    torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_frames", [1, 2, 9, 10, 11, 21])
def test_audio_shorter_than_the_context_is_the_whole_decode(
    codec: DacCodec, num_frames: int
) -> None:
    codes = random_codes(num_frames, 9, seed=num_frames)
    pieces = in_pieces(codec, codes, [4])
    torch.testing.assert_close(pieces, codec.decode(codes[None])[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("left", "right"), [(5, 5), (5, 10), (10, 5)])
def test_half_the_context_is_not_enough(
    codec: DacCodec,
    codes: Tensor,
    whole: Tensor,
    left: int,
    right: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codec, "context_left", left)
    monkeypatch.setattr(codec, "context_right", right)
    assert float((in_pieces(codec, codes, [24]) - whole).abs().max()) > 1e-4


def test_eight_streams_in_one_call_equal_each_alone(
    codec: DacCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [40, 3, 31, 40, 17, 25, 36, 24]
    requests = [random_codes(length, 9, seed=length + i) for i, length in enumerate(lengths)]
    on_one_row = [in_pieces(codec, codes, [8], push_frames=1) for codes in requests]
    monkeypatch.setattr(DacCodec, "decode_rows", 8)
    alone = [in_pieces(codec, codes, [8], push_frames=1) for codes in requests]
    draw = random.Random(0)
    streams = [CodecStream(codec) for _ in requests]
    heard: list[list[Tensor]] = [[] for _ in requests]
    next_frame, most_together = [0] * len(requests), 0
    while any(n < len(codes) for n, codes in zip(next_frame, requests, strict=True)):
        for i, codes in enumerate(requests):
            end = min(len(codes), next_frame[i] + draw.randint(0, 6))  # each at its own pace
            streams[i].push(codes[next_frame[i] : end])
            next_frame[i] = end
        while ready := {
            i: window
            for i, stream in enumerate(streams)
            if (window := stream.window(8, final=next_frame[i] == len(requests[i])))
        }:
            most_together = max(most_together, len(ready))
            pieces = decode_windows(codec, list(ready.values()))
            for (i, window), samples in zip(ready.items(), pieces, strict=True):
                streams[i].accept(window, samples)
                heard[i].append(samples)
    assert most_together > 2
    for pieces, expected, near in zip(heard, alone, on_one_row, strict=True):
        assert torch.equal(torch.cat(pieces), expected)
        torch.testing.assert_close(torch.cat(pieces), near, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_the_release_at_full_width_is_descripts_and_streams_exactly(tmp_path: Path) -> None:
    oracle = descript_dac()
    oracle.save(str(tmp_path / "full.pth"), package=False)
    codec = DacCodec.open_descript(tmp_path / "full.pth", "cpu")
    num_numbers = sum(parameter.numel() for parameter in codec.parameters())
    assert num_numbers == 54_247_777
    codes = random_codes(40, 9)
    expected = descript_samples(oracle, codes[None])[0]
    assert rms(expected) >= 0.05 and float(expected.abs().max()) < 0.999
    torch.testing.assert_close(codec.decode(codes[None])[0], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(in_pieces(codec, codes, [16]), expected, atol=1e-5, rtol=0)
