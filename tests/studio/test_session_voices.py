"""Session voices: whose they are, how many there may be, and when they are gone."""

import subprocess
import sys

import numpy as np
import pytest

from studio.session_voices import LIFETIME_S, SessionVoice, SessionVoices


class Clock:
    """Time that stands until it is moved."""

    now_s = 1_000_000.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def add(voices: SessionVoices, owner: str = "ann", session: str = "s", label: str = "v", **more):
    given = {
        "original_name": "a.wav",
        "embedding": np.zeros(4, np.float32),
        "preview": b"RIFF",
        "content_hash": "00",
    }
    return voices.add(owner, session, label=label, **(given | more))


def labels(found: list[SessionVoice]) -> list[str]:
    return [voice.label for voice in found]


def test_a_voice_is_found_by_its_id_and_listed_newest_first(clock):
    voices = SessionVoices(clock=clock)
    first, second = add(voices, label="first"), add(voices, label="second", preview=None)
    assert first.id.startswith("spk_") and first.id != second.id
    assert voices.find("ann", first.id) is first
    assert labels(voices.of("ann", "s")) == ["second", "first"]
    assert (first.source_type, second.source_type) == ("audio", "embedding_file")


def test_a_session_belongs_to_the_owner_that_made_it(clock):
    voices = SessionVoices(clock=clock)
    voice = add(voices, "ann")
    assert voices.find("ben", voice.id) is None
    assert not voices.remove("ben", voice.id)
    assert voices.of("ben", "s") == []
    assert voices.of("ann", "another") == []
    assert voices.remove("ann", voice.id) is voice
    assert voices.find("ann", voice.id) is None


def test_a_full_session_forgets_the_voice_that_was_used_longest_ago(clock):
    voices = SessionVoices(max_per_session=2, clock=clock)
    old, _ = add(voices, label="old"), add(voices, label="unused")
    other = add(voices, session="other", label="of another session")
    assert voices.find("ann", old.id)
    add(voices, label="new")
    assert labels(voices.of("ann", "s")) == ["new", "old"]
    assert voices.find("ann", other.id)


def test_nobody_can_push_out_anothers_voices(clock):
    voices = SessionVoices(max_voices=6, clock=clock)
    mine = [add(voices, "ann", label=f"mine {number}") for number in range(2)]
    for number in range(50):
        add(voices, f"ben{number % 2}", session=f"s{number}")
    assert all(voices.find("ann", voice.id) for voice in mine)
    assert len(voices._voices) == 6


def test_a_voice_lives_for_a_day_however_much_it_is_used(clock):
    voices = SessionVoices(clock=clock)
    voice = add(voices)
    clock.now_s += LIFETIME_S - 60
    assert voices.find("ann", voice.id)
    young = add(voices, label="young")
    clock.now_s += 120
    assert voices.find("ann", voice.id) is None
    assert voices.of("ann", "s") == [young]
    assert not voices.remove("ann", voice.id)


def test_the_store_needs_neither_torch_nor_the_page():
    code = "import sys, studio.session_voices; print({'torch', 'gradio'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
