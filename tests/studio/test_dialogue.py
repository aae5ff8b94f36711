"""A script of several voices: its cast, its seeds, its lines and their times."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from engine import InvalidRequest, NotFound, OwnerShareUsed, Turn, read_script
from studio.api.speaking import Speaking
from studio.dialogue import Dialogue, Line, begin_dialogue, check_lengths
from studio.owner import LOCAL
from studio.server import create_api
from tests.studio.conftest import UNMARKED

SCRIPT = "Anna: Did you?\nBen: It is there.\nEve: Yes."
CAST = {
    "anna": "heart",
    "Ben": {"voice": "deep", "speed": 1.1},
    "Eve": {"blend": {"a": "heart", "b": "deep"}},
}


@pytest.fixture(scope="module")
def speaking(engine) -> Speaking:
    return create_api(engine, UNMARKED).state.speaking


@pytest.fixture(scope="module")
def begin(speaking):
    """A checked dialogue of ``script``."""

    def begin(script: object, **given) -> Dialogue:
        return asyncio.run(begin_dialogue(speaking, script, LOCAL, **given))

    return begin


def spoken(dialogue: Dialogue) -> list[Line]:
    async def lines() -> list[Line]:
        async with aclosing(dialogue.lines("test")) as made:
            return [line async for line in made]

    return asyncio.run(lines())


@pytest.fixture(scope="module")
def trio(begin) -> tuple[Dialogue, list[Line]]:
    dialogue = begin(SCRIPT, cast=CAST, seed=7, pause_ms=500)
    return dialogue, spoken(dialogue)


# Lines and times ------------------------------------------------------------------------------


def heard_at(samples: np.ndarray, rate_hz: int) -> list[tuple[float, float]]:
    """Where something sounds, in stretches that 300 ms of silence part, from second to second."""
    step = rate_hz // 100
    frames = samples[: len(samples) // step * step].astype(float).reshape(-1, step)
    power = np.square(frames).mean(axis=1)
    loud = np.flatnonzero(power > np.quantile(power, 0.95) * 1e-4)  # 40 dB
    parts = np.split(loud, np.flatnonzero(np.diff(loud) > 30) + 1)
    return [(part[0] / 100, (part[-1] + 1) / 100) for part in parts]


def test_three_voices_with_pauses_give_a_mix_whose_cues_are_where_they_are_heard(trio):
    dialogue, lines = trio
    mix = dialogue.mix(lines)
    cues = mix.all_cues
    assert [(cue.voice, cue.text) for cue in cues] == [
        ("Anna", "Did you?"),
        ("Ben", "It is there."),
        ("Eve", "Yes."),
    ]
    assert [line.voice for line in lines] == ["heart", "deep", "blend"]
    heard = heard_at(mix.samples, mix.sample_rate_hz)
    for cue, (begin_s, end_s) in zip(cues, heard, strict=True):
        assert cue.start_s == pytest.approx(begin_s, abs=0.05)
        assert cue.end_s == pytest.approx(end_s, abs=0.05)
    assert cues[1].start_s - cues[0].end_s == pytest.approx(0.5, abs=0.002)
    assert mix.notes == ()


def test_a_line_is_what_the_speech_route_says_with_its_seed(trio, client, wav):
    _, lines = trio
    body = {"input": "It is there.", "voice": "deep", "speed": 1.1, "seed": lines[1].seed}
    samples, rate_hz = wav(client.post("/v1/audio/speech", json=body).content)
    assert rate_hz == lines[1].sample_rate_hz and np.array_equal(samples, lines[1].samples)


@pytest.mark.slow
def test_one_line_anew_changes_and_one_put_in_moves_no_other(trio, begin):
    dialogue, lines = trio
    again = asyncio.run(dialogue.line(1, "again", seed=lines[1].seed + 1))
    assert not np.array_equal(again.samples, lines[1].samples)
    longer = begin("Anna: Look!\n" + SCRIPT, cast=CAST, seed=7)
    same = spoken(longer)[1:]
    assert [line.seed for line in same] == [line.seed for line in lines]
    for one, other in zip(same, lines, strict=True):
        assert np.array_equal(one.samples, other.samples)
    mix = dialogue.mix([lines[0], again, lines[2]])
    assert [len(cues) for cues in mix.cues] == [1, 1, 1]


def test_seeds_follow_from_the_dialogue_a_voice_or_the_turn_itself(begin):
    turns = [
        {"voice": "heart", "text": "Yes."},
        {"voice": "heart", "text": "Yes."},
        {"voice": "Ben", "text": "Yes."},
        {"voice": "Ben", "text": "No.", "seed": 5},
    ]
    cast = {"Ben": {"voice": "deep", "seed": 3}}
    first, other = (begin(turns, cast=cast, seed=seed).seeds for seed in (1, 2))
    assert first[0] != first[1] and first[0] != other[0]
    assert first[2] == other[2] and first[3] == other[3] == 5
    assert all(0 <= seed < 2**32 for seed in first)


def test_speech_is_made_to_fit_its_slot_within_limits_and_says_where_it_does_not(begin):
    question = {"voice": "heart", "text": "Did you see it?", "start_s": 0.5}
    free = begin([question], seed=7)
    length_s = free.mix(spoken(free)).all_cues[-1].end_s - 0.5
    end_s = round(0.5 + length_s / 1.2, 2)
    turns = [
        question | {"end_s": end_s},
        question | {"start_s": 3.0, "end_s": 3.2, "seed": 1},
        {"voice": "heart", "text": "Yes.", "start_s": 5.0, "end_s": 9.0},
    ]
    dialogue = begin(turns, seed=7)
    lines = spoken(dialogue)
    fits, misfit, easy = lines
    assert 1 < fits.fit < 1.5 and fits.overrun_s == pytest.approx(0)
    assert misfit.fit == 1.5 and misfit.overrun_s > 0.1
    assert easy.fit == 1
    mix = dialogue.mix(lines)
    times = [(cues[0].start_s, cues[-1].end_s) for cues in mix.cues]
    assert [begin_s for begin_s, _ in times] == pytest.approx([0.5, 3.0, 5.0], abs=1e-3)
    assert times[0][1] == pytest.approx(end_s, abs=1e-3)
    heard = heard_at(mix.samples, mix.sample_rate_hz)
    assert [at for at, _ in heard] == pytest.approx([0.5, 3.0, 5.0], abs=0.05)
    assert heard[0][1] == pytest.approx(end_s, abs=0.06)
    (note,) = mix.notes
    assert note.startswith("turns[1]: at 1.50 times its pace it takes") and "0.2 s" in note


@pytest.mark.slow
def test_pauses_that_a_text_asks_for_stay_in_the_mix(begin):
    dialogue = begin("heart: Yes. [pause 800ms]\ndeep: No.", seed=7, pause_ms=200)
    first, second = dialogue.mix(spoken(dialogue)).all_cues
    assert (first.text, second.text) == ("Yes.", "No.")
    assert second.start_s - first.end_s == pytest.approx(1.0, abs=0.003)


# Cast and settings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "given", "error", "field", "words"),
    [
        ("heart: Hi.\nBob: Hi.", {}, NotFound, "turns[1].voice", "no voice 'Bob'"),
        ("Ann: Hi.", {"cast": {"Anna": "heart"}}, NotFound, "turns[0].voice", "which has Anna"),
        ("Bob: Hi.", {"cast": {"Bob": "hart"}}, NotFound, "cast.Bob.voice", "heart"),
        ("Bob: Hi.", {"cast": {"Bob": 5}}, InvalidRequest, "cast.Bob", "'heart', or an object"),
        (
            "Bob: Hi.",
            {"cast": {"Bob": {"voice": "deep", "speed": 9}}},
            InvalidRequest,
            "cast.Bob.speed",
            "0.25 to 4",
        ),
        (
            [{"voice": "deep", "text": "Hi.", "top_k": "a"}],
            {},
            InvalidRequest,
            "turns[0].top_k",
            "whole number",
        ),
        ("deep: Hi.", {"settings": {"min_p": 7}}, InvalidRequest, "min_p", "0 to 1"),
        ("deep: Hi.\ndeep: ...", {}, InvalidRequest, "turns[1].text", "letter or number"),
        ([{"voice": "deep", "text": ""}], {}, InvalidRequest, "turns[0].text", "empty"),
        ("", {}, InvalidRequest, "script", "nobody says anything"),
        ([{"text": "a"}] * 1001, {}, InvalidRequest, "script", "1001 turns"),
        ("a" * 50_001, {}, InvalidRequest, "script", "50001 characters"),
        (" " * 4_000_001, {}, InvalidRequest, "script", "4000001 characters"),
    ],
)
def test_what_is_wrong_is_told_before_any_sound_under_its_place(
    begin, script, given, error, field, words
):
    with pytest.raises(error) as raised:
        begin(script, **given)
    assert raised.value.field == field
    assert raised.value.message.startswith(f"{field}: ") and words in raised.value.message


def test_pauses_and_times_are_bounded_together():
    with pytest.raises(InvalidRequest, match=r"^script: its pauses and times alone take 6000 s"):
        check_lengths([Turn("a", pause_ms=10_000)] * 600, 0, 50_000)
    with pytest.raises(InvalidRequest, match="86400 s"):
        check_lengths([Turn("a", start_s=86_400.0)], 0, 50_000)


def test_the_turn_wins_over_the_cast_and_the_cast_over_all(begin):
    cast = {"Anna": {"voice": "deep", "temperature": 0.5, "speed": 2}, "Ben": None}
    turns = [
        {"voice": " anna", "text": "Hi.", "speaking_rate_bucket": 3},
        {"voice": "ANNA", "text": "Hi.", "speaker": "heart"},
        {"voice": "Ben", "text": "Hi.", "response_format": "mp3", "what": 1},
        {"text": "Hi."},
    ]
    settings = {"temperature": 0.9, "top_k": 5, "voice": "deep", "why": 2}
    dialogue = begin(turns, cast=cast, settings=settings)
    first, second, third, last = (part.ask.body for part in dialogue._parts)
    assert (first.temperature, first.top_k, first.voice) == (0.5, 5, "deep")
    assert (first.speed, first.speaking_rate_bucket) == (None, 3)
    assert (second.voice, second.speed) == ("heart", 2)
    assert (third.voice, third.temperature, third.response_format) == ("default", 0.9, None)
    assert last.voice == "deep"
    assert dialogue.ignored == ("why", "turns[2].what", "turns[2].response_format")


@pytest.mark.slow
def test_a_recording_of_the_cast_is_read_once(begin, data_uri, monkeypatch):
    from studio.api.speakers import Speakers

    heard, hear = [], Speakers.hear
    monkeypatch.setattr(Speakers, "hear", lambda self, s: heard.append(s) or hear(self, s))
    dialogue = begin("Me: Hi.\nMe: Ho.\nheart: Hi.", cast={"Me": {"ref_audio": data_uri}})
    assert len(heard) == 1
    first, second, _ = (part.ask for part in dialogue._parts)
    assert np.array_equal(first.speaker.embedding.vector, second.speaker.embedding.vector)
    assert first.body.ref_audio is None


# The queue ------------------------------------------------------------------------------------


def wait_idle(engine) -> None:
    deadline_s = time.monotonic() + 60
    while engine.stats.num_live + engine.stats.num_waiting:
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_who_stops_listening_frees_what_was_made_ahead(begin, engine):
    wait_idle(engine)
    dialogue = begin("\n".join(f"heart: This is the line number {n} of them." for n in range(9)))

    async def one_line() -> int:
        async with aclosing(dialogue.lines("left")) as made:
            async for line in made:
                most = engine.stats.num_live + engine.stats.num_waiting
                return most if line.index == 0 else -1
        return -1

    most = asyncio.run(one_line())
    assert 0 <= most <= engine.num_slots // 2
    wait_idle(engine)


def test_a_full_queue_refuses_the_first_line_and_keeps_others_waiting(begin, speaking, monkeypatch):
    dialogue = begin("heart: Yes.\nheart: No.")
    begin_one, refused = speaking.begin, []

    async def full(ask, owner, request_id, share=None):
        if request_id.endswith("-1") and not refused:
            refused.append(request_id)
            raise OwnerShareUsed("queue: full.", retry_after_s=0.01)
        return await begin_one(ask, owner, request_id, share)

    monkeypatch.setattr(speaking, "begin", full)
    assert len(spoken(dialogue)) == 2 and refused == ["test-1"]

    async def always_full(ask, owner, request_id, share=None):
        raise OwnerShareUsed("queue: full.", retry_after_s=5)

    monkeypatch.setattr(speaking, "begin", always_full)
    with pytest.raises(OwnerShareUsed):
        spoken(dialogue)


def test_turns_can_be_read_beforehand_for_their_names():
    assert [turn.voice for turn in read_script(SCRIPT)] == ["Anna", "Ben", "Eve"]
    assert replace(Turn("a"), voice="b") == Turn("a", "b")
