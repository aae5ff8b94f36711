"""Every word of the page in one place, and how facts become sentences.

Errors are not here: they come from the engine and the intake, each with its own sentence.
"""

from __future__ import annotations

from engine import Control
from studio.api.languages import LANGUAGES

TITLE = "ZONOS2 Studio"
SAMPLE_TEXT = (
    "Every voice carries a story. Write a line of your own here, press Speak, and listen to how it"
    " sounds."
)

VOICE = "Voice"
TEXT = "Text"
DELIVERY = "Delivery"
SAMPLING = "Sampling"

VOICE_INFO = "Who speaks"
YOUR_RECORDING = "Your recording"
NO_VOICE = "No voice"
RECORDING = "Your own voice"
RECORDING_INFO = "Record or upload 5 to 20 seconds of one person, in a quiet room."
NO_MICROPHONE = (
    "The browser gives a page the microphone only over https or on localhost. Open the studio there"
    " to record; uploading a recording works here too."
)
JUDGING = "Listening to the recording…"

TEXT_INFO = "What to say"
TEXT_PLACEHOLDER = "Type or paste what should be spoken"
LANGUAGE = "Language"
SPEAK = "Speak"
STOP = "Stop"
SHORTCUTS = "<kbd>Ctrl</kbd>/<kbd>⌘</kbd> <kbd>Enter</kbd> speaks, <kbd>Esc</kbd> stops"

READY = "Ready to speak."
STARTING = "Starting…"
LIVE = "Playing while it is made"
TAKE = "Take"
DOWNLOAD = "Download WAV"

SEED = "Seed"
SEED_INFO = "The same seed and settings give the same sound"
SEED_PLACEHOLDER = "A new one each time"
KEEP_SEED = "Keep it"
NEW_SEED = "Draw another"
RESET = "Reset all"
UNSET = "As the model likes"

SPEAKING_RATE = "Speaking rate"
SPEAKING_RATE_INFO = "Bytes of text a second, one for a Latin letter"
THEME = "Switch between light and dark"

# The language chooses how numbers and signs are read; the model never sees it.
AS_WRITTEN = "auto"

_CONTROL_NAMES = {
    "speaking_rate": SPEAKING_RATE,
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
_DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def languages() -> list[tuple[str, str]]:
    """Names and codes of the languages to choose from."""
    return [("As written", AS_WRITTEN), *((name, code) for code, name in LANGUAGES.items())]


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


def state(is_draining: bool, name: str, device: str) -> tuple[str, ...]:
    """The parts of the state line."""
    return ("shutting down" if is_draining else "ready", name, _DEVICES.get(device, device.upper()))


def queued(num_ahead: int, wait_s: float) -> str:
    """Where a request waits, and for about how long."""
    place = f"{num_ahead} ahead" if num_ahead else "next"
    return f"Queued: {place}, about {wait_s:.0f} s"


def speaking(spoken_s: float) -> str:
    """How much has been made so far."""
    return f"Speaking {spoken_s:.1f} s"


def stopped(spoken_s: float) -> str:
    """How far it had come when it was stopped."""
    return f"Stopped after {spoken_s:.1f} s"


def done(spoken_s: float, ttfa_s: float, rtf: float, seed: int, was_cut: bool) -> str:
    """What a finished take is."""
    cut = " It was cut at the length limit." if was_cut else ""
    return (
        f"Done: {spoken_s:.1f} s of speech, first sound after {ttfa_s:.1f} s, rtf {rtf:.2f},"
        f" seed {seed}.{cut}"
    )


def take(voice: str, spoken_s: float, seed: int) -> str:
    """The caption of a finished take."""
    return f"{TAKE}: {voice}, {spoken_s:.1f} s, seed {seed}"


def recording_used(used_s: float, level_dbfs: float) -> str:
    """The first line of the report on a recording."""
    return f"{used_s:.1f} s of sound at {level_dbfs:.0f} dBFS. This is the voice now."
