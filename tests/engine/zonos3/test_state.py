"""Slots: forked and restored as if run anew, and untouched by what happens beside them."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.family import Prompt
from engine.request import SpeechRequest
from engine.zonos3.checkpoint import empty_backbone, footprint
from engine.zonos3.config import Zonos3Config
from engine.zonos3.family import Zonos3Family, Zonos3Runner
from tests.engine.zonos3.random_checkpoint import PARAMS


def prompt(family: Zonos3Family, text: str) -> Prompt:
    return family.plan(text, SpeechRequest(text)).main


def codes(seed: int, num_steps: int, num_slots: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 64, (num_steps, num_slots, 10), generator=generator)


def run(runner: Zonos3Runner, slot: int, steps: Tensor) -> list[Tensor]:
    return [runner.decode([slot], step)[0] for step in steps]


@torch.inference_mode()
def test_a_fork_that_diverges_is_two_fresh_runs(family: Zonos3Family) -> None:
    start, shared = prompt(family, "Good morning."), codes(0, 6)
    paths = [codes(1, 8), codes(2, 8)]
    forked = family.open_runner(3)
    forked.prefill(0, start)
    run(forked, 0, shared)
    forked.prefill(2, prompt(family, "Something longer that stood here before."))
    forked.state.fork(0, 2)
    together = [
        forked.decode([0, 2], torch.cat([first, second]))
        for first, second in zip(*paths, strict=True)
    ]
    for lane, path in enumerate(paths):
        fresh = family.open_runner(3)
        fresh.prefill(0, start)
        run(fresh, 0, shared)
        expected = run(fresh, 0, path)
        assert all(
            torch.equal(step[lane], alone) for step, alone in zip(together, expected, strict=True)
        )
    assert not torch.equal(together[-1][0], together[-1][1])


@torch.inference_mode()
def test_a_snapshot_brings_a_slot_back(family: Zonos3Family) -> None:
    runner = family.open_runner(2)
    runner.prefill(0, prompt(family, "Good morning."))
    run(runner, 0, codes(0, 3))
    before = runner.state.snapshot(0)
    expected = run(runner, 0, codes(1, 5))
    runner.prefill(0, prompt(family, "Another one."))
    runner.state.restore(0, before)
    assert all(map(torch.equal, run(runner, 0, codes(1, 5)), expected))
    runner.state.restore(1, before)
    assert all(map(torch.equal, run(runner, 1, codes(1, 5)), expected))


@torch.inference_mode()
def test_a_slot_that_waits_keeps_its_state_to_the_bit(family: Zonos3Family) -> None:
    runner = family.open_runner(3)
    for slot in range(2):
        runner.prefill(slot, prompt(family, "Good morning."))
    before = runner.state.snapshot(1)
    run(runner, 0, codes(3, 4))
    runner.prefill(2, prompt(family, "Hello."))
    after = runner.state.snapshot(1)
    assert before.num_rows == after.num_rows
    for name in ("keys", "values", "matrices", "tails"):
        assert torch.equal(getattr(before, name), getattr(after, name))


@torch.inference_mode()
def test_hidden_states_do_not_feel_the_others(family: Zonos3Family) -> None:
    """Before head and sampler, in every slot and beside any number of others."""
    texts = ["Good morning.", "Why?", "Please close the window before you leave.", "Hello there."]
    hidden: list[Tensor] = []
    hook = family.model.out_norm.register_forward_hook(lambda _m, _i, out: hidden.append(out))

    def alone_or_among(slot: int, others: list[int]) -> list[Tensor]:
        runner = family.open_runner(8)
        for other in others:
            runner.prefill(other, prompt(family, texts[1 + other % 3]))
        runner.prefill(slot, prompt(family, texts[0]))
        rows = []
        for step, (own, foreign) in enumerate(
            zip(codes(7, 6), codes(len(others), 6, 8), strict=True)
        ):
            slots = sorted([slot, *others]) if step != 2 else [slot]
            given = foreign[: len(slots)].clone()
            given[slots.index(slot)] = own[0]
            hidden.clear()
            runner.decode(slots, given)
            rows.append(hidden[0][slot].clone())
        return rows

    alone = alone_or_among(3, [])
    for slot, others in ((3, [0]), (3, [4, 5]), (3, [0, 1, 2, 4, 5, 6, 7]), (7, [3, 0])):
        assert all(map(torch.equal, alone_or_among(slot, others), alone))
    hook.remove()


def test_memory_is_one_size_whatever_the_length(family: Zonos3Family) -> None:
    state = family.open_runner(4).state
    tensors = (state._kv.keys, state._kv.values, state._matrices, state._tails)
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    assert held == 4 * footprint(family.config, torch.float32).slot


def test_at_the_cards_widths_the_sizes_are_those_that_its_numbers_imply() -> None:
    """800 M numbers, 1 KiB of keys and values a row, 576 and 81 KiB beside them (spec section 2).

    Widths that the card does not give are those the specification infers from its totals.
    """
    card = {
        "dim": 1024,
        "max_rows": 32_768,
        "n_heads": 16,
        "n_kv_heads": 4,
        "head_dim": 32,
        "delta_key_heads": 16,
        "delta_value_heads": 16,
        "delta_key_dim": 32,
        "delta_value_dim": 32,
        "ffn_dim": 2688,
        "moe_num_experts": 64,
        "moe_router_dim": 256,
        "moe_latent_dim": 256,
        "moe_ffn_dim": 1344,
        "tokenizer_size": 8196,
    }
    config = Zonos3Config.from_dict(PARAMS | card)
    num_numbers = sum(tensor.numel() for tensor in empty_backbone(config).state_dict().values())
    assert 790e6 < num_numbers < 810e6
    size = footprint(config, torch.bfloat16)
    assert size.slot == 32 * 2**20 + 9 * 64 * 2**10 + 9 * 3 * 1536 * 2
    assert 1.55e9 < size.weights < 1.75e9
