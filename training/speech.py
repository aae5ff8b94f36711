"""Stage ``speech``: texts -> audio files with phoneme times, a batch of texts at a time.

- Batch k holds texts k * BATCH .. and comes out the same wherever and whenever it is rendered: its
  randomness is seeded by its number, and a finished batch is never rendered again.
- Audio ends in digital silence of a drawn length, so that the trailing-silence row tells the truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from training.teacher import SAMPLE_RATE_HZ, Hibari, Spoken, speak_with_program
from training.voices import (
    DEEP,
    FIRST_FOLDED,
    FIRST_OTHER_PROGRAM,
    HEART,
    MOODS,
    NUM_FOLDED_VOICES,
    OTHER_PROGRAMS,
)
from training.work import Eta, Work, replacing

BATCH = 200
FRAME_SAMPLES = 960  # 40 ms at 24 kHz
MIN_FRAMES, MAX_FRAMES = 6, 750
SPEECH_RMS = 0.08
FADE_SAMPLES = 1920
SEED = 100

# (text, speaker, speed, rng) -> speech, or None when the teacher cannot say it
Speak = Callable[[str, int, float, np.random.Generator], Spoken | None]


@dataclass(frozen=True)
class Take:
    """One line of a batch's ``.jsonl``: what was said, by whom, and where it lies in the audio."""

    text: str
    kind: str
    speaker: int
    speed: float
    num_frames: int
    speech_s: float
    trailing_silence_s: float
    phonemes: str
    tick_ends: tuple[int, ...]


def make_speech(work: Work, hours: float, part: int = 0, num_parts: int = 1) -> None:
    """Render batches of ``texts.jsonl`` until about ``hours`` of speech exist in all parts."""
    teacher = Hibari(work.folder("teacher"))
    scratch = work.folder(f"teacher/{part}")

    def speak(text: str, speaker: int, speed: float, rng: np.random.Generator) -> Spoken | None:
        if speaker in OTHER_PROGRAMS:
            return speak_with_program(text, speaker, speed, scratch)
        return teacher.speak(text, speaker, speed, rng)

    render_batches(work, speak, hours, part, num_parts)


def render_batches(
    work: Work,
    speak: Speak,
    hours: float,
    part: int = 0,
    num_parts: int = 1,
    draw: Callable[[np.random.Generator], int] | None = None,
) -> None:
    """Render this part's batches with ``speak``; stops when the folder holds ``hours`` in all."""
    lines = (work.root / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [(entry["text"], entry["kind"]) for entry in map(json.loads, lines)]
    folder, journal, eta = work.folder("speech"), work.journal("speech"), Eta()
    for batch in range(part, -(-len(texts) // BATCH), num_parts):
        done_h = (
            sum(path.stat().st_size for path in folder.glob("*.i16")) / 2 / SAMPLE_RATE_HZ / 3600
        )
        if done_h >= hours:
            break
        path = folder / f"{batch:05d}.jsonl"
        if not path.exists():
            chosen = texts[batch * BATCH : (batch + 1) * BATCH]
            num_takes = render_batch(path, chosen, speak, batch, draw or draw_speaker)
            journal.add(
                batch=batch,
                takes=num_takes,
                hours=done_h,
                eta_s=eta.left_s(min(1.0, done_h / hours)),
            )


def render_batch(
    path: Path,
    texts: Sequence[tuple[str, str]],
    speak: Speak,
    batch: int,
    draw: Callable[[np.random.Generator], int],
) -> int:
    """Write ``path`` (.jsonl) and its audio (.i16, mono 24 kHz) -> the number of takes."""
    rng = np.random.default_rng((SEED, batch))
    audio, takes = [], []
    for text, kind in texts:
        speaker, speed = draw(rng), draw_speed(rng)
        spoken = speak(text, speaker, speed, rng)
        if spoken is None or spoken.speech_samples < FRAME_SAMPLES:
            continue
        samples, trailing_s = finish(spoken, rng)
        num_frames = len(samples) // FRAME_SAMPLES
        if not MIN_FRAMES <= num_frames <= MAX_FRAMES:
            continue
        audio.append(samples)
        takes.append(
            Take(
                text=text,
                kind=kind,
                speaker=speaker,
                speed=round(speed, 3),
                num_frames=num_frames,
                speech_s=round(spoken.speech_samples / SAMPLE_RATE_HZ, 4),
                trailing_silence_s=round(trailing_s, 4),
                phonemes=spoken.phonemes,
                tick_ends=spoken.tick_ends,
            )
        )
    with replacing(path.with_suffix(".i16")) as temporary:
        np.concatenate(audio).tofile(temporary)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(take), ensure_ascii=False) + "\n" for take in takes)
    return len(takes)


def draw_speaker(rng: np.random.Generator) -> int:
    """Heart 24 %, deep 17 %, their moods 2 %, other programs 1 %, else a pseudo-speaker."""
    draw = rng.random()
    if draw < 0.24:
        return HEART
    if draw < 0.41:
        return DEEP
    if draw < 0.43:
        return FIRST_FOLDED + int(rng.integers(2 * len(MOODS)))
    if draw < 0.44:
        return FIRST_OTHER_PROGRAM + int(rng.integers(len(OTHER_PROGRAMS)))
    voice = int(rng.integers(2, NUM_FOLDED_VOICES))
    mood = 1 if rng.random() < 0.5 else int(rng.choice([0, 2]))
    return FIRST_FOLDED + voice * len(MOODS) + mood


def draw_speed(rng: np.random.Generator) -> float:
    """A speed factor: four in five near normal, else 0.7 to 1.5."""
    return float(rng.uniform(0.85, 1.2) if rng.random() < 0.8 else rng.uniform(0.7, 1.5))


def finish(spoken: Spoken, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Level, fade and trailing silence -> int16 samples of whole frames, and that silence in s."""
    draw = rng.random()
    if draw < 0.4:
        trailing_s = rng.uniform(0.05, 0.25)
    else:
        trailing_s = rng.uniform(0.25, 0.5) if draw < 0.85 else rng.uniform(0.5, 1.0)
    end = spoken.speech_samples
    num_frames = int(np.ceil((end + trailing_s * SAMPLE_RATE_HZ) / FRAME_SAMPLES - 1e-6))
    trailing_s = num_frames * FRAME_SAMPLES / SAMPLE_RATE_HZ - end / SAMPLE_RATE_HZ
    samples = np.zeros(num_frames * FRAME_SAMPLES, np.float32)
    given = spoken.samples[: len(samples)]
    level = np.sqrt((spoken.samples[:end] ** 2).mean() + 1e-9)
    samples[: len(given)] = given * (SPEECH_RMS / level)
    fade_start = end + int(min(0.06, trailing_s * 0.3) * SAMPLE_RATE_HZ)
    fade_end = min(len(samples), fade_start + FADE_SAMPLES)
    fade = np.arange(max(0, fade_end - fade_start)) / max(1, fade_end - fade_start)
    samples[fade_start:fade_end] *= 0.5 * (1 + np.cos(np.pi * fade))
    samples[fade_end:] = 0
    return (np.clip(samples, -1, 1) * 32767).astype(np.int16), trailing_s


def read_takes(path: Path) -> list[tuple[Take, np.ndarray]]:
    """The takes of one batch with their int16 samples."""
    audio = np.fromfile(path.with_suffix(".i16"), np.int16)
    takes, start = [], 0
    for line in path.read_text(encoding="utf-8").splitlines():
        take = Take(**json.loads(line))
        end = start + take.num_frames * FRAME_SAMPLES
        takes.append((take, audio[start:end]))
        start = end
    return takes
