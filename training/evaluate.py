"""Stage ``evaluate``: cross entropies and phoneme accuracy on held-out and on learnt utterances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from training.batches import NO_DROPOUT, BatchMaker
from training.losses import Teacher, book_losses
from training.shards import HELD_OUT, Utterance, read_shard, split
from training.work import Work

MAX_UTTERANCES = 300
BATCH = 8


def load_teacher(base: Path, state: Path | None) -> tuple[Teacher, int]:
    """The averaged weights of a training state (or ``base``'s own), and the step they are from."""
    config = Zonos2Config.load(base)
    if state is None:
        return Teacher(load_backbone(base, config, "cpu", torch.float32)).eval(), 0
    saved = torch.load(state, map_location="cpu", weights_only=True)
    teacher = Teacher(Backbone(config))
    teacher.load_state_dict(saved["average"])
    teacher.model.prepare()
    return teacher.eval(), int(saved["num_steps"])


@torch.inference_mode()
def measure(teacher: Teacher, utterances: list[Utterance], seed: int = 1) -> dict[str, Any]:
    """Mean cross entropy per codebook over codes, and the phoneme head's accuracy."""
    config = teacher.model.config
    maker = BatchMaker(config, utterances, NO_DROPOUT)
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(maker.utterances))[:MAX_UTTERANCES]
    chosen = sorted((maker.utterances[i] for i in drawn), key=maker.num_rows)
    books, right, num_rows, num_phonemes = torch.zeros(config.num_codebooks), 0.0, 0, 0
    for start in range(0, len(chosen), BATCH):
        batch = maker.batch([(u, None) for u in chosen[start : start + BATCH]], rng)
        hidden, watch = teacher.watch(batch)
        is_code = (batch.targets >= 0).all(-1) & (batch.targets < config.codebook_size).all(-1)
        rows, targets = hidden[is_code], batch.targets[is_code]
        books += book_losses(teacher.model, rows, targets, 0, len(books)) * len(rows)
        num_rows += len(rows)
        known = int((batch.phoneme >= 0).sum())
        right += float(teacher.phoneme_loss(watch, batch)[1]) * known
        num_phonemes += known
    return {
        "books": [round(v, 4) for v in (books / num_rows).tolist()],
        "phoneme_accuracy": round(right / max(1, num_phonemes), 4),
    }


def evaluate(work: Work, base: Path, state: Path | None, shards: list[Path]) -> dict[str, Any]:
    """Journal the gate: every held-out shard, learnt utterances, and the gap of book 0."""
    teacher, step = load_teacher(base, state)
    learnt, _ = split(shards)
    told = {"learnt": measure(teacher, learnt)}
    for path in shards:
        if path.name.startswith(HELD_OUT):
            told[path.stem] = measure(teacher, read_shard(path))
            gap = told[path.stem]["books"][0] - told["learnt"]["books"][0]
            told[path.stem]["gap"] = round(gap, 4)
    work.journal("evaluate").add(state=str(state), step=step, **told)
    return told
