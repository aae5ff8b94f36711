"""The step of all slots, as a GPU runs it: it draws what the sampler alone would draw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import engine.zonos2.family
from engine import Engine, Guidance, Sampling
from engine.family import Lanes, Prompt
from engine.sampling.sampler import SamplingRows
from engine.sampling.settings import ResolvedSampling
from engine.sampling.slots import SlotSampler
from engine.zonos2.backbone import Backbone
from engine.zonos2.family import Zonos2Runner
from engine.zonos2.step import SlotStep

NANO = Path(__file__).parents[3] / "assets" / "nano"
CPU = torch.device("cpu")
NUM_SLOTS = 6
SETTINGS = [
    ResolvedSampling(1.0, 40, 0.0, 0.1, 1.3, 30, 8),
    ResolvedSampling(0.0, 1024, 0.0, 0.0, 1.0, 0, 0),
    ResolvedSampling(0.8, 1024, 0.9, 0.0, 1.0, 0, 0),
    ResolvedSampling(1.5, 5, 0.0, 0.0, 2.0, 50, -1),
]


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def started(model: Backbone, prompt: Tensor) -> tuple[Zonos2Runner, SlotSampler]:
    runner = Zonos2Runner(model, NUM_SLOTS, CPU, compiles=False)
    config = model.config
    sampler = SlotSampler(
        NUM_SLOTS, config.num_codebooks, config.codebook_size, config.audio_vocab, CPU
    )
    for slot in range(NUM_SLOTS):
        runner.prefill(slot, Prompt(prompt[: 9 + slot], None))
    return runner, sampler


def test_it_draws_what_the_sampler_draws_alone(
    tiny: Backbone, golden_forward: dict[str, Tensor]
) -> None:
    """Four settings, one request with two twins, one that joins late and one that leaves."""
    prompt = golden_forward["d_input_ids"].long()
    (apart, own), (joined, ours) = started(tiny, prompt), started(tiny, prompt)
    places = {0: (0,), 1: (4, 2, 5), 2: (1,), 3: (3,)}  # request -> main slot and twins
    scales = {0: (), 1: (1.5, 0.7), 2: (), 3: ()}
    for request in (0, 1, 2):
        for sampler in (own, ours):
            sampler.start(places[request][0], SETTINGS[request], seed=request)
    last = {request: torch.full((9,), request) for request in range(4)}
    seen = set()
    for step in range(12):
        if step == 4:
            for sampler in (own, ours):
                sampler.start(3, SETTINGS[3], seed=3)
        live = [0, 1, 2] if step < 4 else [3, 1, 0] if step > 7 else [0, 1, 2, 3]
        if step == 8:
            for sampler in (own, ours):
                sampler.stop(1)
        slots = [slot for request in live for slot in places[request]]
        codes = torch.stack([last[request] for request in live for _ in places[request]])
        logits = iter(apart.decode(slots, codes))
        guided = []
        for request in live:
            main = total = next(logits)
            for scale in scales[request]:
                total = total + (scale - 1.0) * (main - next(logits))
            guided.append(total)
        mains, frames = [places[request][0] for request in live], [step] * len(live)
        expected = own.draw(mains, frames, torch.stack(guided))
        lanes = [Lanes(places[request], scales[request], step) for request in live]
        found = joined.decode_and_draw(ours, lanes, codes)
        assert torch.equal(found[:, :-1], expected) and (found[:, -1] == 1).all()
        last |= dict(zip(live, expected, strict=True))
        seen |= {tuple(row) for row in expected.tolist()}
    assert len(seen) > 30


def test_numbers_of_no_use_are_told_and_stay_in_their_slot(
    tiny: Backbone, golden_forward: dict[str, Tensor]
) -> None:
    runner, sampler = started(tiny, golden_forward["d_input_ids"].long())
    for slot in range(3):
        sampler.start(slot, SETTINGS[slot], seed=slot)
    runner._kv.keys[2, 1, :, 3] = torch.nan
    lanes = [Lanes((slot,), (), 0) for slot in range(3)]
    drawn = runner.decode_and_draw(sampler, lanes, torch.zeros(3, 9, dtype=torch.int64))
    assert drawn[:, -1].tolist() == [1, 0, 1]


def test_the_engine_speaks_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, among others and guided: what the sampler alone draws from the same logits."""
    monkeypatch.setattr(engine.zonos2.family, "can_compile", lambda model: False)
    text = "The old house on the hill has a bright red door."

    def speak() -> list[np.ndarray]:
        with Engine.open(NANO, device="cpu", num_slots=4) as studio:
            assert isinstance(studio._life.loop._runner._step, SlotStep)
            alone = studio.speak(text, seed=7).read()[0]
            guided = [
                studio.speak(text, seed=7, guidance=Guidance(speaker=1.5)),
                studio.speak(text, seed=7),
                studio.speak("Why?", seed=1, sampling=Sampling(temperature=1.0, top_k=9)),
            ]
            return [alone, *(stream.read()[0] for stream in guided)]

    alone, guided, company, other = speak()
    assert len(alone) > 44_100 and np.array_equal(alone, company)
    assert not np.array_equal(guided, alone[: len(guided)]) and len(other)
    monkeypatch.setattr(Zonos2Runner, "draws", False)
    assert all(map(np.array_equal, speak(), (alone, guided, company, other)))


def test_bounds_are_rounded_where_each_makes_a_graph() -> None:
    rows = SamplingRows(2, 1026)
    rows._rounds_bounds = True
    assert rows.max_top_k == 0
    rows.set(0, SETTINGS[3], seed=1)
    assert (rows.max_top_k, rows.max_window) == (128, 64)
    rows.set(1, ResolvedSampling(1.0, 300, 0.0, 0.0, 1.3, 7, 8), seed=1)
    assert (rows.max_top_k, rows.max_window) == (1026, 64)
    rows.clear(0)
    rows.clear(1)
    assert (rows.max_top_k, rows.max_window) == (0, 0)
