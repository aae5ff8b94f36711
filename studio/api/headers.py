"""What a response says about its sound, in headers."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from engine import SpeechStream
from studio.api.encoding import BIT_DEPTH, NUM_CHANNELS

# What a page of another origin may read; the families of SGLang-Omni and of Zyphra.
EXPOSED_HEADERS = (
    *("X-Sample-Rate", "X-Channels", "X-Bit-Depth"),
    *("X-Audio-Sample-Rate", "X-Audio-Channels", "X-Audio-Format"),
    *("X-Audio-Duration", "X-Seed", "X-Request-ID", "X-Model", "X-Voice", "X-Queue-Ms", "X-RTF"),
    *("X-Finish-Reason", "X-Prompt-Tokens", "X-Completion-Tokens", "X-Engine-Time"),
    *("X-Speed", "X-Speaking-Rate-Bucket", "X-Ignored-Fields", "X-Warnings", "X-Marked"),
    *("X-Studio-Owner", "Content-Disposition", "Retry-After"),
)
MAX_NAMES = 20
MAX_NAME_CHARS = 60


def rtf(stream: SpeechStream) -> float:
    """Real-time factor of a finished request: seconds in a slot per second of audio."""
    timings = stream.timings
    if timings.finished_s is None or timings.admitted_s is None or not stream.spoken_s:
        return 0.0
    return (timings.finished_s - timings.admitted_s) / stream.spoken_s


def sound_headers(stream: SpeechStream) -> dict[str, str]:
    """What is known when the first chunk exists."""
    return {
        "X-Sample-Rate": str(stream.sample_rate_hz),
        "X-Channels": str(NUM_CHANNELS),
        "X-Bit-Depth": str(BIT_DEPTH),
        "X-Seed": str(stream.seed),
        "X-Queue-Ms": f"{stream.timings.queue_ms or 0:.0f}",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }


def measured_headers(stream: SpeechStream) -> dict[str, str]:
    """What is known at the end."""
    reason = "" if stream.finish_reason is None else stream.finish_reason.value
    return {
        "X-Audio-Duration": f"{stream.spoken_s:.3f}",
        "X-Finish-Reason": reason,
        "X-RTF": f"{rtf(stream):.3f}",
    }


def notes(ignored: Iterable[str], warnings: str) -> dict[str, str]:
    """What the caller should know; absent when there is nothing."""
    # A client chose these names: whatever could end or break a header is escaped.
    names = [quote(name[:MAX_NAME_CHARS], safe="._-[]", errors="replace") for name in ignored]
    if len(names) > MAX_NAMES:
        names[MAX_NAMES:] = ["..."]
    said = {"X-Ignored-Fields": ", ".join(names), "X-Warnings": warnings}
    return {header: text for header, text in said.items() if text}
