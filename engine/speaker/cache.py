"""Speaker embeddings kept by the content of their recordings.

- At most ``max_entries`` are kept; the least recently used goes first.
- Who asks for a key that is being computed waits for that result instead of computing it again.
- A failure is told to everyone who waited and then forgotten.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np
from torch import Tensor

from engine.errors import GenerationFailed

MAX_ENTRIES = 256
MAX_WAIT_S = 60.0  # for a computation of another thread; 30 s of speech take well below 1 s


def content_key(samples: np.ndarray, sample_rate_hz: int) -> str:
    """A key that equal samples at an equal rate share: their SHA-256, and how to read them."""
    digest = hashlib.sha256(np.ascontiguousarray(samples).data).hexdigest()
    return f"{digest} {sample_rate_hz} {samples.dtype} {samples.shape}"


class EmbeddingCache:
    """A bounded, thread-safe map from content keys to embeddings."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, Future[Tensor]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def forget(self, content_hash: str) -> None:
        """Drop what was computed from the samples with this SHA-256 (hex), at whatever rate."""
        with self._lock:
            for key in [key for key in self._entries if key.startswith(content_hash)]:
                del self._entries[key]

    def get(self, key: str, compute: Callable[[], Tensor]) -> Tensor:
        """The embedding of ``key``, from ``compute()`` if it is new; raises what that raised."""
        with self._lock:
            entry = self._entries.get(key)
            is_new = entry is None
            if entry is None:
                entry = self._entries[key] = Future()
                if len(self._entries) > self._max_entries:
                    self._entries.popitem(last=False)
            self._entries.move_to_end(key)
        if is_new:
            try:
                entry.set_result(compute())
            except BaseException as error:
                entry.set_exception(error)
                with self._lock:
                    if self._entries.get(key) is entry:
                        del self._entries[key]
        try:
            return entry.result(MAX_WAIT_S).clone()
        except TimeoutError:
            raise GenerationFailed(
                f"reference: its voice was not ready within {MAX_WAIT_S:.0f} s; try again.",
                field="reference",
            ) from None
