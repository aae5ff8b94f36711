"""How much memory is free, for checks made before anything large is allocated."""

from __future__ import annotations

from pathlib import Path

import torch


def available_bytes(device: torch.device) -> int | None:
    """Free memory of ``device`` in bytes, or None where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def in_gb(size_bytes: int) -> str:
    """``size_bytes`` as people read it."""
    return f"{size_bytes / 1e9:.1f} GB"
