"""A request's codes and hidden states are its own: alone or in company, bit for bit."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Delivery, Engine, FinishReason, Sampling, SpeechRequest
from engine.zonos2.family import Zonos2Runner

NANO = Path(__file__).parents[2] / "assets" / "nano"
TEXTS = [
    "Good morning.",
    "The old house on the hill has a bright red door.",
    "Why?",
    "Please remember to close the window before you leave.",
]


class Recorder:
    """Keeps the logits and codes of every step, by the voice-independent key of the request."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.codes: dict[str, list[list[int]]] = {}
        self.logits: dict[str, list[Tensor]] = {}
        loop = engine._loop
        draw = loop._draw

        def recording(jobs: list, logits: Tensor) -> None:  # type: ignore[type-arg]
            for job, row in zip(jobs, logits, strict=True):
                self.logits.setdefault(job.request.request_id, []).append(row.clone())
            draw(jobs, logits)
            for job in jobs:
                self.codes.setdefault(job.request.request_id, []).append(
                    loop._last_codes[job].tolist() if job in loop._last_codes else []
                )

        monkeypatch.setattr(loop, "_draw", recording)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(NANO, device="cpu") as opened:
        yield opened


def ask(rng: random.Random, engine: Engine, name: str) -> SpeechRequest:
    voice = rng.choice([None, *engine.voices])
    return SpeechRequest(
        text=rng.choice(TEXTS),
        speaker=None if voice is None else engine.voices[voice],
        sampling=Sampling(
            temperature=rng.choice([0.0, 0.3, 0.9, 1.5]),
            top_k=rng.choice([1, 20, 106, 1024]),
            top_p=rng.choice([0.0, 0.7, 0.95]),
            min_p=rng.choice([0.0, 0.05, 0.18]),
            repetition_penalty=rng.choice([1.0, 1.2, 2.0]),
        ),
        delivery=Delivery(speaking_rate_bucket=rng.choice([None, 1, 4, 6])),
        seed=rng.getrandbits(32),
        max_new_frames=rng.randint(10, 24),
        request_id=name,
    )


@pytest.mark.parametrize("num_cases", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_the_same_alone_and_among_seven_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, num_cases: int
) -> None:
    rng = random.Random(num_cases)
    seen = Recorder(engine, monkeypatch)
    for case in range(num_cases):
        asks = [ask(rng, engine, f"{case}.{number}") for number in range(8)]
        subject = asks[rng.randrange(8)]
        streams = {request.request_id: engine.submit(request) for request in asks}
        audio_in_company = streams[subject.request_id].read()[0]
        for stream in streams.values():
            stream.read()
        in_company = seen.codes.pop(subject.request_id), seen.logits.pop(subject.request_id)
        audio_alone = engine.submit(subject).read()[0]
        assert seen.codes[subject.request_id] == in_company[0]
        for alone, company in zip(seen.logits[subject.request_id], in_company[1], strict=True):
            assert torch.equal(alone, company)
        assert np.array_equal(audio_alone, audio_in_company)


def test_hidden_states_of_a_slot_do_not_feel_the_others(engine: Engine) -> None:
    """The backbone's own output, before head and sampler, in every slot and beside any number."""
    model = engine.family.model  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(1)
    voices = engine.voices["deep"], engine.voices["heart"]
    prompts = [
        engine.family.plan(text, SpeechRequest(text, voice)).main
        for text, voice in zip(TEXTS, [*voices, None, None], strict=True)
    ]
    # A head that hands on what it is given: the first numbers are the hidden state, soft-capped.
    model = deepcopy(model)
    with torch.no_grad():
        model.multi_output.weight.copy_(torch.eye(*model.multi_output.weight.shape))
    width = model.multi_output.weight.shape[1]

    def run(slot: int, others: list[int]) -> list[Tensor]:
        runner = Zonos2Runner(model, 8, torch.device("cpu"))
        with torch.inference_mode():
            for other in others:
                runner.prefill(other, prompts[1 + other % 3])
            runner.prefill(slot, prompts[0])
            rows = []
            for step in range(6):
                slots = sorted([slot, *others])
                codes = torch.randint(0, 1024, (8, 9), generator=generator)[slots]
                codes[slots.index(slot)] = torch.arange(9) * 7 + step
                rows.append(runner.decode(slots, codes)[slots.index(slot)].flatten()[:width])
        assert len(rows[0].unique()) > width / 2
        return rows

    alone = run(3, [])
    for others in ([0], [4, 5], [0, 1, 2, 4, 5, 6, 7]):
        assert all(map(torch.equal, run(3, others), alone))
    assert all(map(torch.equal, run(7, [3, 0]), alone))


def test_the_same_whatever_lies_in_memory_that_was_freed(
    engine: Engine, spoilt: Callable[[int], dict[str, str]]
) -> None:
    script = f"""
import hashlib
from engine import Engine
with Engine.open({str(NANO)!r}, device="cpu") as engine:
    streams = [engine.speak({TEXTS[1]!r}, seed=seed) for seed in (11, 12)]
    print(*(hashlib.sha256(stream.read()[0]).hexdigest() for stream in streams))
"""
    ours = [hashlib.sha256(engine.speak(TEXTS[1], seed=seed).read()[0]) for seed in (11, 12)]
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=spoilt(0xA5),
        cwd=NANO.parents[1],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == [each.hexdigest() for each in ours]


def test_pieces_are_the_whole_and_a_seed_repeats_it(engine: Engine) -> None:
    whole, rate = engine.speak(TEXTS[1], seed=11).read()
    pieces = list(engine.speak(TEXTS[1], seed=11))
    assert len(pieces) > 2 and rate == 44_100
    assert np.array_equal(np.concatenate(pieces), whole)
    assert not np.array_equal(engine.speak(TEXTS[1], seed=12).read()[0], whole)


def test_a_stream_tells_how_it_ended(engine: Engine) -> None:
    stream = engine.speak(TEXTS[1], seed=3)
    stream.read()
    assert stream.finish_reason is FinishReason.STOP
    assert stream.timings.ttfa_ms is not None and stream.timings.total_s is not None
    short = engine.speak(TEXTS[1], seed=3, max_new_frames=12)
    samples, _ = short.read()
    assert short.finish_reason is FinishReason.LENGTH
    assert len(samples) == 4 * 1764  # 12 rows hold four whole frames
