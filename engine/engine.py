"""The engine: one open checkpoint, one queue, one thread; both doors come in here.

    engine = Engine.open("assets/nano")
    samples, sample_rate_hz = engine.speak("Hello there.", voice="heart", seed=7).read()

- ``submit`` validates at once and either admits or refuses; it never blocks on the model.
- A request's samples depend on the request and the checkpoint alone: alone or under load, read
  whole or in pieces, they are the same.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.codec.base import Codec, open_codec
from engine.errors import Cancelled, NotFound, Unavailable
from engine.family import Family, family_of
from engine.hub import locate
from engine.job import Job
from engine.life import EngineStats, Life, broken
from engine.longform import plan_speech
from engine.loop import EngineLoop
from engine.outlet import ChunkFrames
from engine.queue import AdmissionQueue, Reservation, Room
from engine.request import (
    Delivery,
    Emotion,
    FinishReason,
    Guidance,
    Sampling,
    SpeechRequest,
    Timings,
)
from engine.sampling.settings import resolve
from engine.scheduler import Scheduler
from engine.speaker.cache import EmbeddingCache, content_key
from engine.speaker.encoder import SpeakerEncoder, open_speaker_encoder
from engine.speaker.voices import load_voices
from engine.stream import SpeechStream
from engine.validate import check_parts, check_request, nearest

log = logging.getLogger(__name__)

DEFAULT_NUM_SLOTS = 8
DEFAULT_MAX_WAITING = 64
DEFAULT_MAX_WAITING_PER_OWNER = 16
# Products of a small model are too short to share: a second thread makes nano's step 1.1 times as
# fast (2-core EPYC), and is worth more to the studio. Larger models take torch's number of threads.
ONE_THREAD_MAX_NUMBERS = 100_000_000
# Assumed duration of a request before one has ended, in seconds.
FIRST_SERVICE_S = 2.0
SERVICE_SMOOTHING = 0.2


class Engine:
    """Speech from text and a voice. Thread-safe; make one per process and close it at the end."""

    def __init__(
        self,
        family: Family,
        codec: Codec,
        encoder: SpeakerEncoder | None,
        voices: Mapping[str, Tensor],
        *,
        name: str = "model",
        num_slots: int = DEFAULT_NUM_SLOTS,
        max_waiting: int = DEFAULT_MAX_WAITING,
        max_waiting_per_owner: int = DEFAULT_MAX_WAITING_PER_OWNER,
        reopen: Callable[[], Family] | None = None,
        unload_after_s: float = 0.0,
        prefill_rows: int | None = None,
        chunks: ChunkFrames = ChunkFrames(),  # noqa: B008 -- it is frozen
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.codec = codec
        self.encoder = encoder
        self.voices = dict(voices)
        self.num_slots = num_slots
        self._chunks = chunks
        self._clock = clock
        self._changed = threading.Condition()
        self._mean_service_s = FIRST_SERVICE_S
        self._is_draining = False
        self._embeddings = EmbeddingCache()
        self._queue: AdmissionQueue[Job] = AdmissionQueue(max_waiting, max_waiting_per_owner)
        self._life = Life(
            family,
            codec,
            num_slots,
            self._queue,
            self._changed,
            clock,
            self._learn_service_time,
            reopen,
            unload_after_s,
            prefill_rows,
        )

    @property
    def family(self) -> Family:
        """The open checkpoint."""
        return self._life.family

    @property
    def _loop(self) -> EngineLoop:
        return self._life.loop

    @property
    def _scheduler(self) -> Scheduler[Job]:
        return self._life.scheduler

    @classmethod
    def open(
        cls,
        model: str | Path,
        *,
        device: str = "auto",
        codec_device: str | None = None,
        dtype: torch.dtype | None = None,
        num_slots: int = DEFAULT_NUM_SLOTS,
        max_waiting: int = DEFAULT_MAX_WAITING,
        max_waiting_per_owner: int = DEFAULT_MAX_WAITING_PER_OWNER,
        emotion_directions: Path | None = None,
        unload_after_s: float = 0.0,
        prefill_rows: int | None = None,
        chunks: ChunkFrames = ChunkFrames(),  # noqa: B008 -- it is frozen
        progress: Callable[[str], None] = log.info,
    ) -> Engine:
        """Open a checkpoint folder, GGUF file or hub repository and start the engine thread.

        ``device`` "auto" takes the GPU if there is one; the codec decodes on ``codec_device``, None
        on the model's own. ``dtype`` int8 and float8_e4m3fn narrow the experts alone; None takes
        what fits. ``emotion_directions`` is a folder of them; without it, the checkpoint's own
        subfolder of that name counts, if there is one. ``prefill_rows`` bounds the prompt rows
        between two decode steps, None as the device likes it; ``chunks`` says how soon sound
        leaves, never how it sounds. Raises ``CheckpointError`` with one clear sentence when
        anything is missing, damaged, made for another model or too large for the memory.
        """
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        place = torch.device(device)
        files = locate(
            model,
            check=lambda path: family_of(path).check(path, place, dtype, num_slots),
            progress=progress,
        )
        own_directions = files.folder / "emotion_directions"

        def open_family() -> Family:
            opened = family_of(files.checkpoint).open(files.checkpoint, place, dtype)
            if emotion_directions is not None or own_directions.is_dir():
                opened.load_emotions(emotion_directions or own_directions)
            return opened

        family = open_family()
        if place.type == "cpu" and family.num_numbers <= ONE_THREAD_MAX_NUMBERS:
            torch.set_num_threads(1)
        codec = open_codec(files.codec_folder, torch.device(codec_device or place))
        encoder_folder = files.encoder_folder
        encoder = None if encoder_folder is None else open_speaker_encoder(encoder_folder)
        voices = load_voices(files.folder)
        check_parts(family, codec, encoder, voices)
        return cls(
            family,
            codec,
            encoder,
            voices,
            name=files.name,
            num_slots=num_slots,
            max_waiting=max_waiting,
            max_waiting_per_owner=max_waiting_per_owner,
            reopen=open_family,
            unload_after_s=unload_after_s,
            prefill_rows=prefill_rows,
            chunks=chunks,
        )

    # Voices ----------------------------------------------------------------------------------

    @property
    def default_voice(self) -> str | None:
        """Name of the voice that speaks when none is chosen, or None without any voice."""
        declared = self.family.default_voice
        return declared if declared in self.voices else next(iter(self.voices), None)

    def voice(self, name: str | None) -> Tensor | None:
        """The embedding of a named voice; None or "default" is the default voice.

        Raises ``NotFound`` with near names.
        """
        if name is None or name == "default":
            return None if self.default_voice is None else self.voices[self.default_voice]
        if name in self.voices:
            return self.voices[name]
        near = nearest(name, self.voices)
        raise NotFound(
            f"voice: there is no voice {name[:64]!r}; choose one of {', '.join(near) or 'none'}.",
            field="voice",
            code="voice_not_found",
        )

    def embed(self, samples: np.ndarray, sample_rate_hz: int) -> Tensor:
        """Speaker embedding [speaker_dim] of a mono float32 recording, cached by its content.

        Raises ``InvalidReference`` when the recording cannot carry a voice.
        """
        encoder = self.encoder
        if encoder is None:
            raise NotFound(
                "reference: this model came without a speaker encoder; choose a stored voice.",
                field="reference",
                code="encoder_missing",
            )
        key = content_key(samples, sample_rate_hz)
        return self._embeddings.get(key, lambda: encoder.encode(samples, sample_rate_hz))

    def forget(self, content_hash: str) -> None:
        """Drop the cached embedding of the recording whose samples have this SHA-256 (hex)."""
        self._embeddings.forget(content_hash)

    # Speaking --------------------------------------------------------------------------------

    def speak(
        self,
        text: str,
        *,
        voice: str | None = None,
        reference: tuple[np.ndarray, int] | None = None,
        seed: int | None = None,
        sampling: Sampling | None = None,
        delivery: Delivery | None = None,
        emotion: Emotion | None = None,
        guidance: Guidance | None = None,
        language: str | None = None,
        max_new_frames: int | None = None,
    ) -> SpeechStream:
        """Speak ``text``; iterate over the result for chunks, or ``.read()`` it whole.

        ``voice`` names a stored voice; ``reference`` (float32 mono samples, rate in hertz) takes
        precedence. Without a ``seed`` one is drawn; it stands in the result's ``seed``.
        """
        speaker = self.voice(voice) if reference is None else self.embed(*reference)
        return self.submit(
            SpeechRequest(
                text=text,
                speaker=speaker,
                voice_id=None if reference else voice or self.default_voice,
                sampling=sampling or Sampling(),
                delivery=delivery or Delivery(),
                emotion=emotion,
                guidance=guidance or Guidance(),
                seed=draw_seed() if seed is None else seed,
                max_new_frames=max_new_frames,
                language=language,
            )
        )

    def submit(
        self, request: SpeechRequest, reservation: Reservation | None = None
    ) -> SpeechStream:
        """Admit a request and return its stream at once; with a ``reservation`` in its place.

        Raises ``InvalidRequest`` naming the field, ``QueueFull`` / ``OwnerShareUsed`` with the wait
        when there is no place, ``Unavailable`` while draining.
        """
        timings = Timings(submitted_s=self._clock())
        with self._life.awake():
            return self._admit(request, timings, reservation)

    def _admit(
        self, request: SpeechRequest, timings: Timings, reservation: Reservation | None
    ) -> SpeechStream:
        text = check_request(request, self.family)
        sampling = resolve(request.sampling, self.family.sampling_defaults)
        segments, num_lanes = plan_speech(request, text, self.family, self.num_slots)
        stream = SpeechStream(
            request.request_id,
            request.seed,
            self.codec.sample_rate_hz,
            timings,
            on_cancel=lambda: self._cancel(job),
            place=lambda: self._place(job),
        )
        made_by = self.family, self.codec, num_lanes, self._clock, self._chunks
        job = Job(request, segments, sampling, stream, *made_by)
        with self._changed:
            room = self._room()
            if reservation is not None:
                reservation.give_up()
            self._queue.put(job, **room)
            self._changed.notify_all()
        return stream

    def check_room(self, owner: str) -> None:
        """Raise what ``submit`` would for want of a place: ``QueueFull`` and its kinds."""
        with self._changed:
            self._queue.check(owner, **self._room())

    def reserve(self, owner: str) -> Reservation:
        """Keep a place for a request that is being prepared; raises what ``check_room`` raises."""
        with self._changed:
            self._queue.reserve(owner, **self._room())
        return Reservation(self._queue, self._changed, owner)

    def _room(self) -> Room:
        if self._life.state == "broken":
            raise broken()
        if self._is_draining:
            raise Unavailable(
                "queue: the studio is shutting down; try again in 30 s.", retry_after_s=30
            )
        wait_s = math.ceil(self._wait_s(len(self._queue)))
        return Room(wait_s=wait_s, num_free=self._scheduler.num_free)

    def _cancel(self, job: Job) -> None:
        with self._changed:
            job.is_cancelled = True
            was_waiting = self._queue.remove(job)
            self._changed.notify_all()
        if was_waiting:
            job.stream.finish(FinishReason.CANCELLED, Cancelled("request: it was cancelled."))

    def _place(self, job: Job) -> tuple[int, float] | None:
        with self._changed:
            num_ahead = self._queue.num_ahead(job)
        return None if num_ahead is None else (num_ahead, self._wait_s(num_ahead))

    def _wait_s(self, num_ahead: int) -> float:
        return max(1.0, (num_ahead + 1) / self.num_slots * self._mean_service_s)

    def _learn_service_time(self, job: Job) -> None:
        timings = job.stream.timings
        if timings.admitted_s is not None and timings.finished_s is not None:
            served_s = timings.finished_s - timings.admitted_s
            # Between segments a slot is given up to those who wait: they wait for one of them.
            served_s /= max(1, len(job.stream.chunks_spoken))
            self._mean_service_s += SERVICE_SMOOTHING * (served_s - self._mean_service_s)

    # Life ------------------------------------------------------------------------------------

    @property
    def stats(self) -> EngineStats:
        """Slots, queue and heartbeat now."""
        with self._changed:
            return EngineStats(
                num_slots=self.num_slots,
                num_live=len(self._scheduler.live),
                num_waiting=len(self._queue),
                heartbeat_age_s=self._life.heartbeat_age_s,
                mean_service_s=self._mean_service_s,
                is_draining=self._is_draining,
                state=self._life.state,
                num_restarts=self._life.num_restarts,
                load_s=0.0 if self._life.state == "ready" else self._life.load_s,
            )

    def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and wait for the admitted ones -> whether all of them ended."""
        with self._changed:
            self._is_draining = True
            return self._changed.wait_for(
                lambda: not self._scheduler.live and not self._queue, timeout_s
            )

    def close(self, drain_s: float = 0.0) -> None:
        """Drain for at most ``drain_s``, cancel what is left, and stop the engine thread."""
        self.drain(drain_s)
        self._life.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def draw_seed() -> int:
    """A fresh seed that fits every door: 0 .. 2^32 - 1."""
    return secrets.randbits(32)
