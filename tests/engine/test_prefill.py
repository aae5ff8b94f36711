"""Many who come at once: their prompts join within a row budget, and nobody is interrupted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Engine, Guidance, SpeechRequest, SpeechStream
from engine.errors import InvalidRequest
from engine.family import Prompt, PromptPlan
from engine.job import Job
from engine.scheduler import PREFILL_ROWS
from tests.engine.scripted import ScriptedCodec, ScriptedFamily

LISTENER = SpeechRequest("Two men stand there and look at the boat", seed=1)
# Prompts of 6 to 40 rows, and one whose twin takes as many again.
TEXTS = ["Hello.", "The boat is tied up.", "Nobody says a word, nobody at all so far", "So it is."]
BURST = [SpeechRequest(text, seed=seed) for seed, text in enumerate(TEXTS * 2, start=2)]
BURST[3] = SpeechRequest(TEXTS[3], seed=5, guidance=Guidance(speaker=2.0))
NUM_SLOTS = 12


class Burst:
    """Lets ``BURST`` come while the listener hears its fifth frame, and notes what then runs."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.streams: list[SpeechStream] = []
        self.texts: list[str] = []  # prefilled, in order
        self.rows: list[list[int]] = [[]]  # of the prompts before each decode step
        self.decoded: list[list[int]] = []  # slots of each decode step
        runner = engine._loop._runner
        prefill, decode = runner.prefill, runner.decode

        def noted_prefill(slot: int, prompt: Prompt) -> Tensor:
            self.rows[-1].append(len(prompt.rows))
            self.texts.append(bytes(prompt.rows[:, -1].tolist()).decode())
            return prefill(slot, prompt)

        def noted_decode(slots: Sequence[int], codes: Tensor) -> Tensor:
            self.decoded.append(list(slots))
            self.rows.append([])
            if len(self.decoded) == 5:
                with engine._changed:
                    self.streams += [engine.submit(request) for request in BURST]
            return decode(slots, codes)

        monkeypatch.setattr(runner, "prefill", noted_prefill)
        monkeypatch.setattr(runner, "decode", noted_decode)


def open_engine(prefill_rows: int | None) -> Engine:
    return Engine(
        ScriptedFamily(),
        ScriptedCodec(),  # type: ignore[arg-type]
        None,
        {},
        num_slots=NUM_SLOTS,
        prefill_rows=prefill_rows,
    )


@pytest.fixture(scope="module")
def alone() -> list[np.ndarray]:
    with open_engine(None) as engine:
        return [engine.submit(request).read()[0] for request in [LISTENER, *BURST]]


@pytest.mark.parametrize("budget", [1, 30, 60, 10_000])
def test_a_burst_lets_the_listener_decode_between_its_prompts(
    alone: list[np.ndarray], budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(budget) as engine:
        burst = Burst(engine, monkeypatch)
        heard = [engine.submit(LISTENER).read()[0]]
        heard += [stream.read()[0] for stream in burst.streams]
    steps = [(rows, slots) for rows, slots in zip(burst.rows, burst.decoded, strict=False) if rows]
    assert all(0 in slots for _, slots in steps)  # the listener's
    twin = [len(TEXTS[3])] * 2
    assert all(sum(rows) <= budget or len(rows) == 1 or rows == twin for rows, _ in steps)
    assert burst.texts[1:] == [*TEXTS, TEXTS[3], *TEXTS]  # in order, the twin beside its own
    assert len(steps) == 1 + {1: 8, 30: 6, 60: 4, 10_000: 1}[budget]
    for piece, expected in zip(heard, alone, strict=True):
        assert np.array_equal(piece, expected)


def test_a_prompt_that_cannot_be_made_costs_nobody_else_a_place(
    alone: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(10_000) as engine:
        next_plan = Job.next_plan

        def refuse_one(job: Job) -> PromptPlan:
            if job.request is BURST[1]:
                raise InvalidRequest("input: not this one.", field="input")
            return next_plan(job)

        monkeypatch.setattr(Job, "next_plan", refuse_one)
        burst = Burst(engine, monkeypatch)
        engine.submit(LISTENER).read()
        for number, stream in enumerate(burst.streams):
            if number == 1:
                with pytest.raises(InvalidRequest, match="not this one"):
                    stream.read()
            else:
                assert np.array_equal(stream.read()[0], alone[1 + number])
    assert len([rows for rows in burst.rows if rows]) == 2


def test_without_a_wish_the_device_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_engine(None) as engine:
        assert engine._loop._prefill_rows == PREFILL_ROWS["cpu"]
    monkeypatch.setattr(ScriptedFamily, "device", torch.device("cuda"))
    monkeypatch.setattr("engine.life.SlotSampler", lambda *_: None)
    with open_engine(None) as engine:
        assert engine._loop._prefill_rows == PREFILL_ROWS["cuda"]
