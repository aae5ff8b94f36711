"""Who speaks: every speaker number as parameters of the teacher's own vocoder.

- Speaker 0 is the teacher as it is. 1 and 2..599 are the first corpus's deep voice and its
  quasi-random voices; 600..603 are the other programs' voices. They are kept, not rendered again.
- From 1000 on voices are rendered with the teacher's residual folded into the harmonics of voiced
  frames, which keeps low voices periodic. Three numbers per voice: calm, plain and excited.
- A number always means the same voice, so every part of a corpus can be made anywhere, any time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

HEART, FIRST_DEEP = 0, 1
FIRST_OTHER_PROGRAM = 600
OTHER_PROGRAMS = {
    600: ("flite", "slt"),
    601: ("flite", "rms"),
    602: ("flite", "awb"),
    603: ("festival", "voice_cmu_us_slt_arctic_hts"),
}
FIRST_FOLDED = 1000
MOODS = (-1.0, 0.0, 1.0)  # arousal
NUM_FOLDED_VOICES = 400
# Voice 0 of the folded ones is heart with moods, voice 1 the deep default voice.
DEEP = FIRST_FOLDED + 4
# The teacher's own pitch is near 210 Hz: this spans about 78 to 315 Hz.
F0_SCALE_RANGE = (0.37, 1.5)
FORMANT_SCALE_RANGE = (0.76, 1.2)


@dataclass(frozen=True)
class VoiceParameters:
    """What is changed in the teacher's spectra before its own synthesis.

    Scales are factors; tilt and breath are natural logarithms of amplitude.
    """

    f0_scale: float = 1.0
    f0_range: float = 1.0
    formant_scale: float = 1.0
    tilt: float = 0.0
    breath: float = 0.0
    pace: float = 1.0


def voice_of(speaker: int) -> tuple[VoiceParameters, float]:
    """Parameters and arousal (-1, 0, 1) of speaker 0, or of one from ``FIRST_FOLDED`` on."""
    if speaker == HEART:
        return VoiceParameters(), 0.0
    if speaker < FIRST_FOLDED:
        raise ValueError(f"speaker {speaker} is not rendered here")
    voice, mood = divmod(speaker - FIRST_FOLDED, len(MOODS))
    return with_arousal(_plain(voice), MOODS[mood]), MOODS[mood]


def with_arousal(voice: VoiceParameters, arousal: float) -> VoiceParameters:
    """The same voice calmer (-1) or more excited (+1): pitch range, pitch, pace, tilt."""
    return replace(
        voice,
        f0_scale=voice.f0_scale * math.exp(0.06 * arousal),
        f0_range=voice.f0_range * math.exp(0.35 * arousal),
        tilt=voice.tilt + 0.35 * arousal,
        pace=voice.pace * math.exp(0.08 * arousal),
    )


def _plain(voice: int) -> VoiceParameters:
    if voice == 0:
        return VoiceParameters()
    if voice == 1:
        return VoiceParameters(f0_scale=0.55, formant_scale=0.86)
    draws = [halton(voice + 20, base) for base in (2, 3, 5, 7, 11)]
    low, high = map(math.log, F0_SCALE_RANGE)
    # Low voices mostly have long vocal tracts; a third of the spread is independent of pitch.
    centre = 0.83 + 0.29 * draws[0]
    formants = min(
        max(centre + (draws[1] - 0.5) * 0.26, FORMANT_SCALE_RANGE[0]), FORMANT_SCALE_RANGE[1]
    )
    return VoiceParameters(
        f0_scale=math.exp(low + draws[0] * (high - low)),
        f0_range=0.65 + 0.7 * draws[2],
        formant_scale=formants,
        tilt=-1.0 + 2.0 * draws[3],
        breath=-0.5 + 1.2 * draws[4],
    )


def halton(index: int, base: int) -> float:
    """Element ``index`` of the Halton sequence: evenly spread draws in [0, 1) without a seed."""
    share, value = 1.0, 0.0
    while index > 0:
        share /= base
        value += share * (index % base)
        index //= base
    return value
