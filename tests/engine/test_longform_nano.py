"""Long, short, endless and hardly speakable texts on the embedded model, as a listener hears them.

Words are judged by whisper tiny.en; nano's own word error on single sentences is the yardstick.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bench.judges import Transcriber, num_edits, plain_words
from engine import Engine, FinishReason, InvalidRequest, Sampling, SpeechStream
from tests.load.listening import clicks_at

NANO = Path(__file__).parents[2] / "assets" / "nano"
RATE_HZ = 44_100
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
TWELVE = [
    f"Sentence number {number} tells you that the small boat is still tied to the old wooden pier."
    for number in NUMBERS
]
TUESDAY = "The meeting is on Tuesday, and then, well, we will see."
QUIET = 10 ** (-45 / 20)  # full scale is 1

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Spoken(NamedTuple):
    """What came of a text."""

    stream: SpeechStream
    pieces: list[np.ndarray]
    samples: np.ndarray


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.open(NANO, device="cpu") as opened:
        yield opened


@pytest.fixture(scope="module")
def hear() -> Transcriber:
    return Transcriber()


@pytest.fixture(scope="module")
def twelve(engine: Engine) -> Spoken:
    """The twelve sentences in one text."""
    stream = engine.speak(" ".join(TWELVE), seed=3)
    pieces = list(stream)
    return Spoken(stream, pieces, np.concatenate(pieces))


def silences_s(samples: np.ndarray) -> list[float]:
    """The stretches below -45 dBFS, in windows of 10 ms; the last one is that at the end."""
    windows = samples[: len(samples) // 441 * 441].reshape(-1, 441)
    lengths, count = [], 0
    for level in np.sqrt(np.square(windows).mean(axis=1)):
        if level >= QUIET:
            lengths.append(count)
        count = 0 if level >= QUIET else count + 1
    return [length / 100 for length in [*lengths, count]]


def test_twelve_sentences_are_all_there_in_order_and_at_one_pace(
    engine: Engine, twelve: Spoken, hear: Transcriber
) -> None:
    stream, _, samples = twelve
    assert stream.finish_reason is FinishReason.STOP
    assert 55 <= len(samples) / RATE_HZ <= 130
    assert [chunk.text for chunk in stream.chunks_spoken] == TWELVE
    edits = own_edits = num_words = 0
    for at, (line, begin, end) in enumerate(stream.chunks_spoken):
        # As it stands in the whole, and spoken alone.
        wanted = plain_words(line)
        near = slice(max(0, begin - RATE_HZ // 10), end + RATE_HZ // 10)
        heard = plain_words(hear.hear(samples[near], RATE_HZ))
        assert NUMBERS[at] in heard, heard
        alone = engine.speak(line, seed=100 + at).read()[0]
        num_words += len(wanted)
        edits += num_edits(wanted, heard)
        own_edits += num_edits(wanted, plain_words(hear.hear(alone, RATE_HZ)))
    assert heard[-3:] == ["old", "wooden", "pier"]  # the last one is complete
    assert edits <= max(0.12 * num_words, 1.3 * own_edits), (edits, own_edits, num_words)
    thirds_s = [
        sum(chunk.end_sample - chunk.begin_sample for chunk in stream.chunks_spoken[part])
        for part in (slice(0, 4), slice(8, 12))
    ]
    bytes_of = [sum(map(len, TWELVE[part])) for part in (slice(0, 4), slice(8, 12))]
    rates = [num_bytes / s for num_bytes, s in zip(bytes_of, thirds_s, strict=True)]
    assert abs(rates[1] / rates[0] - 1) < 0.25


def test_no_seam_clicks(twelve: Spoken) -> None:
    _, pieces, samples = twelve
    borders = np.cumsum([len(piece) for piece in pieces])[:-1].tolist()
    assert len(borders) > 12
    assert clicks_at(samples, borders, RATE_HZ) <= len(samples) / RATE_HZ / 60
    for border in borders:  # no step of the mean
        before, after = samples[border - 2205 : border], samples[border : border + 2205]
        assert abs(float(before.mean() - after.mean())) < 0.01


@pytest.mark.parametrize("temperature", [None, 0.3])
def test_a_sentence_with_many_pauses_ends_thirty_times(
    engine: Engine, temperature: float | None
) -> None:
    sampling = Sampling(temperature=temperature)
    num_cut = 0
    for first in range(0, 30, 10):  # an owner's share of the queue is 16
        streams = [engine.speak(TUESDAY, seed=first + n, sampling=sampling) for n in range(10)]
        for stream in streams:
            samples, _ = stream.read()
            assert len(samples) / RATE_HZ <= 13.2
            *inner_s, last_s = silences_s(samples)
            assert last_s <= 1.5 and max(inner_s) <= 2.5
            num_cut += stream.finish_reason is FinishReason.LENGTH
    assert num_cut <= 1


def test_the_shortest_texts_are_short(engine: Engine) -> None:
    """A 7 is a word by the time page and command ask the engine: nano has learnt no digits."""
    num_short = 0
    texts = ("Hi!", "No.", "Why?", "A", "seven", "OK")
    for seed in range(5):
        streams = [engine.speak(text, seed=seed) for text in texts]
        durations_s = [len(stream.read()[0]) / RATE_HZ for stream in streams]
        assert max(durations_s) <= 6.0
        num_short += sum(0.2 <= duration_s <= 2.5 for duration_s in durations_s)
    assert num_short >= 0.95 * 5 * len(texts)


def test_two_full_stops_are_nothing_to_run_away_from(engine: Engine) -> None:
    stream = engine.speak("Guys..", seed=3)
    assert 0.2 < len(stream.read()[0]) / RATE_HZ <= 3.0
    assert stream.finish_reason is FinishReason.STOP
    for text in ("...", "***", "?!", "\u200b", "\u3000", " \n\t"):
        with pytest.raises(InvalidRequest, match="input"):
            engine.speak(text)


def test_words_without_a_full_stop_are_all_said(engine: Engine, hear: Transcriber) -> None:
    """500 of the 5,000 characters of the case: the rest is planned alike.

    The case's 15 % of wrong words is for the release: nano says such lists with 28 %. Their letters
    tell that nothing is left out and nothing said twice.
    """
    text = ("river stone window paper garden " * 15).strip()
    stream = engine.speak(text, seed=3)
    samples, _ = stream.read()
    assert stream.finish_reason is FinishReason.STOP
    edits = num_letters = 0
    ends = [*(chunk.begin_sample for chunk in stream.chunks_spoken[1:]), len(samples)]
    begin = 0
    for (words, *_), end in zip(stream.chunks_spoken, ends, strict=True):
        wanted = "".join(plain_words(words))
        edits += num_edits(wanted, "".join(plain_words(hear.hear(samples[begin:end], RATE_HZ))))
        num_letters += len(wanted)
        begin = end
    assert num_letters == 15 * 27
    assert edits / num_letters <= 0.3
    last = engine.speak("no full stop at the end", seed=3).read()[0]
    assert plain_words(hear.hear(last, RATE_HZ))[-1] == "end"


def test_a_word_of_five_hundred_letters_ends(engine: Engine) -> None:
    stream = engine.speak("abcdefghij" * 50, seed=3)
    samples, _ = stream.read()
    budget_s = sum(4 + 0.16 * len(chunk.text) for chunk in stream.chunks_spoken)
    assert 5 < len(samples) / RATE_HZ <= budget_s
    assert all(repair.attempt < 2 for repair in stream.repairs)
