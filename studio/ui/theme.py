"""The look: colour tokens, and the Gradio theme made of them.

Pairs of text and background are checked by computation in tests/studio/ui/test_theme.py: text
4.5:1, edges of controls 3:1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import gradio as gr

_TEXT_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
_CODE_FONTS = ("ui-monospace", "SF Mono", "Menlo", "Consolas", "monospace")


@dataclass(frozen=True)
class Tokens:
    """The colours of one scheme. ``edge`` bounds a control, ``line`` only divides."""

    page: str
    panel: str
    ink: str
    quiet: str
    line: str
    edge: str
    accent: str
    accent_hover: str
    on_accent: str
    good: str
    warn: str
    bad: str


LIGHT = Tokens(
    page="#F7F6F3",
    panel="#FFFFFF",
    ink="#1A1A1C",
    quiet="#5B5B63",
    line="#E3E1DB",
    edge="#85837C",
    accent="#B4431F",
    accent_hover="#9A3817",
    on_accent="#FFFFFF",
    good="#1F7A4D",
    warn="#8A5A00",
    bad="#B3261E",
)
DARK = Tokens(
    page="#141416",
    panel="#1C1C20",
    ink="#F2F2F4",
    quiet="#A6A6B0",
    line="#2D2D33",
    edge="#70707A",
    accent="#FF9A6C",
    accent_hover="#FFB08C",
    on_accent="#1A1A1C",
    good="#5CD69A",
    warn="#F0B752",
    bad="#FF8A80",
)

# For the few places where Gradio asks for a shade instead of a purpose.
_ACCENT_SHADES = gr.themes.Color(
    *("#FFF3EE", "#FFE1D5", "#FFC7B1", "#FFB08C", "#FF9A6C", "#D2613A"),
    *("#B4431F", "#9A3817", "#7D2D12", "#5F220E", "#3F1609"),
)
# Read on both panels at 3:1, because a waveform is drawn once for light and dark.
WAVEFORM = gr.WaveformOptions(
    waveform_color="#85837C", waveform_progress_color="#D2613A", trim_region_color="#D2613A55"
)

# Gradio's variable: our token. Gradio names the dark twin of each by adding _dark.
_VARIABLES = {
    "body_background_fill": "page",
    "body_text_color": "ink",
    "body_text_color_subdued": "quiet",
    "background_fill_primary": "panel",
    "background_fill_secondary": "page",
    "border_color_primary": "line",
    "border_color_accent": "accent",
    "border_color_accent_subdued": "line",
    "color_accent_soft": "page",
    "link_text_color": "accent",
    "link_text_color_hover": "accent",
    "link_text_color_active": "accent",
    "link_text_color_visited": "accent",
    "block_background_fill": "panel",
    "block_border_color": "line",
    "block_label_background_fill": "panel",
    "block_label_border_color": "line",
    "block_label_text_color": "quiet",
    "block_title_text_color": "ink",
    "block_info_text_color": "quiet",
    "panel_background_fill": "panel",
    "panel_border_color": "line",
    "accordion_text_color": "ink",
    "table_text_color": "ink",
    "input_background_fill": "panel",
    "input_background_fill_focus": "panel",
    "input_background_fill_hover": "panel",
    "input_border_color": "edge",
    "input_border_color_hover": "ink",
    "input_border_color_focus": "accent",
    "input_placeholder_color": "quiet",
    "checkbox_background_color": "panel",
    "checkbox_background_color_focus": "panel",
    "checkbox_background_color_hover": "panel",
    "checkbox_background_color_selected": "accent",
    "checkbox_border_color": "edge",
    "checkbox_border_color_focus": "accent",
    "checkbox_border_color_hover": "ink",
    "checkbox_border_color_selected": "accent",
    "checkbox_label_background_fill": "panel",
    "checkbox_label_background_fill_hover": "panel",
    "checkbox_label_background_fill_selected": "panel",
    "checkbox_label_border_color": "line",
    "checkbox_label_text_color": "ink",
    "checkbox_label_text_color_selected": "ink",
    "error_background_fill": "panel",
    "error_border_color": "bad",
    "error_text_color": "bad",
    "error_icon_color": "bad",
    "slider_color": "accent",
    "stat_background_fill": "accent",
    "loader_color": "accent",
    "button_primary_background_fill": "accent",
    "button_primary_background_fill_hover": "accent_hover",
    "button_primary_border_color": "accent",
    "button_primary_border_color_hover": "accent_hover",
    "button_primary_text_color": "on_accent",
    "button_primary_text_color_hover": "on_accent",
    "button_secondary_background_fill": "panel",
    "button_secondary_background_fill_hover": "page",
    "button_secondary_border_color": "edge",
    "button_secondary_border_color_hover": "ink",
    "button_secondary_text_color": "ink",
    "button_secondary_text_color_hover": "ink",
    "button_cancel_background_fill": "ink",
    "button_cancel_background_fill_hover": "quiet",
    "button_cancel_border_color": "ink",
    "button_cancel_border_color_hover": "quiet",
    "button_cancel_text_color": "panel",
    "button_cancel_text_color_hover": "panel",
}


def studio_theme() -> gr.themes.Base:
    """The tokens as a Gradio theme, with fonts that every system already has."""
    theme = gr.themes.Base(
        primary_hue=_ACCENT_SHADES,
        font=_TEXT_FONTS,
        font_mono=_CODE_FONTS,
        text_size=gr.themes.sizes.text_md,
        radius_size=gr.themes.sizes.radius_md,
    )
    light, dark = asdict(LIGHT), asdict(DARK)
    colours: dict[str, str] = {}
    for variable, token in _VARIABLES.items():
        colours[variable] = light[token]
        colours[variable + "_dark"] = dark[token]
    return theme.set(
        **colours,
        block_border_width="0px",
        block_border_width_dark="0px",
        block_shadow="none",
        block_shadow_dark="none",
        block_label_border_width="0px",
        block_label_border_width_dark="0px",
        block_radius="10px",
        container_radius="10px",
        input_border_width="1px",
        input_border_width_dark="1px",
        input_radius="10px",
        input_shadow="none",
        input_shadow_dark="none",
        input_shadow_focus="none",
        input_shadow_focus_dark="none",
        button_border_width="1px",
        button_border_width_dark="1px",
        button_large_radius="10px",
        button_medium_radius="10px",
        button_small_radius="10px",
        button_primary_shadow="none",
        button_primary_shadow_dark="none",
        button_primary_shadow_hover="none",
        button_primary_shadow_hover_dark="none",
        button_secondary_shadow="none",
        button_secondary_shadow_dark="none",
        button_secondary_shadow_hover="none",
        button_secondary_shadow_hover_dark="none",
        button_transition="background-color 150ms ease-out, border-color 150ms ease-out",
        button_transform_hover="none",
        button_transform_active="none",
        shadow_drop="none",
        shadow_drop_lg="none",
    )


def token_css() -> str:
    """The tokens as CSS variables, for what is drawn outside Gradio's components."""
    return f":root {{ {_css(LIGHT)} }}\n.dark {{ {_css(DARK)} }}\n"


def _css(tokens: Tokens) -> str:
    return " ".join(
        f"--{name.replace('_', '-')}: {value};" for name, value in asdict(tokens).items()
    )
