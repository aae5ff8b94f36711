"""How long work takes, by what it costs a core, whatever else the machine and the process do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def soon(work: Callable[[], T], within_s: float) -> T:
    """What ``work`` gives; fails where the least of three runs costs this thread more of a core.

    A collection of all objects (0.3 s of a core with the whole studio imported) can fall into any
    work, and a machine that stood still can count as work: neither falls into all three.
    """
    took_s = []
    for _ in range(3):
        was_enabled = gc.isenabled()
        gc.disable()
        begun_s = time.thread_time()
        try:
            result = work()
        finally:
            took_s.append(time.thread_time() - begun_s)
            if was_enabled:
                gc.enable()
        if took_s[-1] < within_s:
            return result
    raise AssertionError(f"it takes {min(took_s):.2f} s of a core, and {within_s} s are allowed")
