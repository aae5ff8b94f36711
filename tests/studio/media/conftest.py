"""The fixtures of field recordings, ways to make sound, and a temporary folder to look into."""

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

AUDIO = Path(__file__).resolve().parents[2] / "fixtures" / "audio"


@pytest.fixture
def audio() -> Path:
    """The folder of recordings from the field; manifest.json says what each is."""
    return AUDIO


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that takes the place of the system's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="session")
def control() -> np.ndarray:
    """Clean speech, [num_samples] float32 at 16 kHz, 4.59 s."""
    samples, _ = soundfile.read(AUDIO / "ref_control_16k_mono.wav", dtype="float32")
    return samples


@pytest.fixture(scope="session")
def to_wav():
    """Encode samples [num_samples] or [num_samples, channels] as a WAV file in memory."""

    def encode(samples: np.ndarray, sample_rate_hz: int = 16000, subtype: str = "PCM_16") -> bytes:
        file = io.BytesIO()
        soundfile.write(file, samples, sample_rate_hz, subtype=subtype, format="WAV")
        return file.getvalue()

    return encode
