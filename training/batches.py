"""Utterances as batches of rows: prompt, audio and what the losses compare with.

- Prompts are built by the engine's own ``build_rows``: what is trained is what is asked later.
- Some examples lack the speaker slot or control rows, so that "not given" is a case of its own.
- Some are continuations: the text of two utterances, the first one's audio as a given prefix
  without silence rows, and losses on the second only (long form, spec/zonos2.md 9.5).
- Batches hold utterances of one length class, so almost no row is padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from engine.zonos2.buckets import bucket_of_rate, bucket_of_value
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import ResolvedControls
from engine.zonos2.prompt import build_rows
from training.shards import NO_ALIGNMENT, NO_PHONEME, Utterance

IGNORED = -100
LENGTH_CLASS = 8  # rows
SILENCE_FEATURE = "trailing_silence_s"
TRIMMED_ROWS = 3  # of a chunk that another one continues (spec 9.5)
MAX_ROWS = 1200


# An utterance, and the one that it continues.
Asked = tuple[Utterance, Utterance | None]


@dataclass(frozen=True)
class Dropout:
    """Shares of examples without speaker, without each control row, and of continuations."""

    speaker: float = 0.10
    control: float = 0.25
    continuation: float = 0.06


NO_DROPOUT = Dropout(speaker=0.0, control=1.0, continuation=0.0)


@dataclass(eq=False)
class Batch:
    """rows [B, T, C + 1]; targets [B, T, C] (``IGNORED`` where nothing is asked); text_row [B, T]
    and phoneme [B, T] (``IGNORED`` where unknown); speaker [B, S] float32; has_speaker [B] bool.
    """

    rows: Tensor
    targets: Tensor
    text_row: Tensor
    phoneme: Tensor
    speaker: Tensor
    has_speaker: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(
            **{name: value.to(device, non_blocking=True) for name, value in vars(self).items()}
        )


@dataclass(frozen=True, eq=False)
class Example:
    """One utterance as rows with everything the losses need, all of one length [n]."""

    rows: np.ndarray
    targets: np.ndarray
    text_row: np.ndarray
    phoneme: np.ndarray


class BatchMaker:
    """Draws dropout, references and continuations; the same seed makes the same batches."""

    def __init__(
        self, config: Zonos2Config, utterances: Sequence[Utterance], dropout: Dropout
    ) -> None:
        self._config = config
        self._dropout = dropout
        self._silence = np.array(config.silence_frames, np.int64).reshape(-1, config.num_codebooks)
        self.utterances = [u for u in utterances if self.num_rows(u) <= MAX_ROWS]
        self._by_speaker: dict[int, list[Utterance]] = {}
        for utterance in self.utterances:
            self._by_speaker.setdefault(utterance.speaker, []).append(utterance)

    def num_rows(self, utterance: Utterance) -> int:
        """Rows of an utterance with slot and one row per control, at most."""
        controls = 3 if self._dropout.control < 1 else 1
        text = len(utterance.text.encode()) + 2
        return (
            controls + text + len(self._silence) + utterance.num_frames + self._config.num_codebooks
        )

    def epoch(
        self, rng: np.random.Generator, batch_rows: int, max_frames: int | None = None
    ) -> Iterator[Batch]:
        """One pass in random order, about ``batch_rows`` rows at a time."""
        classes: dict[int, list[Asked]] = {}
        for index in rng.permutation(len(self.utterances)):
            utterance = self.utterances[index]
            if max_frames is None or utterance.num_frames <= max_frames:
                asked = utterance, self._before(utterance, rng)
                num_rows = sum(self.num_rows(part) for part in asked if part is not None)
                classes.setdefault(-(-num_rows // LENGTH_CLASS), []).append(asked)
        groups = []
        for length, members in classes.items():
            size = max(1, batch_rows // (length * LENGTH_CLASS))
            groups += [members[i : i + size] for i in range(0, len(members), size)]
        for index in rng.permutation(len(groups)):
            yield self.batch(groups[index], rng)

    def _before(self, utterance: Utterance, rng: np.random.Generator) -> Utterance | None:
        """What ``utterance`` shall continue, for a small share of them."""
        if rng.random() >= self._dropout.continuation:
            return None
        before = self._drawn_of(utterance.speaker, rng) or utterance
        fits = self.num_rows(before) + self.num_rows(utterance) <= MAX_ROWS
        return before if fits else None

    def _drawn_of(self, speaker: int, rng: np.random.Generator) -> Utterance | None:
        others = self._by_speaker.get(speaker)
        return others[rng.integers(len(others))] if others else None

    def batch(self, asked: Sequence[Asked], rng: np.random.Generator) -> Batch:
        """A batch of utterances, each with what it continues; references are drawn."""
        examples, vectors, has_speaker = [], [], []
        for utterance, before in asked:
            reference = self._drawn_of(utterance.speaker, rng) or utterance
            vectors.append(reference.embedding.astype(np.float32))
            has_speaker.append(bool(rng.random() >= self._dropout.speaker))
            examples.append(self.example(utterance, has_speaker[-1], rng, before))
        return self._collate(examples, np.stack(vectors), np.array(has_speaker))

    def example(
        self,
        utterance: Utterance,
        has_speaker: bool,
        rng: np.random.Generator,
        before: Utterance | None = None,
    ) -> Example:
        """Rows of one utterance, or of its continuation of ``before``."""
        if before is not None:
            utterance = _joined(before, utterance)
        given = 0 if before is None else before.num_frames - TRIMMED_ROWS
        config, num_codebooks = self._config, self._config.num_codebooks
        controls = self._controls(utterance, rng)
        prompt = build_rows(config, utterance.text, controls, has_speaker).numpy()
        text_start = int((prompt[:, -1] == 2).argmax()) + 1  # behind BOS
        prompt = prompt[: len(prompt) - len(self._silence)]
        codes = np.concatenate([self._silence, utterance.codes.astype(np.int64)])
        num_rows = len(codes) + num_codebooks
        audio = np.full((num_rows, num_codebooks + 1), config.audio_pad_id)
        audio[:, -1] = config.text_vocab
        for j in range(num_codebooks):
            audio[j : j + len(codes), j] = codes[:, j]
            audio[j + len(codes), j] = config.eoa_id
        if before is not None:  # the prefix has been spoken: its silence rows are gone
            audio = audio[len(self._silence) :]
            first = given - 1
        else:
            first = len(self._silence) - 1
        rows = np.concatenate([prompt, audio])
        targets = np.full((len(rows) - 1, num_codebooks), IGNORED)
        start = len(prompt) + first  # this row predicts the first row that is asked for
        targets[start:] = rows[start + 1 :, :-1]
        text_row = np.full(len(rows) - 1, IGNORED)
        phoneme = np.full(len(rows) - 1, IGNORED)
        asked = slice(start, start + utterance.num_frames - given)
        bytes_, phones = utterance.byte_index[given:], utterance.phoneme_id[given:]
        text_row[asked] = np.where(bytes_ == NO_ALIGNMENT, IGNORED, text_start + bytes_.astype(int))
        phoneme[asked] = np.where(phones == NO_PHONEME, IGNORED, phones.astype(int))
        return Example(rows[:-1], targets, text_row, phoneme)

    def _controls(self, utterance: Utterance, rng: np.random.Generator) -> ResolvedControls:
        config, drop = self._config, self._dropout.control
        rate, quality = None, {}
        if config.num_rate_buckets and rng.random() >= drop:
            bytes_per_s = len(utterance.text.encode()) / max(utterance.speech_s, 0.04)
            rate = bucket_of_rate(bytes_per_s, config.rate_buckets, config.num_rate_buckets)
        if SILENCE_FEATURE in config.quality_buckets and rng.random() >= drop:
            labels = config.quality_buckets[SILENCE_FEATURE]
            quality[SILENCE_FEATURE] = bucket_of_value(utterance.trailing_silence_s, labels)
        return ResolvedControls(rate_bucket=rate, quality=quality, background=None, accurate=False)

    def _collate(self, examples: Sequence[Example], vectors: np.ndarray, has: np.ndarray) -> Batch:
        longest = max(len(example.rows) for example in examples)
        length = -(-longest // LENGTH_CLASS) * LENGTH_CLASS
        shape = (len(examples), length)
        rows = np.full((*shape, self._config.row_width), self._config.audio_pad_id)
        rows[..., -1] = self._config.text_vocab
        targets = np.full((*shape, self._config.num_codebooks), IGNORED)
        text_row, phoneme = np.full(shape, IGNORED), np.full(shape, IGNORED)
        for i, example in enumerate(examples):
            used = slice(len(example.rows))
            rows[i, used], targets[i, used] = example.rows, example.targets
            text_row[i, used], phoneme[i, used] = example.text_row, example.phoneme
        arrays = (rows, targets, text_row, phoneme, vectors, has)
        return Batch(*map(torch.from_numpy, arrays))


def _joined(before: Utterance, after: Utterance) -> Utterance:
    """``after`` spoken behind ``before``, whose last rows were trimmed."""
    kept = before.num_frames - TRIMMED_ROWS
    offset = len(before.text.encode()) + 1
    moved = after.byte_index.astype(np.int64) + offset
    moved = np.where(after.byte_index == NO_ALIGNMENT, NO_ALIGNMENT, moved).astype(np.uint16)
    return replace(
        after,
        text=f"{before.text} {after.text}",
        speech_s=before.speech_s + before.trailing_silence_s + after.speech_s,
        codes=np.concatenate([before.codes[:kept], after.codes]),
        byte_index=np.concatenate([before.byte_index[:kept], moved]),
        phoneme_id=np.concatenate([before.phoneme_id[:kept], after.phoneme_id]),
    )
