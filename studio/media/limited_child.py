"""Put limits on this process, then become the decoder: the script of the decode child.

Run as ``python -I -S limited_child.py MEMORY_BYTES CPU_S PROGRAM ARGUMENT...``; it imports nothing
of the studio, starts in about 10 ms and replaces itself by PROGRAM. A script of its own and not
``preexec_fn``, because Python code between fork and exec is unsafe in a process with threads.

- no file can be created or grown, no core is dumped, and the few descriptors allowed are taken up
  by the input and the output, so that a later open() or socket() fails;
- where the kernel permits (Linux, not in most containers), the network is an empty namespace;
- a limit that a platform does not know is left out, the others still hold.
"""

import os
import resource
import sys
from contextlib import suppress

# stdin, stdout and stderr, FFmpeg's duplicates of the first two, and one for the loader.
_DESCRIPTORS = 6


def _limit(name: str, value: int) -> None:
    with suppress(AttributeError, ValueError, OSError):
        resource.setrlimit(getattr(resource, name), (value, value))


def _leave_the_network() -> None:
    clone_newuser, clone_newnet = 0x10000000, 0x40000000
    with suppress(ImportError, AttributeError, OSError):
        if hasattr(os, "unshare"):  # Python 3.12
            os.unshare(clone_newuser | clone_newnet)
        elif sys.platform == "linux":
            import ctypes

            ctypes.CDLL(None).unshare(clone_newuser | clone_newnet)


if __name__ == "__main__":
    memory_bytes, cpu_s = int(sys.argv[1]), int(sys.argv[2])
    command = sys.argv[3:]
    _leave_the_network()
    _limit("RLIMIT_AS", memory_bytes)
    _limit("RLIMIT_CPU", cpu_s)
    _limit("RLIMIT_FSIZE", 0)
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_NOFILE", _DESCRIPTORS)
    # One malloc arena: with one per thread the address space limit would be hit by bookkeeping.
    os.execve(command[0], command, {"MALLOC_ARENA_MAX": "1"})
