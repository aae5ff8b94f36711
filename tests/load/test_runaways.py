"""500 sentences whose end is taken from the model at random: every one ends, and says what it took.

    make load ARGS=tests/load/test_runaways.py

The end-of-audio code is made impossible for half of all attempts, by a hash of the request's seed,
the segment and the attempt; rows that a repair draws as they were keep the attempt they are of. It
takes some five minutes on two quiet cores. The figures go to results/runaways.json.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest
from torch import Tensor

from bench.machine import describe, loaded_reason
from engine import Engine, FinishReason
from engine.job import _ATTEMPT_BITS, _ROW_BITS, Job
from engine.repair import MAX_REPAIRS

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results" / "runaways.json"
SENTENCES = (REPOSITORY / "bench" / "nano_sentences.txt").read_text(encoding="utf-8").splitlines()
NUM_ASKED = 500


def is_endless(seed: int, segment: int, attempt: int) -> bool:
    return zlib.crc32(f"{seed} {segment} {attempt}".encode()) % 2 == 0


@pytest.mark.load
@pytest.mark.timeout(3600)
def test_every_sentence_ends_whatever_becomes_of_its_end() -> None:
    machine = {"machine_was_loaded": loaded_reason()}
    asked = [SENTENCES[number % len(SENTENCES)] for number in range(NUM_ASKED)]
    with Engine.open(
        REPOSITORY / "assets" / "nano",
        device="cpu",
        max_waiting=NUM_ASKED,
        max_waiting_per_owner=NUM_ASKED,
    ) as engine:
        draw, eoa_id = engine._loop._draw, engine.family.eoa_id

        def without_end(jobs: list[Job], logits: Tensor) -> None:
            for job, its_logits in zip(jobs, logits, strict=True):
                attempt = (job.noise_row >> _ROW_BITS) % (1 << _ATTEMPT_BITS)
                if is_endless(job.request.seed, job._segment, attempt):
                    its_logits[..., eoa_id] = -100.0
            draw(jobs, logits)

        engine._loop._draw = without_end  # type: ignore[method-assign]
        started_s = time.perf_counter()
        streams = [engine.speak(text, seed=seed) for seed, text in enumerate(asked)]
        reasons: Counter[str] = Counter()
        ends: Counter[str] = Counter()
        worst, total_s = 0.0, 0.0
        for seed, (text, stream) in enumerate(zip(asked, streams, strict=True)):
            samples, rate_hz = stream.read()
            duration_s = len(samples) / rate_hz
            budget_s = sum(4 + 0.16 * len(chunk.text.encode()) for chunk in stream.chunks_spoken)
            worst, total_s = max(worst, duration_s / budget_s), total_s + duration_s
            assert duration_s <= 1.5 * budget_s, text
            reasons.update(repair.reason for repair in stream.repairs)
            assert stream.finish_reason is not None
            ends[stream.finish_reason.value] += 1
            told = {(repair.chunk, repair.attempt) for repair in stream.repairs}
            was_cut = False
            for segment in range(len(stream.chunks_spoken)):
                for attempt in range(MAX_REPAIRS + 1):
                    if not is_endless(seed, segment, attempt):
                        break
                    if attempt < MAX_REPAIRS:
                        assert (segment, attempt) in told, text
                    was_cut |= attempt == MAX_REPAIRS
            assert was_cut == (stream.finish_reason is FinishReason.LENGTH), text
        took_s = time.perf_counter() - started_s
        machine |= describe(engine.family.device)
    figures = {
        "sentences": NUM_ASKED,
        "ends": dict(ends),
        "repairs": dict(reasons),
        "longest_share_of_budget": round(worst, 3),
        "audio_s": round(total_s, 1),
        "took_s": round(took_s, 1),
        "machine": machine,
    }
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
