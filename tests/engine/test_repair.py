"""Speech that runs away, falls silent, sticks or breaks off is made again, exactly and told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engine import Engine, FinishReason, GenerationFailed, SpeechRequest, SpeechStream
from engine import job as job_module
from engine.family import Control
from engine.outlet import RAMP_S
from engine.repair import Guard, Limits, Repair
from engine.request import Delivery
from engine.stream import SpokenChunk
from tests.engine.scripted import HOP, RATE_HZ, ScriptedCodec, ScriptedFamily, script

TEXT = "The boat is tied up, now"
LONG = "The boat is tied up, now. Two men stand there. Nobody says a word to them."
REASONS = {"%": "silence", "&": "budget", "^": "loop", "$": "short", "#": "empty"}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(ScriptedFamily(), ScriptedCodec(), None, {}, num_slots=4) as opened:  # type: ignore[arg-type]
        yield opened


@pytest.fixture(autouse=True)
def as_loud_as_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "FREE_LU", 99.0)


def heard(stream: SpeechStream) -> np.ndarray:
    """Per frame, whether it sounds."""
    samples, _ = stream.read()
    assert len(samples) % HOP == 0
    return np.abs(samples.reshape(-1, HOP)).max(axis=1) > 0.01


# What is noticed ------------------------------------------------------------------------------


def limits(text: str = "a" * 50, **delivery: object) -> Limits:
    controls = (
        Control("speaking_rate", "rate", "bytes/s", ("0-8", "8-30", "30+"), None),
        Control("trailing_silence_s", "quality", "s", ("0-0.5", "0.5-2", "2+"), 0),
    )
    return Limits.of(text, Delivery(**delivery), controls, 25.0)  # type: ignore[arg-type]


def test_the_budget_follows_the_text_and_the_rate() -> None:
    assert limits().budget == 25 * (4 + 0.16 * 50)
    assert limits().usual == round(25 * 50 / 19)  # the middle bucket's middle
    assert limits(speaking_rate=5.0).budget == 25 * (4 + 3 * 10)
    assert limits(speaking_rate_bucket=2).budget == 25 * (4 + 3 * 50 / 30)
    assert limits(speed=0.5).usual == round(25 * 50 / 9.5)
    assert limits("**** ---- !!").usual == round(25 * 2 / 19)  # what is not said takes no time
    assert limits("नमस्ते").usual == round(25 * 18 / 19)  # vowel signs are heard


def test_a_silence_that_was_asked_for_is_none_too_long() -> None:
    assert limits().silence == 25 * 1.75
    assert limits(quality_buckets={"trailing_silence_s": 1}).silence == 25 * 3.25
    assert limits(quality_values={"trailing_silence_s": 4.0}).silence == 25 * 5.25
    assert limits(quality_buckets={"trailing_silence_s": 2}).silence == np.inf
    assert limits(quality_buckets={"trailing_silence_s": None}).silence == 25 * 1.5


@pytest.mark.parametrize("period", [1, 3, 30])
def test_codes_that_repeat_are_noticed_from_where_they_begin(period: int) -> None:
    rng, guard = random.Random(period), Guard(limits("a" * 200))
    pattern = [rng.randrange(1024) for _ in range(period)]
    codes = [rng.randrange(1024) for _ in range(40)]
    # One code in ten differs, as it does when a loop is sampled.
    codes += [rng.randrange(1024) if n % 10 == 9 else pattern[n % period] for n in range(400)]
    faults = [guard.take_row(code) for code in codes]
    first = next(at for at, fault in enumerate(faults) if fault)
    fault = faults[first]
    assert fault is not None and fault.reason == "loop" and fault.begin is not None
    assert abs(fault.begin - 40) <= 1
    assert first < 40 + period + 25 * 3.25 * 2


def test_codes_that_do_not_repeat_are_not() -> None:
    rng, guard = random.Random(1), Guard(limits("a" * 200))
    # Few codes, held for a while, as in a slow vowel.
    codes = [code for _ in range(60) for code in [rng.randrange(40)] * rng.randint(1, 6)]
    assert not any(guard.take_row(code) for code in codes[:400])


def test_silence_is_heard_with_what_ends_it_and_held_where_it_may_be_the_end() -> None:
    guard = Guard(limits())  # usually 66 frames

    def take(levels: list[float]) -> None:
        assert guard.take_levels(np.array(levels)) is None

    take([0.0] * 3)
    assert guard.num_heard == 3 and guard.first_sound is None
    take([0.1] * 10 + [0.0] * 9)
    assert (guard.num_heard, guard.hold_from) == (13, None)  # a pause, but early
    take([0.1] * 20 + [0.0] * 7)
    assert (guard.num_heard, guard.hold_from) == (42, None)
    take([0.0])
    assert guard.hold_from == 42  # late, and long enough
    take([0.1] * 5)
    assert guard.num_heard == 42
    fault = guard.take_levels(np.zeros(60))
    assert fault == ("silence", 55)


# What is made of it ---------------------------------------------------------------------------


@pytest.mark.parametrize("fate", "%&^$#")
def test_one_sentence_is_mended_while_it_is_heard(engine: Engine, fate: str) -> None:
    told = 0
    for seed in range(6):
        stream = engine.speak(TEXT + fate, seed=seed)
        sounds = heard(stream)
        assert {repair.reason for repair in stream.repairs} <= {REASONS[fate]}
        assert [repair.attempt for repair in stream.repairs] == list(range(len(stream.repairs)))
        told += len(stream.repairs)
        if stream.finish_reason is FinishReason.STOP and fate != "$":
            assert tuple(sounds) == script(TEXT)
        assert not stream.repairs or len(stream.repairs) <= 2
    assert told >= 1


@pytest.mark.parametrize("fate", "%&^$#")
def test_of_a_long_text_only_the_sentence_that_fails_is_made_again(
    engine: Engine, fate: str
) -> None:
    first, second, third = (part + "." for part in LONG.removesuffix(".").split(". "))
    whole = " ".join([first, second.replace("stand", f"{fate}stand"), third])
    plain, fated = engine.speak(LONG, seed=5), None
    for seed in range(20):
        fated = engine.speak(whole, seed=seed)
        mended = heard(fated)
        if fated.repairs and fated.finish_reason is FinishReason.STOP:
            break
    assert fated is not None and {repair.chunk for repair in fated.repairs} == {1}
    assert mended.tolist() == heard(plain).tolist()
    assert [chunk.text for chunk in fated.chunks_spoken][::2] == [first, third]


def test_the_sentences_beside_a_repair_are_the_same_without_it(engine: Engine) -> None:
    texts = [part.strip() + "." for part in LONG.split(".") if part.strip()]
    fated, plain = texts.copy(), texts.copy()
    fated[1] = fated[1].replace("stand", "%stand")
    for seed in range(20):
        streams = [engine.speak(" ".join(lines), seed=seed) for lines in (fated, plain)]
        mended, straight = (stream.read()[0] for stream in streams)
        if streams[0].repairs and streams[0].finish_reason is FinishReason.STOP:
            break
    assert streams[0].repairs
    for at in (0, 2):
        (_, begin, end), (_, start, stop) = (stream.chunks_spoken[at] for stream in streams)
        # The last frames differ by the codec's context alone.
        assert np.array_equal(mended[begin : end - HOP], straight[start : stop - HOP])


@pytest.mark.parametrize(("fate", "kept"), [("~%", 5), ("~^", 6), ("~&", 5)])
def test_what_cannot_be_mended_is_cut_at_its_fault_and_says_length(
    engine: Engine, fate: str, kept: int
) -> None:
    stream = engine.speak(TEXT + fate, seed=1)
    sounds = heard(stream)
    assert stream.finish_reason is FinishReason.LENGTH
    assert stream.repairs == [Repair(0, REASONS[fate[1]], attempt) for attempt in (0, 1)]  # type: ignore[arg-type]
    assert tuple(sounds) == script(TEXT)[:-6] + (False,) * kept
    long = engine.speak(LONG.replace("stand", f"stand{fate}"), seed=2)
    assert heard(long).sum() == sum(map(str.isalnum, LONG))
    assert long.finish_reason is FinishReason.LENGTH and len(long.chunks_spoken) == 3


def test_a_sentence_without_sound_is_tried_three_times(engine: Engine) -> None:
    stream = engine.speak("Hi~#", seed=1)
    with pytest.raises(GenerationFailed, match="no sound came out"):
        stream.read()
    assert [repair.reason for repair in stream.repairs] == ["empty", "empty"]
    long = engine.speak(LONG.replace("stand", "~#stand"), seed=1)
    assert heard(long).any() and long.finish_reason is FinishReason.LENGTH
    assert len(long.chunks_spoken) == 2


def test_the_callers_own_limit_is_no_fault(engine: Engine) -> None:
    stream = engine.speak(TEXT, seed=1, max_new_frames=12)
    assert len(heard(stream)) == 10 and stream.finish_reason is FinishReason.LENGTH
    assert not stream.repairs
    stream = engine.speak(LONG, seed=1, max_new_frames=50)
    assert 40 < len(heard(stream)) <= 50 and len(stream.chunks_spoken) == 2


def test_the_sound_is_the_whole_decode_of_the_frames_that_were_kept(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[job_module.Job] = []
    settle = job_module.Job.settle

    def noted(job: job_module.Job) -> None:
        jobs.append(job)
        if job._is_ended:
            kept.setdefault(job.request.request_id, []).append(torch.cat(job._frames))
        settle(job)

    kept: dict[str, list[torch.Tensor]] = {}
    monkeypatch.setattr(job_module.Job, "settle", noted)
    for text in [TEXT + fate for fate in "%&^$#"] + [LONG.replace("men", "men&")]:
        stream = engine.speak(text, seed=4)
        samples, _ = stream.read()
        frames = torch.cat(kept[stream.request_id])
        whole = engine.codec.decode(frames[None])[0].numpy()
        num_ramp = round(RAMP_S * engine.codec.sample_rate_hz)
        np.testing.assert_allclose(samples[num_ramp:], whole[num_ramp:], atol=1e-6)


# And nobody feels anybody -----------------------------------------------------------------------


def asks() -> list[SpeechRequest]:
    rng = random.Random(15)
    fates = ["%", "&", "^", "$", "#", "~%", "~&", "~^", "", "%", "&", "^"]
    texts = [LONG.replace("stand", "stand" + fate) if at % 2 else TEXT + fate
             for at, fate in enumerate(fates)]  # fmt: skip
    return [
        SpeechRequest(text, seed=rng.getrandbits(32), owner=f"owner {at % 3}")
        for at, text in enumerate(texts)
    ]


def test_twelve_that_fail_end_in_time_the_same_alone_streamed_and_in_company(
    engine: Engine,
) -> None:
    reasons: Counter[str] = Counter()
    alone: list[tuple[np.ndarray, list[Repair], list[SpokenChunk]]] = []
    for request in asks():
        stream = engine.submit(request)
        samples = stream.read()[0]
        alone.append((samples, stream.repairs, stream.chunks_spoken))
        reasons.update(repair.reason for repair in stream.repairs)
        budgets_s = sum(4 + 0.16 * len(part.encode()) for part in request.text.split(". "))
        assert len(samples) / RATE_HZ <= budgets_s
        assert all(repair.attempt < 2 for repair in stream.repairs)
    assert set(reasons) == {"silence", "budget", "loop", "short", "empty"}
    streams = [engine.submit(request) for request in asks()]
    for stream, (samples, repairs, spoken) in zip(streams, alone, strict=True):
        pieces = list(stream)
        assert np.array_equal(np.concatenate(pieces), samples)
        assert (stream.repairs, stream.chunks_spoken) == (repairs, spoken)
    assert engine.stats.num_live == 0 and len(engine._scheduler._free) == 4
