"""What a response says about its sound, in headers."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from engine import SpeechStream, Timings
from studio.media.encode import Encoder
from studio.media.pcm import NUM_CHANNELS

# What a page of another origin may read; the families of SGLang-Omni and of Zyphra.
EXPOSED_HEADERS = (
    *("X-Sample-Rate", "X-Channels", "X-Bit-Depth"),
    *("X-Audio-Sample-Rate", "X-Audio-Channels", "X-Audio-Format"),
    *("X-Audio-Duration", "X-Seed", "X-Request-ID", "X-Model", "X-Voice", "X-Queue-Ms", "X-RTF"),
    *("X-Finish-Reason", "X-Prompt-Tokens", "X-Completion-Tokens", "X-Engine-Time"),
    *("X-Speed", "X-Speaking-Rate-Bucket", "X-Ignored-Fields", "X-Warnings", "X-Take"),
    "X-Repairs",
    *("X-AI-Generated", "X-Marked", "X-Studio-Owner", "Content-Disposition", "Retry-After"),
)
MAX_NAMES = 20
MAX_NAME_CHARS = 60
# Proxies refuse headers of some thousand characters.
MAX_WARNING_CHARS = 2000


def rtf(stream: SpeechStream) -> float:
    """Real-time factor of a finished request: seconds in a slot per second of audio."""
    timings = stream.timings
    if timings.finished_s is None or timings.admitted_s is None or not stream.spoken_s:
        return 0.0
    return (timings.finished_s - timings.admitted_s) / stream.spoken_s


def usage(timings: Timings) -> dict[str, int]:
    """Rows read and frames made, as OpenAI counts tokens."""
    read, made = timings.num_prompt_rows, timings.num_frames
    return {"input_tokens": read, "output_tokens": made, "total_tokens": read + made}


def sound_headers(stream: SpeechStream, encoder: Encoder) -> dict[str, str]:
    """What is known when the first piece exists, in the words of both families."""
    return format_headers(encoder) | {
        "X-Seed": str(stream.seed),
        "X-Queue-Ms": f"{stream.timings.queue_ms or 0:.0f}",
    }


def format_headers(encoder: Encoder) -> dict[str, str]:
    """What is known of a sound before it exists."""
    rate, known = str(encoder.sample_rate_hz), encoder.format
    return {
        "X-Sample-Rate": rate,
        "X-Channels": str(NUM_CHANNELS),
        "X-Bit-Depth": str(known.bit_depth),
        "X-Audio-Sample-Rate": rate,
        "X-Audio-Channels": str(NUM_CHANNELS),
        "X-Audio-Format": known.sample_type,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }


def measured_headers(stream: SpeechStream, duration_s: float) -> dict[str, str]:
    """What is known at the end; ``duration_s`` is that of the sound in the body."""
    timings = stream.timings
    begun_s, ended_s = timings.admitted_s, timings.finished_s
    worked_s = 0.0 if begun_s is None or ended_s is None else ended_s - begun_s
    made_again = ", ".join(f"{repair.chunk}:{repair.reason}" for repair in stream.repairs)
    return {
        **({"X-Repairs": made_again} if made_again else {}),
        "X-Audio-Duration": f"{duration_s:.3f}",
        "X-Finish-Reason": "" if stream.finish_reason is None else stream.finish_reason.value,
        "X-Prompt-Tokens": str(timings.num_prompt_rows),
        "X-Completion-Tokens": str(timings.num_frames),
        "X-Engine-Time": f"{worked_s:.3f}",
        "X-RTF": f"{rtf(stream):.3f}",
    }


def notes(voice: str, ignored: Iterable[str], warnings: str) -> dict[str, str]:
    """What the caller should know; absent when there is nothing."""
    # Callers chose these names: whatever could end or break a header is escaped.
    names = [_escaped(name[:MAX_NAME_CHARS]) for name in ignored]
    if len(names) > MAX_NAMES:
        names[MAX_NAMES:] = ["..."]
    said = {
        "X-Voice": _escaped(voice),
        "X-Ignored-Fields": ", ".join(names),
        "X-Warnings": _in_ascii(warnings)[:MAX_WARNING_CHARS],
    }
    return {header: text for header, text in said.items() if text}


def repairs(stream: SpeechStream) -> list[dict[str, object]]:
    """The segments that were made again, as JSON: number from 0, why, and which attempt failed."""
    return [repair._asdict() for repair in stream.repairs]


def _in_ascii(sentence: str) -> str:
    """A sentence that may quote a text."""
    printable = "".join(char if char.isprintable() else " " for char in sentence)
    return printable.encode("ascii", "backslashreplace").decode()


def _escaped(name: str) -> str:
    return quote(name, safe="._-[]", errors="replace")
