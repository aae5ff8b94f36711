"""What languages, controls and their choices are called for people."""

from __future__ import annotations

from engine import Control
from studio.api.languages import DETECT, LANGUAGES
from studio.ui import strings

# Languages whose numbers, dates and signs a grammar reads; the others have a simpler reader.
GRAMMARS = frozenset({"en_us", "en_gb", "cmn", "ja", "ko", "de", "fr_fr", "pt_br", "es", "it"})
_CONTROL_NAMES = {
    "speaking_rate": strings.SPEAKING_RATE,
    "lufs": "Loudness",
    "estimated_snr": "Clean of noise",
    "max_pause": "Longest pause",
    "estimated_bandlimit_hz": "Brightness",
    "bandwidth_hz": "Bandwidth",
    "leading_silence_s": "Silence at the start",
    "trailing_silence_s": "Silence at the end",
    "clean_speaker_background": "The recording has a clean background",
    "accurate_mode": "Accurate rather than expressive",
}
_GUIDANCE_NAMES = {"cfg_scale": "Voice guidance", "emotion_cfg_scale": "Emotion guidance"}


def languages() -> list[tuple[str, str]]:
    """Names and codes of the languages to choose from; those with a grammar are marked."""
    named = ((f"{name} •" if code in GRAMMARS else name, code) for code, name in LANGUAGES.items())
    return [("As written", strings.AS_WRITTEN), ("Detect", DETECT), *named]


def voice_languages() -> list[tuple[str, str]]:
    """Names and codes of what a voice may speak, none said first."""
    return [
        (strings.NOT_SAID, strings.AS_WRITTEN),
        *((name, code) for code, name in LANGUAGES.items()),
    ]


def control_name(control: Control) -> str:
    """The plain name of a control; an unknown one is named after its field."""
    return _CONTROL_NAMES.get(control.name, plain_name(control.name))


def plain_name(field: str) -> str:
    """A field's name as words: repetition_window becomes Repetition window."""
    if field in _GUIDANCE_NAMES:
        return _GUIDANCE_NAMES[field]
    return field.replace("_", " ").capitalize()


def bucket_name(label: str, unit: str) -> str:
    """A bucket's label for people: 0.1-0.25 and s become 0.1–0.25 s."""
    head, tail = label[:1], label[1:]  # a leading minus is a sign, not a dash
    return f"{head}{tail.replace('-', '–', 1)} {unit}".strip()
