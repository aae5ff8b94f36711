"""Words, likeness and pace over a seed-tts-eval list: ``python -m bench.seedtts --meta FILE``.

    python -m bench.seedtts --meta en/meta.lst --lang en --max-concurrency 16 --output-dir out

A line of the list is ``name|text of the reference|reference.wav|text to speak``; paths are relative
to the list. Each item is spoken in the voice of its reference, as WAV into ``--output-dir``, then
judged: word errors (English) or character errors (Chinese), and speaker similarity to the
reference. The report beside them has the rows that SGLang-Omni's ZONOS2 page has.

The recogniser is ``--recogniser MODULE:NAME``, a callable without arguments that gives an object
with ``hear(samples, sample_rate_hz) -> str``; without one, whisper tiny.en hears English. Published
figures use Whisper-large-v3 and Paraformer-zh, and are comparable with those only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import soundfile
import torch

from bench.heard import Heard, summary
from bench.judges import LikenessJudge, Transcriber, num_edits, plain_words
from bench.machine import describe, loaded_reason
from engine import Engine

Language = Literal["en", "zh"]
MAX_REFERENCE_S = 30.0


class Recogniser(Protocol):
    """Anything that hears words."""

    def hear(self, samples: np.ndarray, sample_rate_hz: int) -> str:
        """The words of mono samples."""
        ...


@dataclass(frozen=True)
class Item:
    """One line of the list."""

    name: str
    text: str
    reference: Path


@dataclass(frozen=True)
class Verdict:
    """What the judges say of one item; ``errors`` of ``length`` words or characters."""

    name: str
    heard: str
    errors: int
    length: int
    similarity: float


def read_meta(meta: Path) -> list[Item]:
    """The items of a list; raises ``SystemExit`` naming the first line that is none."""
    items = []
    for number, line in enumerate(meta.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        fields = line.split("|")
        if len(fields) < 4:
            raise SystemExit(
                f"bench: line {number} of {meta.name} has {len(fields)} of 4 fields:"
                " name|text of the reference|reference.wav|text to speak."
            )
        name, _, reference, text = fields[:4]
        items.append(Item(name, text.strip(), meta.parent / reference))
    return items


def units(text: str, language: Language) -> Sequence[str]:
    """What errors are counted in: plain words, or characters without punctuation and spaces."""
    if language == "en":
        return plain_words(text)
    plain = unicodedata.normalize("NFKC", text).lower()
    return [c for c in plain if unicodedata.category(c)[0] in "LN"]


def speak_all(
    engine: Engine, items: Sequence[Item], language: Language, at_once: int, folder: Path
) -> tuple[list[Heard], float]:
    """Speak every item, ``at_once`` together, into WAV files -> arrival times, wall seconds."""

    def speak(place: int) -> Heard:
        item = items[place]
        reference, rate_hz = soundfile.read(item.reference, dtype="float32", always_2d=True)
        mono = reference.mean(1)[: int(MAX_REFERENCE_S * rate_hz)]
        heard = Heard(time.perf_counter())
        try:
            stream = engine.speak(
                item.text, reference=(mono, rate_hz), seed=place, language=language
            )
            chunks = []
            for chunk in stream:
                heard.pieces.append((time.perf_counter(), len(chunk) / stream.sample_rate_hz))
                chunks.append(chunk)
            soundfile.write(
                folder / f"{item.name}.wav", np.concatenate(chunks), stream.sample_rate_hz
            )
        except Exception as error:
            heard.error = f"{type(error).__name__}: {error}"
        return heard

    begin_s = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        heard = list(pool.map(speak, range(len(items))))
    return heard, time.perf_counter() - begin_s


def judge_all(
    items: Sequence[Item], language: Language, recogniser: Recogniser, folder: Path
) -> Iterator[Verdict]:
    """Hear and compare what was written; an item without a file counts as all wrong."""
    judge = LikenessJudge()
    for item in items:
        wanted = units(item.text, language)
        path = folder / f"{item.name}.wav"
        if not path.exists():
            yield Verdict(item.name, "", len(wanted), len(wanted), 0.0)
            continue
        samples, rate_hz = soundfile.read(path, dtype="float32")
        heard = recogniser.hear(samples, rate_hz)
        reference, reference_hz = soundfile.read(item.reference, dtype="float32", always_2d=True)
        cosine = judge.embed(samples, rate_hz) @ judge.embed(reference.mean(1), reference_hz)
        yield Verdict(
            item.name, heard, num_edits(wanted, units(heard, language)), len(wanted), float(cosine)
        )


def report(verdicts: Sequence[Verdict], language: Language) -> dict[str, Any]:
    """The corpus's error rate, each item's in the middle, and the likeness."""
    rates = [100 * v.errors / max(1, v.length) for v in verdicts]
    name = "wer" if language == "en" else "cer"
    total = 100 * sum(v.errors for v in verdicts) / max(1, sum(v.length for v in verdicts))
    return {
        f"{name}_percent": round(total, 2),
        f"{name}_percent_mean": round(statistics.mean(rates), 2),
        f"{name}_percent_median": round(statistics.median(rates), 2),
        "similarity_mean": round(statistics.mean(v.similarity for v in verdicts), 4),
    }


def recogniser_of(name: str | None, language: Language) -> Recogniser:
    """The one that was named as MODULE:NAME, or whisper tiny.en."""
    if name is None:
        if language != "en":
            raise SystemExit(
                "bench: --lang zh needs --recogniser MODULE:NAME; the one at hand hears English."
            )
        return Transcriber()
    module, _, attribute = name.partition(":")
    made: Recogniser = getattr(importlib.import_module(module), attribute)()
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Speak, judge, print and write report.json."""
    parser = argparse.ArgumentParser(prog="python -m bench.seedtts", description=__doc__)
    parser.add_argument("--meta", type=Path, required=True, help="the list, such as en/meta.lst")
    parser.add_argument("--lang", choices=("en", "zh"), required=True)
    parser.add_argument("--max-concurrency", type=int, default=16)
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--model", default="assets/nano")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=int, help="only so many items")
    parser.add_argument("--recogniser", metavar="MODULE:NAME")
    options = parser.parse_args(arguments)
    recogniser = recogniser_of(options.recogniser, options.lang)
    items, load = read_meta(options.meta)[: options.limit], loaded_reason()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    at_once = options.max_concurrency
    with Engine.open(
        options.model, device=options.device, num_slots=at_once, max_waiting=len(items) + at_once
    ) as engine:
        heard, wall_s = speak_all(engine, items, options.lang, at_once, options.output_dir)
        name, device = engine.name, engine.family.device
        dtype = str(engine.family.dtype).removeprefix("torch.")
    torch.set_num_threads(1)
    verdicts = list(judge_all(items, options.lang, recogniser, options.output_dir))
    result = {
        "what": "bench.seedtts",
        "model": name,
        "dtype": dtype,
        "lang": options.lang,
        "items": len(items),
        "max_concurrency": at_once,
        "recogniser": options.recogniser or "whisper tiny.en",
        "machine": describe(device),
        "machine_was_loaded": load,
        "quality": report(verdicts, options.lang),
        "speed": summary(heard, wall_s),
    }
    print(json.dumps(result, indent=1))
    told = result | {"verdicts": [asdict(verdict) for verdict in verdicts]}
    path = options.output_dir / "report.json"
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
