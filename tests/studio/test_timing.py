"""When what is said: chunks as they were written, words between the silences that are heard."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import InvalidRequest, Prepared, SpokenChunk, prepare
from studio.timing import (
    Timed,
    Writing,
    granularities,
    silences_in,
    split_words,
    timed_chunks,
    timed_words,
)

RATE_HZ = 16_000


def sound(*lengths_s: float) -> np.ndarray:
    """Noise and silence in turn."""
    noise = np.random.default_rng(3)
    parts = [
        noise.normal(0, 0.1, round(length_s * RATE_HZ)) * (at % 2 == 0)
        for at, length_s in enumerate(lengths_s)
    ]
    return np.concatenate(parts).astype(np.float32)


def times(text: str, samples: np.ndarray) -> list[tuple[str, float, float]]:
    chunk = Timed(text, 10.0, 10.0 + len(samples) / RATE_HZ, 4)
    words = timed_words(chunk, text, samples, RATE_HZ)
    assert {word.chunk for word in words} == {4}
    return [(word.text, word.start_s - 10, word.end_s - 10) for word in words]


@pytest.mark.parametrize(
    ("value", "wished"),
    [
        (None, None),
        ("none", None),
        ("word", ["word"]),
        (["word", "chunk", "word"], ["chunk", "word"]),
        ([], None),
        ("Chunk", ["chunk"]),
    ],
)
def test_granularities_come_alone_or_in_a_list(value, wished):
    assert granularities(value) == wished


@pytest.mark.parametrize("value", ["letter", ["word", 3], True, {"word": 1}])
def test_other_granularities_are_refused_by_name(value):
    with pytest.raises(InvalidRequest, match=r"^x: .* choose none, chunk or word"):
        granularities(value, "x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Yes — of course.", ["Yes—", "of", "course."]),
        ("“Hello,” she said", ["“Hello,”", "she", "said"]),
        ("... well", ["...well"]),
        ("今日は、晴れ。", ["今", "日", "は、", "晴", "れ。"]),
        ("", []),
    ],
)
def test_words_keep_their_signs_and_unspaced_scripts_go_by_characters(text, words):
    assert split_words(text) == words


@given(st.text(max_size=80), st.integers(0, 40_000))
def test_words_fill_their_chunk_in_order_whatever_the_text(text, num_samples):
    found = times(text, sound(0.3, 0.1, 2.0)[:num_samples]) if split_words(text) else []
    ends = [0.0, *(time_s for _, begin_s, end_s in found for time_s in (begin_s, end_s))]
    assert all(a <= b + 1e-9 for a, b in pairwise(ends))
    assert ends[-1] <= num_samples / RATE_HZ + 1e-6
    assert [word for word, _, _ in found] == split_words(text)


def test_silences_are_found_and_a_stop_takes_the_one_beside_it():
    samples = sound(0.5, 0.3, 1.0, 0.04, 0.2)
    (silence,) = silences_in(samples, RATE_HZ)
    assert silence == pytest.approx((0.5, 0.8), abs=0.011)
    found = times("Well, this is it", samples)
    assert found[0] == ("Well,", 0.0, pytest.approx(0.5, abs=0.011))
    assert found[1][1] == pytest.approx(0.8, abs=0.011)
    # Without a stop it is the hold of a consonant, or at least nobody knows.
    assert times("Well this is it", samples)[0][2] != pytest.approx(0.5, abs=0.05)


def test_chunks_are_shown_as_they_were_written_and_without_markup():
    text = "# Ends\n\nIt **cost** [pause 1s] $20. Then 😀 we left at 9:30!"
    prepared = prepare(text, "en_us", normaliser=None)
    said = prepared.text.split("\n\n")
    assert said[0] == "Ends."
    writing = Writing(prepared)
    assert [writing.of(part) for part in said] == ["Ends.", "It cost", "$20. Then we left at 9:30!"]
    assert writing.of("never said") == "never said"


def test_words_that_were_read_for_signs_are_shown_as_signs():
    from engine import Spoken

    prepared = Prepared(
        (Spoken("It cost twenty dollars. The rest was five."),),
        written="It cost $20.  The rest was 5.",
    )
    spoken = [
        SpokenChunk("It cost twenty dollars.", 1600, 16_000),
        SpokenChunk("The rest was five.", 24_000, 32_000),
    ]
    found = timed_chunks(spoken, RATE_HZ, 2.0, prepared)
    assert found == [
        Timed("It cost $20.", 0.05, 0.5, 0),
        Timed("The rest was 5.", 0.75, 1.0, 1),
    ]


@pytest.mark.slow
def test_words_are_near_those_that_whisper_hears(engine):
    from bench.judges import JUDGE_RATE_HZ, Transcriber, at_rate

    whisper = Transcriber()._model
    errors_s = []
    for seed, text in enumerate(SENTENCES, 10):
        for voice in ("heart", "deep"):
            stream = engine.speak(text, voice=voice, seed=seed)
            samples, rate_hz = stream.read()
            mine = [
                word
                for timed, chunk in zip(
                    timed_chunks(stream.chunks_spoken, rate_hz), stream.chunks_spoken, strict=True
                )
                for word in timed_words(
                    timed, chunk.text, samples[chunk.begin_sample : chunk.end_sample], rate_hz
                )
            ]
            clip = at_rate(samples, rate_hz, JUDGE_RATE_HZ)
            clip = clip / (np.abs(clip).max() + 1e-6) * 0.7
            segments, _ = whisper.transcribe(
                clip, language="en", temperature=0.0, word_timestamps=True
            )
            heard = [word for segment in segments for word in segment.words]
            matcher = SequenceMatcher(
                None, [bare(it.text) for it in mine], [bare(it.word) for it in heard], False
            )
            for block in matcher.get_matching_blocks():
                errors_s += [
                    mine[block.a + k].start_s - heard[block.b + k].start for k in range(block.size)
                ]
    off_ms = np.abs(errors_s) * 1000
    print(f"{len(off_ms)} words: median {np.median(off_ms):.0f} ms, mean {off_ms.mean():.0f} ms,")
    print(f"95 % within {np.quantile(off_ms, 0.95):.0f} ms")
    assert len(off_ms) > 90
    assert np.median(off_ms) < 65 and np.quantile(off_ms, 0.95) < 250


def bare(word: str) -> str:
    return re.sub(r"[^a-z']", "", word.lower())


SENTENCES = (
    "Did you see the boat? It was still tied to the pier, as it was yesterday.",
    "She opened the window, looked at the garden, and smiled.",
    "I would like a cup of tea, please, and two slices of bread.",
    "However, the children had already gone to sleep.",
    "The library closes at nine, but you may keep the book for two weeks.",
)
