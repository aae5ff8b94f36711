"""What tests of takes share: something to keep, a clock, a look at the folder."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from studio.owner import Owner
from studio.takes import Making

RATE_HZ = 44_100
ALICE, BOB = Owner("visitor:alice", ("local",)), Owner("visitor:bob")
SPEAKER = np.linspace(-1, 1, 64, dtype=np.float32)
MAKING = Making(
    text="The small boat is still tied to the pier.",
    settings={"input": "The small boat is still tied to the pier.", "seed": 7, "top_k": 60},
    seed=7,
    voice="heart",
    voice_id="heart",
    model="nano",
    speaker=SPEAKER,
)


def noise(duration_s=0.05, seed=0) -> np.ndarray:
    size = round(duration_s * RATE_HZ)
    return np.random.default_rng(seed).integers(-30_000, 30_000, size, dtype=np.int16)


def keep(history, owner=ALICE, samples=None, **changes):
    recorder = history.record(owner, replace(MAKING, **changes), RATE_HZ)
    recorder.write(noise() if samples is None else samples)
    return recorder.keep()


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


def files(history):
    return sorted(path.name for path in history._folder.glob("*"))


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def error_of(response, status, code):
    """The sentence of an error answer."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code and error["message"].endswith(".")
    return error["message"]


def heard(response):
    """The int16 samples in an answer."""
    assert response.status_code == 200, response.text
    return soundfile.read(io.BytesIO(response.content), dtype="int16")[0]
