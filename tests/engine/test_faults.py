"""A fault in one request's part ends that request alone; one of the engine itself is survived."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from engine import Engine, FinishReason, GenerationFailed, SpeechRequest
from engine.job import Job

NANO = Path(__file__).parents[2] / "assets" / "nano"
TEXT = "The ship sailed into the harbor just before sunset."


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(NANO, device="cpu", num_slots=2) as opened:
        yield opened


def test_one_failing_request_does_not_disturb_the_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = engine.speak(TEXT, seed=9).read()[0]
    runner = engine._loop._runner
    decode = runner.decode
    steps = iter(range(10**6))

    def spoiled(slots: list[int], codes: torch.Tensor) -> torch.Tensor:
        logits = decode(slots, codes)
        if next(steps) == 5 and len(slots) == 2:
            logits[slots.index(victim_slot)] = torch.nan
        return logits

    with engine._changed:  # both are admitted before the first step
        victim = engine.submit(SpeechRequest(text=TEXT, seed=1))
        other = engine.submit(SpeechRequest(text=TEXT, speaker=engine.voice(None), seed=9))
        victim_slot = 0
        monkeypatch.setattr(runner, "decode", spoiled)
    with pytest.raises(GenerationFailed, match="no usable numbers"):
        victim.read()
    assert victim.finish_reason is FinishReason.FAILED
    assert np.array_equal(other.read()[0], expected)


@pytest.mark.parametrize("part", ["take_row", "take_samples", "settle"])
def test_a_fault_in_a_requests_own_part_ends_it_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    expected = engine.speak(TEXT, seed=9).read()[0]
    whole = getattr(Job, part)

    def failing(job: Job, *given: object) -> object:
        if job.request.seed == 1 and job.stream.timings.num_frames > 4:
            raise RuntimeError("injected")
        return whole(job, *given)

    monkeypatch.setattr(Job, part, failing)
    with engine._changed:  # both are admitted before the first step
        victim = engine.submit(SpeechRequest(text=TEXT, seed=1))
        other = engine.submit(SpeechRequest(text=TEXT, speaker=engine.voice(None), seed=9))
    with pytest.raises(GenerationFailed, match="RuntimeError"):
        victim.read()
    assert np.array_equal(other.read()[0], expected)


@pytest.mark.parametrize("part", ["prefill", "codec"])
def test_an_exception_ends_one_request_with_a_clear_sentence(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    target, name = (
        (engine._loop._runner, "prefill") if part == "prefill" else (engine.codec, "decode")
    )
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise RuntimeError("a secret detail")

        broken.setattr(target, name, fail)
        stream = engine.speak(TEXT)
        with pytest.raises(GenerationFailed) as caught:
            stream.read()
        assert "secret" not in caught.value.message
    assert engine.stats.num_live == engine.stats.num_waiting == 0
    assert len(engine.speak("Hi.").read()[0]) > 0


def test_a_window_that_cannot_be_decoded_fails_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = engine.speak(TEXT, seed=9).read()[0]
    decode = engine.codec.decode
    broken: list[torch.Tensor] = []

    def decode_all_but_one(codes: torch.Tensor) -> torch.Tensor:
        broken.append(broken[0] if broken else codes.clone())
        if codes.shape == broken[0].shape and torch.equal(codes, broken[0]):
            raise RuntimeError("this window")
        return decode(codes)

    with engine._changed:
        victim = engine.speak("Please close the door.", seed=1)
        other = engine.speak(TEXT, seed=9)
        monkeypatch.setattr(engine.codec, "decode", decode_all_but_one)
    with pytest.raises(GenerationFailed, match="decoding its sound failed"):
        victim.read()
    assert np.array_equal(other.read()[0], expected)


def test_a_fault_of_the_loop_itself_is_told_and_survived(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:

        def fail(jobs: object) -> None:
            raise RuntimeError("in nobody's part")

        broken.setattr(engine._loop, "_hand_out", fail)
        with pytest.raises(GenerationFailed, match="the engine failed on it"):
            engine.speak(TEXT).read()
    assert len(engine.speak("Hi.").read()[0]) > 0
