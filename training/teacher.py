"""Speech from programs: the hibari voice turned into many, and flite and festival as they are.

- hibari's network returns spectra, pitch and durations; they are changed before its own synthesis,
  so every pseudo-speaker comes with exact phoneme times.
- Its graph gets the duration node as one more output once, in the work folder.
- Programs and packages are needed for this stage only and imported inside functions.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.voices import HEART, OTHER_PROGRAMS, VoiceParameters, voice_of

SAMPLE_RATE_HZ = 24_000
TICK_SAMPLES = 300  # 12.5 ms: the teacher's frame
TICKS_PER_DURATION = 2  # its durations count 25 ms
KEPT_LEAD_TICKS = 5
DURATION_NODE = "/Clip_output_0"
MAX_PHONEMES = 400
VOICED_ABOVE_HZ = 40.0
FOLD_BELOW_BIN = 225  # 4.5 kHz at 20 Hz a bin: above it voiced sound is mostly noise
SILENT_LOG = -30.0
BIN_HZ = 20.0
HIGHEST_HARMONIC_HZ = 11_800.0
PHASE_SMOOTHING_FRAMES = 4  # on either side
# The corpus's phoneme ids: 0 is silence, others the place in this string, from 1.
PHONEMES = "ðˌA hædtəʃˈɔɹnskulɜm.ɛYᵊiɪzbɑI!ʌwvfWOTɐŋɡʊpʧθ,j?ᵻʤʒ—;“”"
PAUSES = frozenset(' .,;:!?—…"()“”-')


@dataclass(frozen=True, eq=False)
class Spoken:
    """One utterance of a teacher: mono float32 at 24 kHz, starting shortly before the speech.

    ``speech_samples`` is where the last phoneme ends. ``phonemes`` and ``tick_ends`` (one per
    phoneme, in ticks of 12.5 ms from the start) are empty when the teacher tells no durations.
    """

    samples: np.ndarray
    speech_samples: int
    phonemes: str = ""
    tick_ends: tuple[int, ...] = ()


class Hibari:
    """The hibari voice "heart", with durations, as any pseudo-speaker."""

    def __init__(self, folder: Path) -> None:
        from hibari import Hibari as Tts

        self._tts = Tts(model=str(_graph_with_durations(folder)))

    def speak(
        self, text: str, speaker: int, speed: float, rng: np.random.Generator
    ) -> Spoken | None:
        """Say ``text``; None when the text has too few or too many phonemes."""
        voice, _ = voice_of(speaker)
        phonemes = " ".join(self._tts.phonemize(text))
        ids = self._tts.ids(phonemes)
        if not 4 <= len(ids) <= MAX_PHONEMES or len(ids) != len(phonemes) + 2:
            return None
        outputs = self._tts.sess.run(
            None,
            {"ids": np.array([ids], np.int64), "speed": np.array([speed * voice.pace], np.float32)},
        )
        durations = np.asarray(outputs[6]).ravel().astype(int) * TICKS_PER_DURATION
        samples = render([output[0] for output in outputs[:6]], voice, speaker == HEART, rng)
        if len(durations) != len(ids):
            return None
        lead = max(0, int(durations[0]) - KEPT_LEAD_TICKS)
        ends = np.cumsum(durations) - lead
        last = len(phonemes) - 1
        while last > 0 and phonemes[last] in PAUSES:
            last -= 1
        return Spoken(
            samples=samples[lead * TICK_SAMPLES :],
            speech_samples=int(ends[last + 1]) * TICK_SAMPLES,
            phonemes=phonemes,
            tick_ends=tuple(int(end) for end in ends[:-1]),
        )


def _graph_with_durations(folder: Path) -> Path:
    import hibari
    import onnx

    path = folder / "hibari_durations.onnx"
    if not path.exists():
        model = onnx.load(str(Path(hibari.__file__).parent / "assets" / "hibari.onnx"))
        node = onnx.helper.make_tensor_value_info(DURATION_NODE, onnx.TensorProto.FLOAT, None)
        model.graph.output.append(node)
        onnx.save(model, str(path))
    return path


def render(
    spectra: list[Any], voice: VoiceParameters, is_original: bool, rng: np.random.Generator
) -> np.ndarray:
    """hibari's six outputs through its synthesis as another voice -> float32 samples at 24 kHz.

    The network shapes its spectra for its own pitch: between its harmonics, levels and phases mean
    nothing. For other voices both are read at its harmonics only, and phases are smoothed over time
    (voices at x0.42 become periodic: autocorrelation peak 0.84 instead of 0.69). The residual's
    phases fit the original pitch only, so its energy joins the harmonics where the frame is voiced
    and the noise elsewhere.
    """
    from hibari import dsp

    harmonic, turn, noise, residual, phase, f0 = spectra
    is_voiced = f0 > VOICED_ABOVE_HZ
    pitch = f0.copy()
    if is_voiced.any():
        log_f0 = np.log(f0[is_voiced])
        mean = log_f0.mean()
        pitch[is_voiced] = np.exp(mean + np.log(voice.f0_scale) + voice.f0_range * (log_f0 - mean))
    height = np.linspace(0, 1, len(harmonic), dtype=np.float32)[:, None]
    tilt = voice.tilt * (height - 0.15)
    if not is_original:
        harmonic, turn = envelope_at_harmonics(harmonic, turn, f0)
    harmonic, turn, noise, residual = (
        stretch(part, voice.formant_scale) for part in (harmonic, turn, noise, residual)
    )
    if not is_original:
        into_harmonics = np.broadcast_to(is_voiced, harmonic.shape).copy()
        into_harmonics[FOLD_BELOW_BIN:] = False
        harmonic = np.where(into_harmonics, _add_power(harmonic, residual), harmonic)
        noise = np.where(into_harmonics, noise, _add_power(noise, residual))
        residual = np.full_like(residual, SILENT_LOG)
    # Fewer harmonics fit below the same frequency when the pitch rises: keep the power.
    harmonic = harmonic + tilt + 0.5 * np.log(voice.f0_scale)
    parts = (harmonic, turn, noise + tilt + voice.breath, residual, phase, pitch)
    samples = dsp.synth(*(np.asarray(part, np.float32) for part in parts), rng)
    return np.asarray(samples, np.float32)


def envelope_at_harmonics(
    harmonic: np.ndarray, turn: np.ndarray, f0: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log levels and turns [bins, frames] as they are at each voiced frame's harmonics."""
    bins = np.arange(len(harmonic))
    levels, angles = harmonic.copy(), turn.copy()
    for frame in np.flatnonzero(f0 > VOICED_ABOVE_HZ):
        places = np.arange(f0[frame], HIGHEST_HARMONIC_HZ, f0[frame]) / BIN_HZ
        for part in (levels, angles):
            part[:, frame] = np.interp(bins, places, np.interp(places, bins, part[:, frame]))
    angles = np.float32(np.pi) * np.tanh(angles)
    smoothed = np.arctan2(_sum_near(np.sin(angles)), _sum_near(np.cos(angles)))
    return levels, np.arctanh(smoothed / np.float32(np.pi * (1 + 1e-6)))


def _sum_near(x: np.ndarray) -> np.ndarray:
    """Sums over ``PHASE_SMOOTHING_FRAMES`` frames on either side: [bins, frames]."""
    reach = PHASE_SMOOTHING_FRAMES
    sums = np.cumsum(np.pad(x, ((0, 0), (reach + 1, reach)), "edge"), axis=1, dtype=np.float32)
    near: np.ndarray = sums[:, 2 * reach + 1 :] - sums[:, : -2 * reach - 1]
    return near


def _add_power(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    added: np.ndarray = np.log(np.exp(2 * first) + np.exp(2 * second)) / 2
    return added


def stretch(spectrum: np.ndarray, scale: float) -> np.ndarray:
    """Move every frequency of a log spectrum [bins, frames] to ``scale`` times itself."""
    if scale == 1.0:
        return spectrum
    source = np.clip(np.arange(len(spectrum)) / scale, 0, len(spectrum) - 1)
    low = np.floor(source).astype(int)
    high = np.minimum(low + 1, len(spectrum) - 1)
    share = (source - low)[:, None].astype(np.float32)
    moved: np.ndarray = spectrum[low] * (1 - share) + spectrum[high] * share
    return moved


def speak_with_program(text: str, speaker: int, speed: float, folder: Path) -> Spoken:
    """Say ``text`` with flite or festival; durations stay unknown."""
    import soundfile
    import soxr

    program, voice = OTHER_PROGRAMS[speaker]
    path = folder / "spoken.wav"
    if program == "flite":
        stretch_option = f"duration_stretch={1 / speed:.3f}"
        command = ["flite", "-voice", voice, "--setf", stretch_option, "-t", text, "-o", str(path)]
    else:
        command = ["text2wave", "-eval", f"({voice})", "-o", str(path)]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True, timeout=60)
    samples, sample_rate_hz = soundfile.read(path, dtype="float32")
    samples = soxr.resample(samples, sample_rate_hz, SAMPLE_RATE_HZ).astype(np.float32)
    level = np.sqrt(np.convolve(samples**2, np.full(480, 1 / 480), "same"))
    loud = np.flatnonzero(level > 0.02 * level.max())
    start = max(0, int(loud[0]) - KEPT_LEAD_TICKS * TICK_SAMPLES)
    return Spoken(samples[start:], int(loud[-1]) - start + 240)
