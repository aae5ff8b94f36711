"""What an untrusted file says about itself: its words, and its signed C2PA statement.

Both are read in children with the limits of the decoder (limited_child.py), which get the open
file, no path and no network, and whose answers are bounded. A file that cannot be read this way
says nothing: whether it is a recording at all is the decoder's business.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from studio.media.decode import ffmpeg_path
from studio.media.limits import Limits

# FFmpeg's demuxer -> the media type in which C2PA knows the container; others carry none.
SIGNABLE = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "mov": "audio/mp4"}
MAX_TAGS, MAX_TAG_CHARS = 50, 1_000
_MAX_ANSWER_BYTES = 1 << 18
_MAX_ALLOCATION_BYTES = 64 << 20
# A line that does not go on after an escaped line end: name=value, both with \-escapes.
_TAG = re.compile(r"((?:\\.|[^=\\\n])+)=((?:\\.|[^\\\n])*)", re.DOTALL)
# The child's own, and what describes the container rather than the sound.
_NOT_TAGS = {"encoder", "duration", "handler_name", "language", "vendor_id"}
_NOT_TAGS |= {"major_brand", "minor_version", "compatible_brands"}
_HERE = Path(__file__)


@dataclass(frozen=True)
class Statement:
    """A signed C2PA statement. ``is_intact``: the signature holds, the file was not changed since.

    ``signer`` is the name in the certificate, which nobody here can confirm; ``source_types`` are
    the last words of IPTC's terms, such as trainedAlgorithmicMedia.
    """

    is_intact: bool
    signer: str
    generator: str
    source_types: tuple[str, ...]


def read_tags(file: BinaryIO, demuxer: str, limits: Limits) -> dict[str, str]:
    """Names in lower case and texts, at most MAX_TAGS; no codec runs for it."""
    guards = (
        f"-nostdin -v quiet -max_alloc {_MAX_ALLOCATION_BYTES} -protocol_whitelist fd,pipe"
        f" -format_whitelist {demuxer} -codec_whitelist none -threads 1"
    )
    output = "-map 0:a:0 -c copy -t 0 -f ffmetadata pipe:1"
    command = f"{guards} -f {demuxer} -fd 0 -i fd: {output}".split()
    answer = _answer_of([ffmpeg_path(), *command], file, limits)
    tags: dict[str, str] = {}
    for name, value in _TAG.findall(answer.decode("utf-8", "replace")):
        key = _plain(name).strip().lower()[:MAX_TAG_CHARS]
        if key not in _NOT_TAGS and len(tags) < MAX_TAGS:
            tags.setdefault(key, _plain(value)[:MAX_TAG_CHARS])
    return tags


def read_statement(file: BinaryIO, demuxer: str, limits: Limits) -> Statement | None:
    """The C2PA statement in a file, None where there is none."""
    if demuxer not in SIGNABLE:
        return None
    script = str(_HERE.with_name("c2pa_child.py"))
    command = [sys.executable, "-I", script, SIGNABLE[demuxer]]
    answer = _answer_of(command, file, limits)
    try:
        said = json.loads(answer)
    except ValueError:
        return None
    return Statement(
        said["state"] in ("Valid", "Trusted"),
        said["signer"],
        said["generator"],
        tuple(said["source_types"]),
    )


def _plain(escaped: str) -> str:
    return re.sub(r"\\(.)", r"\1", escaped, flags=re.DOTALL)


def _answer_of(command: list[str], file: BinaryIO, limits: Limits) -> bytes:
    """What a limited child writes about ``file``; empty where it fails, takes or says too much."""
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    if os.name == "posix":
        script = str(_HERE.with_name("limited_child.py"))
        numbers = [str(limits.memory_bytes), str(limits.cpu_s)]
        command = [sys.executable, "-I", "-S", script, *numbers, *command]
    with (
        tempfile.TemporaryDirectory(prefix="studio-read-") as empty_folder,
        subprocess.Popen(
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=empty_folder,
            env={} if os.name == "posix" else None,
        ) as process,
    ):
        alarm = threading.Timer(limits.wall_s, process.kill)
        alarm.daemon = True
        alarm.start()
        try:
            assert process.stdout is not None, "the child is started with a pipe"
            answer = process.stdout.read(_MAX_ANSWER_BYTES + 1)
            is_whole = len(answer) <= _MAX_ANSWER_BYTES and process.wait() == 0
            return answer if is_whole else b""
        finally:
            alarm.cancel()
            process.kill()
