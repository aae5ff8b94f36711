"""Speech from text and a voice: everything the studio and scripts may use.

Each name is imported when it is first asked for, so that ``from engine import InvalidRequest`` does
not load torch: what only keeps things on disk starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.engine import Engine, draw_seed
    from engine.errors import (
        Cancelled,
        CheckpointError,
        Conflict,
        Forbidden,
        GenerationFailed,
        InvalidReference,
        InvalidRequest,
        NotFound,
        OwnerShareUsed,
        QueueFull,
        StorageFailed,
        StudioError,
        TooLarge,
        Unavailable,
    )
    from engine.family import Control
    from engine.forecast import Forecast, forecast
    from engine.life import EngineStats
    from engine.outlet import ChunkFrames
    from engine.queue import Reservation
    from engine.repair import Repair
    from engine.request import (
        Delivery,
        Emotion,
        FinishReason,
        Guidance,
        Sampling,
        SpeechRequest,
        Timings,
    )
    from engine.sampling.settings import SAMPLING_RANGES, Range
    from engine.scheduler import PREFILL_ROWS
    from engine.speaker.blend import average, slerp
    from engine.stream import BUFFER_S, SpeechStream, SpokenChunk, StreamStatus
    from engine.text import (
        DETECT,
        Normalised,
        Normaliser,
        Span,
        default_grammar_folder,
        detect_language,
    )
    from engine.text.clean import Cleaning
    from engine.text.dictionary import (
        MAX_PRONUNCIATIONS,
        Dictionary,
        Pronunciation,
        check_pronunciation,
        check_pronunciations,
    )
    from engine.text.markup import Pause, Spoken
    from engine.text.prepare import Prepared, arrange, prepare
    from engine.text.scripts import MAX_TURNS, Turn, read_script
    from engine.text.subtitles import Cue, write_srt, write_vtt
    from engine.validate import (
        EMOTION_RANGES,
        GUIDANCE_RANGES,
        MAX_SEED,
        MAX_TEXT_CHARS,
        SLIDER_RANGE,
        nearest,
    )

# Where each name lives: the imports above, for a running program.
_HOMES = {
    "engine.engine": "Engine draw_seed",
    "engine.errors": (
        "Cancelled CheckpointError Conflict Forbidden GenerationFailed InvalidReference "
        "InvalidRequest NotFound OwnerShareUsed QueueFull StorageFailed StudioError TooLarge "
        "Unavailable"
    ),
    "engine.family": "Control",
    "engine.forecast": "Forecast forecast",
    "engine.life": "EngineStats",
    "engine.outlet": "ChunkFrames",
    "engine.queue": "Reservation",
    "engine.repair": "Repair",
    "engine.request": "Delivery Emotion FinishReason Guidance Sampling SpeechRequest Timings",
    "engine.sampling.settings": "Range SAMPLING_RANGES",
    "engine.scheduler": "PREFILL_ROWS",
    "engine.speaker.blend": "average slerp",
    "engine.stream": "BUFFER_S SpeechStream SpokenChunk StreamStatus",
    "engine.text": "DETECT Normalised Normaliser Span default_grammar_folder detect_language",
    "engine.text.clean": "Cleaning",
    "engine.text.dictionary": (
        "MAX_PRONUNCIATIONS Dictionary Pronunciation check_pronunciation check_pronunciations"
    ),
    "engine.text.markup": "Pause Spoken",
    "engine.text.prepare": "Prepared arrange prepare",
    "engine.text.scripts": "MAX_TURNS Turn read_script",
    "engine.text.subtitles": "Cue write_srt write_vtt",
    "engine.validate": (
        "EMOTION_RANGES GUIDANCE_RANGES MAX_SEED MAX_TEXT_CHARS SLIDER_RANGE nearest"
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "BUFFER_S",
    "DETECT",
    "EMOTION_RANGES",
    "GUIDANCE_RANGES",
    "MAX_PRONUNCIATIONS",
    "MAX_SEED",
    "MAX_TEXT_CHARS",
    "MAX_TURNS",
    "PREFILL_ROWS",
    "SAMPLING_RANGES",
    "SLIDER_RANGE",
    "Cancelled",
    "CheckpointError",
    "ChunkFrames",
    "Cleaning",
    "Conflict",
    "Control",
    "Cue",
    "Delivery",
    "Dictionary",
    "Emotion",
    "Engine",
    "EngineStats",
    "FinishReason",
    "Forbidden",
    "Forecast",
    "GenerationFailed",
    "Guidance",
    "InvalidReference",
    "InvalidRequest",
    "Normalised",
    "Normaliser",
    "NotFound",
    "OwnerShareUsed",
    "Pause",
    "Prepared",
    "Pronunciation",
    "QueueFull",
    "Range",
    "Repair",
    "Reservation",
    "Sampling",
    "Span",
    "SpeechRequest",
    "SpeechStream",
    "Spoken",
    "SpokenChunk",
    "StorageFailed",
    "StreamStatus",
    "StudioError",
    "Timings",
    "TooLarge",
    "Turn",
    "Unavailable",
    "arrange",
    "average",
    "check_pronunciation",
    "check_pronunciations",
    "default_grammar_folder",
    "detect_language",
    "draw_seed",
    "forecast",
    "nearest",
    "prepare",
    "read_script",
    "slerp",
    "write_srt",
    "write_vtt",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value
