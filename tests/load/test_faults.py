"""One fault among eight requests: one fails clearly, the others sound as if nothing had been.

make load ARGS=tests/load/test_faults.py
"""

from __future__ import annotations

import asyncio
import base64
import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi import FastAPI

from engine import Engine, GenerationFailed, SpeechRequest, SpeechStream
from engine import loop as loop_module
from engine.job import Job
from studio.media import decode
from studio.server import create_api
from studio.settings import Settings
from tests.load.client import SPEECH, Call
from tests.studio.conftest import serving

__all__ = ["serving"]  # a fixture

pytestmark = [pytest.mark.load, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).resolve().parents[2]
CLIP = REPOSITORY / "tests" / "fixtures" / "audio" / "ref_control_16k_mono.wav"
TEXT = "The small boat is still tied to the old wooden pier."
SLOTS, VICTIM = 8, 3


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.open(REPOSITORY / "assets" / "nano", device="cpu", num_slots=SLOTS) as opened:
        yield opened


# Inside the engine


def submit_all(engine: Engine) -> list[SpeechStream]:
    """Eight requests that begin in the same step."""
    voice = engine.voice(None)
    with engine._changed:
        return [
            engine.submit(
                SpeechRequest(
                    text=TEXT, speaker=voice, seed=seed, max_new_frames=40, request_id=f"r{seed}"
                )
            )
            for seed in range(SLOTS)
        ]


@pytest.fixture(scope="module")
def expected(engine: Engine) -> list[np.ndarray]:
    return [stream.read()[0] for stream in submit_all(engine)]


def no_numbers(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    runner = engine._loop._runner
    inner, steps = runner.decode, iter(range(10**6))

    def decode_with_nan(slots: list[int], codes: torch.Tensor) -> torch.Tensor:
        logits = inner(slots, codes)
        if next(steps) == 12:
            logits[slots.index(VICTIM)] = torch.nan
        return logits

    patch.setattr(runner, "decode", decode_with_nan)


def no_prompt(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    runner = engine._loop._runner
    inner = runner.prefill

    def run_out(slot: int, prompt: Any) -> torch.Tensor:
        if slot == VICTIM:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(slot, prompt)

    patch.setattr(runner, "prefill", run_out)


def no_step(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    """The memory does for seven only; the youngest gives up."""
    runner = engine._loop._runner
    inner = runner.decode

    def run_out(slots: list[int], codes: torch.Tensor) -> torch.Tensor:
        if len(slots) == SLOTS:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(slots, codes)

    patch.setattr(runner, "decode", run_out)


def no_sound(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    inner, decoded = loop_module.decode_windows, engine._loop._decoded
    doomed: list[object] = []

    def note(windows: list[tuple[Job, Any]]) -> Any:
        doomed.extend(window for job, window in windows if job.request.request_id == f"r{VICTIM}")
        return decoded(windows)

    def fail(codec: Any, windows: list[Any]) -> Any:
        if any(window is one for window in windows for one in doomed):
            raise RuntimeError("the codec is broken")
        return inner(codec, windows)

    patch.setattr(engine._loop, "_decoded", note)
    patch.setattr(loop_module, "decode_windows", fail)


@pytest.mark.parametrize(
    ("fault", "victim", "told"),
    [
        (no_numbers, VICTIM, "no usable numbers"),
        (no_prompt, VICTIM, "memory does not do"),
        (no_step, SLOTS - 1, "memory does not do"),
        (no_sound, VICTIM, "decoding its sound failed"),
    ],
)
def test_a_fault_in_the_engine_ends_one_of_eight(
    engine: Engine,
    expected: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[Engine, pytest.MonkeyPatch], None],
    victim: int,
    told: str,
) -> None:
    with monkeypatch.context() as patch:
        fault(engine, patch)
        streams = submit_all(engine)
        for number, stream in enumerate(streams):
            if number == victim:
                with pytest.raises(GenerationFailed, match=told):
                    stream.read()
            else:
                assert np.array_equal(stream.read()[0], expected[number]), number
    for stream, samples in zip(submit_all(engine), expected, strict=True):
        assert np.array_equal(stream.read()[0], samples)


# Around it


@pytest.fixture
def app(engine: Engine, tmp_path: Path) -> FastAPI:
    return create_api(engine, Settings(data=tmp_path, no_watermark=True, no_metadata=True))


def killed_child(app: FastAPI, patch: pytest.MonkeyPatch) -> dict[str, object]:
    """A reference whose decoder is killed as soon as it runs."""
    begin = decode._Child.__init__

    def begin_and_die(self: Any, process: Any, wall_s: float) -> None:
        begin(self, process, wall_s)
        process.kill()

    patch.setattr(decode._Child, "__init__", begin_and_die)
    # Not a plain WAV file: those need no child.
    clip = (CLIP.parent / "ref_phone_aac.m4a").read_bytes()
    return {"ref_audio": "data:audio/mp4;base64," + base64.b64encode(clip).decode()}


def full_disk(app: FastAPI, patch: pytest.MonkeyPatch) -> dict[str, object]:
    """A take that cannot be written; its speech can."""

    def fail(self: Any, data: bytes) -> int:
        self.error = OSError(errno.ENOSPC, "No space left on device")
        return len(data)

    patch.setattr("studio.take_file._Sink.write", fail)
    return {"store": True}


def corrupt_catalogue(app: FastAPI, patch: pytest.MonkeyPatch) -> dict[str, object]:
    """A stored voice that cannot be looked up."""
    catalogue = app.state.stores.voices._catalogue
    catalogue.close()
    catalogue._path.write_bytes(b"this is no database " * 500)
    return {"voice": "voice_" + "a" * 22}


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        (killed_child, 400, "decoding needs more memory or time"),
        (full_disk, 200, "disk is full"),
        (corrupt_catalogue, 507, "is damaged; restore it"),
    ],
)
def test_a_fault_around_the_engine_ends_one_of_eight(
    app: FastAPI,
    serving: Callable[[FastAPI], AbstractContextManager[str]],
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[FastAPI, pytest.MonkeyPatch], dict[str, object]],
    status: int,
    told: str,
) -> None:
    async def ask_all(address: str, victims: dict[str, object] | None) -> list[Call]:
        calls = [await Call.open(address) for _ in range(SLOTS)]
        for seed, call in enumerate(calls):
            fields: dict[str, object] = {"input": TEXT, "seed": seed, "max_new_tokens": 40}
            fields |= victims if victims is not None and seed == VICTIM else {}
            call.send("POST", SPEECH, fields)
        return list(await asyncio.gather(*(call.whole() for call in calls)))

    with serving(app) as address, monkeypatch.context() as patch:
        before = asyncio.run(ask_all(address, None))
        after = asyncio.run(ask_all(address, fault(app, patch)))
        for number, (call, reference) in enumerate(zip(after, before, strict=True)):
            if number == VICTIM:
                assert call.status == status, call.body
                assert told in call.body.decode(errors="replace") + call.headers.get(
                    "x-warnings", ""
                )
            else:
                assert call.status == 200 and call.body == reference.body, number
