"""What happens to a sound on its way through the world: other formats, rates, levels, noise, cuts.

Each is a function (samples, rate) -> (samples, rate) of float32 mono; codecs run in ffmpeg.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping

import numpy as np

from bench.judges import at_rate
from studio.media.decode import ffmpeg_path

Sound = tuple[np.ndarray, int]
Damage = Callable[[np.ndarray, int], Sound]
_CODEC_RATE_HZ = 48_000


def through_codec(codec: str, container: str, bitrate: str, filters: str = "anull") -> Damage:
    """Encode and decode again, at a bitrate, after ffmpeg's ``filters``."""

    def damage(samples: np.ndarray, sample_rate_hz: int) -> Sound:
        source = f"-v error -f f32le -ar {sample_rate_hz} -ac 1 -i pipe:0".split()
        rate = ["-ar", str(_CODEC_RATE_HZ)] if codec == "libopus" else []
        how = ["-af", filters, "-c:a", codec, "-b:a", bitrate, *rate, "-f", container, "pipe:1"]
        encoded = _run([*source, *how], samples.astype("<f4").tobytes())
        back = f"-v error -i pipe:0 -f f32le -ar {sample_rate_hz} -ac 1 pipe:1".split()
        return np.frombuffer(_run(back, encoded), "<f4"), sample_rate_hz

    return damage


def resampled(rate_hz: int) -> Damage:
    """Down to a rate and no further: what lies above its half is gone."""
    return lambda samples, rate: (at_rate(samples, rate, rate_hz), rate_hz)


def louder(decibels: float) -> Damage:
    """Louder or quieter, cut off at full scale."""
    factor = 10 ** (decibels / 20)
    return lambda samples, rate: (np.clip(samples * factor, -1, 1).astype(np.float32), rate)


def noisy(snr_db: float) -> Damage:
    """White noise this far below the sound's own power; the same noise every time."""

    def damage(samples: np.ndarray, sample_rate_hz: int) -> Sound:
        noise = np.random.default_rng(0).standard_normal(len(samples))
        noise *= np.sqrt(np.square(samples).mean()) * 10 ** (-snr_db / 20)
        return (samples + noise).astype(np.float32), sample_rate_hz

    return damage


def trimmed(begin_s: float, end_s: float) -> Damage:
    """Without so much at both ends, at no place that the mark knows of."""
    return lambda samples, rate: (samples[round(begin_s * rate) : -round(end_s * rate)], rate)


def played_at(speed: float) -> Damage:
    """Faster or slower with its pitch, as a tape is."""
    return lambda samples, rate: (at_rate(samples, round(rate * speed), rate), rate)


def unharmed(samples: np.ndarray, sample_rate_hz: int) -> Sound:
    """As it was made."""
    return samples, sample_rate_hz


def _run(arguments: list[str], data: bytes) -> bytes:
    command = [ffmpeg_path(), "-nostdin", *arguments]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


DAMAGES: Mapping[str, Damage] = {
    "none": unharmed,
    "first 2 s only": lambda samples, rate: (samples[: 2 * rate], rate),
    "trimmed by 0.37 and 0.41 s": trimmed(0.37, 0.41),
    "MP3 128 kbit/s": through_codec("libmp3lame", "mp3", "128k"),
    "MP3 64 kbit/s": through_codec("libmp3lame", "mp3", "64k"),
    "Opus 24 kbit/s": through_codec("libopus", "ogg", "24k"),
    "16 kHz": resampled(16_000),
    "8 kHz": resampled(8_000),
    "+6 dB": louder(6),
    "-6 dB": louder(-6),
    "noise 20 dB below": noisy(20),
    "speed 0.95 with pitch": played_at(0.95),
    "speed 1.05 with pitch": played_at(1.05),
    "speed 1.05, pitch kept": through_codec("pcm_s16le", "wav", "0", "atempo=1.05"),
}
