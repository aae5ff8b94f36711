"""Tests that cannot fail prove nothing: five deliberate faults, each caught by a golden or
property test of its part."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.codec.delay import EndOfAudio
from engine.codec.nano import NanoCodec
from engine.sampling.sampler import History
from engine.weights import read_json
from engine.zonos2 import attention
from engine.zonos2.backbone import Backbone
from engine.zonos2.moe import Router

backbone_tests = importlib.import_module("tests.engine.zonos2.test_backbone")
delay_tests = importlib.import_module("tests.engine.codec.test_delay")
sampler_tests = importlib.import_module("tests.engine.sampling.test_sampler")
streaming_tests = importlib.import_module("tests.engine.codec.test_streaming")


def fails(test: Callable[..., None], *arguments: object) -> bool:
    """Whether ``test`` notices."""
    with torch.inference_mode():
        try:
            test(*arguments)
        except AssertionError:
            return True
        return False


def test_rope_on_halves_instead_of_adjacent_pairs(
    tiny: Backbone, golden_forward: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    test = backbone_tests.test_prefill_logits_of_every_row
    assert not fails(test, tiny, golden_forward)

    def halves(x: Tensor, table: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        cos, sin = table.unsqueeze(-3).unbind(-2)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    monkeypatch.setattr(attention, "rotate", halves)
    assert fails(test, tiny, golden_forward)


def test_a_router_that_forgets_its_bias(
    tiny: Backbone, golden_forward: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    test = backbone_tests.test_every_layer_of_the_trace
    assert not fails(test, tiny, golden_forward)
    for module in tiny.modules():
        if isinstance(module, Router):
            monkeypatch.setattr(module, "bias_sign", 0)
    assert fails(test, tiny, golden_forward)


def test_an_end_of_audio_one_frame_late(monkeypatch: pytest.MonkeyPatch) -> None:
    test = delay_tests.test_end_of_audio_follows_the_exact_rule_step_by_step
    assert not fails(test, "cb0_at_12")
    step = EndOfAudio.step

    def overlapped(self: EndOfAudio, codes: Sequence[int]) -> None:
        was_open = self.end_frame is None
        step(self, codes)
        if was_open and self.end_frame is not None:
            self.end_frame += 1

    monkeypatch.setattr(EndOfAudio, "step", overlapped)
    assert fails(test, "cb0_at_12")


def test_a_repetition_window_one_row_short(monkeypatch: pytest.MonkeyPatch) -> None:
    test = sampler_tests.test_golden_penalty_window_and_arg_max
    cases = [case for case in sampler_tests._CASES if "hist" in case["name"]]
    assert cases and not any(fails(test, case) for case in cases)
    latest = History.latest

    def short(self: History, *arguments: object) -> tuple[Tensor, Tensor]:
        recent, counts = latest(self, *arguments)  # type: ignore[arg-type]
        return recent[:, :-1], counts.clamp(max=recent.shape[1] - 1)

    monkeypatch.setattr(History, "latest", short)
    assert any(fails(test, case) for case in cases)


def test_half_the_codec_context(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[2] / "assets" / "nano"
    codec = NanoCodec.open(folder, read_json(folder / "codec.json"), "cpu")
    codes = streaming_tests.random_codes(streaming_tests.NUM_FRAMES, codec)
    whole = codec.decode(codes[None])[0]
    test = streaming_tests.test_nano_in_pieces_is_the_whole_decode
    assert not fails(test, codec, codes, whole, [24])
    monkeypatch.setattr(codec, "context_left", codec.context_left // 2)
    assert fails(test, codec, codes, whole, [24])
