"""Drawing codes: one row per request, each with its own settings and its own noise."""

from engine.sampling.noise import uniforms
from engine.sampling.sampler import History, SamplingRows, draw, probabilities
from engine.sampling.settings import SAMPLING_RANGES, Range, ResolvedSampling, resolve

__all__ = [
    "SAMPLING_RANGES",
    "History",
    "Range",
    "ResolvedSampling",
    "SamplingRows",
    "draw",
    "probabilities",
    "resolve",
    "uniforms",
]
