"""What a door takes for granted: the few things on which the families of clients disagree.

- ``/v1`` is SGLang-Omni's: a whole WAV file unless asked otherwise, pcm at the model's own rate.
- ``/openai/v1`` is OpenAI's: MP3, sent while it is made, and pcm at the 24 kHz that its clients
  take for granted because nothing in a reply of OpenAI's states it.
- Source: spec/SETTLED.md, spec/api.md F0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Door:
    """``pcm_rate_hz`` None: the model's own rate. ``is_live``: sound is sent while it is made."""

    response_format: str
    pcm_rate_hz: int | None
    is_live: bool


SGLANG = Door("wav", None, False)
OPENAI = Door("mp3", 24_000, True)
