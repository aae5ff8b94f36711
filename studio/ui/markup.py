"""The small pieces of HTML that the page is given; whatever came from outside is escaped here."""

from __future__ import annotations

import html
from collections.abc import Sequence

from engine import Engine
from studio.ui import strings


def header_html(engine: Engine) -> str:
    """Title, state line and the theme switch."""
    family = engine.family
    state, *facts = strings.state(engine.stats.is_draining, engine.name, family.device.type)
    shown = "".join(f" <span>· {html.escape(fact)}</span>" for fact in facts)
    return (
        f"<h1>{strings.TITLE}</h1>"
        f'<p id="state" data-state="{state.split()[0]}">'
        f'<span class="dot" aria-hidden="true"></span>{state}{shown}</p>'
        f'<button id="theme-switch" type="button" aria-label="{strings.THEME}"'
        f' title="{strings.THEME}"><span aria-hidden="true">◐</span></button>'
    )


def status_html(state: str, words: str) -> str:
    """The status line; the script repeats it in the live region whenever ``state`` changes."""
    return f'<p class="status" data-state="{state}">{html.escape(words)}</p>'


def heading_html(words: str) -> str:
    """The name of a panel."""
    return f'<h2 class="heading">{words}</h2>'


def take_html(sound: str, download: str, name: str, caption: str, peaks: Sequence[float]) -> str:
    """A finished take: caption, waveform, the browser's own player, and the file ``name`` to keep.

    ``sound`` and ``download`` are relative addresses, so they hold behind a sub-path; ``peaks`` are
    heights from 0 to 1. Gradio's player is no choice here: it asks ffprobe, which may not be there,
    about every file, and on the event loop.
    """
    bars = "".join(f"M{index} {-peak:.3f}V{peak:.3f}" for index, peak in enumerate(peaks))
    box = f'viewBox="-1 -1 {len(peaks) + 1} 2" preserveAspectRatio="none"'
    waveform = f'<svg {box}><path d="{bars}"/></svg>'
    return (
        f"<figure><figcaption><bdi>{html.escape(caption)}</bdi></figcaption>"
        f'<div class="waveform" aria-hidden="true">{waveform}{waveform}</div>'
        f'<audio controls preload="metadata" src="{html.escape(sound)}"></audio></figure>'
        f'<a class="button" id="download" href="{html.escape(download)}"'
        f' download="{html.escape(name)}">{strings.DOWNLOAD}</a>'
    )


def note_html(kind: str, *sentences: str) -> str:
    """Sentences beside a field: ``kind`` good, warn, info or bad sets mark and colour."""
    return "".join(f'<p class="note {kind}">{html.escape(sentence)}</p>' for sentence in sentences)
