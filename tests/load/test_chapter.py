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
from typing import Any, NamedTuple

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
# A sentence heard this well is there; another is heard a second time, with quiet around it, because
# the recogniser now and then leaves out the first words of a clip, with quiet or without.
SURE_SHARE = 0.75
QUIET_S = 1.0


def words_of(hear: Transcriber, clip: np.ndarray, rate_hz: int) -> list[str]:
    return plain_words(hear.hear(clip, rate_hz))


def share_of_letters(wanted: list[str], heard: list[str]) -> float:
    """How much of a sentence's letters is heard in its place, whatever words they make."""
    one, other = "".join(wanted), "".join(heard)
    return 1 - num_edits(one, other) / max(len(one), len(other), 1)


class Place(NamedTuple):
    """What is heard from the beginning of a sentence to that of the next."""

    text: str
    heard: list[str]  # of the clip as it is
    best: list[str]  # of two hearings the one that has more of the sentence
    share: float  # of its letters in the best
    share_of_another: float  # the most that the best has of any other sentence, if not sure


def places_of(
    hear: Transcriber, samples: np.ndarray, rate_hz: int, chunks: list[SpokenChunk]
) -> list[Place]:
    """Every sentence in its place; nothing between two beginnings is left out."""
    begins = [0, *(chunk.begin_sample for chunk in chunks[1:]), len(samples)]
    written = [plain_words(chunk.text) for chunk in chunks]
    places = []
    for chunk, wanted, (begin, end) in zip(chunks, written, pairwise(begins), strict=True):
        best = heard = words_of(hear, samples[begin:end], rate_hz)
        share, another = share_of_letters(wanted, heard), 0.0
        if share < SURE_SHARE:
            padded = np.pad(samples[begin:end], round(QUIET_S * rate_hz))
            best = max(
                heard,
                words_of(hear, padded, rate_hz),
                key=lambda words: share_of_letters(wanted, words),
            )
            share = share_of_letters(wanted, best)
            another = max(share_of_letters(words, best) for words in written if words != wanted)
        places.append(Place(chunk.text, heard, best, share, another))
    return places


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
        places = places_of(hear, samples, rate_hz, chunks)
        single_edits, single_words, same_edits = 0, 0, 0
        for at in range(0, len(chunks), ALONE_EVERY):
            alone, _ = engine.speak(chunks[at].text, voice="heart", seed=seed + at).read()
            wanted = plain_words(chunks[at].text)
            single_words += len(wanted)
            single_edits += num_edits(wanted, words_of(hear, alone, rate_hz))
            same_edits += num_edits(wanted, places[at].heard)
        figures["machine"] = describe(engine.family.device)

    # Every sentence once: what is heard in its place is nearer to it than to any other sentence of
    # the chapter, and has at least half of its words and not many more than all.
    assert "".join("".join(c.text for c in chunks).split()) == "".join(text.split())
    written = [plain_words(chunk.text) for chunk in chunks]
    lengths = [
        len(place.best) / len(wanted)
        for wanted, place in zip(written, places, strict=True)
        if wanted
    ]
    edits = sum(num_edits(words, place.heard) for words, place in zip(written, places, strict=True))

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
        "word_error_percent": round(100 * edits / sum(map(len, written)), 2),
        "word_error_percent_of_every_6th": round(100 * same_edits / single_words, 2),
        "word_error_percent_of_those_alone": round(100 * single_edits / single_words, 2),
        "least_share_of_letters_right": round(min(place.share for place in places), 2),
        "least_lead_over_another_sentence": round(
            min(place.share - place.share_of_another for place in places), 2
        ),
        "words_heard_per_word": [round(min(lengths), 2), round(max(lengths), 2)],
        "loudness_spread_lu": round(float(np.ptp(loudness)), 2),
        "loudness_from_first_lu": round(float(np.abs(loudness - loudness[0]).max()), 2),
        "pitch_hz": round(whole_pitch, 1),
        "pitch_of_tenths_hz": [round(pitch, 1) for pitch in pitches],
        "flux_at_joins_max": round(float(at_joins), 2),
        "flux_elsewhere_p99": round(float(elsewhere), 2),
        "clicks_at_chunk_borders": clicks_at(samples, borders, rate_hz),
        "worst": sorted(
            (
                round(place.share, 2),
                round(place.share_of_another, 2),
                place.text,
                " ".join(place.best),
            )
            for place in places
        )[:8],
    }
    results = RESULTS / f"chapter_seed_{seed}.json"
    results.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")

    assert all(place.share > place.share_of_another for place in places)
    assert min(lengths) >= 0.5 and max(lengths) < 1.6
    assert single_edits == 0 or same_edits <= 1.3 * single_edits + 3
    assert figures["loudness_spread_lu"] <= 1.5
    assert all(abs(pitch / whole_pitch - 1) <= 0.05 for pitch in pitches)
    assert at_joins <= elsewhere
    assert figures["clicks_at_chunk_borders"] <= len(samples) / rate_hz / 60
    assert figures["first_sound_s"] <= 1.5
