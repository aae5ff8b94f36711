"""The small pieces of HTML that the page is given; whatever came from outside is escaped here."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence

from engine import Engine
from studio.ui import strings
from studio.ui.panel import Setting

# What was heard is deleted: the player lets go of it.
NO_STREAM = "<i data-closed></i>"


def header_html(engine: Engine) -> str:
    """Title, state line and the theme switch."""
    family = engine.family
    state, *facts = strings.state(engine.stats.is_draining, engine.name, family.device.type)
    languages = "".join(
        f'<option value="{code}" lang="{code}">{name}</option>'
        for code, name in strings.INTERFACE_LANGUAGES.items()
    )
    keys = "".join(
        f"<div><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>"
        for key, what in strings.SHORTCUT_KEYS
    )
    shown = "".join(f" <span>· {html.escape(fact)}</span>" for fact in facts)
    return (
        f"<h1>{strings.TITLE}</h1>"
        f'<p id="state" data-state="{state.split()[0]}">'
        f'<span class="dot" aria-hidden="true"></span>{state}{shown}</p>'
        f'<select id="interface-language" aria-label="{strings.INTERFACE_LANGUAGE}">{languages}'
        "</select>"
        f'<button id="keys-switch" type="button" aria-label="{strings.SHORTCUTS_TITLE}"'
        f' title="{strings.SHORTCUTS_TITLE}"><span aria-hidden="true">?</span></button>'
        f'<button id="theme-switch" type="button" aria-label="{strings.THEME}"'
        f' title="{strings.THEME}"><span aria-hidden="true">◐</span></button>'
        f'<dialog id="keys" aria-label="{strings.SHORTCUTS_TITLE}"><h2>{strings.SHORTCUTS_TITLE}'
        f"</h2><dl>{keys}</dl>"
        f'<form method="dialog"><button>{strings.CLOSE}</button></form></dialog>'
    )


def counter_html(max_chars: int) -> str:
    """How long the text is; the script counts."""
    return f'<p id="counter" class="info" data-limit="{max_chars}"></p>'


def memory_html(settings: Sequence[Setting]) -> str:
    """What the script needs to remember settings: their names, and the defaults."""
    names = ["voice", "language", *(setting.name for setting in settings)]
    fields = [setting.field.elem_id for setting in settings]
    known = {
        "names": names,
        "fields": fields,
        "defaults": [setting.default for setting in settings],
    }
    return f'<i id="memory" data-known="{html.escape(json.dumps(known))}"></i>'


def pad_html() -> str:
    """Two sliders of feeling as one field for a pointer; whoever has none uses the sliders."""
    words = zip(("left", "right", "down", "up"), strings.PAD_ENDS, strict=True)
    ends = "".join(f'<span class="{place}">{end}</span>' for place, end in words)
    return f'<div id="pad" aria-hidden="true">{ends}<i></i></div>'


def presets_html() -> str:
    """Where the script lists the presets of this browser, and takes a name for a new one."""
    return (
        f'<ul class="chips" aria-label="{strings.PRESETS}" data-forget="{strings.FORGET_PRESET}">'
        f'</ul><form class="preset"><label>{strings.PRESET_NAME}'
        ' <input name="name" dir="auto" maxlength="40" required></label>'
        f"<button>{strings.SAVE_PRESET}</button></form>"
    )


def status_html(state: str, words: str) -> str:
    """The status line; the script repeats it in the live region whenever ``state`` changes."""
    return f'<p class="status" data-state="{state}">{html.escape(words)}</p>'


def heading_html(words: str) -> str:
    """The name of a panel."""
    return f'<h2 class="heading">{words}</h2>'


def take_html(
    sound: str, downloads: Mapping[str, tuple[str, str]], caption: str, peaks: Sequence[float]
) -> str:
    """A finished take: caption, waveform, the browser's own player, and the files to keep.

    ``sound`` and those of ``downloads`` (format: address and file name) are relative addresses, so
    they hold behind a sub-path; ``peaks`` are heights from 0 to 1. Gradio's player is no choice
    here: it asks ffprobe, which may not be there, about every file, and on the event loop.
    """
    bars = "".join(f"M{index} {-peak:.3f}V{peak:.3f}" for index, peak in enumerate(peaks))
    box = f'viewBox="-1 -1 {len(peaks) + 1} 2" preserveAspectRatio="none"'
    waveform = f'<svg {box}><path d="{bars}"/></svg>'
    links = "".join(
        f'<a class="button" id="download-{kind}" href="{html.escape(address)}"'
        f' download="{html.escape(name)}">{kind.upper() if kind != "opus" else "Opus"}</a>'
        for kind, (address, name) in downloads.items()
    )
    return (
        f"<figure><figcaption><bdi>{html.escape(caption)}</bdi></figcaption>"
        f'<div class="waveform" aria-hidden="true">{waveform}{waveform}</div>'
        f'<audio controls preload="metadata" src="{html.escape(sound)}"></audio></figure>'
        f'<p class="downloads">{strings.DOWNLOAD} {links}</p>'
    )


def stream_html(address: str, sample_rate_hz: int) -> str:
    """Where the page's player hears what is being spoken; the script finds it and begins."""
    return f'<i data-stream="{html.escape(address)}" data-rate="{sample_rate_hz}"></i>'


def note_html(kind: str, *sentences: str) -> str:
    """Sentences beside a field: ``kind`` good, warn, info or bad sets mark and colour."""
    return "".join(f'<p class="note {kind}">{html.escape(sentence)}</p>' for sentence in sentences)
