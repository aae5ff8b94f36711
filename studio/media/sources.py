"""One string, as requests carry it, to a checked reference: URL, data: URI, base64 or path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from studio.media import intake
from studio.media.base64_text import is_data_uri
from studio.media.fetch import FetchPolicy, fetch_url, is_url
from studio.media.intake import Reference
from studio.media.limits import DEFAULT_LIMITS, Limits
from studio.media.local import is_file_url, open_local


@dataclass(frozen=True)
class Sources:
    """Where this server takes recordings from, and within which limits."""

    sample_rate_hz: int
    fetch: FetchPolicy
    media_root: Path | None = None
    limits: Limits = DEFAULT_LIMITS


def read_text(text: str, sources: Sources, *, field: str = "reference") -> Reference:
    """Read the recording that ``text`` holds or names; raise InvalidReference or TooLarge.

    Without a scheme it is a path where it contains a dot, which base64 never does (recordings have
    an extension; the others can be named with file://), and base64 otherwise.
    """
    if is_url(text):
        return intake.read_stream(
            fetch_url(text, sources.fetch, field=field),
            sample_rate_hz=sources.sample_rate_hz,
            limits=sources.limits,
            field=field,
        )
    if is_data_uri(text) or ("." not in text and not is_file_url(text)):
        return intake.read_base64(
            text, sample_rate_hz=sources.sample_rate_hz, limits=sources.limits, field=field
        )
    with open_local(text, sources.media_root, field=field) as file:
        return intake.read_open_file(
            file, sample_rate_hz=sources.sample_rate_hz, limits=sources.limits, field=field
        )
