"""Findings become words: each names what is wrong and what to do, and fits into a header."""

import dataclasses
import re

import pytest

from studio.media.report import Report

FINE = Report(
    duration_s=12.0,
    seconds_used=11.5,
    is_cut=False,
    leading_silence_s=0.2,
    trailing_silence_s=0.3,
    level_dbfs=-20.0,
    peak=0.7,
    clipped_share=0.0,
    noise_below_voice_db=40.0,
    high_band_db=-15.0,
    voice_change=1.0,
    num_channels=1,
    channel=0,
    channel_choice="mono",
    offset=0.0,
)

FINDINGS = [
    ({"duration_s": 128.4, "seconds_used": 30.0, "is_cut": True}, "only_beginning_used", "128.4 s"),
    ({"seconds_used": 1.4}, "short", "1.4 s"),
    ({"leading_silence_s": 2.1}, "silence_trimmed", "2.1 s at the start"),
    ({"trailing_silence_s": 0.9}, "silence_trimmed", "0.9 s at the end"),
    (
        {"num_channels": 2, "channel": 1, "channel_choice": "other_is_dead"},
        "one_channel_silent",
        "right",
    ),
    ({"num_channels": 2, "channel_choice": "they_cancel"}, "channels_cancel", "left"),
    (
        {"num_channels": 6, "channel": 2, "channel_choice": "loudest_of_many"},
        "loudest_channel_used",
        "number 3",
    ),
    ({"offset": -0.4}, "constant_offset", "-0.40"),
    ({"level_dbfs": -47.0}, "too_quiet", "-47 dBFS"),
    ({"clipped_share": 0.031, "peak": 1.2}, "clipped", "3.1 %"),
    ({"peak": 2.12}, "above_full_scale", "2.12 times"),
    ({"noise_below_voice_db": 12.0}, "noisy", "12 dB"),
    ({"high_band_db": -50.0}, "narrow_band", "4 kHz"),
    ({"voice_change": 1.7}, "several_speakers", "More than one person"),
]


def test_a_good_recording_has_no_notes() -> None:
    assert FINE.notes == ()
    assert FINE.warnings() == ""


@pytest.mark.parametrize(("changes", "code", "value"), FINDINGS)
def test_a_finding_is_said_with_its_value_and_a_remedy(
    changes: dict[str, object], code: str, value: str
) -> None:
    (note,) = dataclasses.replace(FINE, **changes).notes
    assert note.code == code
    assert value in note.sentence
    problem, colon, remedy = note.sentence.partition(": ")
    assert problem and colon and remedy.endswith(".")


def test_all_warnings_make_one_safe_header_line() -> None:
    merged = {key: value for changes, _, _ in FINDINGS for key, value in changes.items()}
    report = dataclasses.replace(FINE, **merged)
    line = report.warnings()
    assert re.fullmatch(r"[\x20-\x7e]+", line)
    assert len(line) < 2000
    for note in report.notes:
        assert (note.sentence in line) == (note.severity == "warning")
