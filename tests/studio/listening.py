"""How tests listen: bodies of every format back to samples, and what two sounds have in common."""

from __future__ import annotations

import io
import subprocess

import av
import imageio_ffmpeg
import numpy as np

_RAW = {"pcm": ("s16le", "<i2"), "pcm_f32": ("f32le", "<f4")}


def read_sound(body: bytes, name: str, raw_rate_hz: int) -> tuple[np.ndarray, int]:
    """Decode a mono body by PyAV: its samples [num_samples] float32 and their rate."""
    if name in _RAW:
        samples = np.frombuffer(body, _RAW[name][1])
        return (samples if name == "pcm_f32" else samples.astype(np.float32) / 2**15), raw_rate_hz
    with av.open(io.BytesIO(body)) as container:
        (stream,) = container.streams
        assert stream.codec_context.channels == 1
        planes = [frame.to_ndarray()[0] for frame in container.decode(stream)]
        samples = np.concatenate(planes)
        if samples.dtype == np.int16:
            samples = samples.astype(np.float32) / 2**15
        return samples, stream.codec_context.sample_rate


def read_by_ffmpeg(body: bytes, name: str, sample_rate_hz: int) -> np.ndarray:
    """Decode a body by the ffmpeg program, at ``sample_rate_hz``: [num_samples] float32."""
    raw = ["-f", _RAW[name][0], "-ar", str(sample_rate_hz)] if name in _RAW else []
    to = ["-f", "f32le", "-ac", "1", "-ar", str(sample_rate_hz), "pipe:1"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *raw, "-i", "pipe:0", *to]
    done = subprocess.run(command, input=body, capture_output=True, check=True, timeout=60)
    return np.frombuffer(done.stdout, "<f4")


def likeness(heard: np.ndarray, spoken: np.ndarray) -> tuple[float, int]:
    """The correlation of two sounds, -1 to 1, at the best delay of ``heard``, in samples.

    It falls steeply with the pitch: one that is off by a thousandth leaves less than a half.
    """
    size = 1 << (len(heard) + len(spoken)).bit_length()
    product = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(spoken, size))
    correlation = np.fft.irfft(product, size)
    delay = int(correlation.argmax())
    scale = float(np.linalg.norm(heard) * np.linalg.norm(spoken))
    return float(correlation[delay]) / scale, delay
