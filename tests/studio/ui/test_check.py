"""The Check tab says what a file carries, and keeps nothing of it."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from studio.inspection import Inspection
from studio.media.encode import Encoder
from studio.ui import strings
from studio.ui.check_tab import CheckHandlers, inspection_html
from studio.ui.view import View
from studio.watermark_search import Search

RATE_HZ = 16_000


def checked(view: View, path: Path) -> list[str]:
    """What is shown, step by step, when a file is chosen."""

    async def run() -> list[dict]:
        return [update async for update in CheckHandlers(view.check).check(str(path))]

    updates = asyncio.run(run())
    assert updates[-1][view.check.file] is None and not path.exists()
    return [update[view.check.result] for update in updates]


def test_a_file_with_our_words_is_told_apart_from_one_without(view: View, tmp_path: Path):
    noise = np.random.default_rng(1).normal(0, 0.1, 3 * RATE_HZ).astype(np.float32)
    encoder = Encoder("wav", RATE_HZ, tags={"comment": "ai_generated: true"}, is_live=False)
    said = tmp_path / "said.wav"
    said.write_bytes(encoder.feed(noise) + encoder.finish())
    waiting, told = checked(view, said)
    assert strings.CHECKING in waiting
    assert "<bdi>said.wav</bdi>, 3.0 s" in told
    assert "<dt><bdi>comment</bdi></dt><dd><bdi>ai_generated: true</bdi></dd>" in told

    silent = io.BytesIO()
    soundfile.write(silent, noise, RATE_HZ, format="WAV")
    plain = tmp_path / "plain.wav"
    plain.write_bytes(silent.getvalue())
    told = checked(view, plain)[-1]
    assert "Nothing in this file says that a machine spoke here" in told
    assert 'data-found="true"' not in told


def test_what_is_no_sound_is_told(view: View, tmp_path: Path):
    path = tmp_path / "page.html"
    path.write_text("<html></html>" * 50)
    assert '<p class="note bad">file cannot be checked: ' in checked(view, path)[-1]
    path = tmp_path / "gone.wav"
    assert "file: it is not here any more" in checked(view, path)[-1]


@pytest.mark.parametrize("confidence", [0.987, 0.0])
def test_the_confidence_is_a_number_and_a_bar(confidence: float):
    found = Inspection(4.0, 4.0, Search(confidence > 0.5, confidence, 1, 1), {}, None)
    told = inspection_html("a.wav", found)
    assert f'value="{confidence:.3f}"' in told and f"</meter> {confidence:.2f}</p>" in told
    assert told.count('data-found="true"') == (confidence > 0.5)


def test_what_stands_in_a_file_stays_text():
    evil = '<img src=x onerror="alert(1)"> \u202e'
    told = inspection_html(evil, Inspection(1.0, 1.0, Search(False, 0, 1, 0), {evil: evil}, None))
    assert "<img" not in told and told.count("&lt;img") == 3
