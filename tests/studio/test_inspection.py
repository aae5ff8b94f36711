"""What is said about a file: how sure it is, and never more than was found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from studio.inspection import Inspection
from studio.media.reading import Statement
from studio.watermark_search import Search

NOTHING = Inspection(3.0, 3.0, Search(False, 0.01, 1, 0), {}, None)
MARKED = Search(True, 0.99, 1, 1)
SIGNED = Statement(True, "A studio", "ZONOS2 Studio", ("trainedAlgorithmicMedia",))


def test_nothing_found_is_no_proof() -> None:
    assert NOTHING.summary.endswith("which does not prove a person.")
    assert "does not prove that a person spoke" in NOTHING.watermark_sentence
    assert NOTHING.tags_sentence == "It holds no metadata."
    assert NOTHING.statement_sentence == "It holds no signed statement (C2PA)."


def test_a_watermark_is_the_surest_and_comes_first() -> None:
    found = replace(NOTHING, watermark=MARKED, tags={"ai_generated": "true"}, statement=SIGNED)
    assert found.summary.startswith("A machine spoke here: the sound bears the watermark")
    assert "the detector says 0.99" in found.watermark_sentence


def test_less_than_two_seconds_are_said_to_be_too_short() -> None:
    short = replace(NOTHING, seconds_checked=1.2)
    assert "1.2 s of sound are too short to be sure" in short.watermark_sentence
    found = replace(short, watermark=MARKED)
    assert found.summary.startswith("Probably a machine spoke here")
    assert "too short to be very sure" in found.watermark_sentence


def test_what_is_no_speech_is_not_judged() -> None:
    music = replace(NOTHING, watermark=Search(False, 0.0, 0, 0))
    assert music.watermark_sentence.startswith("It does not sound like speech")
    assert music.summary == NOTHING.summary


def test_part_and_speed_are_told() -> None:
    found = replace(NOTHING, watermark=Search(True, 0.97, 3, 1, 0.95))
    assert "in 1 of 3 stretches of about 10 s" in found.watermark_sentence
    assert "at about 0.95 times its speed" in found.watermark_sentence


@pytest.mark.parametrize(
    "tags",
    [
        {"comment": "made with trainedAlgorithmicMedia"},
        {"source": "http://x/compositeWithTrainedAlgorithmicMedia"},
        {"ai_generated": "TRUE"},
    ],
)
def test_words_count_as_words_only(tags: dict[str, str]) -> None:
    found = replace(NOTHING, tags=tags)
    assert found.tags_say_ai
    assert found.summary == "Its metadata say that a machine spoke here; nothing else confirms it."
    assert "anybody can write or remove" in found.tags_sentence


def test_other_words_say_nothing() -> None:
    found = replace(NOTHING, tags={"title": "generated", "ai_generated": "no"})
    assert not found.tags_say_ai
    assert found.summary == NOTHING.summary


def test_a_signature_counts_while_it_holds_and_says_so() -> None:
    found = replace(NOTHING, statement=SIGNED)
    assert found.summary == "A machine spoke here, says a signed statement in the file."
    assert "'A studio', which this studio cannot confirm" in found.statement_sentence
    broken = replace(NOTHING, statement=replace(SIGNED, is_intact=False))
    assert broken.summary == NOTHING.summary
    assert "the file was changed" in broken.statement_sentence
    camera = replace(NOTHING, statement=replace(SIGNED, source_types=("digitalCapture",)))
    assert camera.summary == NOTHING.summary
    assert "something else about its making" in camera.statement_sentence
