"""The list of seed-tts-eval is read, spoken and judged as its page does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench import seedtts
from bench.seedtts import Verdict, read_meta, report, units

REFERENCES = Path(__file__).parents[2] / "bench" / "references"
SENTENCES = (Path(__file__).parents[2] / "bench" / "nano_sentences.txt").read_text().splitlines()


def test_a_list_is_read_and_a_wrong_line_is_named(tmp_path: Path) -> None:
    meta = tmp_path / "meta.lst"
    meta.write_text("a|They said.|wavs/a.wav|Say this.\n\nb|x|b.wav|And | that.|more\n")
    first, second = read_meta(meta)
    assert (first.name, first.text) == ("a", "Say this.")
    assert first.reference == tmp_path / "wavs" / "a.wav"
    assert second.text == "And"
    meta.write_text("a|b\n")
    with pytest.raises(SystemExit, match=r"line 1 of meta\.lst has 2 of 4 fields"):
        read_meta(meta)


def test_english_counts_words_and_chinese_characters() -> None:
    assert units("It's 5 o'clock, sir!", "en") == ["its", "five", "oclock", "sir"]
    assert units("你好,世界! 2024", "zh") == list("你好世界2024")


def test_the_report_weighs_items_by_their_length() -> None:
    told = report([Verdict("a", "", 1, 10, 0.5), Verdict("b", "", 1, 2, 0.7)], "en")
    assert told["wer_percent"] == 16.67 and told["wer_percent_mean"] == 30.0
    assert told["similarity_mean"] == 0.6
    assert "cer_percent" in report([Verdict("a", "", 0, 3, 1.0)], "zh")


def test_chinese_needs_a_recogniser_and_any_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deaf_ears.py").write_text("class Deaf:\n    hear = lambda *_: ''\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit, match="--recogniser"):
        seedtts.recogniser_of(None, "zh")
    named = seedtts.recogniser_of("deaf_ears:Deaf", "zh")
    assert named.hear(np.zeros(3, np.float32), 16_000) == ""


@pytest.mark.slow
def test_ten_items_of_the_embedded_model(tmp_path: Path) -> None:
    clips = sorted(REFERENCES.glob("*.ogg"))[:10]
    meta = tmp_path / "meta.lst"
    meta.write_text(
        "".join(
            f"{clip.stem}|unused|{clip}|{text}\n"
            for clip, text in zip(clips, SENTENCES[10:20], strict=True)
        )
    )
    out = tmp_path / "out"
    arguments = ["--meta", str(meta), "--lang", "en", "--max-concurrency", "4"]
    assert seedtts.main([*arguments, "--output-dir", str(out)]) == 0
    told = json.loads((out / "report.json").read_text())
    assert told["items"] == told["speed"]["requests"] == 10 and told["speed"]["failed"] == 0
    assert told["quality"]["wer_percent"] < 60 and told["quality"]["similarity_mean"] > 0.5
    assert told["speed"]["requests_per_s"] > 0 and len(list(out.glob("*.wav"))) == 10
