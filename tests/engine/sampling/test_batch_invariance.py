"""A request's probabilities and codes are the same bits alone, in any company and in any slot."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.sampling import History, ResolvedSampling, SamplingRows, draw, probabilities
from engine.sampling.slots import SlotSampler

_NUM_SLOTS, _CODEBOOKS, _CODES, _VOCAB = 8, 9, 1024, 1026

_SETTINGS = st.builds(
    ResolvedSampling,
    temperature=st.sampled_from([0.0, 1e-6, 0.3, 1.15, 2.0]),
    top_k=st.sampled_from([1, 50, 106, 1024, 1026]),
    top_p=st.sampled_from([0.0, 0.5, 0.9]),
    min_p=st.sampled_from([0.0, 0.18, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.2, 3.0]),
    repetition_window=st.sampled_from([0, 1, 50, 1024]),
    repetition_codebooks=st.integers(-1, 9),
)
_SEEDS = st.integers(0, 2**63 - 1)


def _logits(*key: int) -> Tensor:
    """Logits [codebooks, vocabulary] of one request at one frame, on a coarse grid to make ties."""
    generator = torch.Generator().manual_seed(hash(key) % 2**63)
    return (torch.randn(_CODEBOOKS, _VOCAB, generator=generator) * 64).round() / 16


def _alone(
    logits: Tensor, past: Tensor, chosen: ResolvedSampling, seed: int
) -> tuple[Tensor, Tensor]:
    rows, history = SamplingRows(1, _VOCAB), History(1, _CODEBOOKS, _CODES)
    rows.set(0, chosen, seed)
    for frame in past:
        history.append(frame[None])
    chances = probabilities(logits[None], rows, history)
    return chances[0], draw(chances, rows.seed, history.counts)[0]


@given(
    members=st.lists(st.tuples(_SETTINGS, _SEEDS, st.integers(0, 60)), min_size=1, max_size=8),
    places=st.permutations(range(_NUM_SLOTS)),
    key=st.integers(0, 2**32),
    filler=st.sampled_from([torch.nan, torch.inf, 0.0, 50.0]),
)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_one_step_gives_each_row_the_bits_it_has_alone(
    members: list[tuple[ResolvedSampling, int, int]],
    places: list[int],
    key: int,
    filler: float,
) -> None:
    logits = torch.full((_NUM_SLOTS, _CODEBOOKS, _VOCAB), filler)  # free slots hold rubbish
    rows, history = SamplingRows(_NUM_SLOTS, _VOCAB), History(_NUM_SLOTS, _CODEBOOKS, _CODES)
    pasts, slots = [], places[: len(members)]
    for number, (chosen, seed, num_past) in enumerate(members):
        slot = slots[number]
        generator = torch.Generator().manual_seed(key + number)
        past = torch.randint(0, _VOCAB, (num_past, _CODEBOOKS), generator=generator)
        logits[slot] = _logits(key, number)
        rows.set(slot, chosen, seed)
        for frame in past:
            history.append(frame[None], slots=torch.tensor([slot]))
        pasts.append(past)
    at = torch.tensor(slots)

    every = probabilities(logits, rows, history)
    every_code = draw(every, rows.seed, history.counts)
    only = probabilities(logits[at], rows, history, at)
    only_code = draw(only, rows.seed[at], history.counts[at])

    for number, (chosen, seed, _) in enumerate(members):
        slot = slots[number]
        chances, codes = _alone(logits[slot], pasts[number], chosen, seed)
        assert torch.equal(every[slot], chances) and torch.equal(every_code[slot], codes)
        assert torch.equal(only[number], chances) and torch.equal(only_code[number], codes)


def _run(schedule: dict[int, tuple[int, int, ResolvedSampling, int]], num_steps: int) -> dict:
    """Run requests {id: (first step, slot, settings, seed)} together -> {id: codes of 20 frames}.

    Every request's logits depend on its id and on all it has drawn, so one wrong code spreads.
    """
    sampler = SlotSampler(_NUM_SLOTS, _CODEBOOKS, _CODES, _VOCAB, "cpu")
    drawn: dict[int, list[Tensor]] = {}
    for step in range(num_steps):
        live = [i for i, (start, *_) in schedule.items() if start <= step < start + 20]
        for request in live:
            start, slot, chosen, seed = schedule[request]
            if step == start:
                sampler.start(slot, chosen, seed)
                drawn[request] = []
        if not live:
            continue
        keys = [
            (request, *torch.stack([*drawn[request], torch.zeros(9).long()]).sum(0).tolist())
            for request in live
        ]
        logits = torch.stack([_logits(*key) for key in keys])
        slots = [schedule[request][1] for request in live]
        codes = sampler.draw(slots, [len(drawn[request]) for request in live], logits)
        for request, row in zip(live, codes, strict=True):
            drawn[request].append(row)
            if len(drawn[request]) == 20:
                sampler.stop(schedule[request][1])
    return {request: torch.stack(rows) for request, rows in drawn.items()}


@given(choices=st.lists(st.tuples(_SETTINGS, _SEEDS), min_size=13, max_size=13))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_requests_that_join_and_leave_draw_what_they_draw_alone(
    choices: list[tuple[ResolvedSampling, int]],
) -> None:
    # Two waves through the eight slots, a new request every third step.
    schedule = {
        number: (3 * number, number % _NUM_SLOTS, chosen, seed)
        for number, (chosen, seed) in enumerate(choices)
    }
    together = _run(schedule, num_steps=3 * len(choices) + 20)
    for number, (_, _, chosen, seed) in schedule.items():
        alone = _run({number: (0, 0, chosen, seed)}, num_steps=20)
        assert torch.equal(together[number], alone[number])


def test_two_threads_that_share_the_batch_give_the_bits_of_one() -> None:
    """Company is cut in other pieces than a row alone; the cuts must not show."""
    chosen = ResolvedSampling(1.15, 106, 0.9, 0.02, 1.2, 50, 8)
    rows, history = SamplingRows(_NUM_SLOTS, _VOCAB), History(_NUM_SLOTS, _CODEBOOKS, _CODES)
    for slot in range(_NUM_SLOTS):
        rows.set(slot, chosen, seed=slot)
    logits = torch.stack([_logits(slot) for slot in range(_NUM_SLOTS)])
    num_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        together = probabilities(logits, rows, history)
    finally:
        torch.set_num_threads(num_threads)
    for slot in range(_NUM_SLOTS):
        assert torch.equal(together[slot], _alone(logits[slot], torch.empty(0), chosen, slot)[0])


def test_an_id_on_the_edge_of_min_p_does_not_feel_a_neighbours_top_p() -> None:
    """Renormalising moves an edge by a rounding error; only rows with top-p may see it twice."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        logits = torch.randn(1, _CODEBOOKS, _VOCAB, generator=generator)
        first = logits[0, 0].softmax(-1)
        edge = float(first[7] / first.max())  # id 7 of codebook 0 lies on it
        rows, history = SamplingRows(2, _VOCAB), History(2, _CODEBOOKS, _CODES)
        rows.set(0, ResolvedSampling(1.0, _VOCAB, 0.0, edge, 1.0, 0, 0), seed=0)
        alone = probabilities(logits, rows, history, torch.tensor([0]))
        rows.set(1, ResolvedSampling(1.0, _VOCAB, 0.5, 0.0, 1.0, 0, 0), seed=0)
        together = probabilities(logits.expand(2, -1, -1), rows, history)
        assert torch.equal(together[0], alone[0])
