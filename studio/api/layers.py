"""Fields of a speech request in layers: what a nearer layer sets replaces what a farther one has.

Names count as the fields they stand for, and fields that exclude each other as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from studio.api.spellings import ALIASES

# Names whose values are spelled otherwise, too, and the fields that they stand for.
_FIELD_OF = {
    **ALIASES,
    "format": "response_format",
    "output_format": "response_format",
    "mode": "accurate_mode",
    "emotion": "emotion_sliders",
}
# Fields that exclude each other: what a layer sets replaces all that another one says of them.
_EXCLUSIVE = (
    {
        *("voice", "references", "ref_audio", "speaker_embedding", "speaker_embedding_base64"),
        *("blend", "speaker_blend_embedding_id_a", "speaker_blend_embedding_id_b"),
        "speaker_blend_t",
    },
    {"speed", "speaking_rate", "speaking_rate_bucket"},
)


def field_of(name: str) -> str:
    """The field that a name of it stands for."""
    return _FIELD_OF.get(name, name)


def layered(far: Mapping[str, Any], near: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``near``, and those of ``far`` that it leaves open; null leaves open."""
    own = {name: value for name, value in near.items() if value is not None}
    set_here = {field_of(name) for name in own}
    for group in _EXCLUSIVE:
        set_here |= group if group & set_here else set()
    return {name: value for name, value in far.items() if field_of(name) not in set_here} | own
