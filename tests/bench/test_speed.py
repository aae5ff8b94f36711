"""The harness: what is made of arrival times, of loads, and of sizes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bench import floor, report, speed
from bench.heard import Heard, percentile, summary
from bench.loads import closed_loop, poisson, sustained, through_engine
from bench.random_model import RELEASE, SAMPLING, make_checkpoint, random_dac
from engine import Engine, FinishReason
from engine.zonos2.config import Zonos2Config


def test_a_piece_that_comes_too_late_is_an_underrun() -> None:
    heard = Heard(10.0, [(10.2, 0.5), (10.6, 0.5), (11.3, 1.0), (12.4, 0.1)])
    assert heard.audio_s == pytest.approx(2.1)
    assert heard.rtf == pytest.approx(2.4 / 2.1)
    assert heard.ttfa_ms == pytest.approx(200)
    assert heard.max_gap_ms == pytest.approx(1100)
    # Played from 10.2: until 10.7, 11.2 (empty for 0.1 s), from 11.3 until 12.3, empty again.
    assert heard.num_underruns == 2


def test_a_failed_request_counts_and_is_not_averaged() -> None:
    told = summary([Heard(0.0, [(1.0, 2.0)]), Heard(0.0, error="QueueFull: no place")], 4.0)
    assert (told["requests"], told["failed"], told["audio_s_per_s"]) == (2, 1, 0.5)
    assert summary([Heard(0.0, error="no")], 1.0)["first_error"] == "no"


def test_percentiles() -> None:
    assert percentile([3, 1, 2, 4], 0.5) == 2
    assert percentile(range(1, 101), 0.95) == 95
    assert percentile([7], 0.95) == 7


def speak(text: str, seed: int) -> Iterator[float]:
    time.sleep(0.002)
    yield 50.0  # so long that a machine that stands still is no underrun
    yield 50.0


def test_loads_ask_as_often_as_they_say() -> None:
    closed = closed_loop(speak, 3, 2)
    assert (closed["requests"], closed["concurrency"], closed["mean_audio_s"]) == (6, 3, 100.0)
    opened = poisson(speak, 400.0, 5)
    assert opened["requests"] == 5 and opened["underruns"] == 0


def test_sustained_ends_at_the_first_level_that_stutters() -> None:
    def slow(text: str, seed: int) -> Iterator[float]:
        yield 0.001
        time.sleep(0.01)
        yield 0.001

    assert sustained(speak, [1, 2, 4], 1)["sustained_streams"] == 4
    told = sustained(slow, [1, 2], 1)
    assert told["sustained_streams"] == 0 and len(told["levels"]) == 1


@pytest.mark.parametrize(("batch", "gigabytes"), [(1, 1.78), (8, 7.16), (16, 11.0), (64, 18.0)])
def test_the_release_reads_what_the_specification_says(batch: int, gigabytes: float) -> None:
    """spec/performance.md 3.3, bfloat16, 800 rows of context."""
    config = Zonos2Config.from_dict(RELEASE)
    assert floor.step_bytes(config, batch, 2, 800) / 1e9 == pytest.approx(gigabytes, rel=0.02)
    assert floor.step_flops(config, 1) == pytest.approx(1.736e9, rel=0.02)


def test_the_dac_of_the_release_makes_the_sums_of_the_specification() -> None:
    """spec/performance.md 3.4: 1.61 GFLOP a frame; here at a quarter of its width."""
    narrow, wide = (
        floor.codec_flops_per_frame(random_dac(width, torch.device("cpu"))) for width in (32, 64)
    )
    inner = (1024 * 7 * 2, 9 * 8 * 1024 * 2)  # what grows with the width once, and not at all
    squares = (wide - 2 * narrow + inner[1]) / (64**2 - 2 * 32**2)
    assert squares * 1536**2 + inner[0] * 1536 == pytest.approx(1.61e9, rel=0.03)


def test_a_random_checkpoint_speaks_as_long_as_it_is_asked_to(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "tiny", "tiny", codec_width=32)
    with Engine.open(folder, device="cpu", num_slots=2) as engine:
        stream = engine.speak("One.", seed=3, max_new_frames=40, sampling=SAMPLING)
        samples, _ = stream.read()
        assert len(samples) == (40 - 8) * 512 and not stream.repairs
        assert stream.finish_reason is FinishReason.LENGTH
        told = closed_loop(through_engine(engine, 30, SAMPLING), 2, 1)
        shape = floor.Shape.of(engine)
    assert told["failed"] == 0 and shape is not None
    rates = floor.measure_rates(engine.family.device, engine.family.dtype, size_bytes=1 << 24)
    speed.add_floors(told, shape, rates)
    assert 0 < told["share_of_floor"] < 1
    assert told["floor"]["ttfa_ms"] < told["ttfa_ms_median"]


def test_nothing_is_written_on_a_loaded_machine_unless_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    options = speed.parsed(["--write", "one"])
    assert report.is_refused(options, "the machine is loaded")
    assert "loaded" in capsys.readouterr().err
    assert not report.is_refused(options, None)
    despite = speed.parsed(["--write", "one", "--despite-load"])
    assert not report.is_refused(despite, "the machine is loaded")
    report.keep(despite, {"rtf": 1.0}, "the machine is loaded")
    kept = json.loads((tmp_path / "one.json").read_text())
    assert kept == {"rtf": 1.0, "machine_was_loaded": "the machine is loaded"}


@pytest.mark.slow
def test_the_same_figures_over_a_socket() -> None:
    options = speed.parsed(["--through", "http", "--rounds", "2", "--concurrency", "2"])
    (load,) = speed.measure(options)["loads"]
    assert load["requests"] == 2 and load["failed"] == 0
    assert load["ttfa_ms_median"] > 0 and load["mean_audio_s"] > 1
