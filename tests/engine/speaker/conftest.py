from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from engine.speaker.encoder import SpeakerEncoder, open_speaker_encoder
from engine.speaker.nano import NanoSpeakerEncoder

ROOT = Path(__file__).parents[3]
NANO = ROOT / "assets" / "nano"


@pytest.fixture(scope="session")
def encoder() -> NanoSpeakerEncoder:
    encoder: SpeakerEncoder | None = open_speaker_encoder(NANO)
    assert isinstance(encoder, NanoSpeakerEncoder)
    return encoder


@pytest.fixture(scope="session")
def spoken() -> np.ndarray:
    """1.52 s of the voice "heart" at 24 kHz: the start of nano's held-out recordings."""
    golden = ROOT / "tests" / "golden"
    samples, sample_rate_hz = soundfile.read(golden / "nano_speaker_audio.flac", dtype="float32")
    assert sample_rate_hz == 24_000
    return samples
