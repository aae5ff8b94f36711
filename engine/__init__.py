"""Speech from text and a voice: everything the studio and scripts may use.

Each name is imported when it is first asked for, so that ``from engine import InvalidRequest`` does
not load torch: what only keeps things on disk starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.engine import Engine, EngineStats, draw_seed
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
    from engine.speaker.blend import average, slerp
    from engine.stream import SpeechStream, StreamStatus
    from engine.validate import (
        EMOTION_RANGES,
        GUIDANCE_RANGES,
        MAX_SEED,
        MAX_TEXT_CHARS,
        SLIDER_RANGE,
    )

# Where each name lives: the imports above, for a running program.
_HOMES = {
    "engine.engine": "Engine EngineStats draw_seed",
    "engine.errors": (
        "Cancelled CheckpointError Conflict Forbidden GenerationFailed InvalidReference "
        "InvalidRequest NotFound OwnerShareUsed QueueFull StorageFailed StudioError TooLarge "
        "Unavailable"
    ),
    "engine.family": "Control",
    "engine.request": "Delivery Emotion FinishReason Guidance Sampling SpeechRequest Timings",
    "engine.sampling.settings": "Range SAMPLING_RANGES",
    "engine.speaker.blend": "average slerp",
    "engine.stream": "SpeechStream StreamStatus",
    "engine.validate": "EMOTION_RANGES GUIDANCE_RANGES MAX_SEED MAX_TEXT_CHARS SLIDER_RANGE",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "EMOTION_RANGES",
    "GUIDANCE_RANGES",
    "MAX_SEED",
    "MAX_TEXT_CHARS",
    "SAMPLING_RANGES",
    "SLIDER_RANGE",
    "Cancelled",
    "CheckpointError",
    "Conflict",
    "Control",
    "Delivery",
    "Emotion",
    "Engine",
    "EngineStats",
    "FinishReason",
    "Forbidden",
    "GenerationFailed",
    "Guidance",
    "InvalidReference",
    "InvalidRequest",
    "NotFound",
    "OwnerShareUsed",
    "QueueFull",
    "Range",
    "Sampling",
    "SpeechRequest",
    "SpeechStream",
    "StorageFailed",
    "StreamStatus",
    "StudioError",
    "Timings",
    "TooLarge",
    "Unavailable",
    "average",
    "draw_seed",
    "slerp",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value
