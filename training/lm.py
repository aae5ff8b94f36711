"""Stage ``lm``: train the engine's own backbone on shards.

- Needs torch, NumPy, safetensors and shards only; the same code runs on a CPU in hours and on a
  GPU in minutes.
- Time is what a run spends itself (CPU time on a CPU), so a run that is stopped and continued, by
  signal or by restart, follows the same schedule.
- ``state.pt`` holds everything to go on; the average of the weights is what is judged and shipped.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from training.batches import Batch, BatchMaker, Dropout
from training.losses import Teacher
from training.shards import split
from training.work import Journal, Work, replacing

BETAS, WEIGHT_DECAY, MAX_NORM = (0.9, 0.95), 0.02, 1.0
AVERAGE_DECAY = 0.998
WARM_STEPS = 60
HOLD_SHARE, FINAL_RATE_SHARE = 0.45, 0.03
GUIDE_FADE_SHARE = 0.4
EMBEDDING_STD, TEXT_EMBEDDING_STD = 0.05, 0.15


@dataclass(frozen=True)
class Recipe:
    """Settings of one run. ``short_share`` of the time sees short utterances only."""

    minutes: float
    learning_rate: float
    guide_from: float
    guide_to: float = 0.2
    batch_rows: int = 3400
    fine_share: float = 0.25
    short_share: float = 0.0
    short_frames: int = 110
    bias_step: float = 0.003
    journal_every: int = 25
    save_every_s: float = 120.0
    seed: int = 0


FROM_SCRATCH: dict[str, Any] = {"learning_rate": 2e-3, "guide_from": 1.0, "short_share": 0.1}
FROM_WEIGHTS: dict[str, Any] = {"learning_rate": 1e-3, "guide_from": 0.2, "short_share": 0.0}


class LmRun:
    """One training run: model, optimiser, average and schedule, saved and continued as one."""

    def __init__(self, model: Backbone, recipe: Recipe, device: torch.device) -> None:
        self.recipe, self.device = recipe, device
        torch.manual_seed(recipe.seed)
        self.teacher = Teacher(model.train().requires_grad_(True)).to(device)
        model.prepare()
        matrices = [p for p in self.teacher.parameters() if p.dim() >= 2 and p.shape[0] != 1]
        others = [p for p in self.teacher.parameters() if not (p.dim() >= 2 and p.shape[0] != 1)]
        groups: list[dict[str, Any]] = [
            {"params": matrices},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(
            groups,
            lr=recipe.learning_rate,
            betas=BETAS,
            weight_decay=WEIGHT_DECAY,
            fused=True,
        )
        self.average = {n: p.detach().clone() for n, p in self.teacher.state_dict().items()}
        self.num_steps, self.spent_s = 0, 0.0

    @property
    def share_done(self) -> float:
        """How much of the planned time is spent."""
        return min(1.0, self.spent_s / (self.recipe.minutes * 60))

    def step(self, batch: Batch) -> dict[str, Any]:
        """One optimiser step -> numbers for the journal."""
        share, recipe = self.share_done, self.recipe
        fade = min(1.0, share / GUIDE_FADE_SHARE)
        guide = recipe.guide_from + (recipe.guide_to - recipe.guide_from) * fade
        with torch.autocast(self.device.type, torch.bfloat16):
            taught = self.teacher(batch.to(self.device), guide, recipe.fine_share)
        taught.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.teacher.parameters(), MAX_NORM)
        rate = recipe.learning_rate * rate_share(share, self.num_steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        if torch.isfinite(norm):
            self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=False)
        self.num_steps += 1
        self._move_biases(taught.expert_shares)
        self._follow()
        return {
            "books": taught.books,
            "guided_mass": taught.guided_mass,
            "phoneme_accuracy": taught.phoneme_accuracy,
            "norm": norm,
            "learning_rate": torch.tensor(rate),
        }

    @torch.no_grad()
    def _move_biases(self, shares: Tensor) -> None:
        """Nudge the experts' biases towards an even load (they only choose, spec 2.6)."""
        names = [n for n in self.teacher.state_dict() if n.endswith("balancing_biases")]
        buffers = dict(self.teacher.named_buffers())
        for name, share in zip(names, shares, strict=True):
            buffers[name] += self.recipe.bias_step * torch.sign(1 / len(share) - share)

    @torch.no_grad()
    def _follow(self) -> None:
        weight = 1 - min(AVERAGE_DECAY, self.num_steps / (self.num_steps + 20))
        state = self.teacher.state_dict()
        torch._foreach_lerp_(list(self.average.values()), list(state.values()), weight)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on: plain tensors and numbers."""
        return {
            "weights": self.teacher.state_dict(),
            "average": self.average,
            "optimiser": self.optimiser.state_dict(),
            "num_steps": self.num_steps,
            "spent_s": self.spent_s,
            "recipe": asdict(self.recipe),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from ``state``; the new recipe's schedule counts."""
        self.teacher.load_state_dict(state["weights"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.average = {name: value.to(self.device) for name, value in state["average"].items()}
        self.num_steps, self.spent_s = state["num_steps"], state["spent_s"]


def rate_share(share_done: float, num_steps: int) -> float:
    """Learning rate as a share of its peak: warm up, hold, fall linearly."""
    warm = min(1.0, (num_steps + 1) / WARM_STEPS)
    if share_done < HOLD_SHARE:
        return warm
    return warm * max(FINAL_RATE_SHARE, 1 - (share_done - HOLD_SHARE) / (1 - HOLD_SHARE))


def fresh_backbone(config: Zonos2Config, seed: int) -> Backbone:
    """A backbone with first weights drawn: matrices by fan-in, outputs of blocks halved."""
    torch.manual_seed(seed)
    model = Backbone(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            fan_in = parameter.shape[-1]
            if name.endswith("temp"):
                parameter.fill_(1.3)
            elif name.endswith("router_states_scale"):
                parameter.fill_(0.5)
            elif "norm" in name or "rmsnorm" in name:
                parameter.fill_(1.0)
            elif name.endswith("bias"):
                parameter.zero_()
            elif name.startswith("multi_embedder"):
                is_text = name.split(".")[2] == str(config.num_codebooks)
                parameter.normal_(std=TEXT_EMBEDDING_STD if is_text else EMBEDDING_STD)
                parameter[config.text_vocab if is_text else config.audio_pad_id] = 0
            elif name.endswith(("wo.weight", "w_out.weight", "w2", "multi_output.weight")):
                parameter.normal_(std=0.5 * fan_in**-0.5)
            elif name.endswith("gater.weight"):
                parameter.normal_(std=0.02)
            elif name.startswith("speaker_projection"):
                parameter.normal_(std=0.3 * fan_in**-0.5)
            else:
                parameter.normal_(std=fan_in**-0.5)
        for name, buffer in model.named_buffers():
            if name.endswith("balancing_biases"):
                buffer.zero_()
    return model


def prefetched(batches: Iterator[Batch], depth: int = 4) -> Iterator[Batch]:
    """The same batches, made ahead by another thread."""
    ready: queue.Queue[Batch | None] = queue.Queue(depth)

    def fill() -> None:
        for batch in batches:
            ready.put(batch)
        ready.put(None)

    threading.Thread(target=fill, daemon=True).start()
    while (batch := ready.get()) is not None:
        yield batch


def train(
    work: Work,
    recipe: Recipe,
    *,
    start: Path | None,
    params: Path,
    shards: list[Path],
    device: torch.device,
    name: str = "lm",
) -> Path:
    """Train until the time is spent -> the state file. ``start`` is a checkpoint folder or None."""
    config = Zonos2Config.load(params)
    if start is None:
        model = fresh_backbone(config, recipe.seed)
    else:
        model = load_backbone(start, config, "cpu", torch.float32)
    run = LmRun(model, recipe, device)
    path, journal = work.folder(name) / "state.pt", work.journal(name)
    if path.exists():
        run.restore(torch.load(path, map_location=device, weights_only=True))
    learnt, _ = split(shards)
    maker = BatchMaker(config, learnt, Dropout())
    hours = sum(u.num_frames for u in maker.utterances) / 25 / 3600
    journal.add(start=str(start), utterances=len(maker.utterances), hours=hours, **asdict(recipe))
    rng = np.random.default_rng((recipe.seed, run.num_steps))
    _spend(run, maker, rng, path, journal)
    return path


def _spend(
    run: LmRun, maker: BatchMaker, rng: np.random.Generator, path: Path, journal: Journal
) -> None:
    clock = time.process_time if run.device.type == "cpu" else time.perf_counter
    recipe, told, saved_s = run.recipe, [], run.spent_s
    rows, rows_since_s = 0, run.spent_s
    last = clock()
    while run.share_done < 1:
        short = recipe.short_frames if run.share_done < recipe.short_share else None
        for batch in prefetched(maker.epoch(rng, recipe.batch_rows, short)):
            told.append(run.step(batch))
            rows += batch.rows.shape[0] * batch.rows.shape[1]
            if len(told) == recipe.journal_every:
                numbers = {
                    key: torch.stack([entry[key].float() for entry in told]).mean(0).tolist()
                    for key in told[0]
                }
                now = clock()
                run.spent_s, last = run.spent_s + now - last, now
                pace = rows / max(run.spent_s - rows_since_s, 1e-9)
                left_s = round(recipe.minutes * 60 - run.spent_s)
                journal.add(
                    step=run.num_steps,
                    spent_s=round(run.spent_s, 1),
                    rows_per_s=round(pace),
                    eta_s=left_s,
                    **{key: _rounded(value) for key, value in numbers.items()},
                )
                told, rows, rows_since_s = [], 0, run.spent_s
                if run.spent_s - saved_s > recipe.save_every_s:
                    _save(run, path)
                    saved_s = run.spent_s
                if run.share_done >= 1 or (short and run.share_done >= recipe.short_share):
                    break
    _save(run, path)


def _save(run: LmRun, path: Path) -> None:
    with replacing(path) as temporary:
        torch.save(run.state(), temporary)


def _rounded(value: Any) -> Any:
    return [round(v, 4) for v in value] if isinstance(value, list) else round(value, 6)
