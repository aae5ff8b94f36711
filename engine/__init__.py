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
from engine.request import Delivery, FinishReason, Sampling, SpeechRequest, Timings
from engine.sampling.settings import SAMPLING_RANGES, Range
from engine.stream import SpeechStream, StreamStatus
from engine.validate import MAX_SEED, MAX_TEXT_CHARS
from engine.zonos2.controls import Control

__all__ = [
    "MAX_SEED",
    "MAX_TEXT_CHARS",
    "SAMPLING_RANGES",
    "Cancelled",
    "CheckpointError",
    "Control",
    "Delivery",
    "Engine",
    "EngineStats",
    "FinishReason",
    "GenerationFailed",
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
