"""Eight requests at once, each with its own text and voice: none takes anything from another."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from torch.nn.functional import cosine_similarity

from bench.judges import Transcriber, plain_words
from studio.media.intake import read_bytes

RATE_HZ = 44_100
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "orange")
FILLER = "The small boat is still tied to the old wooden pier. "
# People: a small model follows them, and the synthetic speakers of the cases hardly.
REFERENCES = ("AmericanMale.mp3", "BritishFemale.mp3")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_colours_at_once_keep_their_words_lengths_and_voices(server, engine, shared_folder):
    files = [(shared_folder / "voices" / name).read_bytes() for name in REFERENCES]
    own_rate_hz = engine.encoder.sample_rate_hz
    speakers = [
        engine.embed(read_bytes(data, sample_rate_hz=own_rate_hz).samples, own_rate_hz)
        for data in files
    ]
    bodies = [
        {
            "text": f"The colour is {colour}. " + FILLER * (number * 5 // 8),  # 4 to 48 words
            "seed": 100 + number,
            "stream": number % 3 == 0,
            "speaker_audio_base64": base64.b64encode(files[number % 2]).decode(),
        }
        for number, colour in enumerate(COLOURS)
    ]

    def speak(body: dict) -> np.ndarray:
        answer = httpx.post(f"{server}/tts/generate", json=body, timeout=240)
        assert answer.status_code == 200, answer.text
        return np.frombuffer(answer.content, "<f4")

    with ThreadPoolExecutor(len(bodies)) as threads:
        together = list(threads.map(speak, bodies))
    alone = [speak(body) for body in bodies]
    transcriber = Transcriber()
    for number, (colour, samples, solo) in enumerate(zip(COLOURS, together, alone, strict=True)):
        assert np.array_equal(samples, solo), colour
        assert colour in plain_words(transcriber.hear(samples, RATE_HZ)), colour
        spoken = engine.embed(samples, RATE_HZ)
        own, other = (
            float(cosine_similarity(spoken, speakers[index], dim=0))
            for index in (number % 2, 1 - number % 2)
        )
        assert own > other, (colour, own, other)
    assert httpx.get(f"{server}/health", timeout=60).json()["status"] == "healthy"
