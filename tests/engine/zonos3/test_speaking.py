"""The random family through the engine: right length, right end, and nobody feels anybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import (
    Delivery,
    Engine,
    FinishReason,
    GenerationFailed,
    Guidance,
    Sampling,
    SpeechRequest,
)
from tests.engine.zonos3.conftest import SMALL
from tests.engine.zonos3.random_checkpoint import TEXT, make_checkpoint

HOP = 2940


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.open(folder, device="cpu") as opened:
        yield opened


def test_a_limit_of_rows_gives_all_their_whole_frames(engine: Engine) -> None:
    stream = engine.speak(TEXT, seed=1, max_new_frames=40)
    samples, rate_hz = stream.read()
    assert rate_hz == 44_100
    assert stream.finish_reason is FinishReason.LENGTH
    assert len(samples) == (40 - 9) * HOP  # the last codebook of a frame comes nine rows late
    assert np.isfinite(samples).all() and samples.std() > 0.01


def test_the_end_of_audio_ends_it(tmp_path: Path) -> None:
    """Here every row ends the audio with a chance of one in seven."""
    folder = make_checkpoint(tmp_path / "ends", ends=True, **SMALL)
    sampling = Sampling(top_k=0)
    with Engine.open(folder, device="cpu", num_slots=2) as engine:
        lengths = set()
        for seed in range(8):
            stream = engine.speak("Hello.", seed=seed, sampling=sampling)
            try:
                samples, _ = stream.read()
            except GenerationFailed:  # it ended before its first frame
                assert stream.timings.num_frames == 0
                continue
            assert stream.finish_reason is FinishReason.STOP
            assert len(samples) == stream.timings.num_frames * HOP
            lengths.add(len(samples))
    assert len(lengths) > 1


def asks(engine: Engine) -> list[SpeechRequest]:
    return [
        SpeechRequest(TEXT, engine.voices["ann"], "ann", seed=5, max_new_frames=24),
        SpeechRequest(
            "Why?",
            engine.voices["ben"],
            "ben",
            guidance=Guidance(speaker=2.5),
            delivery=Delivery(quality_values={"lufs": -20}, speed=1.3),
            seed=6,
            max_new_frames=31,
        ),
        SpeechRequest("Good morning.", sampling=Sampling(temperature=0.0), max_new_frames=17),
        SpeechRequest(TEXT * 2, engine.voices["ann"], "ann", seed=8, max_new_frames=45),
    ]


def test_the_same_alone_and_among_others(engine: Engine) -> None:
    alone = [engine.submit(request).read()[0] for request in asks(engine)]
    streams = [engine.submit(request) for request in asks(engine)]
    for stream, expected in zip(streams, alone, strict=True):
        assert np.array_equal(stream.read()[0], expected)
    assert len({sound.tobytes() for sound in alone}) == len(alone)


def test_pieces_are_the_whole(engine: Engine) -> None:
    whole = engine.speak(TEXT, seed=2, max_new_frames=60).read()[0]
    pieces = list(engine.speak(TEXT, seed=2, max_new_frames=60))
    assert len(pieces) > 3
    assert np.array_equal(np.concatenate(pieces), whole)


def test_guidance_of_one_is_none_and_a_twin_has_its_own_lane(engine: Engine) -> None:
    def speak(scale: float) -> np.ndarray:
        guidance = Guidance(speaker=scale)
        return engine.speak(TEXT, voice="ben", seed=4, guidance=guidance, max_new_frames=20).read()[
            0
        ]

    plain = engine.speak(TEXT, voice="ben", seed=4, max_new_frames=20).read()[0]
    assert np.array_equal(speak(1.0), plain)
    assert not np.array_equal(speak(3.0), plain)
    assert engine.stats.num_live == 0


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system shows no memory use")
def test_ten_minutes_in_one_request_keep_memory_flat(tmp_path: Path) -> None:
    """One prompt, 9000 frames: the memory after a minute is the memory after ten."""
    long = SMALL | {"n_layers": 3, "attention_layers": [1], "max_rows": 14_000}
    folder = make_checkpoint(tmp_path / "long", segment_chars=10_000, **long)
    text = TEXT * 35  # allows 4 + 0.16 * 4400 s
    with Engine.open(folder, device="cpu", num_slots=1) as engine:
        stream = engine.speak(text, seed=1, max_new_frames=9009)
        num_samples, after_a_minute, largest = 0, 0, 0
        for chunk in stream:
            num_samples += len(chunk)
            if num_samples >= 60 * 44_100:
                after_a_minute = after_a_minute or resident_bytes()
                largest = max(largest, resident_bytes())
    assert num_samples == 600 * 44_100
    assert stream.finish_reason is FinishReason.LENGTH
    assert largest - after_a_minute < 12e6  # ten minutes of samples alone are 106 MB
