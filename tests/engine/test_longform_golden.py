"""The reference's own long form beside ours: the same words, and each difference by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.codec.delay import DelayBuffer, shear, unshear
from engine.longform import plan_segments
from engine.text.markup import pieces
from engine.zonos2.family import RELEASE_SEGMENT_CHARS

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "longform.json").read_text(encoding="utf-8")
)
EOA, PAD = 1024, 1025
# What a cut in the delayed rows costs: the frames whose later codebooks were not drawn yet.
NUM_LATE = 8


def ours(case: dict[str, Any]) -> list[str]:
    planned = plan_segments(pieces(case["text"]), case["max_chars"], "en_us")
    return [segment.text for segment in planned]


def letters(chunks: list[str]) -> str:
    return "".join(filter(str.isalnum, "".join(chunks)))


def of(beginning: str, mode: str, max_chars: int) -> dict[str, Any]:
    return next(
        case
        for case in GOLDEN["chunks"]
        if case["text"].startswith(beginning)
        and (case["mode"], case["max_chars"]) == (mode, max_chars)
    )


@pytest.mark.parametrize(
    "case", GOLDEN["chunks"], ids=lambda case: f"{case['mode']} {case['max_chars']}"
)
def test_every_letter_of_the_references_chunks_is_said_once_and_in_order(
    case: dict[str, Any],
) -> None:
    assert letters(ours(case)) == letters(case["chunks"])
    assert "".join("".join(ours(case)).split()) == "".join(case["text"].split())


def test_the_chunks_are_the_same_where_a_text_has_no_border() -> None:
    for text in ("Supercali", "one", "a b c"):
        for max_chars in (40, 150):
            case = of(text, "sentence", max_chars)
            assert ours(case) == case["chunks"]
    blank = [case for case in GOLDEN["chunks"] if not case["text"].strip()]
    assert len(blank) == 16 and all(ours(case) == case["chunks"] == [] for case in blank)


def test_difference_a_sentence_begins_a_chunk_of_its_own() -> None:
    """The reference fills chunks up, so that their borders are no places in the text."""
    case = of("The quick", "sentence", 150)
    assert len(case["chunks"]) == 2 and case["chunks"][0].count(".") == 1
    assert ours(case) == [
        "The quick brown fox jumps over the lazy dog. It was a bright cold day in April, and the"
        " clocks were striking thirteen! Was it real?",
        "Nobody knew; however, everyone kept walking toward the square.",
        "Then the rain came down… and stopped.",
    ]
    assert (
        ours(of("The quick", "sentence", 40))[0] == "The quick brown fox jumps over the lazy dog."
    )


def test_difference_unspaced_scripts_are_cut_and_not_spaced() -> None:
    word, sentence = of("今日は", "word", 20), of("今日は", "sentence", 20)
    assert len(word["chunks"][0]) == 32  # one giant chunk
    assert any(" " in chunk for chunk in sentence["chunks"])
    assert ours(sentence) == [
        "今日はいい天気ですね。",
        "明日は雨が降るでしょう！",
        "本当ですか？",
        "はい。",
    ]


def test_difference_closing_quotes_and_brackets_are_kept() -> None:
    case = of("He said", "sentence", 20)
    assert case["chunks"][:2] == ['He said "Stop!', "Then (quietly? left."]
    assert " ".join(ours(case)) == 'He said "Stop!" Then (quietly?) left. "Fine." Done'


def test_difference_a_word_is_cut_before_it_outgrows_a_prompt() -> None:
    case = of("Supercali", "word", 5)
    assert max(map(len, case["chunks"])) == 34
    assert max(map(len, ours(case))) <= 2 * 5


def test_difference_whole_frames_are_kept_and_none_is_dropped() -> None:
    """The reference cuts delayed rows, and three more: its last frames lack their later codes."""
    frames = torch.tensor(GOLDEN["trim"]["frames"])
    for case in GOLDEN["trim"]["cases"]:
        end = case["eos_frame"]
        if end is None or not 0 < end <= len(frames) or case["drop"] > 3:
            continue
        endless = torch.cat([frames[:end], torch.full((2 * NUM_LATE, 9), EOA)])
        buffer = DelayBuffer(9, 1024, EOA)
        kept: list[torch.Tensor] = []
        rows = shear(endless, 0)
        for row in rows.tolist():
            if not buffer.finished:
                buffer.push(row)
                kept.append(buffer.take_ready())
        assert torch.equal(torch.cat(kept), frames[:end])
        theirs = unshear(rows[: case["kept"]], PAD)
        whole = int((theirs != PAD).all(dim=1).sum())
        assert whole == max(0, end - case["drop"] - NUM_LATE) < end


def test_the_defaults_are_the_references_but_for_words() -> None:
    defaults = GOLDEN["defaults"]
    assert defaults["chunk_chars"] == RELEASE_SEGMENT_CHARS
    assert dict(GOLDEN["context_chunks"])[defaults["window_chunks"]] == 1 and defaults["pin_anchor"]
    assert defaults["split_mode"] == "word"  # ours are sentences
