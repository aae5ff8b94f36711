"""The backbone against the reference's numbers (tests/golden/forward.npz), at its tolerances."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from engine.family import Prompt
from engine.zonos2.attention import SlotKv, causal_attend, rotate
from engine.zonos2.backbone import Backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.family import Zonos2Runner

ATOL = 2e-4
Golden = dict[str, Tensor]


def logits_of(
    model: Backbone, rows: Tensor, speaker_row: Tensor | None, *, last: bool = False
) -> Tensor:
    """Logits of whole prompts rows [T, W] without stored keys."""
    with torch.inference_mode():
        x = model.embed(rows.long()[None], None if speaker_row is None else speaker_row[None])
        hidden = model(x, torch.arange(len(rows))[None], causal_attend)[0]
        return model.head(hidden[-1] if last else hidden)


def speaker_row(model: Backbone, golden: Golden, index: int = 0) -> Tensor:
    with torch.inference_mode():
        return model.project_speaker(golden["speaker_embeddings"][index])


def close(actual: Tensor, expected: Tensor, atol: float = ATOL) -> None:
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0)


def test_prefill_logits_of_every_row(tiny: Backbone, golden_forward: Golden) -> None:
    logits = logits_of(tiny, golden_forward["a_input_ids"], speaker_row(tiny, golden_forward))
    close(logits[::4], golden_forward["a_logits"])


def test_every_layer_of_the_trace(tiny: Backbone, golden_forward: Golden) -> None:
    seen: dict[str, Tensor] = {}

    def trace(name: str, layer: int, value: Tensor) -> None:
        seen[f"a_trace_L{layer}_{name}"] = value.flatten(0, -2)

    rows = golden_forward["a_input_ids"].long()[None]
    with torch.inference_mode():
        summed = tiny.multi_embedder(rows)[0]
        x = tiny.embed(rows, speaker_row(tiny, golden_forward)[None])
        hidden = tiny(x, torch.arange(rows.shape[1])[None], causal_attend, trace=trace)
    close(summed, golden_forward["a_trace_emb_sum"])
    close(x[0], golden_forward["a_trace_emb_normed"])
    close(hidden[0], golden_forward["a_trace_out_normed"])
    names = [name for name in golden_forward if name.startswith("a_trace_L")]
    assert len(names) >= 20
    for name in names:
        expected = golden_forward[name]
        if name.endswith("topk_ids"):
            assert torch.equal(seen[name].sort(-1).values, expected.long().sort(-1).values), name
        elif name.endswith("topk_weights"):
            close(seen[name].sort(-1).values, expected.sort(-1).values)
        else:
            close(seen[name], expected)


def test_eight_decode_steps_after_a_prefill(tiny: Backbone, golden_forward: Golden) -> None:
    runner = Zonos2Runner(tiny, 4, torch.device("cpu"))
    prompt = Prompt(golden_forward["a_input_ids"].long(), speaker_row(tiny, golden_forward))
    with torch.inference_mode():
        runner.prefill(2, prompt)
        for frame, expected in zip(
            golden_forward["b_frames"], golden_forward["b_logits"], strict=True
        ):
            close(runner.decode([2], frame[None, :9].long())[0], expected)


def test_three_prompts_decoded_together(tiny: Backbone, golden_forward: Golden) -> None:
    runner = Zonos2Runner(tiny, 5, torch.device("cpu"))
    slots = [4, 0, 2]
    packed = golden_forward["c_packed_input_ids"].long()
    prompts = packed.split(golden_forward["c_lengths"].tolist())
    with torch.inference_mode():
        for slot, rows, index, expected in zip(
            slots,
            prompts,
            golden_forward["c_speaker_index"].tolist(),
            golden_forward["c_prefill_last_logits"],
            strict=True,
        ):
            row = speaker_row(tiny, golden_forward, index) if index >= 0 else None
            close(runner.prefill(slot, Prompt(rows, row))[0], expected)
        for frames, expected in zip(
            golden_forward["c_decode_frames"], golden_forward["c_decode_logits"], strict=True
        ):
            close(runner.decode(slots, frames[:, :9].long()), expected)


def test_without_a_speaker(tiny: Backbone, golden_forward: Golden) -> None:
    logits = logits_of(tiny, golden_forward["d_input_ids"], None, last=True)
    close(logits, golden_forward["d_last_logits"])
    logits = logits_of(tiny, golden_forward["a_input_ids"], None, last=True)
    close(logits, golden_forward["d2_slot_without_embedding_last_logits"])


def test_an_emotion_delta_on_the_projected_row(tiny: Backbone, golden_forward: Golden) -> None:
    row = speaker_row(tiny, golden_forward) + golden_forward["e_emotion_delta"]
    logits = logits_of(tiny, golden_forward["a_input_ids"], row)
    close(logits[::8], golden_forward["e_logits"])


def test_three_hundred_rows(tiny: Backbone, golden_forward: Golden) -> None:
    row = speaker_row(tiny, golden_forward)
    logits = logits_of(tiny, golden_forward["l_input_ids"], row, last=True)
    close(logits, golden_forward["l_last_logits"])


def test_quantile_balancing_subtracts_the_bias(
    tiny: Backbone, tiny_config: Zonos2Config, golden_forward: Golden
) -> None:
    config = dataclasses.replace(tiny_config, moe_bias_sign=-1)
    other = Backbone(config).requires_grad_(False)
    other.load_state_dict(tiny.state_dict())
    other.prepare()
    row = speaker_row(other, golden_forward)
    logits = logits_of(other, golden_forward["a_input_ids"], row, last=True)
    close(logits, golden_forward["q_quantile_balancing_last_logits"])


@pytest.mark.parametrize(
    ("case", "power", "is_scaled"),
    [
        ("p_qk_eps_last_logits", -11, lambda name: ".wq." in name or ".wkv." in name),
        (
            "p_emb_eps_last_logits",
            -9,
            lambda name: name.startswith(("multi_embedder", "speaker_projection")),
        ),
        ("p_router_eps_last_logits", -9, lambda name: "router.down_proj" in name),
    ],
)
def test_each_norm_has_its_own_epsilon(
    tiny: Backbone, golden_forward: Golden, case: str, power: int, is_scaled: object
) -> None:
    with torch.no_grad():
        for name, parameter in tiny.named_parameters():
            if is_scaled(name):  # type: ignore[operator]
                part = parameter[0] if ".wkv." in name else parameter  # of wkv only the keys
                part.mul_(2.0**power)
    row = speaker_row(tiny, golden_forward)
    close(logits_of(tiny, golden_forward["a_input_ids"], row, last=True), golden_forward[case])


def test_rope_turns_adjacent_pairs(
    tiny_config: Zonos2Config, tiny: Backbone, golden_forward: Golden
) -> None:
    positions = golden_forward["rope_positions"].long()
    for name in ("q", "k"):
        given = golden_forward[f"rope_{name}_in"].unflatten(-1, (-1, tiny_config.head_dim))
        turned = rotate(given[None], tiny.rope[positions][None])[0].flatten(1)
        close(turned, golden_forward[f"rope_{name}_out"], atol=1e-5)


def test_a_slot_used_again_knows_nothing_of_its_last_sequence(
    tiny: Backbone, golden_forward: Golden
) -> None:
    used, fresh = (Zonos2Runner(tiny, 4, torch.device("cpu")) for _ in range(2))
    long = Prompt(golden_forward["l_input_ids"].long(), None)
    short = Prompt(golden_forward["d_input_ids"].long(), None)
    codes = golden_forward["b_frames"][:1, :9].long()
    with torch.inference_mode():
        used.prefill(1, long)
        assert torch.equal(used.prefill(1, short), fresh.prefill(1, short))
        assert torch.equal(used.decode([1], codes), fresh.decode([1], codes))


def test_keys_are_kept_per_layer_and_slot(tiny_config: Zonos2Config) -> None:
    kv = SlotKv(tiny_config, 2, 16, "cpu", torch.float32)
    shape = (1, tiny_config.n_kv_heads, 3, tiny_config.head_dim)
    q = torch.randn(1, tiny_config.n_heads, 3, tiny_config.head_dim)
    k, v = torch.randn(shape), torch.randn(shape)
    kv.prefill(1)(2, q, k, v)
    assert torch.equal(kv.keys[2, 1, :, :3], k[0]) and torch.equal(kv.values[2, 1, :, :3], v[0])
    untouched = kv.keys.clone()
    untouched[2, 1] = 0
    assert not untouched.any()
