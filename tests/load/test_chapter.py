"""A chapter of 20,000 characters in one request: complete, steady, and soon to be heard.

It takes some 9 minutes a seed on two quiet cores, most of them for listening.

    make load ARGS=tests/load/test_chapter.py

The figures go to results/chapter_seed_<seed>.json.
"""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyloudnorm
import pytest

from bench.judges import Transcriber, median_pitch_hz, num_edits, plain_words
from bench.machine import describe, loaded_reason
from engine import Engine, FinishReason
from engine.stream import SpokenChunk
from tests.load.listening import clicks_at, flux

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
CHAPTER = REPOSITORY / "tests" / "fixtures" / "texts" / "chapter.txt"
NUM_PARTS = 10
# Every so many sentences one is spoken alone, to know how well single ones are understood.
ALONE_EVERY = 6
# The recogniser leaves out the first words of a clip that begins in the middle of speech.
QUIET_S = 1.0


def words_heard(hear: Transcriber, samples: np.ndarray, rate_hz: int) -> list[str]:
    return plain_words(hear.hear(np.pad(samples, round(QUIET_S * rate_hz)), rate_hz))


def words_of(
    hear: Transcriber, samples: np.ndarray, rate_hz: int, chunks: list[SpokenChunk]
) -> list[list[str]]:
    """What is heard from the beginning of each chunk to that of the next: nothing is left out."""
    begins = [0, *(chunk.begin_sample for chunk in chunks[1:]), len(samples)]
    return [words_heard(hear, samples[begin:end], rate_hz) for begin, end in pairwise(begins)]


def share_of_letters(wanted: list[str], heard: list[str]) -> float:
    """How much of a sentence's letters is heard in its place, whatever words they make."""
    one, other = "".join(wanted), "".join(heard)
    return 1 - num_edits(one, other) / max(len(one), len(other), 1)


@pytest.mark.load
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_chapter_is_whole_and_steady(seed: int) -> None:
    figures: dict[str, Any] = {"machine_was_loaded": loaded_reason()}
    text = CHAPTER.read_text(encoding="utf-8")
    assert len(text) >= 20_000
    hear = Transcriber()
    with Engine.open(REPOSITORY / "assets" / "nano", device="cpu") as engine:
        started_s = time.perf_counter()
        stream = engine.speak(text, voice="heart", seed=seed)
        pieces, first_s = [], 0.0
        for piece in stream:
            first_s = first_s or time.perf_counter() - started_s
            pieces.append(piece)
        took_s = time.perf_counter() - started_s
        chunks, samples, rate_hz = stream.chunks_spoken, np.concatenate(pieces), 44_100
        assert stream.finish_reason is FinishReason.STOP
        heard = words_of(hear, samples, rate_hz, chunks)
        single_edits, single_words, same_edits = 0, 0, 0
        for at in range(0, len(chunks), ALONE_EVERY):
            alone, _ = engine.speak(chunks[at].text, voice="heart", seed=seed + at).read()
            wanted = plain_words(chunks[at].text)
            single_words += len(wanted)
            single_edits += num_edits(wanted, words_heard(hear, alone, rate_hz))
            same_edits += num_edits(wanted, heard[at])
        figures["machine"] = describe(engine.family.device)

    # Every sentence once: in its place its letters are heard, neither few of them nor twice. Of the
    # eight heard worst, each has 0.66 or more of its own letters and at most 0.43 of another's.
    assert "".join("".join(c.text for c in chunks).split()) == "".join(text.split())
    wanted_words = [plain_words(chunk.text) for chunk in chunks]
    shares = list(map(share_of_letters, wanted_words, heard))
    lengths = [
        len(got) / len(wanted) for wanted, got in zip(wanted_words, heard, strict=True) if wanted
    ]
    edits = sum(map(num_edits, wanted_words, heard))

    meter = pyloudnorm.Meter(rate_hz)
    spoken = [samples[c.begin_sample : c.end_sample].astype(np.float64) for c in chunks]
    loudness = np.array([meter.integrated_loudness(s) for s in spoken if len(s) > 0.4 * rate_hz])
    parts = np.array_split(np.arange(len(chunks)), NUM_PARTS)
    whole_pitch = median_pitch_hz(samples, rate_hz)
    pitches = [
        median_pitch_hz(
            samples[chunks[part[0]].begin_sample : chunks[part[-1]].end_sample], rate_hz
        )
        for part in parts
    ]
    values, hop = flux(samples, rate_hz)
    gaps = [
        slice(before.end_sample // hop, after.begin_sample // hop - 1)
        for before, after in pairwise(chunks)
    ]
    is_join = np.zeros(len(values), bool)
    for gap in gaps:
        is_join[gap] = True
    at_joins, elsewhere = values[is_join].max(), np.percentile(values[~is_join], 99)
    borders = np.cumsum([len(piece) for piece in pieces])[:-1].tolist()

    figures |= {
        "seed": seed,
        "characters": len(text),
        "chunks": len(chunks),
        "audio_s": round(len(samples) / rate_hz, 1),
        "took_s": round(took_s, 1),
        "first_sound_s": round(first_s, 3),
        "repairs": [list(repair) for repair in stream.repairs],
        "word_error_percent": round(100 * edits / sum(map(len, wanted_words)), 2),
        "word_error_percent_of_every_6th": round(100 * same_edits / single_words, 2),
        "word_error_percent_of_those_alone": round(100 * single_edits / single_words, 2),
        "least_share_of_letters_right": round(min(shares), 2),
        "most_words_heard_per_word": round(max(lengths), 2),
        "loudness_spread_lu": round(float(np.ptp(loudness)), 2),
        "loudness_from_first_lu": round(float(np.abs(loudness - loudness[0]).max()), 2),
        "pitch_hz": round(whole_pitch, 1),
        "pitch_of_tenths_hz": [round(pitch, 1) for pitch in pitches],
        "flux_at_joins_max": round(float(at_joins), 2),
        "flux_elsewhere_p99": round(float(elsewhere), 2),
        "clicks_at_chunk_borders": clicks_at(samples, borders, rate_hz),
        "worst": sorted(
            (round(share, 2), chunk.text, " ".join(got))
            for share, chunk, got in zip(shares, chunks, heard, strict=True)
        )[:8],
    }
    results = RESULTS / f"chapter_seed_{seed}.json"
    results.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")

    assert figures["least_share_of_letters_right"] >= 0.55
    assert figures["most_words_heard_per_word"] < 1.6
    assert single_edits == 0 or same_edits <= 1.3 * single_edits + 3
    assert figures["loudness_spread_lu"] <= 1.5
    assert all(abs(pitch / whole_pitch - 1) <= 0.05 for pitch in pitches)
    assert at_joins <= elsewhere
    assert figures["clicks_at_chunk_borders"] <= len(samples) / rate_hz / 60
    assert figures["first_sound_s"] <= 1.5
