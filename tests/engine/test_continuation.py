"""A segment is spoken on from the sound before it, where the checkpoint was made for that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine import Delivery, Engine, Guidance, InvalidRequest, Sampling, SpeechRequest
from engine.codec.delay import unshear
from engine.family import Context
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import ResolvedControls, without_end
from engine.zonos2.prompt import build_rows
from tests.shadow.release import make_release

GOLDEN = Path(__file__).parents[1] / "golden" / "longform.json"
SENTENCES = [f"Sentence {word} is said now and then some more." for word in ("one", "two", "six")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = make_release(tmp_path_factory.mktemp("release"), long_form_chunk_chars=50)
    with Engine.open(folder, device="cpu", num_slots=4) as opened:
        yield opened


def ask(engine: Engine, **more: Any) -> SpeechRequest:
    speaker = torch.randn(
        engine.family.speaker_dim or 0, generator=torch.Generator().manual_seed(3)
    )
    # At such a rate, half a second of noise is not far too short for a sentence.
    delivery = Delivery(speaking_rate=300.0)
    sampling = Sampling(temperature=1.0)
    text = " ".join(SENTENCES)
    return SpeechRequest(text, speaker, sampling=sampling, delivery=delivery, seed=4, **more)


def test_the_prompt_is_the_references_but_for_its_undelayed_corner(
    tiny_config: Zonos2Config,
) -> None:
    """The reference's prefix keeps raw rows; ours delays whole frames, so the corner of the first
    rows, which belongs to frames before the prefix, is pad as in every other prompt."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["continuation"]
    raw = torch.tensor(golden["context_codes"])
    quality = dict(zip(tiny_config.quality_buckets, golden["quality_buckets"], strict=True))
    controls = ResolvedControls(golden["speaking_rate_bucket"], quality, None, False)
    text = f"{golden['context_text']} {golden['cur_text']}"
    rows = build_rows(tiny_config, text, controls, True, unshear(raw, tiny_config.audio_pad_id))
    expected = torch.tensor(golden["rows_with_speaker_slot"])
    assert torch.equal(rows[:, -1], expected[:, -1])
    ours, theirs = rows[-len(raw) :, :-1], expected[-len(raw) :, :-1]
    age, codebook = torch.meshgrid(torch.arange(len(raw)), torch.arange(9), indexing="ij")
    assert torch.equal(ours[age >= codebook], theirs[age >= codebook])
    assert (ours[age < codebook] == tiny_config.audio_pad_id).all()


def test_each_segment_hears_the_first_and_the_one_before(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: dict[str, Context] = {}
    plan = engine.family.plan

    def noted(text: str, request: SpeechRequest, context: Context | None = None) -> Any:
        assert context is not None
        contexts[text] = context
        return plan(text, request, context)

    request = ask(engine)
    with monkeypatch.context() as patched:
        patched.setattr(engine.family, "plan", noted)
        stream = engine.submit(request)
        samples = stream.read()[0]
    first, second, third = (contexts[sentence] for sentence in SENTENCES)
    assert (first.text, len(first.frames)) == ("", 0)
    assert second.text == SENTENCES[0] and third.text == " ".join(SENTENCES[:2])
    assert torch.equal(third.frames[: len(second.frames)], second.frames)
    assert [context.is_last for context in (first, second, third)] == [False, False, True]
    hop = engine.codec.hop
    assert len(samples) == stream.timings.num_frames * hop > len(third.frames) * hop
    assert np.array_equal(samples, engine.submit(request).read()[0])


@pytest.mark.slow
def test_guidance_by_the_prefix_takes_its_lane_where_there_is_a_prefix(engine: Engine) -> None:
    plain = engine.submit(ask(engine)).read()[0]
    guided = ask(engine, guidance=Guidance(prefix=2.0))
    stream = engine.submit(guided)
    other = engine.submit(ask(engine, guidance=Guidance(speaker=1.5, prefix=0.5)))
    in_company = stream.read()[0]
    other.read()
    assert np.array_equal(engine.submit(guided).read()[0], in_company)
    assert not np.array_equal(plain[: len(in_company)], in_company[: len(plain)])
    short = SpeechRequest("Hello.", guided.speaker, guidance=Guidance(prefix=2.0))
    assert len(engine.family.plan("Hello.", short).prompts) == 1  # nothing to be guided by
    assert engine.stats.num_live == 0 and len(engine._scheduler._free) == 4


def test_a_long_prefix_leaves_room_for_speech(engine: Engine) -> None:
    frames = torch.zeros(9000, 9, dtype=torch.int64)
    plan = engine.family.plan("Go on.", ask(engine), Context("Before.", frames, True))
    assert 3072 < plan.num_rows < 3200


def test_the_silence_at_the_end_is_asked_for_once() -> None:
    controls = ResolvedControls(None, {"lufs": 3, "trailing_silence_s": 2}, None, False)
    assert without_end(controls).quality == {"lufs": 3, "trailing_silence_s": None}


def test_too_many_lanes_are_refused_before_anything_runs(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="cfg_scale: 9"):
        engine.submit(ask(engine, guidance=Guidance(speaker=9)))
