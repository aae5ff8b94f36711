"""What a figure was measured on, and whether the machine was quiet enough to measure at all."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch

# A figure taken while others use the processors is false; one running bench counts as about one.
MAX_LOAD_PER_CORE = 0.6


def describe(device: torch.device) -> dict[str, Any]:
    """Hardware and versions that belong beside every figure."""
    told: dict[str, Any] = {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        told["gpu"] = properties.name
        told["gpu_memory_gb"] = round(properties.total_memory / 1e9, 1)
    return told


def loaded_reason() -> str | None:
    """Why no figure may be written now, or None when the machine is quiet."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > MAX_LOAD_PER_CORE * cores:
        return f"the machine is loaded ({load:.1f} running on {cores} cores); try again when quiet"
    return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
