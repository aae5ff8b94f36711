"""Facts become sentences, and what came from outside stays text."""

import pytest

from engine import Control
from studio.ui import naming, strings
from studio.ui.markup import header_html, note_html, status_html, take_html


def test_a_queued_request_says_how_many_are_ahead_and_how_long():
    assert strings.queued(2, 6.2) == "Queued: 2 ahead, about 6 s"
    assert strings.queued(0, 1.0) == "Queued: next, about 1 s"


def test_a_finished_take_says_its_facts():
    line = strings.done(4.12, 0.31, 0.123, 1234, was_cut=False)
    assert line == "Done: 4.1 s of speech, first sound after 0.3 s, rtf 0.12, seed 1234."
    assert strings.done(4.12, 0.31, 0.123, 1234, was_cut=True).endswith("the length limit.")


@pytest.mark.parametrize(
    ("label", "unit", "name"),
    [
        ("0.1-0.25", "s", "0.1–0.25 s"),
        ("-50--45.5", "LUFS", "-50–-45.5 LUFS"),
        ("40+", "bytes/s", "40+ bytes/s"),
        ("3", "", "3"),
    ],
)
def test_a_bucket_is_named_for_people(label, unit, name):
    assert naming.bucket_name(label, unit) == name


def test_an_unknown_control_is_named_after_its_field():
    control = Control("room_size", "quality", "m", ("0-1",), None)
    assert naming.control_name(control) == "Room size"


def test_every_language_can_be_chosen_once_and_none_at_all():
    codes = [code for _, code in naming.languages()]
    assert codes[0] == strings.AS_WRITTEN
    assert len(set(codes)) == len(codes) > 30


def test_markup_escapes_what_came_from_outside():
    evil = '<img src=x onerror="alert(1)">'
    for markup in (
        status_html("error", evil),
        note_html("bad", evil),
        take_html("sound", {"wav": ("download", "name")}, evil, [1.0]),
    ):
        assert "<img" not in markup
        assert "&lt;img" in markup
    assert 'a"b' not in take_html('a"b', {"wav": ('a"b', 'a"b')}, "", [1.0])


def test_the_header_names_state_model_and_device(engine):
    markup = header_html(engine)
    assert 'data-state="ready"' in markup
    assert "nano" in markup
    assert "CPU" in markup
