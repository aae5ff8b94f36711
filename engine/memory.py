"""How much memory there is and how much a checkpoint needs, before anything large is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import CheckpointError


@dataclass(frozen=True)
class Footprint:
    """What an open checkpoint takes on its device, in bytes.

    ``slot`` is one sequence's keys and values over the whole context, ``working`` what a prefill of
    that length needs beside them.
    """

    weights: int
    slot: int
    working: int

    def total(self, num_slots: int) -> int:
        """Bytes with ``num_slots`` sequences."""
        return self.weights + self.working + num_slots * self.slot

    def slots_within(self, size_bytes: int) -> int:
        """How many slots fit into ``size_bytes``; 0 when not even the weights do."""
        return max(0, size_bytes - self.weights - self.working) // max(1, self.slot)


def check_memory(
    footprint: Footprint, num_slots: int, device: torch.device, smaller: Footprint | None = None
) -> None:
    """Raise ``CheckpointError`` saying how much is missing and which option helps.

    ``smaller`` is the footprint in the narrowest dtype, if that is another one. Nothing is checked
    where the system does not tell its free memory.
    """
    available = available_bytes(device)
    needed = footprint.total(num_slots)
    if available is None or needed <= available:
        return
    remedies = []
    if fitting := footprint.slots_within(available):
        remedies.append(f"--slots {fitting} fits")
    if smaller is not None and (fitting := min(num_slots, smaller.slots_within(available))):
        remedies.append(f"--dtype bfloat16 --slots {fitting} fits")
    remedies.append(
        "close other programs" if remedies else "close other programs or choose a smaller model"
    )
    raise CheckpointError(
        f"model: {in_units(needed - available)} of memory are missing on {device.type}: weights"
        f" {in_units(footprint.weights)}, slots {num_slots} x {in_units(footprint.slot)}, work"
        f" {in_units(footprint.working)}; {in_units(available)} are free. Remedy:"
        f" {', or '.join(remedies)}."
    )


def available_bytes(device: torch.device) -> int | None:
    """Free memory of ``device`` in bytes, or None where the system does not tell.

    On a CPU that is what the machine can still give and what a container may still take.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    told = [_machine_bytes(Path("/proc/meminfo")), _container_bytes(Path("/sys/fs/cgroup"))]
    return min((size for size in told if size is not None), default=None)


def _machine_bytes(meminfo: Path) -> int | None:
    return next((size * 1024 for name, size in _table(meminfo) if name == "MemAvailable:"), None)


def _container_bytes(cgroup: Path) -> int | None:
    """Limit of the control group (version 2) less what it uses; cached files give way."""
    try:
        limit = (cgroup / "memory.max").read_text(encoding="ascii").strip()
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    if not limit.isdecimal():
        return None  # "max": no limit
    cached = dict(_table(cgroup / "memory.stat")).get("inactive_file", 0)
    return max(0, int(limit) - used + cached)


def _table(file: Path) -> list[tuple[str, int]]:
    """Lines of a name and a whole number, as the kernel writes them; empty when absent."""
    try:
        lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    except OSError:
        return []
    return [(line[0], int(line[1])) for line in lines if len(line) > 1 and line[1].isdecimal()]


def in_units(size_bytes: int) -> str:
    """``size_bytes`` as people read it: kB, MB or GB of powers of ten."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes / 1e3:.1f} kB"
