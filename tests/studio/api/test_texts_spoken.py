"""What was read is heard: numbers as words, pauses as silence, words said otherwise. On nano."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from bench.judges import Transcriber, num_edits, plain_words
from engine import Engine
from engine.text.grammar_store import GrammarStore
from studio.server import create_api
from studio.settings import Settings

# The first one builds the English grammar where it is missing: some minutes on busy cores.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

AS_WORDS = "The ticket costs three dollars fifty cents today."
Say = Callable[..., np.ndarray]


@pytest.fixture(scope="module")
def say(
    engine: Engine, wav, grammar_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Say]:
    """Speak a text through the route, English with its real grammar: samples -1 to 1."""
    GrammarStore(grammar_folder).build("en")
    settings = Settings(
        data=tmp_path_factory.mktemp("data"),
        grammars=grammar_folder,
        no_watermark=True,
        no_metadata=True,
    )
    app = create_api(engine, settings)
    client = TestClient(app, raise_server_exceptions=False)

    def say(text: str, **fields: object) -> np.ndarray:
        asked = {"input": text, "language": "en", "seed": 1} | fields
        answer = client.post("/v1/audio/speech", json=asked)
        assert answer.status_code == 200, answer.text
        assert "num2words" not in answer.headers.get("X-Warnings", "")
        return wav(answer.content)[0] / 2**15

    yield say
    app.state.normaliser.close()


def seconds_of_zeros(samples: np.ndarray) -> float:
    """The longest stretch of digital silence, in seconds."""
    borders = np.flatnonzero(np.diff(np.concatenate(([0], samples == 0, [0]))))
    return float((borders[1::2] - borders[::2]).max(initial=0)) / 44_100


def test_an_amount_is_understood(say: Say) -> None:
    judge = Transcriber()
    text = "The ticket costs $3.50 today."
    heard = [judge.hear(say(text, seed=seed), 44_100) for seed in range(5)]
    # The judge writes amounts in figures itself.
    is_right = [plain_words(line) in (plain_words(text), plain_words(AS_WORDS)) for line in heard]
    assert sum(is_right) >= 4, heard
    raw = say(text, text_normalization=False)
    assert plain_words(judge.hear(raw, 44_100)) != plain_words(text)
    spelled = say(AS_WORDS, language=None)
    assert np.array_equal(say(text), spelled)


@pytest.mark.parametrize("ms", [100, 500, 2000])
def test_a_pause_is_as_long_as_it_was_asked_for(say: Say, ms: int) -> None:
    text = "The small boat is here. {} It is tied to the pier."
    paused = say(text.format(f"[pause {ms}ms]"))
    assert seconds_of_zeros(paused) == pytest.approx(ms / 1000, abs=0.020)
    tagged = say(text.format(f'<break time="{ms}ms"/>'))
    assert np.array_equal(paused, tagged)
    longer = say(text.format(f"[pause {ms + 1000}ms]"))
    assert len(longer) - len(paused) == pytest.approx(44_100, abs=0.020 * 44_100)


def test_a_words_sound_is_the_one_that_was_asked_for_and_of_this_request_alone(say: Say) -> None:
    text = "The SQL server is down."
    words = {"SQL": "sequel"}
    plain, other = say(text), say(text, pronunciations=words)
    assert not np.array_equal(plain[: len(other)], other[: len(plain)])
    assert np.array_equal(other, say("The sequel server is down."))
    asks = [{}, {"pronunciations": words}, {"cleaning": False}, {"text_normalization": False}] * 2
    with ThreadPoolExecutor(4) as threads:
        heard = list(threads.map(lambda fields: say(text, **fields), asks))
    assert all(np.array_equal(heard[at], plain) for at in (0, 4))
    assert all(np.array_equal(heard[at], other) for at in (1, 5))
    assert np.array_equal(say(text), plain)


def test_quotes_and_capitals_add_no_words(say: Say) -> None:
    judge = Transcriber()
    quote = "Nothing taught by force remains in the mind."
    pairs = [(say(f"'{quote}'", seed=seed), say(quote, seed=seed)) for seed in range(5)]
    assert sum(abs(len(a) / len(b) - 1) <= 0.25 for a, b in pairs) >= 4
    edits = [num_edits(plain_words(quote), plain_words(judge.hear(a, 44_100))) for a, _ in pairs]
    of_plain = [num_edits(plain_words(quote), plain_words(judge.hear(b, 44_100))) for _, b in pairs]
    assert sum(edits) <= max(1.3 * sum(of_plain), sum(of_plain) + 1)
    shouted, calm = "THIS IS A SIMPLE EXAMPLE", "This is a simple example."
    loud = [say(shouted, seed=seed) for seed in range(5)]
    # To the sample what small letters give, without a full stop: nano adds a word to some of those.
    for seed, samples in enumerate(loud):
        assert np.array_equal(samples, say(calm.removesuffix("."), seed=seed))
    lengths = [len(a) / len(say(calm, seed=seed)) for seed, a in enumerate(loud)]
    assert sum(length <= 1.4 for length in lengths) >= 4
    heard = [plain_words(judge.hear(samples, 44_100)) for samples in loud]
    assert sum(words == plain_words(calm) for words in heard) >= 3
