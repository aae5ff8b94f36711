"""How well a checkpoint speaks: ``python -m bench.nano_eval [--model DIR] [--write NAME]``.

Through ``Engine``, with its defaults: 100 sentences that no training text contains
(``nano_sentences.txt``) in the default voices, and fewer in 12 synthetic voices that no training
speaker is (``references/``) and three human recordings (``STUDIO_SHARED/voices``). Judges are in
``judges.py``, definitions in README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from bench.judges import LikenessJudge, Transcriber, median_pitch_hz, num_edits, plain_words
from bench.machine import describe, loaded_reason
from engine import Engine, FinishReason

HERE = Path(__file__).parent
SENTENCES = (HERE / "nano_sentences.txt").read_text(encoding="utf-8").splitlines()
DEFAULT_VOICES = ("heart", "deep")
LONG_WORDS = 17
AT_ONCE = 8
MAX_REFERENCE_S = 12.0


@dataclass
class Spoken:
    """One utterance and what the judges say of it."""

    text: str
    heard: str
    duration_s: float
    ended: bool
    word_edits: int
    num_words: int
    char_edits: int
    num_chars: int


@dataclass
class VoiceResult:
    """One voice's row of the table; rates in per cent."""

    name: str
    kind: str
    utterances: list[Spoken]
    pitch_hz: float
    reference_pitch_hz: float | None = None
    own_cosine: float | None = None
    best_other_cosine: float | None = None
    nearest: str | None = None
    samples: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32), repr=False)

    def row(self) -> dict[str, Any]:
        """What the table and the file show."""
        short = [u for u in self.utterances if 1 < u.num_words < LONG_WORDS]
        long = [u for u in self.utterances if u.num_words >= LONG_WORDS]
        single = [u for u in self.utterances if u.num_words <= 2]
        error = None
        if self.reference_pitch_hz:
            error = round(100 * (self.pitch_hz / self.reference_pitch_hz - 1), 1)
        return {
            "voice": self.name,
            "kind": self.kind,
            "utterances": len(self.utterances),
            "wer": word_error(self.utterances),
            "cer": round(100 * _ratio([(u.char_edits, u.num_chars) for u in self.utterances]), 2),
            "wer_short": word_error(short),
            "wer_long": word_error(long),
            "one_or_two_words_right": f"{sum(u.word_edits == 0 for u in single)}/{len(single)}",
            "ended": f"{sum(u.ended for u in self.utterances)}/{len(self.utterances)}",
            "bytes_per_s": round(
                sum(len(u.text.encode()) for u in self.utterances)
                / sum(u.duration_s for u in self.utterances),
                1,
            ),
            "pitch_hz": round(self.pitch_hz, 1),
            "pitch_error_percent": error,
            "own_cosine": self.own_cosine,
            "best_other_cosine": self.best_other_cosine,
            "nearest": self.nearest,
        }


def word_error(utterances: Sequence[Spoken]) -> float | None:
    """Word error in per cent, or None without words."""
    if not utterances:
        return None
    return round(100 * _ratio([(u.word_edits, u.num_words) for u in utterances]), 2)


def _ratio(pairs: Sequence[tuple[int, int]]) -> float:
    return sum(edits for edits, _ in pairs) / max(1, sum(count for _, count in pairs))


def speak_all(
    engine: Engine,
    hear: Transcriber,
    name: str,
    kind: str,
    texts: Sequence[str],
    reference: tuple[np.ndarray, int] | None,
) -> VoiceResult:
    """Say all texts in one voice, ``AT_ONCE`` at a time, and judge the words."""
    spoken, sounds, rate = [], [], 0
    for start in range(0, len(texts), AT_ONCE):
        part = texts[start : start + AT_ONCE]
        voice = None if reference else name
        streams = [
            engine.speak(text, voice=voice, reference=reference, seed=start + place)
            for place, text in enumerate(part)
        ]
        for text, stream in zip(part, streams, strict=True):
            samples, rate = stream.read()
            heard = hear.hear(samples, rate) if len(samples) else ""
            wanted, got = plain_words(text), plain_words(heard)
            spoken.append(
                Spoken(
                    text=text,
                    heard=heard.strip(),
                    duration_s=len(samples) / rate,
                    ended=stream.finish_reason is FinishReason.STOP,
                    word_edits=num_edits(wanted, got),
                    num_words=len(wanted),
                    char_edits=num_edits(" ".join(wanted), " ".join(got)),
                    num_chars=len(" ".join(wanted)),
                )
            )
            sounds.append(samples)
    said = np.concatenate(sounds)
    return VoiceResult(name, kind, spoken, median_pitch_hz(said, rate), samples=said)


def judge_likeness(
    results: Sequence[VoiceResult], references: dict[str, tuple[np.ndarray, int]], rate: int
) -> None:
    """Fill in cosines to the own reference and to the nearest other one of the same kind."""
    judge = LikenessJudge()
    wanted = {name: judge.embed(*clip) for name, clip in references.items()}
    for result in results:
        if result.name not in references:
            continue
        said = judge.embed(result.samples, rate)
        rivals = [r.name for r in results if r.kind == result.kind]
        cosines = {name: float(said @ wanted[name]) for name in rivals}
        result.own_cosine = round(cosines.pop(result.name), 3)
        result.reference_pitch_hz = median_pitch_hz(*references[result.name])
        if cosines:
            best = max(cosines, key=lambda name: cosines[name])
            result.best_other_cosine = round(cosines[best], 3)
            result.nearest = result.name if cosines[best] < result.own_cosine else best


def read_references(folder: Path) -> dict[str, tuple[np.ndarray, int]]:
    """Recordings by name: mono float32 and rate, at most ``MAX_REFERENCE_S``."""
    clips = {}
    for path in sorted([*folder.glob("*.ogg"), *folder.glob("*.mp3")]):
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        clips[path.stem] = (samples.mean(1)[: int(MAX_REFERENCE_S * rate)], rate)
    return clips


def evaluate(
    engine: Engine, num_default: int, num_synthetic: int, num_human: int
) -> list[VoiceResult]:
    """All voices with as many sentences each, spread evenly over the list; 0 leaves a kind out."""
    shared = Path(os.environ.get("STUDIO_SHARED") or HERE.parents[1] / "shared")
    hear, results = Transcriber(), []
    for name in DEFAULT_VOICES if num_default else ():
        results.append(speak_all(engine, hear, name, "default", _spread(num_default), None))
        print(json.dumps(results[-1].row()), flush=True)
    references: dict[str, tuple[np.ndarray, int]] = {}
    kinds = (
        ("synthetic", HERE / "references", num_synthetic),
        ("human", shared / "voices", num_human),
    )
    for kind, folder, number in kinds:
        for name, clip in read_references(folder).items() if number else ():
            references[name] = clip
            results.append(speak_all(engine, hear, name, kind, _spread(number), clip))
            print(json.dumps(results[-1].row()), flush=True)
    if references:
        judge_likeness(results, references, engine.codec.sample_rate_hz)
    return results


def _spread(number: int) -> list[str]:
    """``number`` sentences, evenly spread over all kinds of them."""
    places = np.linspace(0, len(SENTENCES) - 1, min(number, len(SENTENCES))).round().astype(int)
    return [SENTENCES[place] for place in places]


def summary(results: Sequence[VoiceResult]) -> dict[str, Any]:
    """The few numbers that the targets are stated in."""
    told: dict[str, Any] = {}
    for kind in ("synthetic", "human"):
        rows = [result.row() for result in results if result.kind == kind]
        if not rows:
            continue
        errors = [abs(row["pitch_error_percent"]) for row in rows]
        margins = [row["own_cosine"] - row["best_other_cosine"] for row in rows]
        told[kind] = {
            "wer_mean": round(statistics.mean(row["wer"] for row in rows), 2),
            "wer_max": max(row["wer"] for row in rows),
            "pitch_error_percent_median": round(statistics.median(errors), 1),
            "pitch_within_10_percent": f"{sum(e <= 10 for e in errors)}/{len(errors)}",
            "nearest_is_own": f"{sum(row['nearest'] == row['voice'] for row in rows)}/{len(rows)}",
            "cosine_margin_min": round(min(margins), 3),
            "cosine_margin_median": round(statistics.median(margins), 3),
        }
    return told


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    columns = [name for name in rows[0] if name != "kind"]
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join("" if row[c] is None else str(row[c]) for c in columns) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; with ``--write`` also keep the result."""
    parser = argparse.ArgumentParser(prog="python -m bench.nano_eval", description=__doc__)
    parser.add_argument("--model", default="assets/nano")
    parser.add_argument("--default", type=int, default=len(SENTENCES), help="sentences per voice")
    parser.add_argument("--synthetic", type=int, default=16, help="sentences per voice")
    parser.add_argument("--human", type=int, default=24, help="sentences per voice")
    parser.add_argument("--write", metavar="NAME", help="write results/NAME.json")
    parser.add_argument("--force", action="store_true", help="write on a loaded machine, saying so")
    options = parser.parse_args(argv)
    reason = loaded_reason()
    if options.write and reason and not options.force:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    with Engine.open(options.model, device="cpu", num_slots=AT_ONCE) as engine:
        results = evaluate(engine, options.default, options.synthetic, options.human)
        machine = describe(engine.family.device)
    rows = [result.row() for result in results]
    print(table(rows))
    print(json.dumps(summary(results), indent=1))
    if options.write:
        content = {
            "model": Path(options.model).resolve().name,
            "machine": machine,
            "machine_was_loaded": reason,
            "summary": summary(results),
            "rows": rows,
            "utterances": {r.name: [asdict(u) for u in r.utterances] for r in results},
        }
        path = HERE / "results" / f"{options.write}.json"
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
