"""What the browser remembers of the settings: looked at like anything else that comes from outside.

The script (assets/ui/settings.js) stores it as JSON, by the names of ``markup.memory_html``; a
preset is the same under a name. What this checkpoint has not, or not any more, stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from studio.ui import naming
from studio.ui.desk import Update
from studio.ui.panel import is_offered
from studio.ui.view import View

MAX_CHARS = 20_000


def restored(view: View, text: str) -> Update:
    """The settings that ``text`` holds; nothing for what is no such text."""
    known = _read(text)
    return {
        setting.field: known[setting.name]
        for setting in view.settings
        if setting.name in known and is_offered(setting.field, known[setting.name])
    }


def restored_choices(
    view: View, text: str, voices: Sequence[tuple[str, str]]
) -> tuple[str | None, str | None]:
    """The voice and the language that ``text`` holds, where they can still be chosen."""
    known = _read(text)
    voice, language = known.get("voice"), known.get("language")
    has_voice = voice in [value for _, value in voices]
    has_language = language in [value for _, value in naming.languages()]
    return voice if has_voice else None, language if has_language else None


def _read(text: str) -> dict[str, Any]:
    if len(text) > MAX_CHARS:
        return {}
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}
