"""Attention residuals, latent experts, and a whole pass against step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.family import Prompt
from engine.request import SpeechRequest
from engine.zonos3.backbone import DepthAttention, LatentMoe
from engine.zonos3.config import Zonos3Config
from engine.zonos3.family import Zonos3Family

TEXT = "The boat is tied up, and the sea is calm."
# Hidden states are about 1. Chunks and steps round differently (1e-6 in the first layer), and the
# norm of each delta head magnifies that about four times a layer where little is remembered.
ATOL = 2e-3


def test_a_query_of_zeros_is_the_plain_mean_and_others_choose(config: Zonos3Config) -> None:
    depth = DepthAttention(config)
    torch.nn.init.zeros_(depth.query)
    sources = list(torch.randn(4, 1, 3, config.dim))
    mean = torch.stack(sources).mean(0)
    torch.testing.assert_close(depth(sources), mean)
    torch.testing.assert_close(depth(sources[:1]), sources[0])
    with torch.no_grad():
        depth.query.copy_(1e3 * sources[2][0, 0])
    chosen = depth(sources)
    torch.testing.assert_close(chosen[0, 0], sources[2][0, 0])
    assert not torch.allclose(chosen[0, 1], mean[0, 1])


def test_each_sub_layer_reads_everything_before_it(family: Zonos3Family) -> None:
    seen: dict[str, int] = {}
    hooks = [
        module.register_forward_pre_hook(
            lambda _, given, name=name: seen.__setitem__(name, len(given[0]))
        )
        for name, module in family.model.named_modules()
        if isinstance(module, DepthAttention)
    ]
    with torch.inference_mode():
        family.open_runner(1).prefill(0, family.plan(TEXT, SpeechRequest(TEXT)).main)
    for hook in hooks:
        hook.remove()
    num_layers = family.config.n_layers
    assert [seen[f"layers.{i}.mixer_sources"] for i in range(num_layers)] == [1, 3, 5, 7, 9]
    assert [seen[f"layers.{i}.ffn_sources"] for i in range(num_layers)] == [2, 4, 6, 8, 10]
    assert seen["out_sources"] == 2 * num_layers + 1


def test_latent_experts_are_the_sum_over_the_two_likeliest(family: Zonos3Family) -> None:
    moe = family.model.layers[2].feed_forward
    assert isinstance(moe, LatentMoe)
    x, state = torch.randn(1, 6, 32), torch.randn(1, 6, 16)
    with torch.inference_mode():
        whole, carried = moe(x, state)
        step, _ = moe(x.transpose(0, 1), state.transpose(0, 1), is_step=True)
        torch.testing.assert_close(step.transpose(0, 1), whole)
        hidden = moe.router.down_proj(x) + state * moe.router.router_states_scale
        torch.testing.assert_close(carried, hidden)  # before the norm: what the next layer adds
        scores = moe.router.router_mlp(moe.router.rmsnorm_eda(hidden))
        chances = scores.softmax(-1)[0]
        for row in range(6):
            ranking = chances[row] + moe.router.balancing_biases
            latent, total = moe.down(x[0, row]), torch.zeros(16)
            for expert in ranking.argsort(descending=True)[:2]:
                gate, up = F.linear(latent, moe.experts.w13[expert]).view(-1, 2).unbind(-1)
                out = F.linear(F.silu(gate) * up, moe.experts.w2[expert])
                total += chances[row, expert] * out
            torch.testing.assert_close(whole[0, row], moe.up(total), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("num_known", [1, 13, 29])
def test_step_by_step_is_the_whole_pass(family: Zonos3Family, num_known: int) -> None:
    generator = torch.Generator().manual_seed(num_known)
    config = family.config
    codes = torch.randint(0, config.codebook_size, (30, 10), generator=generator)
    rows = torch.cat([codes, torch.full((30, 1), config.text_vocab)], dim=1)
    hidden: list[Tensor] = []
    hook = family.model.out_norm.register_forward_hook(lambda _m, _i, out: hidden.append(out))
    with torch.inference_mode():
        runner = family.open_runner(2)
        runner.prefill(1, Prompt(rows, None))
        whole = hidden.pop()[0]
        runner.prefill(0, Prompt(rows[:num_known], None))
        torch.testing.assert_close(hidden.pop()[0], whole[:num_known], atol=ATOL, rtol=0)
        for t in range(num_known, 30):
            runner.decode([0], codes[t : t + 1])
            torch.testing.assert_close(hidden.pop()[0, 0], whole[t], atol=ATOL, rtol=0)
    hook.remove()


def test_logits_are_float32_and_capped_in_any_precision(family: Zonos3Family) -> None:
    hidden = 1e3 * torch.randn(2, 32, dtype=torch.bfloat16)
    logits = family.model.logits(hidden)
    assert logits.dtype == torch.float32 and logits.shape == (2, 10, 66)
    assert logits.abs().max() <= family.config.loss_softcap


def test_bfloat16_speaks_close_to_float32(folder: Path, family: Zonos3Family) -> None:
    narrow = Zonos3Family.open(folder, torch.device("cpu"), torch.bfloat16)
    assert narrow.model.head.weight.dtype == torch.float32
    request = SpeechRequest(TEXT, torch.ones(192))
    with torch.inference_mode():
        exact = family.open_runner(1).prefill(0, family.plan(TEXT, request).main)
        rough = narrow.open_runner(1).prefill(0, narrow.plan(TEXT, request).main)
    similarity = F.cosine_similarity(exact.flatten(), rough.flatten(), dim=0)
    assert similarity > 0.98
