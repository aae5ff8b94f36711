"""Stage ``references``: twelve voices that no training speaker is, spread from low to high pitch.

They judge cloning (``bench.nano_eval``); their numbers lie beyond those that ``speech`` draws.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from training.speech import SPEECH_RMS
from training.teacher import SAMPLE_RATE_HZ, Hibari
from training.voices import FIRST_FOLDED, MOODS, NUM_FOLDED_VOICES, voice_of
from training.work import Work

NUM_REFERENCES = 12
NUM_CANDIDATES = 200
TEXTS = (
    "The children played outside until it was dark.",
    "A good friend always tells you the truth, even when it hurts.",
)


def unseen_speakers() -> list[int]:
    """Plain moods of voices beyond the trained ones, at even steps of pitch."""
    candidates = [
        FIRST_FOLDED + (NUM_FOLDED_VOICES + i) * len(MOODS) + 1 for i in range(NUM_CANDIDATES)
    ]
    by_pitch = sorted(candidates, key=lambda speaker: voice_of(speaker)[0].f0_scale)
    places = np.linspace(0, len(by_pitch) - 1, NUM_REFERENCES + 2).round().astype(int)[1:-1]
    return [by_pitch[place] for place in places]


def make_references(work: Work, folder: Path) -> None:
    """Write ``NAME.ogg`` per voice, named by its place: low01, low02, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    teacher, rng = Hibari(work.folder("teacher")), np.random.default_rng(3)
    for place, speaker in enumerate(unseen_speakers(), start=1):
        spoken = [teacher.speak(text, speaker, 1.0, rng) for text in TEXTS]
        clip = np.concatenate([part.samples for part in spoken if part is not None])
        clip = clip * (SPEECH_RMS / np.sqrt((clip**2).mean()))
        name = folder / f"voice{place:02d}.ogg"
        soundfile.write(name, clip.clip(-1, 1), SAMPLE_RATE_HZ, format="OGG", subtype="OPUS")
