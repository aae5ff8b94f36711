"""What the watermark costs, survives and changes: ``python -m bench.watermark [--write]``.

On outputs of nano of 2 s and more (default voices and the synthetic ones of ``references/``), the
same outputs unmarked, and human recordings (``STUDIO_SHARED/voices``). Beside it, what Perth's own
package does, whose network the mark stands for. Definitions and table are in README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from bench.damage import DAMAGES, Damage, unharmed
from bench.judges import LikenessJudge, Transcriber, at_rate, num_edits, plain_words
from bench.machine import describe, loaded_reason
from bench.nano_eval import AT_ONCE, SENTENCES, read_references
from engine import Engine
from engine.compat import ensure_torchaudio
from studio.provenance import Marker
from studio.settings import Settings
from studio.watermark import RATE_HZ, Watermark, impulse_response
from studio.watermark_search import FOUND, MIN_S, confidence, search

HERE = Path(__file__).parent
DEFAULT_VOICES = ("heart", "deep")
# Sentences of fewer letters may be spoken in less than 2 s.
MIN_LETTERS = 33
NUM_UNMARKED_PER_DAMAGE = 50
NUM_JUDGED = 100
NUM_TIMED = 16
NUM_TONES = 60
MAX_WAIT_S = 900  # for other work to end, before times are taken
WINDOWS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


def speak_outputs(engine: Engine, number: int) -> list[tuple[str, np.ndarray]]:
    """``number`` texts and sounds of at least MIN_S at the codec's rate, in 14 voices."""
    references = list(read_references(HERE / "references").values())
    texts = [text for text in SENTENCES if len(text) >= MIN_LETTERS]
    outputs: list[tuple[str, np.ndarray]] = []
    for start in itertools.count(step=AT_ONCE):
        asked = []
        for seed in range(start, start + AT_ONCE):
            text = texts[seed % len(texts)]
            if seed % 4 < 2:
                stream = engine.speak(text, voice=DEFAULT_VOICES[seed % 4], seed=seed)
            else:
                reference = references[seed // 2 % len(references)]
                stream = engine.speak(text, reference=reference, seed=seed)
            asked.append((text, stream))
        for text, stream in asked:
            samples, rate_hz = stream.read()
            if len(samples) >= MIN_S * rate_hz:
                outputs.append((text, samples))
        if len(outputs) >= number:
            return outputs[:number]
    raise AssertionError("counting has no end")


def marked(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """A whole sound with the mark."""
    return Marker(Settings()).mark(samples, sample_rate_hz)


def survival(
    sounds: Sequence[np.ndarray], rate_hz: int, damage: Damage, num_unmarked: int
) -> dict[str, Any]:
    """How often the mark is found behind one damage, and how often where there is none."""
    damaged = [damage(marked(samples, rate_hz), rate_hz) for samples in sounds]
    found = [search(at_rate(*sound, RATE_HZ)) for sound in damaged]
    bare = [damage(samples, rate_hz) for samples in sounds[:num_unmarked]]
    alarms = [search(at_rate(*sound, RATE_HZ)) for sound in bare]
    values = [result.confidence for result in found]
    return {
        "found_percent": round(100 * statistics.mean(result.is_found for result in found), 1),
        "confidence_min": round(min(values), 3),
        "confidence_median": round(statistics.median(values), 3),
        "unmarked": len(alarms),
        "false_alarms": sum(result.is_found for result in alarms),
        "unmarked_confidence_max": round(max(result.confidence for result in alarms), 3),
    }


def human_alarms() -> dict[str, Any]:
    """What is found in human recordings: whole, and in every piece of 2 s."""
    folder = Path(os.environ.get("STUDIO_SHARED") or HERE.parents[1] / "shared") / "voices"
    whole, pieces = [], []
    for path in sorted(folder.glob("*.mp3")):
        samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
        sound = at_rate(samples.mean(1), rate_hz, RATE_HZ)
        whole.append(search(sound))
        size = round(MIN_S * RATE_HZ)
        pieces += [search(sound[at : at + size]) for at in range(0, len(sound) - size + 1, size)]
    return {
        name: {
            "number": len(results),
            "false_alarms": sum(result.is_found for result in results),
            "confidence_max": round(max(r.confidence for r in results), 3) if results else None,
        }
        for name, results in (("recordings", whole), ("pieces_of_2_s", pieces))
    }


def tone_alarms() -> dict[str, Any]:
    """What is found in steady chords and in melodies, which the network alone takes for marked."""
    random = np.random.default_rng(0)
    time_s = np.arange(5 * RATE_HZ) / RATE_HZ
    sounds = []
    for _ in range(NUM_TONES):
        chord = sum(
            0.08 * np.sin(2 * np.pi * hertz * time_s) for hertz in random.uniform(80, 1_500, 6)
        )
        sounds.append(chord + 0.01 * random.standard_normal(len(time_s)))
        note_s = time_s[: RATE_HZ // 4]
        notes = [110 * 2 ** (key / 12) for key in random.integers(0, 36, 20)]
        sounds.append(np.concatenate([_note(hertz, note_s) for hertz in notes]))
    sounds = [sound.astype(np.float32) for sound in sounds]
    found = [search(sound).is_found for sound in sounds]
    alone = [confidence(sound) for sound in sounds]
    return {
        "number": len(sounds),
        "false_alarms": sum(found),
        "false_alarms_of_the_network_alone": sum(value >= FOUND for value in alone),
    }


def _note(hertz: float, time_s: np.ndarray) -> np.ndarray:
    """A struck string of four partials."""
    partials = [np.sin(2 * np.pi * hertz * number * time_s) / number for number in range(1, 5)]
    note: np.ndarray = 0.2 * np.sum(partials, axis=0) * np.exp(-6 * time_s)
    return note


def quality(outputs: Sequence[tuple[str, np.ndarray]], rate_hz: int) -> dict[str, Any]:
    """Words and likeness with and without the mark, and how much is added."""
    hear, judge = Transcriber(), LikenessJudge()
    edits = {"unmarked": 0, "marked": 0}
    num_words, cosines, snr_db, level_db = 0, [], [], []
    for text, samples in outputs:
        pair = {"unmarked": samples, "marked": marked(samples, rate_hz)}
        wanted = plain_words(text)
        num_words += len(wanted)
        for name, sound in pair.items():
            edits[name] += num_edits(wanted, plain_words(hear.hear(sound, rate_hz)))
        bare, said = (judge.embed(sound, rate_hz) for sound in pair.values())
        cosines.append(float(bare @ said))
        residual = pair["marked"] - samples
        snr_db.append(10 * np.log10(np.square(samples).sum() / np.square(residual).sum()))
        level_db.append(10 * np.log10(np.square(pair["marked"]).sum() / np.square(samples).sum()))
    return {
        "outputs": len(outputs),
        "wer_unmarked_percent": round(100 * edits["unmarked"] / num_words, 2),
        "wer_marked_percent": round(100 * edits["marked"] / num_words, 2),
        "speaker_cosine_median": round(statistics.median(cosines), 4),
        "speaker_cosine_min": round(min(cosines), 4),
        "residual_below_speech_db": round(float(np.median(snr_db)), 1),
        "level_change_db": round(float(np.median(level_db)), 2),
        "largest_change_per_erb_band_db": round(_largest_change_db(rate_hz), 2),
    }


def _largest_change_db(rate_hz: int) -> float:
    """Over bands as wide as the ear's (ERB, Glasberg and Moore 1990), for an even spectrum."""
    response = impulse_response(rate_hz)
    size = 1 << 17
    centred = np.roll(np.pad(response, (0, size - len(response))), -(len(response) // 2))
    power = np.square(1 + np.fft.rfft(centred).real)
    hz = np.fft.rfftfreq(size, 1 / rate_hz)
    changes_db = []
    for centre_hz in np.arange(80.0, 2_000.0, 10.0):
        half_hz = 24.7 * (4.37 * centre_hz / 1000 + 1) / 2
        changes_db.append(10 * np.log10(power[np.abs(hz - centre_hz) < half_hz].mean()))
    return float(np.abs(changes_db).max())


def library(sounds: Sequence[np.ndarray], rate_hz: int) -> dict[str, Any]:
    """Perth's own package: how near ours is to its residual, and what it takes and finds."""
    ensure_torchaudio()
    import perth

    perth_marker = perth.PerthImplicitWatermarker()
    told: dict[str, Any] = {"unexplained_db": [], "confidence": []}
    for samples in sounds:
        low = at_rate(samples, rate_hz, RATE_HZ)
        its = np.zeros_like(low)
        made = perth_marker.apply_watermark(low, RATE_HZ)
        its[: len(made)] = made[: len(low)] - low[: len(made)]
        ours = at_rate(marked(samples, rate_hz) - samples, rate_hz, RATE_HZ)[: len(low)]
        inner = slice(RATE_HZ // 10, -RATE_HZ // 10)
        rest = np.square((its - ours)[inner]).sum() / np.square(its[inner]).sum()
        told["unexplained_db"].append(10 * np.log10(rest))
        told["confidence"].append(confidence(low + its))
    result: dict[str, Any] = {
        "outputs": len(sounds),
        "difference_to_ours_db_median": round(float(np.median(told["unexplained_db"])), 1),
        "difference_to_ours_db_max": round(float(np.max(told["unexplained_db"])), 1),
        "confidence_min": round(min(told["confidence"]), 3),
    }
    sound = at_rate(np.concatenate(sounds[:8]), rate_hz, RATE_HZ)
    windows = []
    for window_s in WINDOWS_S:
        size = round(window_s * RATE_HZ)
        pieces = [sound[at : at + size] for at in range(0, len(sound) - size + 1, size)][:20]
        made = [perth_marker.apply_watermark(piece, RATE_HZ) for piece in pieces]
        found = statistics.mean(confidence(piece) >= FOUND for piece in made)
        row = {
            "window_s": window_s,
            "found_percent": round(100 * found, 1),
            "mark_core_ms_per_s": _core_ms_per_s(
                lambda piece: perth_marker.apply_watermark(piece, RATE_HZ), pieces, window_s
            ),
            "search_core_ms_per_s": _core_ms_per_s(
                lambda piece: perth_marker.get_watermark(piece, RATE_HZ), pieces, window_s
            ),
        }
        windows.append(row)
    return result | {"windows": windows}


def _core_ms_per_s(
    work: Callable[[np.ndarray], object], pieces: Sequence[np.ndarray], each_s: float
) -> float:
    begin = time.process_time()
    for piece in pieces:
        work(piece)
    return round((time.process_time() - begin) * 1e3 / (len(pieces) * each_s), 1)


def costs(sounds: Sequence[np.ndarray], rate_hz: int) -> dict[str, float]:
    """Processor time per second of sound; it hardly depends on who else uses the machine."""
    whole = np.concatenate(sounds)
    low = at_rate(whole, rate_hz, RATE_HZ)[: 30 * RATE_HZ]
    return {
        "mark_core_ms_per_s": _core_ms_per_s(
            lambda sound: marked(sound, rate_hz), [whole], len(whole) / rate_hz
        ),
        "search_core_ms_per_s": _core_ms_per_s(search, [low], len(low) / RATE_HZ),
    }


def times(engine: Engine, rate_hz: int) -> dict[str, float]:
    """What the first chunk of a stream waits for, and what eight at once lose."""
    marker, none = Marker(Settings()), Marker(Settings(no_watermark=True))
    waits_ms = [asyncio.run(_first_wait_ms(engine, marker, seed)) for seed in range(NUM_TIMED)]
    return {
        "first_chunk_added_ms_median": round(statistics.median(waits_ms), 2),
        "first_chunk_added_ms_max": round(max(waits_ms), 2),
        "withheld_of_first_chunk_ms": round(1e3 * _withheld(rate_hz) / rate_hz, 1),
        "audio_s_per_s_of_8_unmarked": _pace_of_eight(engine, none),
        "audio_s_per_s_of_8_marked": _pace_of_eight(engine, marker),
    }


async def _first_wait_ms(engine: Engine, marker: Marker, seed: int) -> float:
    """From the engine's first chunk to the first marked one."""
    came_s: list[float] = []
    stream = engine.speak(SENTENCES[seed], seed=seed)

    async def noted() -> AsyncIterator[np.ndarray]:
        async for chunk in stream:
            came_s.append(time.perf_counter())
            yield chunk

    gone_s = None
    async for _ in marker.marked(noted(), stream.sample_rate_hz):
        gone_s = gone_s or time.perf_counter()
    assert gone_s is not None, "there was no sound"
    return (gone_s - came_s[0]) * 1e3


def _pace_of_eight(engine: Engine, marker: Marker) -> float:
    """Seconds of sound per second, in a closed loop of three rounds."""

    async def one(seed: int) -> float:
        stream = engine.speak(SENTENCES[seed % len(SENTENCES)], seed=seed)
        sizes = [len(c) async for c in marker.marked(aiter(stream), stream.sample_rate_hz)]
        return sum(sizes) / stream.sample_rate_hz

    async def all_of_them() -> float:
        begin_s = time.perf_counter()
        audio_s = 0.0
        for start in range(0, 3 * AT_ONCE, AT_ONCE):
            audio_s += sum(await asyncio.gather(*map(one, range(start, start + AT_ONCE))))
        return audio_s / (time.perf_counter() - begin_s)

    return round(asyncio.run(all_of_them()), 2)


def _withheld(rate_hz: int) -> int:
    """Samples that a stream holds back of a first chunk of 0.16 s."""
    first = round(0.16 * rate_hz) // 512 * 512
    return first - len(Watermark(rate_hz).feed(np.zeros(first, np.float32)))


def wait_until_quiet() -> str | None:
    """Why no wall time may be taken, None as soon as nothing speaks against it."""
    for _ in range(MAX_WAIT_S // 10):
        if loaded_reason() is None:
            return None
        time.sleep(10)
    return loaded_reason()


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| after | found | confidence min / median | false alarms | unmarked at most |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row['found_percent']} % | {row['confidence_min']} /"
            f" {row['confidence_median']} | {row['false_alarms']} of {row['unmarked']} |"
            f" {row['unmarked_confidence_max']} |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; with ``--write`` also keep the result."""
    parser = argparse.ArgumentParser(prog="python -m bench.watermark", description=__doc__)
    parser.add_argument("--outputs", type=int, default=200, help="sounds of nano to mark")
    parser.add_argument("--write", action="store_true", help="write results/watermark.json")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    with Engine.open("assets/nano", device="cpu", num_slots=AT_ONCE) as engine:
        outputs = speak_outputs(engine, options.outputs)
        rate_hz = engine.codec.sample_rate_hz
        machine = describe(engine.family.device)
    sounds = [samples for _, samples in outputs]
    rows: dict[str, dict[str, Any]] = {}
    for name, damage in DAMAGES.items():
        number = len(sounds) if damage is unharmed else NUM_UNMARKED_PER_DAMAGE
        rows[name] = survival(sounds, rate_hz, damage, number)
        print(name, json.dumps(rows[name]), flush=True)
    result: dict[str, Any] = {
        "machine": machine,
        "outputs": len(outputs),
        "survival": rows,
        "human": human_alarms(),
        "tones": tone_alarms(),
        "quality": quality(outputs[:NUM_JUDGED], rate_hz),
    }
    reason = wait_until_quiet()
    result["machine_was_loaded"] = reason
    result["library"] = library(sounds[:NUM_JUDGED], rate_hz)
    result["costs"] = costs(sounds[:NUM_TIMED], rate_hz)
    result["times"] = None
    if reason is None:
        with Engine.open("assets/nano", device="cpu", num_slots=AT_ONCE) as engine:
            result["times"] = times(engine, rate_hz)
    print(table(rows))
    print(json.dumps(result, indent=1))
    if options.write:
        path = HERE / "results" / "watermark.json"
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
