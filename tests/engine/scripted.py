"""A family whose speech is written down, and a codec whose sound shows its codes.

- A letter is one frame of sound with a random code, a comma three silent ones, the end of the text
  six, each with one of two codes; then the audio ends, if the last of the six codes is even.
- Otherwise, in a text that holds one of ``FATES``, it goes on as that says. "#" and "$" are about
  ending at once and after a tenth, "@" about saying all of it without a sound; "~" is a fault that
  no noise can undo.
- There are 19 frames per second: one for each byte of a text, at the usual rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.family import Context, Control, Prompt, PromptPlan, Twin
from engine.request import SpeechRequest

NUM_CODEBOOKS, CODEBOOK_SIZE, EOA = 3, 16, 16
RATE_HZ, HOP = 9500, 500
NUM_SILENT = 6
FATES = {
    "%": "silence",  # silent for ever
    "&": "murmur",  # sound and pauses by turns
    "^": "loop",  # the same four codes for ever
}
_NO = -1e4


class Clock:
    """An engine's clock that stands still until it is set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class ScriptedCodec:
    """Amplitude by the first code, mixed with the neighbours', so that context matters."""

    sample_rate_hz, hop = RATE_HZ, HOP
    num_codebooks, codebook_size = NUM_CODEBOOKS, CODEBOOK_SIZE
    context_left, context_right = 2, 1
    device = torch.device("cpu")
    decode_rows = 2

    def decode(self, codes: Tensor) -> Tensor:
        """Codes [B, T, 3] -> samples [B, T * hop]."""
        first, second, third = codes.float().unbind(-1)
        level = torch.where(first < 2, 0.0, first / 50) * (1 + second / 100 + third / 1000)
        padded = torch.nn.functional.pad(level, (2, 1))
        mixed = 0.9 * level + 1e-3 * (padded[:, :-3] + padded[:, 3:])
        wave = torch.sin(torch.arange(HOP) * (2 * torch.pi * 10 / HOP))
        return (mixed[..., None] * wave).flatten(1)


class ScriptedRunner:
    """Logits [n, 3, 17] from the text and the rows so far; every slot by itself."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._texts = [""] * num_slots
        self._rows: list[list[list[int]]] = [[] for _ in range(num_slots)]

    def prefill(self, slot: int, prompt: Prompt) -> Tensor:
        self._texts[slot] = bytes(prompt.rows[:, -1].tolist()).decode()
        self._rows[slot] = []
        return self._logits(slot)[None]

    def decode(self, slots: Sequence[int], codes: Tensor) -> Tensor:
        for slot, row in zip(slots, codes.tolist(), strict=True):
            self._rows[slot].append(row)
        return torch.stack([self._logits(slot) for slot in slots])

    def _logits(self, slot: int) -> Tensor:
        text, rows = self._texts[slot], self._rows[slot]
        logits = torch.full((NUM_CODEBOOKS, EOA + 1), _NO)
        end = _end_frame(text, [row[0] for row in rows])
        for book in range(NUM_CODEBOOKS):
            frame = len(rows) - book
            if end is not None and frame >= end:
                logits[book, EOA] = 0.0
            elif book or frame < 0:
                logits[book, :CODEBOOK_SIZE] = 0.0
            else:
                logits[0, _codes(text, frame, rows)] = 0.0
        return logits


@cache
def script(text: str) -> tuple[bool, ...]:
    """Whether each frame sounds, up to the end."""
    frames: list[bool] = []
    for char in text:
        frames += [True] if char.isalnum() else [False] * 3 if char == "," else []
    return (*frames, *[False] * NUM_SILENT)


def _end_frame(text: str, drawn: Sequence[int]) -> int | None:
    """Where the audio ends, as far as the codes drawn tell."""
    length = len(script(text))
    if "#" in text and drawn[:1] == [EOA]:
        return 0
    if "$" in text and len(drawn) > 2 and drawn[2] % 2:
        return max(3, length // 10)
    is_lost = "~" in text or any(fate in text for fate in FATES)
    if not is_lost:
        return length
    return length if len(drawn) >= length and drawn[length - 1] == 0 and "~" not in text else None


def _codes(text: str, frame: int, rows: Sequence[Sequence[int]]) -> list[int]:
    """The codes that the first codebook may take."""
    frames = script(text)
    if "@" in text and frame < len(frames):
        if frame == 0:
            return [0, 1, 2, 3] if "~" not in text else [0, 1]
        if rows[0][0] < 2:
            return [0, 1]
    if frame == 0 and "#" in text:
        return [EOA, 2, 3, 4] if "~" not in text else [EOA]
    if frame < len(frames):
        return list(range(2, CODEBOOK_SIZE)) if frames[frame] else [0, 1]
    fate = next((name for mark, name in FATES.items() if mark in text), "murmur")
    if fate == "loop":
        return [4 + frame % 4]
    is_sound = fate == "murmur" and (frame - len(frames)) % 20 < 14
    return list(range(2, CODEBOOK_SIZE)) if is_sound else [0, 1]


class ScriptedFamily:
    """Fulfils ``engine.family.Family``."""

    name = "scripted"
    device = torch.device("cpu")
    dtype = torch.float32
    num_codebooks, codebook_size, audio_vocab, eoa_id = NUM_CODEBOOKS, CODEBOOK_SIZE, EOA + 1, EOA
    max_rows = 4000
    num_numbers = 0
    speaker_dim = None
    sampling_defaults: Mapping[str, float] = {
        "temperature": 1.0, "top_k": 17, "top_p": 0.0, "min_p": 0.0,
        "repetition_penalty": 1.0, "repetition_window": 0, "repetition_codebooks": 0,
    }  # fmt: skip
    controls: tuple[Control, ...] = (
        Control("speaking_rate", "rate", "bytes/s", ("0-17", "17-21", "21+"), None),
    )
    default_language = None
    default_voice = None
    emotions = None

    def __init__(self, segment_chars: int = 40, continues: bool = False) -> None:
        self.segment_chars = segment_chars
        self.continues = continues
        self.asked: list[tuple[str, SpeechRequest, Context | None]] = []

    def plan(self, text: str, request: SpeechRequest, context: Context | None = None) -> PromptPlan:
        self.asked.append((text, request, context))
        rows = torch.zeros(len(text.encode()), NUM_CODEBOOKS + 1, dtype=torch.int64)
        rows[:, -1] = torch.tensor(list(text.encode()))
        prompt = Prompt(rows, None)
        guided = request.guidance.speaker != 1.0
        return PromptPlan(prompt, (Twin(prompt, request.guidance.speaker),) if guided else ())

    def open_runner(self, num_slots: int) -> ScriptedRunner:
        return ScriptedRunner(num_slots)

    def load_emotions(self, folder: Path) -> None:
        raise AssertionError

    @classmethod
    def check(cls, *_: Any) -> None: ...

    @classmethod
    def open(cls, *_: Any) -> ScriptedFamily:
        return cls()
