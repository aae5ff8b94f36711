"""Decode an untrusted recording in a child process that can do nothing else.

- FFmpeg reads an already open file through its ``fd:`` protocol: the child needs no path, and no
  other protocol, demuxer or codec than those named here can be reached from inside a file.
- Memory, CPU time, wall time, output and descriptors are limited (see limited_child); on platforms
  without ``resource`` the wall time, output, protocol, demuxer, codec and allocation limits remain.
- Nothing is written to disk but an empty private working folder, removed in every case.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from studio.media.limits import Limits

try:
    import resource  # noqa: F401  (asked only whether it exists)

    _CAN_LIMIT = True
except ImportError:  # Windows
    _CAN_LIMIT = False

_CODECS = (
    "aac,ac3,adpcm_ima_qt,adpcm_ima_wav,adpcm_ms,alac,amrnb,amrwb,eac3,flac,gsm_ms,"
    "mp2,mp2float,mp3,mp3float,opus,vorbis,pcm_alaw,pcm_mulaw,pcm_s8,pcm_u8,"
    "pcm_s16be,pcm_s16le,pcm_s24be,pcm_s24le,pcm_s32be,pcm_s32le,"
    "pcm_f32be,pcm_f32le,pcm_f64be,pcm_f64le"
)
_MAX_ALLOCATION_BYTES = 64 << 20
_READ_BYTES = 1 << 16
_MAX_LOG_BYTES = 1 << 16
_AU_HEADER_BYTES = 24
# Two spaces at the start of a line: what tags say about durations stands further in.
_DECLARED = re.compile(rb"(?m)^  Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
# Below this peak (-60 dBFS) a sample is silence whatever the rest of the recording is like.
_SILENT_PEAK = 1e-3


@dataclass(frozen=True)
class Decoded:
    """``samples`` [num_samples, channels] float32, at most ``max_used_s``.

    ``duration_s`` is the whole recording, ``skipped_s`` the whole seconds of digital silence left
    out before the samples; ``is_cut`` tells that sound behind them was left out.
    """

    samples: np.ndarray
    sample_rate_hz: int
    duration_s: float
    skipped_s: float
    is_cut: bool


class DecodeError(Exception):
    """The recording cannot be decoded; ``reason`` says why in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooLong(DecodeError):
    """The recording declares or decodes to more than the duration limit."""


def decode(file: BinaryIO, demuxer: str, sample_rate_hz: int, limits: Limits) -> Decoded:
    """Decode the first audio track of a seekable file to all its channels at ``sample_rate_hz``.

    Raises DecodeError, or TooLong past ``limits.max_duration_s``. Blocks up to ``limits.wall_s``.
    """
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # a buffered file's own seek may not move it
    with _child(file, demuxer, sample_rate_hz, limits) as child:
        channels = child.read_header()
        if channels > limits.max_channels:
            raise DecodeError(f"it has {channels} channels; the limit is {limits.max_channels}")
        return _collect(child, channels, sample_rate_hz, limits)


def _collect(child: _Child, channels: int, sample_rate_hz: int, limits: Limits) -> Decoded:
    kept = np.empty((round(limits.max_used_s * sample_rate_hz), channels), np.float32)
    num_kept = num_skipped = num_decoded = 0
    is_cut = False
    for block in child.blocks(sample_rate_hz, channels):  # [num_samples, channels], 1 s each
        num_decoded += len(block)
        _refuse_too_long(num_decoded / sample_rate_hz, child, limits)
        is_heard = ~(np.abs(block).max(axis=1) <= _SILENT_PEAK)  # a NaN counts as heard
        if num_kept == 0 and not is_heard.any():
            num_skipped += len(block)
            continue
        room = min(len(kept) - num_kept, len(block))
        kept[num_kept : num_kept + room] = block[:room]
        num_kept += room
        is_cut = is_cut or bool(is_heard[room:].any())
    child.finish()
    _refuse_too_long(0.0, child, limits)
    if num_decoded == 0:
        raise DecodeError("it holds no sound")
    return Decoded(
        samples=kept[:num_kept],
        sample_rate_hz=sample_rate_hz,
        duration_s=num_decoded / sample_rate_hz,
        skipped_s=num_skipped / sample_rate_hz,
        is_cut=is_cut,
    )


def _refuse_too_long(decoded_s: float, child: _Child, limits: Limits) -> None:
    if max(decoded_s, child.declared_s()) > limits.max_duration_s:
        raise TooLong(f"it is longer than {limits.max_duration_s:.0f} s")


@contextmanager
def _child(file: BinaryIO, demuxer: str, sample_rate_hz: int, limits: Limits) -> Iterator[_Child]:
    command = [ffmpeg_path(), *_arguments(demuxer, sample_rate_hz, limits)]
    if _CAN_LIMIT:
        script = str(Path(__file__).with_name("limited_child.py"))
        numbers = [str(limits.memory_bytes), str(limits.cpu_s)]
        command = [sys.executable, "-I", "-S", script, *numbers, *command]
    with (
        tempfile.TemporaryDirectory(prefix="studio-decode-") as empty_folder,
        subprocess.Popen(
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=empty_folder,
            env={} if _CAN_LIMIT else None,  # Windows cannot start a program without SYSTEMROOT
        ) as process,
    ):
        child = _Child(process, limits.wall_s)
        try:
            yield child
        finally:
            child.end()


def _arguments(demuxer: str, sample_rate_hz: int, limits: Limits) -> list[str]:
    """The command line. Nothing in it comes from a user; ``demuxer`` is one of our own names."""
    surroundings = "-nostdin -hide_banner -nostats -v info -filter_threads 1"
    guards = (
        f"-max_alloc {_MAX_ALLOCATION_BYTES} -protocol_whitelist fd,pipe"
        f" -format_whitelist {demuxer} -codec_whitelist {_CODECS} -threads 1"
    )
    # One second past the limit, so that a longer recording is seen to be longer.
    output = (
        f"-map 0:a:0 -vn -sn -dn -map_metadata -1 -t {limits.max_duration_s + 1}"
        f" -ar {sample_rate_hz} -c:a pcm_f32be -f au pipe:1"
    )
    return f"{surroundings} {guards} -f {demuxer} -fd 0 -i fd: {output}".split()


class _Child:
    """A running decoder: its header, its samples, and what it says on the side."""

    def __init__(self, process: subprocess.Popen[bytes], wall_s: float) -> None:
        self._process = process
        self._stdout = _pipe(process.stdout)
        self._log = b""
        self._is_late = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._alarm = threading.Timer(wall_s, self._stop_late)
        self._alarm.daemon = True
        self._alarm.start()

    def read_header(self) -> int:
        """Read Sun's AU header, the plainest that tells the number of channels; return it."""
        header = self._read_exactly(_AU_HEADER_BYTES)
        if len(header) < _AU_HEADER_BYTES:
            self.finish()
            raise DecodeError("it holds no sound")
        offset, channels = (int.from_bytes(header[at : at + 4]) for at in (4, 20))
        self._read_exactly(offset - _AU_HEADER_BYTES)
        return channels

    def blocks(self, num_samples: int, channels: int) -> Iterator[np.ndarray]:
        """Yield blocks [num_samples, channels]; the last is shorter, a cut sample is dropped.

        Always cut at the same places, so that the same file gives the same samples every time.
        """
        while piece := self._read_exactly(num_samples * channels * 4):
            usable = len(piece) - len(piece) % (4 * channels)
            yield np.frombuffer(piece[:usable], ">f4").reshape(-1, channels)

    def declared_s(self) -> float:
        """Return the length the container declares, 0 where it declares none (so far)."""
        match = _DECLARED.search(self._log)
        if match is None:
            return 0.0
        hours, minutes, seconds = match.groups()
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)

    def finish(self) -> None:
        """Wait for the decoder's own end; raise DecodeError where it did not end well."""
        return_code = self._process.wait()
        self._listener.join()
        if self._is_late:
            raise DecodeError("decoding takes too long")
        if return_code < 0:
            raise DecodeError("decoding needs more memory or time than allowed")
        if b"matches no streams" in self._log:
            raise DecodeError("it has no audio track")
        if return_code:
            raise DecodeError("it is damaged, incomplete or in an unknown encoding")

    def end(self) -> None:
        """Leave nothing running, whatever happened."""
        self._alarm.cancel()
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def _read_exactly(self, num_bytes: int) -> bytes:
        """Read what is asked for, or less where the decoder ends."""
        read = bytearray()
        while len(read) < num_bytes and (piece := self._stdout.read(num_bytes - len(read))):
            read += piece
        return bytes(read)

    def _listen(self) -> None:
        """Keep the beginning of the decoder's messages and drain the rest, so it never blocks."""
        stderr = _pipe(self._process.stderr)
        while piece := stderr.read(_READ_BYTES):
            if len(self._log) < _MAX_LOG_BYTES:
                self._log += piece

    def _stop_late(self) -> None:
        self._is_late = True
        self._process.kill()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "the child is started with pipes"
    return stream


@functools.cache
def ffmpeg_path() -> str:
    """Return an FFmpeg that can read from a descriptor: beside this Python, or the wheel's own.

    Raises RuntimeError where there is none: the installation is broken, no recording is at fault.
    """
    import imageio_ffmpeg

    beside = shutil.which("ffmpeg", path=str(Path(sys.executable).parent))
    for candidate in filter(None, (beside, imageio_ffmpeg.get_ffmpeg_exe())):
        protocols = subprocess.run(
            [candidate, "-hide_banner", "-protocols"], capture_output=True, timeout=10, check=False
        ).stdout
        if b"fd" in protocols.split():
            return candidate
    raise RuntimeError("no FFmpeg 6 or newer found: pip install imageio-ffmpeg")
