"""Lines become one sound: pauses as long as asked for, times kept where they can be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Cue
from studio.mix import Placed, mixed

RATE_HZ = 8_000


def line(sound_s: float, *, before_s: float = 0.1, after_s: float = 0.4, **placed) -> Placed:
    """A line that sounds at full level for ``sound_s``, in quiet noise."""
    num = [round(length_s * RATE_HZ) for length_s in (before_s, sound_s, after_s)]
    samples = np.concatenate(
        [np.ones(n) * level for n, level in zip(num, (1, 9000, 1), strict=True)]
    )
    begin_s, end_s = before_s, before_s + sound_s
    cues = [Cue(begin_s, end_s, "Hello.")]
    return Placed(samples.astype(np.int16), RATE_HZ, begin_s, end_s, cues, **placed)


def sounds(samples: np.ndarray) -> list[tuple[float, float]]:
    """Where it sounds, from second to second."""
    is_loud = np.r_[False, np.abs(samples) > 4000, False]
    edges = np.flatnonzero(np.diff(is_loud.astype(int))) / RATE_HZ
    return list(zip(edges[::2], edges[1::2], strict=True))


@given(
    st.lists(
        st.tuples(st.floats(0.05, 0.5), st.one_of(st.none(), st.integers(0, 2000))),
        min_size=1,
        max_size=9,
    ),
    st.integers(0, 1000),
)
def test_a_pause_lasts_from_sound_to_sound_and_the_cues_say_where(given_lines, pause_ms):
    lines = [line(sound_s, pause_ms=own_ms) for sound_s, own_ms in given_lines]
    mix = mixed(lines, pause_ms)
    cues = mix.all_cues
    assert cues[0].start_s == pytest.approx(0.06, abs=1e-3)  # what stays for a soft beginning
    for (_, own_ms), (before, after) in zip(given_lines[:-1], pairwise(cues), strict=True):
        wished_s = (pause_ms if own_ms is None else own_ms) / 1000
        # A line's own edges are never cut away to make a pause shorter.
        assert after.start_s - before.end_s == pytest.approx(max(wished_s, 0.18), abs=2e-3)
    for (begin_s, end_s), cue in zip(sounds(mix.samples), cues, strict=True):
        assert begin_s == pytest.approx(cue.start_s, abs=0.012)
        assert end_s == pytest.approx(cue.end_s, abs=0.012)


def test_a_line_with_a_time_begins_there_and_a_late_one_is_told():
    lines = [line(0.5, start_s=1.0), line(0.2, start_s=1.2), line(0.2, start_s=3.0), line(0.1)]
    mix = mixed(lines, 250)
    starts = [cue.start_s for cue in mix.all_cues]
    assert starts == pytest.approx([1.0, 1.68, 3.0, 3.45], abs=2e-3)
    (note,) = mix.notes
    assert note.startswith("turns[1]: it begins 0.5 s late")


def test_the_usual_pause_does_not_end_a_mix_and_one_that_was_asked_for_does():
    assert mixed([line(0.2)], 900).duration_s == pytest.approx(0.38, abs=1e-3)
    assert mixed([line(0.2, pause_ms=900)]).duration_s == pytest.approx(1.16, abs=1e-3)


def test_the_sound_of_a_line_stays_as_it_is():
    noise = np.random.default_rng(1).integers(-9000, 9000, RATE_HZ).astype(np.int16)
    placed = Placed(noise, RATE_HZ, 0.1, 0.8, [Cue(0.1, 0.8, "Hello.")])
    mix = mixed([placed, placed], 500)
    for cue in mix.all_cues:
        at = round(cue.start_s * RATE_HZ)
        assert np.array_equal(mix.samples[at : at + 5600], noise[800:6400])
