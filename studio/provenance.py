"""What says that a sound was made by a machine: in the sound, in the file, in the answer.

- A watermark in the samples, which survives another format (``studio/watermark.py``).
- Words in the file: WAV INFO, ID3, Vorbis comments; gone with the first program that drops them.
- A signed C2PA statement in finished files, where the studio has a certificate.

Each layer can be switched off by whoever runs the studio, by nobody who calls it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import numpy as np
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from studio.settings import Settings
from studio.signing import GENERATOR, SIGNED_TYPES, TRAINED_MEDIA, open_signer
from studio.watermark import Watermark

# Formats that have a place for words.
TAGGED = ("wav", "mp3", "opus", "flac")
# Marking is short work in many pieces; more threads would only wait for each other.
_MAX_THREADS = 2


class Marker:
    """Marks what one studio makes; ``InvalidRequest`` for a certificate that cannot sign."""

    def __init__(self, settings: Settings) -> None:
        self._has_watermark = not settings.no_watermark
        self._has_tags = not settings.no_metadata
        self._signer = open_signer(settings)
        self._threads = CapacityLimiter(_MAX_THREADS)

    async def marked(
        self, chunks: AsyncIterator[np.ndarray], sample_rate_hz: int
    ) -> AsyncIterator[np.ndarray]:
        """``chunks`` of float32 samples with the watermark; together as long as before.

        The same samples come out however they were cut, and from ``mark``.
        """
        if not self._has_watermark:
            async for chunk in chunks:
                yield chunk
            return
        watermark = Watermark(sample_rate_hz)
        async for chunk in chunks:
            piece = await run_sync(watermark.feed, chunk, limiter=self._threads)
            if len(piece):
                yield piece
        piece = await run_sync(watermark.finish, limiter=self._threads)
        if len(piece):
            yield piece

    def mark(self, samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
        """A whole sound of float32 samples with the watermark; blocking."""
        if not self._has_watermark:
            return samples
        watermark = Watermark(sample_rate_hz)
        return np.concatenate([watermark.feed(samples), watermark.finish()])

    def tags(self, *, model: str, request_id: str, seed: int) -> dict[str, str]:
        """The words for the file by FFmpeg's names of tags, such as ``Encoder`` takes."""
        if not self._has_tags:
            return {}
        facts = {
            "ai_generated": "true",
            "digital_source_type": TRAINED_MEDIA,
            "model": model,
            "request_id": request_id,
            "seed": str(seed),
        }
        told = "; ".join(f"{name}: {value}" for name, value in facts.items())
        return {"comment": f"AI-generated speech. {told}", "encoder": GENERATOR, **facts}

    def signs(self, format: str, *, is_live: bool) -> bool:
        """Whether a body of this kind gets a signed statement: a stream cannot carry one."""
        return self._signer is not None and format in SIGNED_TYPES and not is_live

    def signed(self, body: bytes, format: str, tags: Mapping[str, str]) -> bytes:
        """A finished file with its signed statement, if it gets one; blocking."""
        if self._signer is None or format not in SIGNED_TYPES:
            return body
        return self._signer.signed(body, format, tags)

    def headers(self, format: str, *, is_live: bool) -> dict[str, str]:
        """What the answer says about itself: that a machine spoke, and which marks it bears."""
        marks = {
            "watermark": self._has_watermark,
            "metadata": self._has_tags and format in TAGGED,
            "c2pa": self.signs(format, is_live=is_live),
        }
        said = {"X-AI-Generated": "true"}
        if present := [name for name, is_there in marks.items() if is_there]:
            said["X-Marked"] = ", ".join(present)
        return said
