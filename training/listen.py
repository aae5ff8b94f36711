"""Stage ``listen``: does the codec keep the pitch? Teacher against decoded true codes.

The share of voiced frames whose pitch stays within a semitone, by kind of voice. The judge of
words does not hear this fault; a listener hears it first.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import librosa
import numpy as np
import soxr
import torch

from engine.codec.nano import NanoCodec
from engine.weights import read_json
from training.encode import as_float, frame_features
from training.quantizer import Quantizer, codec_features
from training.speech import Take, read_takes
from training.teacher import SAMPLE_RATE_HZ
from training.voices import DEEP, HEART, OTHER_PROGRAMS, voice_of
from training.work import Work

RATE_HZ = 16_000
PITCH = {"fmin": 60.0, "fmax": 420.0, "sr": RATE_HZ, "frame_length": 1024, "hop_length": 320}
SEMITONE = 2 ** (1 / 12)
TAKES_PER_KIND = 12
LOW_F0_SCALE, HIGH_F0_SCALE = 0.62, 1.0


def kind_of(take: Take) -> str:
    """heart, deep, or low (below about 130 Hz), mid, high pseudo-speakers; programs as such."""
    if take.speaker in (HEART, DEEP):
        return "heart" if take.speaker == HEART else "deep"
    if take.speaker in OTHER_PROGRAMS:
        return "program"
    scale = voice_of(take.speaker)[0].f0_scale
    return "low" if scale < LOW_F0_SCALE else "mid" if scale < HIGH_F0_SCALE else "high"


def pitch_kept(made: np.ndarray, true: np.ndarray) -> tuple[int, int]:
    """Frames within a semitone, of those voiced in ``true``; both mono at 16 kHz."""
    a, _, _ = librosa.pyin(made, fill_na=None, **PITCH)
    b, is_voiced, _ = librosa.pyin(true, fill_na=None, **PITCH)
    length = min(len(a), len(b))
    ratio = a[:length][is_voiced[:length]] / b[:length][is_voiced[:length]]
    near = (ratio < SEMITONE) & (ratio > 1 / SEMITONE)
    return int(near.sum()), len(near)


def listen(work: Work, base: Path, decoder: Path | None) -> dict[str, float]:
    """Journal the share of frames that keep their pitch, on the held-out first batch."""
    codec = NanoCodec.open(base, read_json(base / "codec.json"), "cpu")
    if decoder is not None:
        codec.decoder.load_state_dict(torch.load(decoder, weights_only=True)["decoder"])
    quantizer, (log_mel, windows) = Quantizer.load(base), codec_features(base)
    kept: dict[str, list[tuple[int, int]]] = defaultdict(list)
    first = min(work.folder("speech").glob("*.jsonl"))
    for take, samples in read_takes(first):
        if len(kept[kind_of(take)]) >= TAKES_PER_KIND or take.num_frames < 40:
            continue
        codes = quantizer.encode(frame_features(samples, log_mel, windows))
        with torch.inference_mode():
            made = codec.decode(codes[None])[0].numpy()
        kept[kind_of(take)].append(
            pitch_kept(
                soxr.resample(made, codec.sample_rate_hz, RATE_HZ),
                soxr.resample(as_float(samples).numpy(), SAMPLE_RATE_HZ, RATE_HZ),
            )
        )
    shares = {
        kind: round(sum(near for near, _ in pairs) / max(1, sum(n for _, n in pairs)), 3)
        for kind, pairs in sorted(kept.items())
    }
    work.journal("listen").add(decoder=str(decoder), **shares)
    return shares
