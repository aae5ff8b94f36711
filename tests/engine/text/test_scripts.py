"""Scripts become turns; subtitles that are written are read again as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.text.scripts import MAX_TURNS, Turn, read_script
from engine.text.subtitles import Cue, has_times, read_subtitles, write_srt, write_vtt
from tests.core_time import soon

SCRIPT = """
The narrator begins.

Anna: Hello there.
It is late.

**Ben Miller**: Hi! [pause 1s] How are you: fine?
[voice: Old Man]
At 10:30 see http://x.io.

So it goes.
[voice: Anna] Bye.
李明：你好
"""


def test_a_text_is_turns_of_voices() -> None:
    assert read_script(SCRIPT) == (
        Turn("The narrator begins."),
        Turn("Hello there.\nIt is late.", "Anna"),
        Turn("Hi! [pause 1s] How are you: fine?", "Ben Miller"),
        Turn("At 10:30 see http://x.io.\n\nSo it goes.", "Old Man"),
        Turn("Bye.", "Anna"),
        Turn("你好", "李明"),
    )


def test_with_a_cast_only_its_names_begin_a_turn() -> None:
    script = "ANNA: Listen.\nNote: this is important.\nBen: Why?"
    assert read_script(script, cast=["Anna"]) == (
        Turn("Listen.\nNote: this is important.\nBen: Why?", "ANNA"),
    )
    assert [turn.voice for turn in read_script(script)] == ["ANNA", "Note", "Ben"]


@pytest.mark.parametrize(
    "line",
    [
        *("10:30 is the time", "http://x.io", "He said that she said: no", "a:b", "- Anna: x"),
        *("It is a very long sentence indeed: yes", "[voices: Anna] x", "[voice:] x", ": x"),
    ],
)
def test_a_line_without_a_name_is_text(line: str) -> None:
    assert read_script(line) == (Turn(line),)


def test_json_is_turns_with_settings_and_pauses() -> None:
    turns = [
        {"voice": "Anna", "text": "Hi.", "speed": 1.2, "pause_ms": 300},
        {"text": "Ho.", "start_s": 1, "end_s": 2.5},
    ]
    expected = (
        Turn("Hi.", "Anna", {"speed": 1.2}, 300),
        Turn("Ho.", start_s=1.0, end_s=2.5),
    )
    assert read_script(turns) == expected
    assert read_script({"turns": turns}) == expected
    assert read_script(json.dumps({"turns": turns})) == expected
    assert read_script(f" {json.dumps(turns)}") == expected


@pytest.mark.parametrize(
    ("script", "field"),
    [
        ("", "script"),
        (" \n\u200b", "script"),
        ("Anna:\nBen:", "script"),
        ([], "script"),
        ({}, "script"),
        ({"turns": "x"}, "script"),
        (5, "script"),
        (None, "script"),
        ([{"text": "a"}, "b"], "turns[1]"),
        ([{"voice": "Anna"}], "turns[0].text"),
        ([{"text": " "}], "turns[0].text"),
        ([{"text": 5}], "turns[0].text"),
        ([{"text": "a", "voice": 5}], "turns[0].voice"),
        ([{"text": "a", "voice": "x" * 81}], "turns[0].voice"),
        ([{"text": "a", "pause_ms": -1}], "turns[0].pause_ms"),
        ([{"text": "a", "pause_ms": 10_001}], "turns[0].pause_ms"),
        ([{"text": "a", "pause_ms": True}], "turns[0].pause_ms"),
        ([{"text": "a", "start_s": float("nan")}], "turns[0].start_s"),
        ([{"text": "a", "start_s": "1"}], "turns[0].start_s"),
        ([{"text": "a", "start_s": 2, "end_s": 1}], "turns[0].end_s"),
        ("\n".join("A: x" for _ in range(MAX_TURNS + 1)), "script"),
    ],
)
def test_a_script_that_cannot_be_used_is_told_with_its_place(script: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_script(script)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "script", ["[" * 100_000, '{"a":' * 20_000, "[voice: Anna] Hi.", "{not json}"]
)
def test_what_only_looks_like_json_is_text(script: str) -> None:
    assert read_script(script)


SRT = """\ufeff1\r
00:00:01,000 --> 00:00:02,500\r
<i>Hello</i>\r
there.\r
\r
2\r
00:01:00,5 --> 00:01:02,000 X1:40\r
Anna: {\\an8}Bye.\r
3\r
01:00:00.000 --> 01:00:01.000\r
{\\an8}Two
"""


def test_srt_is_turns_with_slots() -> None:
    assert has_times(SRT)
    assert read_script(SRT) == (
        Turn("<i>Hello</i>\nthere.", start_s=1.0, end_s=2.5),
        Turn("{\\an8}Bye.", "Anna", start_s=60.5, end_s=62.0),
        Turn("Two", start_s=3600.0, end_s=3601.0),
    )


VTT = """WEBVTT - title

NOTE 00:00 is no time

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v.loud Anna &amp; Co>Hello &lt;you&gt; <c.x>there</c>

00:02.000 --> 00:01.000
<v Ben>

00:00:03.000 --> 00:00:04.000
plain
"""


def test_vtt_is_turns_with_voices() -> None:
    assert read_subtitles(VTT) == [
        Cue(1.0, 2.0, "Hello <you> there", "Anna & Co"),
        Cue(2.0, 2.0, "", "Ben"),
        Cue(3.0, 4.0, "plain"),
    ]
    assert [turn.voice for turn in read_script(VTT)] == ["Anna & Co", None]


def test_subtitles_are_written_in_their_form() -> None:
    cues = [Cue(0.0, 1.5, "Hello\n\n--> you & me", "Anna"), Cue(3661.0004, 3662.9996, "<b>")]
    assert write_srt(cues) == (
        "1\n00:00:00,000 --> 00:00:01,500\nAnna: Hello\n→ you & me\n\n"
        "2\n01:01:01,000 --> 01:01:03,000\n<b>\n"
    )
    assert write_vtt(cues) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n<v Anna>Hello\n→ you &amp; me\n\n"
        "01:01:01.000 --> 01:01:03.000\n&lt;b&gt;\n"
    )


TIMES = st.tuples(st.integers(0, 999_999_999), st.integers(0, 9_999_999)).map(
    lambda t: (t[0] / 1000, (t[0] + t[1]) / 1000)
)
LINES = st.text(st.sampled_from("aB 1:,.-><&;é天{}[]/"), min_size=1, max_size=20).filter(
    lambda line: line.strip() and "-->" not in line
)
TEXTS = st.lists(LINES.map(str.strip), min_size=1, max_size=3).map("\n".join)
CUES = st.lists(st.builds(lambda t, text: Cue(*t, text), TIMES, TEXTS), max_size=5)


@settings(max_examples=30, deadline=None)
@given(CUES)
def test_what_is_written_is_read_again(cues: list[Cue]) -> None:
    assert read_subtitles(write_srt(cues)) == cues
    assert read_subtitles(write_vtt(cues)) == cues


@settings(max_examples=30, deadline=None)
@given(CUES, st.sampled_from(["Anna", "Li & Co", "<x>", "a b"]))
def test_voices_are_read_again_from_vtt(cues: list[Cue], voice: str) -> None:
    spoken = [Cue(cue.start_s, cue.end_s, cue.text, voice) for cue in cues]
    assert read_subtitles(write_vtt(spoken)) == spoken


@settings(max_examples=30, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["A:", "[voice: x]", "00:01.0 --> ", "\n", "1", "{"])).map("".join)
)
def test_any_text_is_a_script_or_told_so(text: str) -> None:
    try:
        turns = read_script(text)
    except InvalidRequest:
        return
    assert all(turn.text.strip() for turn in turns)
    read_subtitles(text)


@pytest.mark.parametrize(
    "seed", ["A: x\n", "a ", "[voice: ", "00:00:01,000 --> ", "0", "<v ", "\n"]
)
def test_no_script_takes_more_than_its_share_of_time(seed: str) -> None:
    text = ("00:01.0 --> 00:02.0\n" if "<" in seed else "") + (seed * 20_000)[:20_000]

    def both() -> None:
        read_subtitles("WEBVTT\n\n" + text)
        try:
            read_script(text)
        except InvalidRequest:
            assert seed in ("A: x\n", "\n", "00:00:01,000 --> ")

    soon(both, within_s=0.5)
