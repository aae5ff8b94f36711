"""What a model family offers the engine, and how a checkpoint becomes one.

- The engine, scheduler, sampler and pages know only this protocol; nothing outside a family's own
  folder asks which family is open.
- A second family is a folder beside ``engine/zonos2`` and one line in ``FAMILIES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from engine.errors import CheckpointError
from engine.request import SpeechRequest
from engine.weights import read_json
from engine.zonos2.gguf import is_gguf


@dataclass(frozen=True)
class Control:
    """One control of a checkpoint, to be shown and documented.

    ``kind`` rate or quality: one of ``buckets`` (labels in ``unit``), ``default`` an index or None
    for absent. ``kind`` flag: on or off, no buckets. ``paces`` says how fast a rate bucket really
    speaks, as a multiple of the usual pace, None where it has no effect; empty: as its label says.
    """

    name: str
    kind: Literal["rate", "quality", "flag"]
    unit: str
    buckets: tuple[str, ...]
    default: int | bool | None
    paces: tuple[float | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Prompt:
    """Everything a family needs to start one stretch of speech.

    ``rows`` [T, row_width] int64; ``speaker_row`` [dim] (or None) replaces row 0's hidden state.
    """

    rows: Tensor
    speaker_row: Tensor | None


@dataclass(frozen=True, eq=False)
class Twin:
    """A second prompt in a lane of its own, fed the same codes and never heard.

    The guided logits are main + sum over twins of (scale - 1) * (main - twin).
    """

    prompt: Prompt
    scale: float


@dataclass(frozen=True, eq=False)
class PromptPlan:
    """The prompt that is heard and the twins it is guided by; each takes one slot."""

    main: Prompt
    twins: tuple[Twin, ...] = ()

    @property
    def num_rows(self) -> int:
        """Rows of the longest prompt: what the context has to hold before the first frame."""
        return max(len(prompt.rows) for prompt in self.prompts)

    @property
    def num_prefill_rows(self) -> int:
        """Rows that are computed to start it: those of all prompts."""
        return sum(len(prompt.rows) for prompt in self.prompts)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The main prompt, then those of the twins."""
        return (self.main, *(twin.prompt for twin in self.twins))


@dataclass(frozen=True, eq=False)
class Context:
    """What was said before a segment, for families that go on from it.

    ``text`` as one string; ``frames`` [n, codebooks] are its aligned codes; ``is_last`` says that
    no further segment follows.
    """

    text: str
    frames: Tensor
    is_last: bool


@dataclass(frozen=True)
class Lanes:
    """The slots of one request: the main one, its twins, and the number of the row to draw."""

    slots: tuple[int, ...]
    scales: tuple[float, ...]
    frame: int


class Runner(Protocol):
    """The model with its slots: sequences are prefilled into a slot and decoded frame by frame."""

    num_slots: int
    # Beside these, ``decodes_again = True`` says that a decode that ran out of memory may be
    # called again, as nothing of it counts before its end; ``draws = True`` that there is
    # ``decode_and_draw(sampler, lanes, codes)``: codes [m, codebooks] of all slots in turn -> [n,
    # codebooks + 1], the next codes of each of ``lanes`` and 1 where its logits were finite.

    def prefill(self, slot: int, prompt: Prompt) -> Tensor:
        """Start ``slot`` anew with ``prompt`` -> logits [1, codebooks, vocab] float32."""
        ...

    def decode(self, slots: Sequence[int], codes: Tensor) -> Tensor:
        """Feed the last ``codes`` [n, codebooks] of ``slots`` -> logits [n, codebooks, vocab]."""
        ...


class Emotions(Protocol):
    """The directions in which a voice can be moved."""

    names: tuple[str, ...]
    axes: tuple[str, ...]

    @property
    def is_calibrated(self) -> bool:
        """Whether slider values were scaled by measurement."""
        ...


class Family(Protocol):
    """One opened checkpoint of a model family."""

    @classmethod
    def check(
        cls, checkpoint: Path, device: torch.device, dtype: torch.dtype | None, num_slots: int
    ) -> None:
        """Raise ``CheckpointError`` unless what is declared can be used and the memory holds it."""
        ...

    @classmethod
    def open(cls, checkpoint: Path, device: torch.device, dtype: torch.dtype | None) -> Family:
        """Read the weights of a folder, or of a GGUF file; ``dtype`` None lets the family choose.

        Only families that know the format are given a file: see ``family_of``.
        """
        ...

    name: str
    device: torch.device
    dtype: torch.dtype
    num_codebooks: int
    codebook_size: int
    audio_vocab: int
    eoa_id: int
    max_rows: int
    num_numbers: int  # in all weights
    speaker_dim: int | None
    sampling_defaults: Mapping[str, float]
    controls: tuple[Control, ...]
    default_language: str | None
    default_voice: str | None
    segment_chars: int
    continues: bool  # whether a segment is spoken on from the sound of those before it

    @property
    def emotions(self) -> Emotions | None:
        """The loaded emotion directions, or None."""
        ...

    def load_emotions(self, folder: Path) -> None:
        """Read emotion directions; raises ``CheckpointError`` when they do not fit."""
        ...

    def plan(self, text: str, request: SpeechRequest, context: Context | None = None) -> PromptPlan:
        """The prompts of one stretch of the request's text; ``context`` only if it ``continues``.

        Raises ``InvalidRequest`` for controls the checkpoint does not declare.
        """
        ...

    def open_runner(self, num_slots: int) -> Runner:
        """Allocate state for ``num_slots`` sequences."""
        ...

    def release(self) -> None:
        """Free the weights. What the checkpoint is can still be read; nothing can be run."""
        ...


def _zonos2() -> type[Family]:
    from engine.zonos2.family import Zonos2Family

    return Zonos2Family


def _zonos3() -> type[Family]:
    from engine.zonos3.family import Zonos3Family

    return Zonos3Family


FAMILIES: Mapping[str, Callable[[], type[Family]]] = {"zonos2": _zonos2, "zonos3": _zonos3}


def family_of(checkpoint: Path) -> type[Family]:
    """The family of a checkpoint folder or GGUF file; raises ``CheckpointError`` without one."""
    if is_gguf(checkpoint):
        return _zonos2()  # the one family with such files; it refuses those of other models
    if not checkpoint.is_dir():
        raise CheckpointError(f"model: there is no folder {str(checkpoint)!r}; check the path.")
    family = read_json(checkpoint / "params.json").get("model_type", "zonos2")
    if family not in FAMILIES:
        raise CheckpointError(
            f"model: params.json has model_type {family!r}; known are {', '.join(FAMILIES)}."
        )
    return FAMILIES[family]()
