"""Numbers for Prometheus: how fast speech comes, how full the studio is, what was refused.

What SGLang-Omni measures has its names, so that its dashboards work; the rest is ``zonos2_...``.
Labels are words of our own, never anything a caller sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from engine import Cancelled, Engine, EngineStats, FinishReason, SpeechStream, StudioError
from studio.api.headers import rtf

_SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30, 60, 300)
_LAGS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
_RTFS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 3)
# Stops of a player of so long pass as none.
_CONTINUITY_MS = (0, 100, 500)
# The event loop's lag is looked at so often.
LOOK_S = 0.1


class Playback:
    """The longest stop, ``underrun_s``, that somebody hears who plays the sound as it comes."""

    def __init__(self, sample_rate_hz: int, interval: Histogram) -> None:
        self._sample_rate_hz = sample_rate_hz
        self._interval = interval
        self.underrun_s = 0.0

    async def of(self, chunks: AsyncIterator[np.ndarray]) -> AsyncIterator[np.ndarray]:
        """``chunks`` of samples as they come."""
        due_s = None  # when the sound that came so far has been played
        asked_s = time.monotonic()
        async for chunk in chunks:
            now_s = time.monotonic()
            if due_s is None:
                due_s = now_s
            else:
                self._interval.observe(now_s - asked_s)
                # A reader who asks late waits for nothing.
                late_s = max(0.0, now_s - max(due_s, asked_s))
                self.underrun_s = max(self.underrun_s, late_s)
                due_s += late_s
            due_s += len(chunk) / self._sample_rate_hz
            yield chunk
            asked_s = time.monotonic()


class Metrics:
    """The counters of one studio, in a registry of their own."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self._engine = engine

        def histogram(name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
            name = f"sglang_omni:{name}"
            return Histogram(name, what, buckets=buckets, registry=self._registry)

        self._ttfp = histogram(
            "audio_ttfp_s", "Seconds to the first piece of a live sound", _SECONDS
        )
        self._rtf = histogram("audio_rtf", "Seconds of work per second of sound", _RTFS)
        self._latency = histogram("audio_e2e_latency_s", "Seconds to the end", _SECONDS)
        self._duration = histogram("audio_duration_s", "Seconds of sound", _SECONDS)
        self._interval = histogram("audio_chunk_interval_s", "Seconds between pieces", _SECONDS)
        self._underrun = histogram(
            "audio_underrun_s", "Longest stop of who played it live, seconds", _SECONDS
        )
        self._continuous = Counter(
            "sglang_omni:audio_continuity_ok",
            "Live requests without a longer stop than this",
            ["threshold_ms"],
            registry=self._registry,
        )
        self._ended = Counter(
            "zonos2_requests", "Requests by how they ended", ["reason"], registry=self._registry
        )
        for reason in FinishReason:
            self._ended.labels(reason.value)
        self._refused = Counter(
            "zonos2_refusals", "Requests that were refused", ["code"], registry=self._registry
        )
        self._queued = Histogram(
            "zonos2_queue_wait_seconds",
            "Seconds before a slot",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._spoken = Counter(
            "zonos2_audio_seconds", "Seconds of sound that were made", registry=self._registry
        )
        self._answers = Counter(
            "zonos2_http_responses", "Answers by status", ["status"], registry=self._registry
        )
        self._lag = Histogram(
            "zonos2_event_loop_lag_seconds",
            "How late the event loop came to what was due",
            buckets=_LAGS,
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)
        self._gauge("engine_restarts", "Engine threads that were lost", lambda s: s.num_restarts)
        self._gauge("model_loaded", "1 while the weights are in memory", _is_loaded)
        self._gauge("draining", "1 while it is stopping", lambda stats: stats.is_draining)
        self._gauge("slots", "Requests that can be spoken at once", lambda stats: stats.num_slots)
        self._gauge("speaking", "Requests that are being spoken", lambda stats: stats.num_live)
        self._gauge("waiting", "Requests that wait for a slot", lambda stats: stats.num_waiting)
        self._gauge("heartbeat_age_seconds", "Age of its life sign", lambda s: s.heartbeat_age_s)

    def _gauge(self, name: str, what: str, look: Callable[[EngineStats], float]) -> None:
        gauge = Gauge(f"zonos2_{name}", what, registry=self._registry)
        gauge.set_function(lambda: look(self._engine.stats))

    async def watch_loop(self) -> None:
        """Measure the lag of the event loop until cancelled."""
        while True:
            asked_s = time.monotonic()
            await asyncio.sleep(LOOK_S)
            self._lag.observe(max(0.0, time.monotonic() - asked_s - LOOK_S))

    def answered(self, status: int) -> None:
        """An answer of this status began."""
        self._answers.labels(str(status)).inc()

    def playback(self, sample_rate_hz: int) -> Playback:
        """A player of one request, to be told of its pieces."""
        return Playback(sample_rate_hz, self._interval)

    def ended(self, stream: SpeechStream, playback: Playback | None) -> None:
        """A request ended, one way or another; ``playback`` of those that were heard live."""
        reason = stream.finish_reason or FinishReason.CANCELLED
        self._ended.labels(reason.value).inc()
        timings = stream.timings
        self._spoken.inc(stream.spoken_s)
        if timings.queue_ms is not None:
            self._queued.observe(timings.queue_ms / 1e3)
        if timings.ttfa_ms is not None and playback is not None:
            self._ttfp.observe(timings.ttfa_ms / 1e3)
        if reason not in (FinishReason.STOP, FinishReason.LENGTH):
            return
        self._rtf.observe(rtf(stream))
        self._latency.observe(timings.total_s or 0.0)
        self._duration.observe(stream.spoken_s)
        if playback is not None:
            self._underrun.observe(playback.underrun_s)
            for threshold_ms in _CONTINUITY_MS:
                if playback.underrun_s * 1e3 <= threshold_ms:
                    self._continuous.labels(str(threshold_ms)).inc()

    def refused(self, error: StudioError) -> None:
        """A request was refused, and not just left; ``code`` is one of ours."""
        if not isinstance(error, Cancelled):
            self._refused.labels(error.code).inc()

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)


def _is_loaded(stats: EngineStats) -> float:
    return stats.state == "ready"
