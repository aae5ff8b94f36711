"""The state of one admitted request between two steps.

- A long text is spoken in segments; each has its own prompt and end of audio, all share one codec
  stream, so the audio has no seam of its own.
- The frame counter that keys the noise runs through all segments: no two frames of a request share
  their noise, and nothing but the request decides it.
- Which chunks come out depends on the number of frames alone, never on timing or neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.codec.base import Codec
from engine.codec.delay import DelayBuffer
from engine.codec.streaming import CodecStream, Window
from engine.errors import GenerationFailed, InvalidRequest, StudioError
from engine.family import Context, Family, PromptPlan
from engine.request import FinishReason, SpeechRequest
from engine.sampling.settings import ResolvedSampling
from engine.stream import SpeechStream

# Chunks begin short, for the first sound, and double while the listener has something to hear.
FIRST_CHUNK_S = 0.16
MAX_CHUNK_S = 1.0
# A segment that has not ended after this long has run away (spec/security.md 4.1).
BUDGET_BASE_S = 4.0
BUDGET_PER_BYTE_S = 0.16


class Job:
    """One request in a slot, or on its way to one."""

    def __init__(
        self,
        request: SpeechRequest,
        segments: Sequence[str],
        sampling: ResolvedSampling,
        stream: SpeechStream,
        family: Family,
        codec: Codec,
        num_slots: int,
    ) -> None:
        self.request = request
        self.sampling = sampling
        self.stream = stream
        self.slots: tuple[int, ...] = ()
        self.num_slots = num_slots
        self.needs_prefill = True
        self.is_cancelled = False
        self.twin_scales: list[float] = []
        self.num_sampled = 0  # rows drawn so far, over all segments
        self._family = family
        self._codec = codec
        self._frame_rate_hz = codec.sample_rate_hz / codec.hop
        self._segments = list(segments)
        self._next_segment = 0
        self._codec_stream = CodecStream(codec)
        self._chunk_frames = max(1, round(FIRST_CHUNK_S * self._frame_rate_hz))
        self._max_chunk_frames = max(1, round(MAX_CHUNK_S * self._frame_rate_hz))
        self._all_codes_pushed = False
        self._ran_into_limit = False
        self._no_frames = torch.empty(0, family.num_codebooks, dtype=torch.int64)
        self._segment_frames: list[Tensor] = []
        self._spoken: dict[int, Tensor] = {}  # segment -> its aligned frames

    @property
    def owner(self) -> str:
        """Whose share of the queue this request uses."""
        return self.request.owner

    @property
    def has_room(self) -> bool:
        """Whether the reader keeps up, so that more audio may be made."""
        return self.stream.has_room

    @property
    def is_done(self) -> bool:
        """Whether no further row will be drawn."""
        return self._all_codes_pushed

    @property
    def finish_reason(self) -> FinishReason:
        """Why generation ended, once ``is_done``."""
        return FinishReason.LENGTH if self._ran_into_limit else FinishReason.STOP

    @property
    def lanes(self) -> tuple[int, ...]:
        """The slots in use: the main one and one for each twin of this segment."""
        return self.slots[: 1 + len(self.twin_scales)]

    @property
    def main_slot(self) -> int:
        """The lane whose audio is heard; the others are its twins."""
        return self.slots[0]

    @property
    def fault(self) -> StudioError | None:
        """What to tell the reader of a request that ended without one frame, else None."""
        limit = self.request.max_new_frames
        if self.stream.timings.num_frames > 0:
            return None
        if self._ran_into_limit and limit is not None:
            return InvalidRequest(
                f"max_new_tokens: {limit} frames end before the first sound; ask for more, or leave"
                " it out.",
                field="max_new_tokens",
            )
        return GenerationFailed("request: no sound came out; try it with another seed.")

    def next_plan(self) -> PromptPlan:
        """Begin the next segment and give its prompts."""
        text = self._segments[self._next_segment]
        self._next_segment += 1
        plan = self._family.plan(text, self.request, self._context())
        self.twin_scales = [twin.scale for twin in plan.twins]
        self._delay = DelayBuffer(
            self._family.num_codebooks, self._family.codebook_size, self._family.eoa_id
        )
        seconds = BUDGET_BASE_S + BUDGET_PER_BYTE_S * len(text.encode())
        room = self._family.max_rows - plan.num_rows
        self._rows_left = min(math.ceil(seconds * self._frame_rate_hz), room)
        self.needs_prefill = False
        self.stream.timings.num_prompt_rows += len(plan.main.rows)
        return plan

    def _context(self) -> Context | None:
        """The first segment, which keeps the voice where it began, and the one just spoken."""
        if not self._family.continues or len(self._segments) == 1:
            return None
        indices = sorted({0, self._next_segment - 2} & self._spoken.keys())
        return Context(
            text=" ".join(self._segments[index] for index in indices),
            frames=torch.cat([self._no_frames, *(self._spoken[index] for index in indices)]),
            is_last=self._next_segment == len(self._segments),
        )

    def take_row(self, codes: Sequence[int]) -> None:
        """Take one drawn row: advance the segment, the end rules and the codec's frames."""
        self.num_sampled += 1
        self._rows_left -= 1
        self._delay.push(codes)
        frames = self._delay.take_ready()
        self.stream.timings.num_frames += len(frames)
        self._codec_stream.push(frames)
        if self._family.continues:
            self._segment_frames.append(frames)
        limit = self.request.max_new_frames
        is_over_limit = limit is not None and self.num_sampled >= limit
        if not self._delay.finished and not is_over_limit and self._rows_left > 0:
            return
        self._ran_into_limit |= not self._delay.finished
        if self._family.continues:
            self._keep_segment()
        if self._next_segment < len(self._segments) and not is_over_limit:
            self.needs_prefill = True
        else:
            self._all_codes_pushed = True

    def _keep_segment(self) -> None:
        """Keep the frames of the segment that ended; only the first and the latest are needed."""
        latest = self._next_segment - 1
        self._spoken = {0: self._spoken[0]} if 0 in self._spoken else {}
        self._spoken[latest] = torch.cat(self._segment_frames)
        self._segment_frames = []

    def next_window(self) -> Window | None:
        """The next chunk's codec window, or None while too few frames are there."""
        return self._codec_stream.window(self._chunk_frames, final=self._all_codes_pushed)

    def take_samples(self, window: Window, samples: Tensor) -> None:
        """Send the decoded chunk of ``window`` to the reader; the next one is longer."""
        self._codec_stream.accept(window, samples)
        self.stream.push(samples.numpy())
        self._chunk_frames = min(2 * self._chunk_frames, self._max_chunk_frames)
