"""The limits of a reference recording, all in one value so that tests can make them small."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a recording may be, and what the child that decodes it may use."""

    size_bytes: int = 20_000_000
    min_used_s: float = 1.0
    max_used_s: float = 30.0
    max_duration_s: float = 600.0
    max_channels: int = 8
    wall_s: float = 15.0
    cpu_s: int = 10
    memory_bytes: int = 512 << 20


DEFAULT_LIMITS = Limits()
