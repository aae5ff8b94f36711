"""Speech from text and a voice: everything the studio and scripts may use."""

from engine.engine import Engine, EngineStats, draw_seed
from engine.errors import (
    Cancelled,
    CheckpointError,
    GenerationFailed,
    InvalidReference,
    InvalidRequest,
    NotFound,
    OwnerShareUsed,
    QueueFull,
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
from engine.stream import SpeechStream, StreamStatus
from engine.validate import (
    EMOTION_RANGES,
    GUIDANCE_RANGES,
    MAX_SEED,
    MAX_TEXT_CHARS,
    SLIDER_RANGE,
)

__all__ = [
    "EMOTION_RANGES",
    "GUIDANCE_RANGES",
    "MAX_SEED",
    "MAX_TEXT_CHARS",
    "SAMPLING_RANGES",
    "SLIDER_RANGE",
    "Cancelled",
    "CheckpointError",
    "Control",
    "Delivery",
    "Emotion",
    "Engine",
    "EngineStats",
    "FinishReason",
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
    "StreamStatus",
    "StudioError",
    "Timings",
    "TooLarge",
    "Unavailable",
    "draw_seed",
]
