"""The embedding cache: keyed by content, bounded, computed once, failures forgotten."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.errors import GenerationFailed, InvalidReference
from engine.speaker import cache as cache_module
from engine.speaker.cache import EmbeddingCache, content_key


class Counter:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def compute(self, key: str) -> Tensor:
        self.calls.append(key)
        return torch.full((2,), float(len(self.calls)))


def test_equal_content_has_equal_keys_and_other_content_or_rate_has_not() -> None:
    samples = np.arange(6, dtype=np.float32)
    keys = {
        content_key(samples, 24_000),
        content_key(samples, 16_000),
        content_key(samples[:5], 24_000),
        content_key(samples + 1, 24_000),
        content_key(samples.astype(np.float64), 24_000),
    }
    assert len(keys) == 5
    assert content_key(np.repeat(samples, 2)[::2], 24_000) in keys


def test_a_key_is_computed_once_and_its_entry_cannot_be_changed_from_outside() -> None:
    cache, counter = EmbeddingCache(), Counter()
    first = cache.get("a", lambda: counter.compute("a"))
    first += 100
    assert cache.get("a", lambda: counter.compute("a")).tolist() == [1.0, 1.0]
    assert counter.calls == ["a"]


def test_a_recording_can_be_forgotten_at_every_rate_and_others_stay() -> None:
    cache, counter = EmbeddingCache(), Counter()
    samples = np.arange(6, dtype=np.float32)
    keys = [
        content_key(samples, 16_000),
        content_key(samples, 24_000),
        content_key(-samples, 16_000),
    ]
    for key in keys:
        cache.get(key, partial(counter.compute, key))
    cache.forget(hashlib.sha256(samples.tobytes()).hexdigest())
    for key in keys:
        cache.get(key, partial(counter.compute, key))
    assert counter.calls == [*keys, *keys[:2]]


def test_the_least_recently_used_entry_goes_first() -> None:
    cache, counter = EmbeddingCache(max_entries=2), Counter()
    for key in "abacbca":
        cache.get(key, partial(counter.compute, key))
        assert len(cache) <= 2
    assert counter.calls == list("abcba")


def test_requests_that_come_together_compute_once() -> None:
    cache, counter = EmbeddingCache(), Counter()
    everyone_asked, arrived = threading.Event(), threading.Semaphore(0)

    def compute() -> Tensor:
        assert everyone_asked.wait(60)
        return counter.compute("a")

    def ask() -> Tensor:
        arrived.release()
        return cache.get("a", compute)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        for _ in asked:
            assert arrived.acquire(timeout=60)
        everyone_asked.set()
        answers = [future.result(60).tolist() for future in asked]
    assert counter.calls == ["a"] and answers == [[1.0, 1.0]] * 8


def test_a_failure_is_told_and_then_forgotten() -> None:
    cache, counter = EmbeddingCache(), Counter()

    def refuse() -> Tensor:
        raise InvalidReference("reference: it is silent.", field="reference")

    with pytest.raises(InvalidReference):
        cache.get("a", refuse)
    assert len(cache) == 0
    assert cache.get("a", lambda: counter.compute("a")).tolist() == [1.0, 1.0]


def test_waiting_for_another_thread_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_WAIT_S", 0.05)
    cache, counter = EmbeddingCache(), Counter()
    begun, gave_up = threading.Event(), threading.Event()

    def compute() -> Tensor:
        begun.set()
        assert gave_up.wait(60)
        return counter.compute("a")

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.get, "a", compute)
        assert begun.wait(60)
        with pytest.raises(GenerationFailed, match="not ready"):
            cache.get("a", compute)
        gave_up.set()
        assert slow.result(60).tolist() == [1.0, 1.0]
