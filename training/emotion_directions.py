"""Emotion directions and their calibration from labelled recordings: the measuring, no model.

- A direction is how far a speaker's embeddings move from neutral to an emotion, averaged over
  speakers, in the space where the model will add it. Valence and arousal are made of directions.
- A calibration is how far the move has to be multiplied until a judge hears the emotion best. The
  judge is given; no recogniser of emotions comes with this repository (upstream asks emotion2vec+).
- Source: spec/zonos2.md sections 6.1, 6.3 and 6.4.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor

from training.work import replacing

NEUTRAL = "neutral"
EVERYBODY = "everybody"  # the speaker of recordings whose folders name none
AUDIO_SUFFIXES = {".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff"}
AXIS_SIGNS: Mapping[str, Mapping[str, float]] = {
    "valence": {
        **dict.fromkeys(("happy", "amused", "content", "calm"), 1.0),
        "excited": 0.5,
        "surprise": 0.0,
        **dict.fromkeys(("sad", "angry", "fear", "fearful", "disgust"), -1.0),
    },
    "arousal": {
        **dict.fromkeys(("angry", "happy", "surprise", "surprised", "fear", "fearful"), 1.0),
        "excited": 1.0,
        "disgust": 0.0,
        "content": -0.5,
        **dict.fromkeys(("sad", "calm", "sleepy"), -1.0),
    },
}
KNOWN_EMOTIONS = {NEUTRAL, *AXIS_SIGNS["valence"], *AXIS_SIGNS["arousal"]}
STRENGTHS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
MIN_SCORE = 0.12  # below it a voice does not carry the emotion, and has no say in the default

Audio = tuple[np.ndarray, int]  # mono float32 samples [n], sample rate in hertz
Encode = Callable[[np.ndarray, int], Tensor | None]  # a recording's embedding; None: unusable
Speak = Callable[[str, str, str | None, float], Audio]  # text, voice, emotion or none, strength
Score = Callable[[Audio, Audio, str], float]  # speech, the same without emotion, emotion: 0 .. 1


@dataclass(frozen=True)
class Clip:
    """One labelled recording."""

    path: Path
    speaker: str
    emotion: str


def read_corpus(folder: Path) -> list[Clip]:
    """All labelled recordings below ``folder``, in the order of their paths.

    ``manifest.json`` maps an emotion to paths, or to speakers and their paths. Without it folders
    tell: ``EMOTION/``, ``SPEAKER/EMOTION/`` or ``SPEAKER_EMOTION/``, at any depth. Raises
    ``ValueError`` naming a folder that tells nothing, or when there is no recording.
    """
    manifest = folder / "manifest.json"
    clips = _listed(folder, manifest) if manifest.exists() else _found(folder)
    if not clips:
        raise ValueError(f"corpus: {folder} holds no recording ({', '.join(AUDIO_SUFFIXES)}).")
    return clips


def _listed(folder: Path, manifest: Path) -> list[Clip]:
    clips = []
    for emotion, listed in json.loads(manifest.read_text(encoding="utf-8")).items():
        by_speaker = listed if isinstance(listed, dict) else {EVERYBODY: listed}
        for speaker, paths in by_speaker.items():
            clips += [Clip(folder / path, str(speaker), _label(emotion)) for path in paths]
    return clips


def _found(folder: Path) -> list[Clip]:
    clips = []
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in AUDIO_SUFFIXES and path.is_file():
            speaker, emotion = _told_by(path.relative_to(folder).parent.parts)
            clips.append(Clip(path, speaker or EVERYBODY, emotion))
    return clips


def _told_by(folders: tuple[str, ...]) -> tuple[str, str]:
    for depth in reversed(range(len(folders))):
        speaker, _, last = folders[depth].rpartition("_")
        above = "/".join(folders[:depth])
        if _label(folders[depth]) in KNOWN_EMOTIONS:
            return above, _label(folders[depth])
        if _label(last) in KNOWN_EMOTIONS:
            return "/".join(filter(None, (above, speaker))), _label(last)
    raise ValueError(
        f"corpus: the folder {'/'.join(folders) or '.'!r} names no emotion that is known"
        f" ({', '.join(sorted(KNOWN_EMOTIONS))}); list its recordings in manifest.json."
    )


def _label(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower())


@dataclass(frozen=True, eq=False)
class LabelledEmbeddings:
    """Embeddings of a corpus in one space: by emotion and speaker, [n, dim] float32."""

    by_emotion: Mapping[str, Mapping[str, Tensor]]

    def mapped(self, project: Callable[[Tensor], Tensor]) -> LabelledEmbeddings:
        """The same embeddings in another space."""
        return LabelledEmbeddings(
            {
                emotion: {speaker: project(vectors) for speaker, vectors in by_speaker.items()}
                for emotion, by_speaker in self.by_emotion.items()
            }
        )

    def neutral_of(self, speaker: str) -> Tensor:
        """A speaker's mean neutral embedding [dim], or that of all who have one."""
        neutral = self.by_emotion[NEUTRAL]
        if speaker in neutral:
            return neutral[speaker].mean(0)
        return torch.stack([vectors.mean(0) for vectors in neutral.values()]).mean(0)

    @property
    def mean_neutral_length(self) -> float:
        """Mean length of the neutral embeddings: the measure of a direction's length."""
        return float(torch.cat(list(self.by_emotion[NEUTRAL].values())).norm(dim=1).mean())


def embed_corpus(clips: Sequence[Clip], encode: Encode) -> LabelledEmbeddings:
    """Embed every clip; those that the encoder cannot use are left out.

    Raises ``ValueError`` without a neutral clip, or without any other.
    """
    vectors: dict[str, dict[str, list[Tensor]]] = defaultdict(lambda: defaultdict(list))
    for clip in clips:
        samples, sample_rate_hz = soundfile.read(clip.path, dtype="float32", always_2d=True)
        embedding = encode(samples.mean(axis=1), sample_rate_hz)
        if embedding is not None:
            vectors[clip.emotion][clip.speaker].append(embedding.float())
    if NEUTRAL not in vectors or len(vectors) < 2:
        raise ValueError(
            f"corpus: usable recordings are labelled {', '.join(sorted(vectors)) or 'nothing'};"
            f" directions need {NEUTRAL!r} and at least one emotion."
        )
    return LabelledEmbeddings(
        {
            emotion: {speaker: torch.stack(own) for speaker, own in by_speaker.items()}
            for emotion, by_speaker in vectors.items()
        }
    )


def directions_of(embeddings: LabelledEmbeddings) -> dict[str, Tensor]:
    """By emotion the mean over speakers of mean(emotion) - mean(neutral): [dim]."""
    return {
        emotion: torch.stack(
            [own.mean(0) - embeddings.neutral_of(speaker) for speaker, own in by_speaker.items()]
        ).mean(0)
        for emotion, by_speaker in sorted(embeddings.by_emotion.items())
        if emotion != NEUTRAL
    }


def axes_of(directions: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Valence and arousal as the mean of the signed directions; one without any is left out."""
    axes = {}
    for axis, signs in AXIS_SIGNS.items():
        parts = [signs[name] * vector for name, vector in directions.items() if signs.get(name)]
        if parts:
            axes[axis] = torch.stack(parts).mean(0)
    return axes


def write_directions(
    folder: Path,
    space: str,
    directions: Mapping[str, Tensor],
    axes: Mapping[str, Tensor],
    ref_base_norm: float,
    lda: Mapping[str, Tensor] | None = None,
) -> None:
    """Write ``manifest.json`` and one ``.npy`` per direction; an older folder gives way as a whole.

    ``lda`` holds the tensors ``weight``, ``bias`` and ``pinv`` for directions in space "lda". An
    older calibration goes with its directions. Raises ``ValueError`` for a folder of other things.
    """
    entries: dict[str, Any] = {}
    with _replacing_folder(folder) as temporary:
        for kind, vectors in (("named", directions), ("axis", axes)):
            for name, vector in vectors.items():
                np.save(temporary / f"{name}.npy", vector.float().numpy())
                norm = float(vector.norm())
                entries[name] = {"file": f"{name}.npy", "kind": kind, "norm": norm}
        manifest: dict[str, Any] = {
            "dim": len(next(iter({**directions, **axes}.values()))),
            "ref_base_norm": ref_base_norm,
            "neutral": NEUTRAL,
            "space": space,
            "directions": entries,
        }
        if lda is not None:
            manifest["input_dim"] = lda["weight"].shape[1]
            manifest["lda"] = {part: f"lda_{part}.npy" for part in lda}
            for part, tensor in lda.items():
                np.save(temporary / f"lda_{part}.npy", tensor.float().numpy())
        (temporary / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def calibrate(
    speak: Speak,
    score: Score,
    emotions: Sequence[str],
    voices: Sequence[str],
    sentences: Sequence[str],
    strengths: Sequence[float] = STRENGTHS,
) -> dict[str, Any]:
    """The content of ``calibration.json``: for each voice and emotion the best-scored strength.

    ``speak`` must not know a calibration itself, or strengths multiply. The default of an emotion
    is the median over the voices that carry it (all voices, if none does).
    """
    by_voice: dict[str, dict[str, float]] = {voice: {} for voice in voices}
    carried: dict[str, list[float]] = {emotion: [] for emotion in emotions}
    for voice in voices:
        plain = [speak(text, voice, None, 0.0) for text in sentences]
        for emotion in emotions:
            means = {}
            for strength in strengths:
                spoken = [speak(text, voice, emotion, strength) for text in sentences]
                means[strength] = statistics.fmean(
                    score(*pair, emotion) for pair in zip(spoken, plain, strict=True)
                )
            best = max(means, key=lambda strength: means[strength])
            by_voice[voice][emotion] = best
            if means[best] >= MIN_SCORE:
                carried[emotion].append(best)
    default = {
        emotion: statistics.median(best or [by_voice[voice][emotion] for voice in voices])
        for emotion, best in carried.items()
    }
    return {
        "objective": "mean score of the target emotion",
        "grid": list(strengths),
        "min_prob": MIN_SCORE,
        "global_default": statistics.median(default.values()),
        "default": default,
        "by_speaker": by_voice,
    }


def write_calibration(folder: Path, calibration: Mapping[str, Any]) -> None:
    """Write ``calibration.json`` beside the directions it belongs to."""
    with replacing(folder / "calibration.json") as temporary:
        temporary.write_text(json.dumps(calibration, indent=1) + "\n", encoding="utf-8")


@contextmanager
def _replacing_folder(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of ``folder`` when the block ends without error."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "manifest.json").exists():
        raise ValueError(f"directions: {folder} holds something else; choose a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (folder.with_name(f".{os.getpid()}.{what}") for what in ("new", "old"))
    temporary.mkdir()
    try:
        yield temporary
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
