"""The requests of each owner: how they stand, and a way to end them from elsewhere.

- A request belongs to its owner: to anybody else its id does not exist.
- An id may be chosen beforehand (``X-Request-ID``); while it is in use it cannot be used again.
- Running requests are bounded by the engine's queue; of finished ones a bounded number is
  remembered for a bounded time, without any sound or text.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any

from engine import Conflict, NotFound, SpeechStream, StudioError
from studio.api.errors import error_object
from studio.api.headers import repairs, usage
from studio.api.listening import Listening
from studio.owner import Owner

MAX_FINISHED = 500
KEPT_S = 600.0


class Tracked:
    """One request from the moment it is accepted; ``report`` says how it stands."""

    def __init__(self, owner_id: str, request_id: str) -> None:
        self.key = (owner_id, request_id)
        self.created_s = time.time()
        self.ended_s: float | None = None
        self.listening: Listening | None = None  # where the page began it
        self._stream: SpeechStream | None = None
        self._is_cancelled = False
        self._final: dict[str, Any] = {}

    @property
    def has_ended(self) -> bool:
        """Whether it is over, one way or another."""
        return self.ended_s is not None

    def attach(self, stream: SpeechStream) -> None:
        """The engine has taken it; a cancellation that came before ends it at once."""
        self._stream = stream
        if self._is_cancelled:
            stream.cancel()

    def cancel(self) -> None:
        """End it, now or as soon as the engine takes it; harmless after the end."""
        self._is_cancelled = True
        if self._stream is not None:
            self._stream.cancel()

    def end(self, error: StudioError | None) -> None:
        """Remember how it ended, and let go of its sound."""
        self.ended_s = time.monotonic()
        self._final = self._report()
        # A client that left ends its request before the engine has noticed.
        if self._final["status"] in ("preparing", "queued", "speaking"):
            self._final["status"] = "failed" if error is not None else "cancelled"
        if error is not None:
            self._final["error"] = error_object(error)
        self._stream = None

    def report(self) -> dict[str, Any]:
        """How it stands, as JSON."""
        return self._final if self.has_ended else self._report()

    def _report(self) -> dict[str, Any]:
        about: dict[str, Any] = {
            "id": self.key[1],
            "object": "audio.request",
            "created": int(self.created_s),
            "status": "preparing",
            "num_ahead": None,
            "wait_s": None,
            "spoken_s": 0.0,
            "seed": None,
            "repairs": [],
            "error": None,
        }
        stream = self._stream
        if stream is None:
            return about
        status, timings = stream.status, stream.timings
        return about | {
            "status": status.state,
            "num_ahead": status.num_ahead,
            "wait_s": status.wait_s,
            "spoken_s": round(stream.spoken_s, 3),
            "seed": stream.seed,
            "repairs": repairs(stream),
            "usage": usage(timings),
            "timings": {
                "queue_ms": _rounded(timings.queue_ms),
                "first_chunk_ms": _rounded(timings.ttfa_ms),
                "total_s": _rounded(timings.total_s),
            },
        }


class Requests:
    """Every running request and the last finished ones, by owner and id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], Tracked] = {}
        self._finished: OrderedDict[tuple[str, str], Tracked] = OrderedDict()

    def begin(self, owner: Owner, request_id: str) -> Tracked:
        """A new request; raises ``Conflict`` while the owner's id is in use."""
        tracked = Tracked(owner.id, request_id)
        with self._lock:
            if tracked.key in self._running:
                raise Conflict(
                    f"X-Request-ID: {request_id!r} is in use by a running request; choose another"
                    " id or wait for its end.",
                    field="X-Request-ID",
                    code="request_id_in_use",
                )
            self._finished.pop(tracked.key, None)
            self._running[tracked.key] = tracked
        return tracked

    def end(self, tracked: Tracked, error: StudioError | None = None) -> None:
        """It ended: well, by ``error``, or by being left."""
        tracked.end(error)
        with self._lock:
            self._running.pop(tracked.key, None)
            self._finished[tracked.key] = tracked
            self._forget_old()

    def find(self, owner: Owner, request_id: str) -> Tracked:
        """The owner's request of that id; raises ``NotFound`` for any other."""
        key = (owner.id, request_id)
        with self._lock:
            self._forget_old()
            tracked = self._running.get(key) or self._finished.get(key)
        if tracked is None:
            raise NotFound(
                f"id: there is no request {request_id[:64]!r} of yours; finished ones are"
                f" remembered for {KEPT_S / 60:.0f} minutes.",
                field="id",
                code="request_not_found",
            )
        return tracked

    def running(self, owner: Owner) -> list[str]:
        """The ids of the owner's running requests, oldest first."""
        with self._lock:
            return [request_id for (of, request_id) in self._running if of == owner.id]

    def _forget_old(self) -> None:
        now_s = time.monotonic()
        while self._finished:
            oldest = next(iter(self._finished.values()))
            assert oldest.ended_s is not None
            if len(self._finished) <= MAX_FINISHED and now_s - oldest.ended_s < KEPT_S:
                return
            self._finished.popitem(last=False)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
