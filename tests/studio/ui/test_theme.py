"""The colours can be read: every pair that the page draws, by the WCAG formula."""

import inspect
import re

import gradio as gr
import pytest

from studio.ui.theme import _VARIABLES, DARK, LIGHT, WAVEFORM, Tokens, studio_theme, token_css

TEXT, EDGE = 4.5, 3.0
PAIRS = [
    *((ink, ground, TEXT) for ink in ("ink", "quiet", "accent") for ground in ("page", "panel")),
    *((ink, "panel", TEXT) for ink in ("good", "warn", "bad")),
    ("good", "page", EDGE),
    ("warn", "page", EDGE),
    ("on_accent", "accent", TEXT),
    ("on_accent", "accent_hover", TEXT),
    ("panel", "ink", TEXT),  # Stop
    ("panel", "quiet", TEXT),  # Stop under the pointer
    ("edge", "panel", EDGE),
    ("edge", "page", EDGE),
    ("accent", "panel", EDGE),
]


def luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_knows_black_on_white():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("front", "ground", "needed"), PAIRS)
def test_a_pair_can_be_told_apart(tokens: Tokens, front: str, ground: str, needed: float):
    assert contrast(getattr(tokens, front), getattr(tokens, ground)) >= needed


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_the_recorders_waveform_is_seen_on_both_panels(tokens: Tokens):
    assert contrast(WAVEFORM.waveform_color, tokens.panel) >= EDGE
    assert contrast(WAVEFORM.waveform_progress_color, tokens.panel) >= EDGE


def test_light_and_dark_reach_gradio():
    assert set(_VARIABLES) <= set(inspect.signature(gr.themes.Base.set).parameters)
    theme = studio_theme()
    assert theme.body_background_fill == LIGHT.page
    assert theme.body_background_fill_dark == DARK.page
    assert f"--accent-hover: {LIGHT.accent_hover};" in token_css()


def test_no_font_is_fetched():
    assert studio_theme()._stylesheets == []
    assert not re.findall(r"url\((?!\"data:)", studio_theme()._get_theme_css())
