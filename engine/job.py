"""The state of one admitted request between two steps.

- A text is spoken in segments; each has its own prompt and end of audio. They share one codec
  stream, so the audio has no seam of its own, except at a pause that was asked for.
- The first segment is heard while it is made. Every other one is heard when it has ended, so that
  one that went wrong can be made again as a whole, and so that its loudness can be met.
- What went wrong (``engine.repair``) is drawn again with other noise, at most twice, from the first
  row that nothing heard depends on; the rows before it are drawn again as they were.
- The noise of a row is keyed by (seed, segment, attempt, row). Chunks, repairs and gains follow
  from the codes alone: never from timing, neighbours or the reader. The engine's sizes of chunks
  say how much of the first segment is heard already when it goes wrong, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from engine.codec.base import Codec
from engine.codec.delay import DelayBuffer
from engine.codec.streaming import Window
from engine.errors import GenerationFailed, InvalidRequest, StudioError
from engine.family import Context, Family, PromptPlan
from engine.longform import Segment
from engine.loudness import SpeechLoudness
from engine.outlet import ChunkFrames, Outlet
from engine.pace import delivery_at
from engine.repair import MAX_REPAIRS, Fault, Guard, Limits, Repair
from engine.request import FinishReason, SpeechRequest
from engine.sampling.settings import ResolvedSampling
from engine.stream import SpeechStream, SpokenChunk

# The key of a row's noise: its number in these bits, the attempt and the segment above them.
_ROW_BITS, _ATTEMPT_BITS = 22, 2
# A segment may differ from the first one's loudness by so much; the rest is taken back.
FREE_LU, MAX_GAIN_DB = 0.5, 6.0
MAX_PEAK = 0.98
# Between segments, a request so far ahead of a listener, or so long in its slot, gives way.
AHEAD_S, TURN_S = 3.0, 20.0


class Job:
    """One request in a slot, or on its way to one."""

    def __init__(
        self,
        request: SpeechRequest,
        segments: Sequence[Segment],
        sampling: ResolvedSampling,
        stream: SpeechStream,
        family: Family,
        codec: Codec,
        num_slots: int,
        clock: Callable[[], float],
        chunks: ChunkFrames,
    ) -> None:
        self.request = request
        self.sampling = sampling
        self.stream = stream
        self.slots: tuple[int, ...] = ()
        self.num_slots = num_slots
        self.needs_prefill = True
        self.is_cancelled = False
        self.twin_scales: list[float] = []
        self._turn_began_s: float | None = None  # in its slots
        self._has_given_way = False  # since the last segment ended
        self._family = family
        self._clock = clock
        self._rate_hz = codec.sample_rate_hz
        self._hop = codec.hop
        self._segments = list(segments)
        self._segment = -1
        self._outlet = Outlet(codec, chunks)
        self._rows_spoken = 0  # of the segments before this one
        self._num_paused = 0  # samples of the pauses so far
        self._due_pause = 0  # samples of silence before the next sound
        self._reached_limit = False  # the caller's
        self._was_cut = False  # some segment
        self._is_cut = False  # this one
        self._is_ended = False  # and what is left of it is being decoded
        self._is_settled = True
        self._reference_lufs = -math.inf
        self._no_frames = torch.empty(0, family.num_codebooks, dtype=torch.int64)
        self._spoken: dict[int, Tensor] = {}  # segment -> its aligned frames
        self._plan: PromptPlan | None = None  # made, and not yet begun with

    # What the scheduler, the loop and the sampler ask ------------------------------------------

    @property
    def owner(self) -> str:
        """Whose share of the queue this request uses."""
        return self.request.owner

    @property
    def has_room(self) -> bool:
        """Whether the reader keeps up, so that more audio may be made."""
        return self.stream.has_room

    def may_give_way(self, now_s: float) -> bool:
        """Whether others may have its slots for a while: not in the middle of a segment."""
        if not (self.needs_prefill and self._is_settled) or self._turn_began_s is None:
            return False
        first_s = self.stream.timings.first_chunk_s
        ahead_s = 0.0 if first_s is None else self.stream.spoken_s - (now_s - first_s)
        is_its_turn_over = ahead_s >= AHEAD_S or now_s - self._turn_began_s >= TURN_S
        return not self.has_room or (is_its_turn_over and not self._has_given_way)

    def note_turn(self, now_s: float) -> None:
        """Note when it came into its slots, for the first time and this time."""
        timings = self.stream.timings
        timings.admitted_s = now_s if timings.admitted_s is None else timings.admitted_s
        self._turn_began_s = now_s if self._turn_began_s is None else self._turn_began_s

    def give_way(self) -> None:
        """Note that it has left its slots to others."""
        self._has_given_way, self._turn_began_s = True, None

    @property
    def is_done(self) -> bool:
        """Whether all is handed out and no further row will be drawn."""
        return self._is_settled and self._segment >= 0 and self._is_last

    @property
    def finish_reason(self) -> FinishReason:
        """Why generation ended, once ``is_done``."""
        return FinishReason.LENGTH if self._reached_limit or self._was_cut else FinishReason.STOP

    @property
    def lanes(self) -> tuple[int, ...]:
        """The slots in use: the main one and one for each twin of this segment."""
        return self.slots[: 1 + len(self.twin_scales)]

    @property
    def main_slot(self) -> int:
        """The lane whose audio is heard; the others are its twins."""
        return self.slots[0]

    @property
    def noise_row(self) -> int:
        """What keys, with the seed, the noise of the row about to be drawn."""
        attempt = max(at for at, first in enumerate(self._branches) if first <= self._row)
        return (((self._segment << _ATTEMPT_BITS) | attempt) << _ROW_BITS) | self._row

    @property
    def fault(self) -> StudioError | None:
        """What to tell the reader of a request that ended without one frame, else None."""
        limit = self.request.max_new_frames
        if self.stream.timings.num_frames > 0:
            return None
        if self._reached_limit and limit is not None:
            return InvalidRequest(
                f"max_new_tokens: {limit} frames end before the first sound; ask for more, or leave"
                " it out.",
                field="max_new_tokens",
            )
        return GenerationFailed("request: no sound came out; try it with another seed.")

    # Segments and attempts ---------------------------------------------------------------------

    @property
    def num_prefill_rows(self) -> int:
        """Rows that the planned prefill computes; 0 where none is planned."""
        return 0 if self._plan is None else self._plan.num_prefill_rows

    def plan_ahead(self) -> None:
        """Have the prompts of the next attempt at hand; it may wait some steps for its turn."""
        if self._plan is None:
            self._plan = self.next_plan()

    def begin(self) -> PromptPlan:
        """Give the prompts that were planned, and decode from now on."""
        assert self._plan is not None, "nothing was planned"
        plan, self._plan = self._plan, None
        self.needs_prefill = False
        return plan

    def next_plan(self) -> PromptPlan:
        """Begin the next segment, or the current one anew, and make its prompts."""
        if self._is_settled:
            self._begin_segment()
        segment = self._segments[self._segment]
        plan = self._family.plan(segment.text, self._segment_request, self._context())
        self.twin_scales = [twin.scale for twin in plan.twins]
        # The end of audio may come so late that its last rows still fit into the context.
        self._begin_attempt(self._family.max_rows - plan.num_rows - self._family.num_codebooks)
        if len(self._branches) == 1:
            self.stream.timings.num_prompt_rows += len(plan.main.rows)
        return plan

    def _begin_segment(self) -> None:
        self._segment += 1
        self._is_settled = self._has_given_way = False
        segment = self._segments[self._segment]
        if segment.pause_before_ms:
            self._pause(segment.pause_before_ms)
            if self._segment:
                self._outlet.begin_anew()
        controls = self._family.controls
        delivery = delivery_at(segment.pace, self.request.delivery, controls)
        self._segment_request = replace(self.request, delivery=delivery)
        self._limits = Limits.of(segment.text, delivery, controls, self._rate_hz / self._hop)
        self._first_frame = self._outlet.num_pushed
        self._mark = self._outlet.mark()
        self._branches = [0]  # attempt -> the first row that has noise of its own

    def _begin_attempt(self, room: int) -> None:
        family, limits = self._family, self._limits
        self._row = 0
        self._delay = DelayBuffer(family.num_codebooks, family.codebook_size, family.eoa_id)
        self._guard = Guard(replace(limits, budget=min(limits.budget, room)))
        self._loudness = SpeechLoudness(self._rate_hz)
        self._frames: list[Tensor] = []
        self._is_cut = False

    def _context(self) -> Context | None:
        """The first segment, which keeps the voice where it began, and the one just spoken."""
        if not self._family.continues or len(self._segments) == 1:
            return None
        indices = sorted({0, self._segment - 1} & self._spoken.keys())
        # Half of the model's context is left for what is to be said.
        if sum(len(self._spoken[index]) for index in indices) > self._family.max_rows // 2:
            indices = indices[-1:]
        return Context(
            text=" ".join(self._segments[index].text for index in indices),
            frames=torch.cat([self._no_frames, *(self._spoken[index] for index in indices)]),
            is_last=self._segment + 1 == len(self._segments),
        )

    def take_row(self, codes: Sequence[int]) -> None:
        """Take one drawn row: advance the segment, its end, and the frames to decode."""
        self._row += 1
        self._delay.push(codes)
        frames = self._delay.take_ready()
        self._frames.append(frames)
        self._outlet.push(frames)
        self.stream.timings.num_frames = self._outlet.num_pushed
        limit = self.request.max_new_frames
        if self._delay.finished:
            self._mend_or_end(self._guard.judge_end(self._outlet.num_pushed - self._first_frame))
        elif limit and self._rows_spoken + self._row >= limit:
            self._reached_limit = True
            self._mend_or_end(None)
        elif self._delay.end_frame is None and (fault := self._guard.take_row(codes[0])):
            self._mend_or_end(fault)

    def _mend_or_end(self, fault: Fault | None) -> None:
        """End the segment; with a ``fault``, speak it again, or keep what is good of it."""
        attempt = len(self._branches) - 1
        branch = None if fault is None else self._branch(fault)
        if fault is not None and branch is not None and attempt < MAX_REPAIRS:
            self.stream.repairs.append(Repair(self._segment, fault.reason, attempt))
            self._branches.append(branch)
            self._outlet.rewind(self._mark)
            self.needs_prefill, self._is_ended = True, False
            return
        if fault is not None and fault.reason != "short":
            self._keep_the_good(fault)
        self._is_ended = True

    def _branch(self, fault: Fault) -> int | None:
        """The row from which other noise can undo ``fault``; None if nothing can."""
        if self._outlet.num_handed_out <= self._first_frame:
            return 0
        if fault.begin is None:
            return None
        num_certain = self._outlet.num_certain - self._first_frame
        first_free = num_certain + self._family.num_codebooks - 1
        branch = max(fault.begin - self._limits.run_up, first_free)
        return branch if branch < self._row else None

    def _keep_the_good(self, fault: Fault) -> None:
        self._is_cut = self._was_cut = True
        frames = torch.cat([self._no_frames, *self._frames])
        num_certain = self._outlet.num_certain - self._first_frame
        kept = frames[: max(self._guard.cut(fault, len(frames)), num_certain)]
        self._frames = [kept]
        self._outlet.rewind(self._mark)
        self._outlet.push(kept)
        self._loudness = SpeechLoudness(self._rate_hz)
        self.stream.timings.num_frames = self._outlet.num_pushed

    @property
    def _is_last(self) -> bool:
        return self._reached_limit or self._segment + 1 == len(self._segments)

    @property
    def _ends_sound(self) -> bool:
        """Whether no frame follows this segment without a pause."""
        return self._is_last or self._segments[self._segment + 1].pause_before_ms > 0

    # Sound -------------------------------------------------------------------------------------

    def next_window(self) -> Window | None:
        """The next codec window, or None while too few frames are there."""
        is_final = self._is_ended and self._ends_sound
        return self._outlet.next_window(self._segment == 0, self._is_ended, is_final)

    def take_samples(self, window: Window, samples: Tensor) -> None:
        """Take the decoded ``window``, and send what may be heard already."""
        num_others = max(0, self._first_frame - self._outlet.num_decoded)
        own = self._outlet.take(window, samples)[num_others:]  # [frames, hop]
        if not self._is_cut:
            fault = self._guard.take_levels(np.sqrt(np.square(own).mean(axis=1)))
            is_all = self._is_ended and self.next_window() is None
            if is_all and fault is None and self._guard.first_sound is None:
                fault = Fault("empty", 0)
            if fault is not None and not self._reached_limit:
                self._mend_or_end(fault)
                return
        if len(self._segments) > 1:
            self._loudness.take(own, self._guard.first_sound, self._guard.end_of_sound)
        if self._segment == 0 and not self._is_ended:
            num_heard = min(self._guard.num_heard, self._outlet.num_in_chunks)
            self._send(self._outlet.hand_out(num_heard))

    def settle(self) -> None:
        """Once nothing of a segment that ended is left to decode: send it, at its loudness."""
        if not self._is_ended:
            return
        outlet, segment = self._outlet, self._segments[self._segment]
        self._send(outlet.hand_out(self._first_frame))  # what was left of the one before
        gain = self._gain()
        if outlet.num_handed_out == self._first_frame:  # nothing of it was heard
            outlet.change_gain(gain)
        fades_out = self._ends_sound and (not self._is_last or segment.pause_after_ms > 0)
        self._send(outlet.hand_out(outlet.num_decoded, fades_out=fades_out))
        self._note_spoken()
        self._rows_spoken += self._row
        self._is_ended, self._is_settled = False, True
        if not self._is_last:
            self.needs_prefill = True
        elif segment.pause_after_ms:
            self._pause(segment.pause_after_ms)
            self._send_pause()

    def _gain(self) -> float:
        """What brings this segment near the loudness of the first one."""
        lufs = self._loudness.lufs()
        if self._reference_lufs == -math.inf or lufs == -math.inf:
            self._reference_lufs = max(self._reference_lufs, lufs)
            return 1.0
        louder_lu = lufs - self._reference_lufs
        excess_db = louder_lu - min(max(louder_lu, -FREE_LU), FREE_LU)
        gain = 10 ** (-min(max(excess_db, -MAX_GAIN_DB), MAX_GAIN_DB) / 20)
        return min(gain, max(1.0, MAX_PEAK / max(self._outlet.peak, 1e-9)))

    def _note_spoken(self) -> None:
        text, first = self._segments[self._segment].text, self._first_frame
        num_frames = self._outlet.num_pushed - first
        if not num_frames:
            return
        end = min(self._guard.end_of_sound, num_frames) or num_frames
        begin = min(self._guard.first_sound or 0, end)
        span = ((first + frame) * self._hop + self._num_paused for frame in (begin, end))
        self.stream.chunks_spoken.append(SpokenChunk(text, *span))
        if self._family.continues:  # only the first and the latest are needed
            self._spoken = {at: self._spoken[at] for at in self._spoken.keys() & {0}}
            self._spoken[self._segment] = torch.cat(self._frames)

    def _pause(self, pause_ms: int) -> None:
        num_samples = round(pause_ms / 1000 * self._rate_hz)
        self._due_pause += num_samples
        self._num_paused += num_samples

    def _send_pause(self) -> None:
        while self._due_pause:
            num_samples = min(self._due_pause, self._rate_hz)
            self.stream.push(np.zeros(num_samples, np.float32))
            self._due_pause -= num_samples

    def _send(self, samples: np.ndarray) -> None:
        if not len(samples):
            return
        if self.stream.timings.first_chunk_s is None:
            self.stream.timings.first_chunk_s = self._clock()
        self._send_pause()
        self.stream.push(samples)
