"""``params.json`` of a ZONOS3-shaped checkpoint as one immutable value.

- Every width, id and edge comes from the file; its keys are the names of the fields below. They are
  this studio's own: the release's are not public (``engine.zonos3.facts``).
- Attributes that layers of ZONOS2 read have the same names here, so that both families share them.
- Source: spec/zonos3.md sections 1.2 to 1.4 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from typing import Any

from engine.errors import CheckpointError


@dataclass(frozen=True)
class Zonos3Config:
    """Sizes, ids and edges of one checkpoint; ``from_dict`` raises ``CheckpointError`` if wrong.

    ``attention_layers`` attend, all others follow the delta rule. ``condition_edges`` gives each
    control its n - 1 ascending edges between n buckets. ``beta_max`` is 2 where a delta layer may
    turn what it remembers around, else 1.
    """

    dim: int
    n_layers: int
    attention_layers: tuple[int, ...]
    norm_eps: float
    max_rows: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    rope_theta: float
    delta_key_heads: int
    delta_value_heads: int
    delta_key_dim: int
    delta_value_dim: int
    delta_conv_kernel: int
    delta_beta_max: float
    ffn_dim: int
    moe_first_layer: int
    moe_num_experts: int
    moe_top_k: int
    moe_router_dim: int
    moe_latent_dim: int
    moe_ffn_dim: int
    num_codebooks: int
    codebook_size: int
    loss_softcap: float
    tokenizer_size: int
    bos_id: int
    eos_id: int
    condition_edges: Mapping[str, tuple[float, ...]]
    speaker_dim: int
    max_clip_frames: int
    segment_chars: int
    sampling_defaults: Mapping[str, float]
    dtype: str = "bfloat16"
    default_voice: str | None = None
    default_language: str | None = None

    @property
    def eoa_id(self) -> int:
        """The code that ends the audio."""
        return self.codebook_size

    @property
    def audio_pad_id(self) -> int:
        """The code where a row has none."""
        return self.codebook_size + 1

    @property
    def audio_vocab(self) -> int:
        """Entries of one audio embedding table: the codes, end of audio and pad."""
        return self.codebook_size + 2

    @property
    def row_width(self) -> int:
        """Ids in one row: one per codebook and the text id."""
        return self.num_codebooks + 1

    @property
    def text_vocab(self) -> int:
        """Text ids without pad: the tokenizer's, then every control's buckets and its "unknown"."""
        return self.tokenizer_size + sum(len(edges) + 2 for edges in self.condition_edges.values())

    @property
    def moe_topk(self) -> tuple[int, ...]:
        """Experts per row, by layer."""
        return (self.moe_top_k,) * self.n_layers

    @property
    def moe_bias_sign(self) -> int:
        """Balancing biases are added to the probabilities when experts are chosen."""
        return 1

    @property
    def delta_layers(self) -> tuple[int, ...]:
        """The layers that follow the delta rule."""
        return tuple(i for i in range(self.n_layers) if i not in self.attention_layers)

    @property
    def delta_channels(self) -> int:
        """Queries, keys and values of a delta layer side by side."""
        keys = self.delta_key_heads * self.delta_key_dim
        return 2 * keys + self.delta_value_heads * self.delta_value_dim

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Zonos3Config:
        """Build from the keys of params.json; raises ``CheckpointError`` naming all that lack."""
        lacking = [f.name for f in fields(cls) if f.default is MISSING and f.name not in raw]
        if lacking:
            raise CheckpointError(f"model: params.json lacks the keys {', '.join(lacking)}.")
        values = {}
        for f in fields(cls):
            if f.name in raw:
                try:
                    values[f.name] = _READERS[str(f.type)](raw[f.name])
                except (TypeError, ValueError, AttributeError) as error:
                    raise CheckpointError(
                        f"model: {f.name} in params.json has an unusable value ({error})."
                    ) from None
        config = cls(**values)
        for is_wrong, sentence in config._faults():
            if is_wrong:
                raise CheckpointError(f"model: params.json: {sentence}.")
        return config

    def _faults(self) -> list[tuple[bool, str]]:
        return [
            (
                not set(self.attention_layers) <= set(range(self.n_layers)),
                f"attention_layers must lie below n_layers {self.n_layers}",
            ),
            (self.n_heads % self.n_kv_heads != 0, "n_heads must be a multiple of n_kv_heads"),
            (
                self.delta_value_heads % self.delta_key_heads != 0,
                "delta_value_heads must be a multiple of delta_key_heads",
            ),
            (
                not 0 < self.moe_top_k <= self.moe_num_experts,
                f"moe_top_k must be 1 to moe_num_experts {self.moe_num_experts}",
            ),
            (
                not {self.bos_id, self.eos_id} <= set(range(self.tokenizer_size)),
                f"bos_id and eos_id must lie below tokenizer_size {self.tokenizer_size}",
            ),
            (
                any(a >= b for edges in self.condition_edges.values() for a, b in pairwise(edges)),
                "condition_edges must ascend",
            ),
            (
                not all(self.condition_edges.values()),
                "condition_edges must hold an edge for each control",
            ),
        ]


def like_zonos2(config: Zonos3Config) -> Any:
    """``config`` for a layer of ZONOS2, which reads the same names from a class of its own."""
    return config


def _whole(value: Any) -> int:
    if isinstance(value, bool) or int(value) != value:
        raise ValueError(f"{value!r} is no whole number")
    return int(value)


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": _whole,
    "float": float,
    "str": _text,
    "str | None": _text,
    "tuple[int, ...]": lambda value: tuple(sorted({_whole(item) for item in value})),
    "Mapping[str, float]": lambda value: {str(name): number for name, number in value.items()},
    "Mapping[str, tuple[float, ...]]": lambda value: {
        str(name): tuple(map(float, edges)) for name, edges in value.items()
    },
}
