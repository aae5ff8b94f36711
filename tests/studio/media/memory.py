"""How far the memory of this process rises, measured by the kernel."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Growth:
    peak_bytes = 0


can_measure_growth = os.access("/proc/self/clear_refs", os.W_OK)


@contextmanager
def memory_growth() -> Iterator[Growth]:
    """Tell how far the memory of this process rose above where it began; 0 where unknown."""

    def bytes_of(name: str) -> int:
        line = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(line[1]) * 1024 if line else 0

    growth = Growth()
    if can_measure_growth:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = bytes_of("VmRSS")
    yield growth
    if can_measure_growth:
        growth.peak_bytes = bytes_of("VmHWM") - before
