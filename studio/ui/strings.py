"""Every word of the page in one place, and how facts become sentences.

Errors are not here: they come from the engine and the intake, each with its own sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from studio.settings import Settings

TITLE = "ZONOS2 Studio"
SPEAK_TAB = "Speak"
VOICES_TAB = "Voices"
TAKES_TAB = "Takes"
CHECK_TAB = "Check"

SCRIPT_TAB = "Script"
CODE_TAB = "Code"
ABOUT_TAB = "About"

SCRIPT = "Script"
SCRIPT_INFO = "One line for each turn, with a name and a colon"
SAMPLE_SCRIPT = (
    "Anna: Have you seen the boat?\nBen: It is still tied to the pier.\nAnna: Then we go."
)
CAST = "Who speaks"
NO_NAME = "Lines without a name"
SPEAK_SCRIPT = "Speak the script"
SCRIPT_LINES = "Lines"
NO_LINES = "Nothing spoken yet. Every line can be heard, and said again, by itself."
REROLL = "Say it again"
REROLL_INFO = "Speaks this line anew; all others stay as they are"
WHOLE_SCRIPT = "The whole script"

CODE = "Use from code"
CODE_INFO = "What the Speak tab would ask now, as a request. What is at its default is left out."
CODE_RECORDING = (
    "Your recording is not a voice that code can name yet: save it, and use the name you gave it."
)
COPY = "Copy"

CHECK_FILE = "Check a file"
CHECK_INFO = (
    "Was this sound made here, or by a studio like this one? Choose a file; it is looked at and not"
    " kept."
)
SOUND_FILE = "Sound file"
CHECKING = "Looking at the file…"
CHECK_WHAT = "What is looked for"
WATERMARK = "Watermark"
WATERMARK_IS = "Hidden in the sound itself; it stays when the file is converted."
METADATA = "Metadata"
METADATA_IS = "Words that stand beside the sound; anybody can write or remove them."
STATEMENT = "Signed statement"
STATEMENT_IS = "Sealed into the file by whoever made it (C2PA); a change breaks the seal."
FOUND = "found"
NOT_FOUND = "not found"
CONFIDENCE = "How clear it is, from 0 to 1:"
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

SAVE_VOICE = "Save this voice…"
VOICE_NAME = "Name"
VOICE_NAME_PLACEHOLDER = "What you call it"
VOICE_LANGUAGE = "Language it speaks"
NOT_SAID = "Not said"
KEEP_CLIP = "Keep the recording too"
KEEP_CLIP_INFO = (
    "Then a later model can learn the voice from it. Without it only the numbers that describe the"
    " voice are kept, and the recording is forgotten."
)
SAVE = "Save"
SAVING = "Saving…"
CANCEL = "Cancel"
SAVE_CONSENT = "To save a voice, confirm that you may:"
USE_CONSENT = "Before a recording may speak here, confirm that you may:"
TICK_FIRST = "Tick the statement below your recording first, if it is true."
CONSENT_NEEDED = "Nothing was saved: tick the statement first, if it is true."

YOUR_VOICES = "Your voices"
NO_VOICES = (
    "No voices yet. In Speak, record or upload somebody for 5 to 20 seconds, then press “Save this"
    " voice”."
)
SPEAK_WITH = "Speak with it"
RENAME = "Rename"
NEW_NAME = "New name"
DELETE = "Delete"
KEEP = "Keep"
EXPORT = "Export"
CLIP_KEPT = "recording kept"
OF_THE_SCRIPTS = "stored by a script"
SOUND_GONE = "This sound cannot be played any more."
BLEND = "Blend two voices"
BLEND_INFO = "A new voice between two others."
FIRST_VOICE = "First voice"
SECOND_VOICE = "Second voice"
SHARE = "Share of the second, %"
SAVE_BLEND = "Save the blend"
BRING = "Bring a voice"
BRING_INFO = "A voice that was exported here or from another studio, as one file."
VOICE_FILE = "Exported voice"
NAME_IN_FILE = "As in the file"
BRING_VOICE = "Import"

AVERAGE = "Average several recordings"
AVERAGE_INFO = "Up to 8 recordings of one person give a steadier voice than one."
CLIPS = "Recordings"
SAVE_AVERAGE = "Save the average"

TAGS = "Tags"
TAGS_INFO = "Tags, with commas"
TITLE_TAKE = "Title"
TAKE_TITLE = "Title of the take"
COMPARE_TAKES = "Compare two takes"
COMPARE_INFO = "Choose two takes, A and B; the key X switches between them at equal loudness"

YOUR_TAKES = "Your takes"
NO_TAKES = "Nothing spoken yet. What you make in Speak is listed here, the newest first."
STAR = "Star"
STAR_INFO = "A star keeps a take from making room for newer ones"
AGAIN = "Make it again"
AGAIN_INFO = "Speaks it once more: the same words, voice and seed, the same sound"
USE_SETTINGS = "Use these settings"
DOWNLOAD_SHORT = "WAV"
SHOW_MORE = "Show older takes"
EXPORT_ALL = "Export all"
DELETE_ALL = "Delete all"
DELETE_TAKE = "Delete this take? It cannot be brought back."
DELETE_ALL_TAKES = "Delete your takes? They cannot be brought back."
DELETE_UNSTARRED = "Those without a star"
DELETE_STARRED = "All of them"
STILL_SPEAKING = "Something is being spoken; stop it first, or let it end."

AS_SPOKEN = "As it is spoken"
CHANGED_INFO = (
    "What is said otherwise than it is written is underlined. Press it to say it your way."
)
NOTHING_CHANGED = "It is said as it is written."
NOT_SPOKEN = "Not spoken"
WORDS = "Pronunciations"
WORDS_INFO = "Words that are said otherwise than they are written, in everything you make here."
NO_WORDS = "No words yet."
WORD_WRITTEN = "Written"
WORD_SAID = "Said"
ADD_WORD = "Add"

TEXT_INFO = "What to say"
TEXT_PLACEHOLDER = "Type or paste what should be spoken"
LANGUAGE = "Language"
SPEAK = "Speak"
STOP = "Stop"

PLAY = "Play"
HEARD_AFTER = "heard after {} s"
POSITION = "Position"
VOLUME = "Volume"
SPECTRUM = "Spectrogram"
SPECTRUM_INFO = "Spectrogram: time from left to right, pitch from low to high, up to 11 kHz"
READY = "Ready to speak."
STARTING = "Starting…"
LOADING = "Loading the model again, after a rest…"
LIVE = "Playing while it is made"
TAKE = "Take"
DOWNLOAD = "Download"
KEPT = "Kept under Takes."
KEEPS_NONE = "This studio keeps no takes; download what you want to have."

PRESETS = "Presets"
PRESET_NAME = "Name of the preset"
SAVE_PRESET = "Save as preset"
FORGET_PRESET = "Forget"
SHORTCUTS_TITLE = "Keys"
SHORTCUT_KEYS = (
    ("Ctrl/⌘ Enter", "Speak"),
    ("Esc", "Stop"),
    ("Space", "Play or pause"),
    ("← →", "One second back or on, on the waveform"),
    ("X", "Switch between take A and take B"),
    ("?", "These keys"),
)
CLOSE = "Close"
INTERFACE_LANGUAGE = "Language of the page"
INTERFACE_LANGUAGES = {
    "en": "English",
    "zh": "中文",
    "ja": "日本語",
    "de": "Deutsch",
    "fr": "Français",
    "es": "Español",
    "pt": "Português",
    "it": "Italiano",
    "ko": "한국어",
}

PAD_ENDS = ("sad", "glad", "calm", "stirred")

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

LANGUAGE_INFO = "• reads numbers and dates"
# The language chooses how numbers and signs are read; the model never sees it.
AS_WRITTEN = "auto"

VOICE_SOURCES = {
    "recording": "from a recording",
    "embedding": "from numbers",
    "blend": "a blend",
    "import": "imported",
}
# What doors call a speaker that has no name.
_UNNAMED_SPEAKERS = {
    "reference": "A recording",
    "embedding": "A recording",
    "blend": "A blend",
    "": "No voice",
}
_DEVICES = {"cpu": "CPU", "cuda": "GPU"}


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


def saved(name: str) -> str:
    """A recording has become a voice."""
    return f"Saved as {name}. This is the voice now."


def stored(name: str) -> str:
    """A voice came into the library."""
    return f"{name} is among your voices now."


def of_the_model(name: str) -> str:
    """A voice of the model that shares its name with an own one."""
    return f"{name} (of the model)"


def other_model(made_with: str) -> str:
    """Why a voice cannot speak here."""
    return f"Made with {made_with}; the open model cannot speak with it."


def delete_voice(name: str) -> str:
    """The question before a voice goes."""
    return f"Delete {name}? It cannot be brought back."


def speaker_name(name: str) -> str:
    """What a take's voice is called for people."""
    return _UNNAMED_SPEAKERS.get(name, name)


def play(what: str) -> str:
    """What the button of a row plays."""
    return f"Play: {what}"


def seconds(duration_s: float) -> str:
    """The length of a sound."""
    return f"{duration_s:.1f} s"


def seed(number: int) -> str:
    """The seed of a take."""
    return f"seed {number}"


def word_added(written: str, said: str) -> str:
    """A word was added to the dictionary."""
    return f"{written} is said as {said} from now on."


def spoken_as(written: str, said: str) -> str:
    """What a changed stretch of a text is, for a reader of the screen."""
    return f"{said}, written {written}"


def too_long(num_chars: int, settings: Settings) -> str:
    """A text that is not shown as it is spoken."""
    return f"It has {num_chars} characters and the limit is {settings.max_input_chars}."


def compare(side: str) -> str:
    """What the button of a take does."""
    return f"Compare as {side}"


def script_progress(num_done: int, num_lines: int) -> str:
    """How far a script is."""
    return f"Spoken: {num_done} of {num_lines} lines"


def script_stopped(num_done: int) -> str:
    """How far a script had come when it was stopped."""
    return f"Stopped after {num_done} lines"


def script_done(num_lines: int, duration_s: float) -> str:
    """What a finished script is."""
    return f"Done: {num_lines} lines, {duration_s:.1f} s"


def not_kept(reason: str) -> str:
    """Why a finished take is not in the list."""
    return f"Not kept under Takes. {reason}"


def takes_info(settings: Settings) -> str:
    """How long takes are kept."""
    if not settings.max_takes:
        return f"{KEEPS_NONE} Whoever runs it can change that (--max-takes)."
    if settings.public:
        return "They are kept for this visit only; download what you want to have."
    days = "a day" if settings.takes_days == 1 else f"{settings.takes_days} days"
    return (
        f"The last {settings.max_takes} are kept, for {days} at most; those with a star stay until"
        " you delete them."
    )


def not_on_page(names: Sequence[str]) -> str:
    """What a take was made with that the page has no field for."""
    return (
        f"This take also used {', '.join(names)}, which this page has no field for. “Make it again”"
        " uses it."
    )


def voice_gone(name: str) -> str:
    """The voice of a take cannot be chosen."""
    return (
        f"{speaker_name(name)} cannot be chosen here any more, so the voice stays as it is. “Make"
        " it again” still has the take's own."
    )
