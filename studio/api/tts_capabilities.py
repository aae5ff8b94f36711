"""What the open model and this studio can do, as Zyphra's page asks before it shows its controls.

- The keys and types are those of Zyphra's server; more stand beside them, none is left out.
- A page shows what it is told: nothing here promises what a request would be refused for.
- Source: spec/api.md A1, F15; spec/zonos2.md 13.
"""

from __future__ import annotations

from typing import Any

from engine import Engine, Normaliser
from studio.api.languages import LANGUAGES
from studio.media.encode import SAMPLE_RATES_HZ, available_formats


def capabilities(engine: Engine, normaliser: Normaliser, max_input_chars: int) -> dict[str, Any]:
    """The answer to GET /tts/capabilities."""
    readers = {code: reader for code in LANGUAGES if (reader := normaliser.reads(code))}
    family = engine.family
    rates = next((c.buckets for c in family.controls if c.kind == "rate"), ())
    quality = {c.name: list(c.buckets) for c in family.controls if c.kind == "quality"}
    markers = {c.name for c in family.controls if c.kind == "flag"}
    has_speaker = family.speaker_dim is not None
    emotions = family.emotions
    return {
        "text_normalization_enabled": bool(readers),
        "text_norm_languages": list(readers),
        "text_norm_readers": readers,
        "languages": LANGUAGES,
        "speaker_enabled": has_speaker,
        "speaker_embedding_dim": family.speaker_dim,
        "speaker_background_token_enabled": "clean_speaker_background" in markers,
        "accurate_mode_token_enabled": "accurate_mode" in markers,
        "speaker_audio_upload": has_speaker and engine.encoder is not None,
        "speaker_embedding_upload": has_speaker,
        "speaker_embedding_cache": has_speaker,
        "speaker_embedding_blend": has_speaker,
        "default_voices_enabled": bool(engine.voices),
        "n_codebooks": family.num_codebooks,
        "max_tokens": family.max_rows,
        "max_input_chars": max_input_chars,
        "sampling_defaults": dict(family.sampling_defaults),
        "speaking_rate_enabled": bool(rates),
        "speaking_rate_num_buckets": len(rates),
        "speaking_rate_buckets": list(rates),
        "quality_enabled": bool(quality),
        "quality_num_buckets": sum(map(len, quality.values())),
        "quality_features": list(quality),
        "quality_buckets": quality,
        "quality_dropout_by_feature": {},  # a fact of training that no checkpoint declares
        "default_quality_buckets": {
            c.name: c.default
            for c in family.controls
            if c.kind == "quality" and c.default is not None
        },
        "emotion_enabled": emotions is not None,
        "emotion_names": [] if emotions is None else list(emotions.names),
        "emotion_axes": [] if emotions is None else list(emotions.axes),
        "emotion_calibrated": emotions is not None and emotions.is_calibrated,
        # A long text is always cut into segments; their length is the model's own.
        "long_form_enabled": True,
        "long_form_chunk_chars": family.segment_chars,
        "long_form_continues": family.continues,
        "formats": list(available_formats()),
        "sample_rates": list(SAMPLE_RATES_HZ),
        "sample_rate": engine.codec.sample_rate_hz,
    }
