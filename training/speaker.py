"""Stage ``speaker``: the ECAPA encoder, from nothing or made robust to the world.

- From nothing: classify speakers with an angular margin and tell pitch, formants, range, tilt and
  breath; at the end mean and deviation of the embeddings are folded into the last layer.
- From a base: the student hears disturbed speech and shall say what the teacher says of the clean
  one. The space stays, so language model, voices and shards stay valid.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.speaker.features import LogMel
from engine.speaker.nano import ECAPA_KEYS, _ecapa_class
from engine.weights import load_strictly, read_json, read_tensors
from training.augment import disturb
from training.encode import as_float
from training.speech import SPEECH_RMS, read_takes
from training.teacher import SAMPLE_RATE_HZ
from training.voices import FIRST_FOLDED, HEART, voice_of
from training.work import Journal, Work, replacing

BATCH = 32
MIN_CROP_S, MAX_CROP_S = 1.2, 2.6
MARGIN, SHARPNESS = 0.15, 24.0
PARAMETER_WEIGHT = 2.0
DISTURBED_SHARE = 0.8
JOURNAL_EVERY = 50


@dataclass(frozen=True, eq=False)
class Voice:
    """One speaker's clips (int16 at 24 kHz) and, if rendered here, its parameters [5]."""

    clips: list[np.ndarray]
    parameters: np.ndarray | None


class Trainer:
    """Network, front end and crops; ``step`` descends one batch."""

    def __init__(self, base: Path, voices: Sequence[Voice], from_scratch: bool) -> None:
        config = read_json(base / "speaker_encoder.json")
        self._offset, self._scale = config["input_offset"], config["input_scale"]
        self._log_mel = LogMel.from_dict(config)
        torch.manual_seed(0)
        self.network: Any = _ecapa_class()(**{key: config[key] for key in ECAPA_KEYS})
        self.teacher: nn.Module | None = None
        if not from_scratch:
            name = "speaker_encoder.safetensors"
            load_strictly(self.network, read_tensors(base / name), name)
            self.network.float()
            self.teacher = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.voices = voices
        self.classes = nn.Parameter(torch.randn(len(voices), config["lin_neurons"]) * 0.1)
        self.regression = nn.Linear(config["lin_neurons"], 5)
        self._parameter_mean, self._parameter_std = _statistics(voices)

    def parameters(self) -> list[nn.Parameter]:
        """What is trained."""
        if self.teacher is not None:
            return list(self.network.parameters())
        return [*self.network.parameters(), self.classes, *self.regression.parameters()]

    def loss(self, rng: np.random.Generator, share_done: float) -> dict[str, Tensor]:
        """Losses of one drawn batch; ``total`` is to be descended."""
        length = int(rng.uniform(MIN_CROP_S, MAX_CROP_S) * SAMPLE_RATE_HZ)
        drawn = rng.integers(len(self.voices), size=BATCH)
        clean = [_crop(self.voices[i], length, rng) for i in drawn]
        heard = [
            disturb(c, SAMPLE_RATE_HZ, rng) if rng.random() < DISTURBED_SHARE else c for c in clean
        ]
        said = self.embed(self.network, heard)
        if self.teacher is not None:
            with torch.no_grad():
                wanted = self.embed(self.teacher, clean)
            distance = (said - wanted).square().mean()
            cosine = F.cosine_similarity(said, wanted).mean()
            return {"total": distance + 1 - cosine, "distance": distance, "cosine": cosine}
        labels = torch.from_numpy(drawn)
        cosines = F.normalize(said) @ F.normalize(self.classes).T
        angles = torch.acos(cosines.clamp(-0.999, 0.999)) + MARGIN * min(1.0, 3 * share_done)
        is_own = F.one_hot(labels, len(self.voices)).bool()
        scores = SHARPNESS * torch.where(is_own, angles.cos(), cosines)
        classified = F.cross_entropy(scores, labels)
        told = self._parameter_loss(said, drawn)
        accuracy = (cosines.argmax(1) == labels).float().mean()
        total = classified + PARAMETER_WEIGHT * told
        return {"total": total, "classified": classified, "parameters": told, "accuracy": accuracy}

    def _parameter_loss(self, said: Tensor, drawn: np.ndarray) -> Tensor:
        known = [(row, self.voices[i].parameters) for row, i in enumerate(drawn)]
        pairs = [(row, values) for row, values in known if values is not None]
        if not pairs:
            return said.new_zeros(())
        wanted = np.stack([values for _, values in pairs])
        wanted = (wanted - self._parameter_mean) / self._parameter_std
        predicted = self.regression(said[[row for row, _ in pairs]])
        return (predicted - torch.from_numpy(wanted).float()).square().mean()

    def embed(self, network: nn.Module, clips: Sequence[np.ndarray]) -> Tensor:
        """Clips of one length -> embeddings [B, dim], at the level the engine uses."""
        features = [
            self._log_mel(torch.from_numpy(c * (SPEECH_RMS / (np.sqrt((c**2).mean()) + 1e-6))))
            for c in clips
        ]
        embedded: Tensor = network((torch.stack(features) + self._offset) * self._scale)[:, 0]
        return embedded

    @torch.no_grad()
    def standardise(self, rng: np.random.Generator) -> None:
        """Fold mean and deviation of clean embeddings into the last layer: about zero and one."""
        self.network.eval()
        length = int(MAX_CROP_S * SAMPLE_RATE_HZ)
        vectors = torch.cat(
            [
                self.embed(self.network, [_crop(v, length, rng) for _ in range(2)])
                for v in self.voices
            ]
        )
        mean, std = vectors.mean(0), vectors.std(0).clamp(min=1e-4)
        last: Any = self.network.fc.conv
        last.weight /= std[:, None, None]
        last.bias.copy_((last.bias - mean) / std)


def _statistics(voices: Sequence[Voice]) -> tuple[np.ndarray, np.ndarray]:
    known = [voice.parameters for voice in voices if voice.parameters is not None]
    if not known:
        return np.zeros(5), np.ones(5)
    table = np.stack(known)
    return table.mean(0), table.std(0) + 1e-3


def _crop(voice: Voice, length: int, rng: np.random.Generator) -> np.ndarray:
    clip = voice.clips[rng.integers(len(voice.clips))]
    if len(clip) < length:
        clip = np.tile(clip, length // len(clip) + 1)
    start = int(rng.integers(len(clip) - length + 1))
    return as_float(clip[start : start + length]).numpy()


def load_voices(work: Work, hours: float) -> list[Voice]:
    """Speakers with at least two clips of a second, from at most ``hours`` of speech."""
    clips: dict[int, list[np.ndarray]] = {}
    seconds = 0.0
    for path in sorted(work.folder("speech").glob("*.jsonl")):
        for take, samples in read_takes(path):
            if take.speech_s >= MIN_CROP_S:
                spoken = samples[: int(take.speech_s * SAMPLE_RATE_HZ)]
                clips.setdefault(take.speaker, []).append(spoken)
                seconds += take.speech_s
        if seconds >= hours * 3600:
            break
    return [Voice(c, _parameters(s)) for s, c in sorted(clips.items()) if len(c) >= 2]


def _parameters(speaker: int) -> np.ndarray | None:
    if speaker != HEART and speaker < FIRST_FOLDED:
        return None
    voice, _ = voice_of(speaker)
    return np.array(
        [math.log(voice.f0_scale), voice.formant_scale, voice.f0_range, voice.tilt, voice.breath]
    )


def train_speaker(
    work: Work, base: Path, minutes: float, hours: float, name: str, from_scratch: bool
) -> Path:
    """Train until ``minutes`` of own time are spent -> the state file."""
    trainer = Trainer(base, load_voices(work, hours), from_scratch)
    peak = 2e-3 if from_scratch else 5e-4
    optimiser = torch.optim.AdamW(trainer.parameters(), lr=peak, weight_decay=0.01)
    path, journal = work.folder(name) / "state.pt", work.journal(name)
    num_steps, spent_s = 0, 0.0
    if path.exists():
        state = torch.load(path, weights_only=True)
        trainer.network.load_state_dict(state["encoder"])
        if state["spent_s"] >= minutes * 60:
            return path
        optimiser.load_state_dict(state["optimiser"])
        num_steps, spent_s = state["num_steps"], state["spent_s"]
    rng = np.random.default_rng((2, num_steps))
    told: list[dict[str, Tensor]] = []
    last = time.process_time()
    while (share := spent_s / (minutes * 60)) < 1:
        # Distilling keeps the teacher's running statistics, which fit clean speech.
        trainer.network.train(from_scratch)
        for group in optimiser.param_groups:
            group["lr"] = peak * min(1, (num_steps + 1) / JOURNAL_EVERY) * (1 - 0.97 * share)
        losses = trainer.loss(rng, share)
        losses["total"].backward()
        nn.utils.clip_grad_norm_(trainer.parameters(), 5.0)
        optimiser.step()
        optimiser.zero_grad()
        num_steps += 1
        now = time.process_time()
        spent_s, last = spent_s + now - last, now
        told.append({key: value.detach() for key, value in losses.items()})
        if len(told) == JOURNAL_EVERY or spent_s >= minutes * 60:
            _tell(journal, told, num_steps, spent_s, minutes)
            told = []
            _save(path, trainer, optimiser, num_steps, spent_s)
    if from_scratch:
        trainer.standardise(rng)
    _save(path, trainer, optimiser, num_steps, spent_s)
    return path


def _tell(
    journal: Journal, told: list[dict[str, Tensor]], num_steps: int, spent_s: float, minutes: float
) -> None:
    means = {key: round(float(torch.stack([t[key] for t in told]).mean()), 4) for key in told[0]}
    journal.add(
        step=num_steps, spent_s=round(spent_s, 1), eta_s=round(minutes * 60 - spent_s), **means
    )


def _save(
    path: Path,
    trainer: Trainer,
    optimiser: torch.optim.Optimizer,
    num_steps: int,
    spent_s: float,
) -> None:
    with replacing(path) as temporary:
        torch.save(
            {
                "encoder": trainer.network.state_dict(),
                "optimiser": optimiser.state_dict(),
                "num_steps": num_steps,
                "spent_s": spent_s,
            },
            temporary,
        )
