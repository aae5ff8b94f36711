"""Guidance twins: the reference's arithmetic, lanes taken and freed together, nothing leaked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Engine, InvalidRequest, Sampling, SpeechRequest
from engine.loop import _guided
from engine.request import Guidance
from engine.sampling import History, SamplingRows, probabilities, resolve
from engine.zonos2.attention import causal_attend
from engine.zonos2.backbone import Backbone
from engine.zonos2.config import RELEASE_SAMPLING

REPOSITORY = Path(__file__).parents[2]
TEXT = "Turn left at the corner and then go straight ahead."
ATOL = 2e-5  # of the golden data for guided rows


def guided(scales: list[float], *lanes: Tensor) -> Tensor:
    return _guided([SimpleNamespace(twin_scales=scales)], list(lanes))[0]  # type: ignore[list-item]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(REPOSITORY / "assets" / "nano", device="cpu", num_slots=3) as opened:
        yield opened


def ask(engine: Engine, guidance: Guidance, seed: int = 5) -> SpeechRequest:
    return SpeechRequest(TEXT, engine.voice("heart"), guidance=guidance, seed=seed)


def test_one_twin_is_the_references_formula() -> None:
    golden = REPOSITORY / "tests" / "golden"
    with np.load(golden / "sampler.npz") as arrays:
        logits = torch.from_numpy(arrays["logits"])
        expected = torch.from_numpy(arrays["cfg_guided_row0"])
        scales = arrays["cfg_scales"].tolist()
    for scale, row in zip(scales, expected, strict=True):
        torch.testing.assert_close(guided([scale], logits[0], logits[1]), row, atol=ATOL, rtol=0)
    assert 1.0 in scales and torch.equal(guided([1.0], logits[0], logits[1]), logits[0])


def test_guided_logits_go_through_the_default_chain() -> None:
    golden = REPOSITORY / "tests" / "golden"
    cases = json.loads((golden / "sampler.json").read_text(encoding="utf-8"))["cases"]
    (case,) = (case for case in cases if case["name"] == "default_hist80")
    rows, history = SamplingRows(1, 1026), History(1, 9, 1024)
    rows.set(0, resolve(Sampling(), RELEASE_SAMPLING), seed=0)
    with np.load(golden / "sampler.npz") as arrays:
        logits = torch.from_numpy(arrays["logits"])
        for frame in torch.from_numpy(arrays["histories"])[case["logit_rows"][0]].long():
            history.append(frame[None])
        found = probabilities(guided([2.0], logits[0], logits[1])[None], rows, history)[0]
        expected = torch.zeros_like(found)
        at = arrays["cfg2_default_chain__idx"].astype(np.int64).T[-2:]
        expected[tuple(at)] = torch.from_numpy(arrays["cfg2_default_chain__p"])
        torch.testing.assert_close(found, expected, atol=ATOL, rtol=0)
        low = [torch.from_numpy(arrays[f"cfg_bf16_{name}"]).float() for name in ("cond", "uncond")]
        # The reference rounds the guided logits back to bfloat16; ours stay float32.
        rounded = guided([2.0], *low).bfloat16().float()
        wanted = torch.from_numpy(arrays["cfg_bf16_in_scale2_out_f32"])
        torch.testing.assert_close(rounded.reshape(wanted.shape), wanted, atol=ATOL, rtol=0)


def test_speaker_guidance_of_the_golden_prompt(
    tiny: Backbone, golden_forward: dict[str, Tensor]
) -> None:
    rows = golden_forward["a_input_ids"].long()[None]
    positions = torch.arange(rows.shape[1])[None]

    def last(speaker_row: Tensor | None) -> Tensor:
        hidden = tiny(tiny.embed(rows, speaker_row), positions, causal_attend)
        return tiny.head(hidden[0, -1])

    with torch.inference_mode():
        with_voice = last(tiny.project_speaker(golden_forward["speaker_embeddings"][:1]))
        without = last(None)
    scale = float(golden_forward["f_cfg_scale"])
    torch.testing.assert_close(
        guided([scale], with_voice, without),
        golden_forward["f_cfg_guided_last_logits"],
        atol=2e-4 * (1 + 2 * abs(scale - 1)),  # two passes, each within the forward tolerance
        rtol=0,
    )


def test_two_twins_add_their_pushes() -> None:
    main, first, second = torch.randn(3, 9, 1026, generator=torch.Generator().manual_seed(0))
    both = guided([2.0, -1.0], main, first, second)
    torch.testing.assert_close(both, main + (main - first) - 2 * (main - second))


def test_guidance_by_the_voice_takes_two_lanes_and_changes_the_speech(engine: Engine) -> None:
    plain = engine.submit(ask(engine, Guidance())).read()[0]
    off = engine.submit(ask(engine, Guidance(speaker=1.0))).read()[0]
    strong = engine.submit(ask(engine, Guidance(speaker=2.0)))
    others = [engine.submit(ask(engine, Guidance(), seed)) for seed in (6, 7)]
    in_company = strong.read()[0]
    for other in others:
        other.read()
    alone = engine.submit(ask(engine, Guidance(speaker=2.0))).read()[0]
    assert np.array_equal(plain, off) and np.array_equal(alone, in_company)
    assert not np.array_equal(plain[: len(alone)], alone[: len(plain)])
    assert engine.stats.num_live == 0 and len(engine._scheduler._free) == 3


def test_guidance_that_cannot_be_is_refused_in_one_sentence(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="needs a voice") as caught:
        engine.submit(SpeechRequest(TEXT, None, guidance=Guidance(speaker=2.0)))
    assert caught.value.field == "cfg_scale"
    with (
        Engine.open(REPOSITORY / "assets" / "nano", device="cpu", num_slots=1) as narrow,
        pytest.raises(InvalidRequest, match="needs 2 slots and the engine has 1"),
    ):
        narrow.submit(ask(narrow, Guidance(speaker=2.0)))
