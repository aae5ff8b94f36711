"""What a ZONOS2-shaped checkpoint declares, in params.json or a GGUF file, as one immutable value.

- Nothing is hard-coded to the release: every size, bucket and id comes from the file. Only a GGUF
  file says nothing of its buckets: those of params.json beside it count, else the release's.
- A missing or contradictory key fails here, by name, before a tensor is read.
- Source: spec/zonos2.md sections 1.2, 1.4 and 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError
from engine.weights import read_json
from engine.zonos2.gguf import GgufFile, is_gguf

# The release keeps its 0.2 s of silence in code, not in params.json (spec 3.2): 17 frames of codes.
RELEASE_SILENCE_FRAMES: tuple[tuple[int, ...], ...] = (
    (568, 778, 338, 524, 967, 360, 728, 550, 90),
    (568, 778, 10, 674, 364, 981, 741, 378, 731),
    *([(568, 804, 10, 674, 364, 981, 568, 378, 731)] * 14),
    (568, 778, 721, 842, 264, 974, 989, 507, 308),
)
RELEASE_SAMPLING: Mapping[str, float] = {
    "temperature": 1.15,
    "top_k": 106,
    "top_p": 0.0,
    "min_p": 0.18,
    "repetition_penalty": 1.2,
    "repetition_window": 50,
    "repetition_codebooks": 8,
}
RELEASE_QUALITY_DEFAULT: Mapping[str, int] = {"trailing_silence_s": 3}
_SILENCE_S = ("0-0.05", "0.05-0.1", "0.1-0.25", "0.25-0.5", "0.5-1", "1-2", "2-4", "4+")
# What the release's params.json says of its controls (spec 1.2), and no GGUF file of it does.
RELEASE_CONTROLS: Mapping[str, Any] = {
    "text_vocab": 519,
    "speaker_background_token_enabled": True,
    "accurate_mode_token_enabled": True,
    "speaking_rate_num_buckets": 8,
    "speaking_rate_buckets": ("0-8", "8-11", "11-14", "14-17", "17-21", "21-28", "28-40", "40+"),
    "quality_num_buckets": 60,
    "quality_features": (
        "lufs",
        "estimated_snr",
        "max_pause",
        "estimated_bandlimit_hz",
        "leading_silence_s",
        "trailing_silence_s",
    ),
    "quality_buckets": {
        "lufs": (
            "-1000--50",
            *(f"{low / 2:g}-{low / 2 + 4.5:g}" for low in range(-100, -18, 9)),
            "-5+",
        ),
        "estimated_snr": ("-1000-0", *(f"{low}-{low + 6}" for low in range(0, 60, 6)), "60+"),
        "max_pause": tuple(f"{low / 2:g}-{low / 2 + 0.5:g}" for low in range(12)),
        "estimated_bandlimit_hz": (
            "495.3-3433",
            "3433-6371",
            "6371-9310",
            "9310-12248",
            "12248-15186",
            "15186-18124",
            "18124-21062",
            "21062-24000",
        ),
        "leading_silence_s": _SILENCE_S,
        "trailing_silence_s": _SILENCE_S,
    },
}


@dataclass(frozen=True)
class Zonos2Config:
    """Sizes, ids and declared controls of one checkpoint; raises ``CheckpointError`` when wrong."""

    n_layers: int
    dim: int
    head_dim: int
    n_heads: int
    n_kv_heads: int
    ffn_dim: int
    norm_eps: float
    rope_theta: float
    max_rows: int
    num_codebooks: int
    codebook_size: int
    eoa_id: int
    audio_pad_id: int
    text_vocab: int
    loss_softcap: float
    moe_num_experts: int
    moe_first_layer: int
    moe_end_layers: int
    moe_router_dim: int
    moe_topk: tuple[int, ...]
    moe_bias_sign: int
    speaker_dim: int | None
    speaker_lda_dim: int | None
    has_background_marker: bool
    has_accurate_marker: bool
    rate_buckets: tuple[str, ...]
    rate_paces: tuple[float | None, ...]
    num_rate_buckets: int
    quality_buckets: Mapping[str, tuple[str, ...]]
    default_quality: Mapping[str, int]
    silence_frames: tuple[tuple[int, ...], ...]
    sampling_defaults: Mapping[str, float]
    default_language: str | None
    dtype: str
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def audio_vocab(self) -> int:
        """Entries of one audio embedding table: the codes, end of audio and pad."""
        return self.codebook_size + 2

    @property
    def row_width(self) -> int:
        """Ids in one row: one per codebook and the text id."""
        return self.num_codebooks + 1

    def is_moe(self, layer: int) -> bool:
        """Whether ``layer`` holds experts instead of one dense feed-forward."""
        return (
            self.moe_num_experts > 1
            and layer >= self.moe_first_layer
            and self.n_layers - layer > self.moe_end_layers
        )

    @classmethod
    def load(cls, checkpoint: Path) -> Zonos2Config:
        """What a folder or a GGUF file declares; raises ``CheckpointError`` naming file or key."""
        return cls.from_dict(read_params(checkpoint))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Zonos2Config:
        """Build from the keys of params.json; raises ``CheckpointError`` naming the key."""
        try:
            return cls._from_dict(raw)
        except KeyError as error:
            raise CheckpointError(f"model: params.json lacks the key {error.args[0]!r}.") from None
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"model: params.json has an unusable value ({error}).") from None

    @classmethod
    def _from_dict(cls, raw: Mapping[str, Any]) -> Zonos2Config:
        dim, n_layers, head_dim = int(raw["dim"]), int(raw["n_layers"]), int(raw["head_dim"])
        n_heads = int(raw.get("n_heads") or dim // head_dim)
        num_codebooks, codebook_size = int(raw["n_codebooks"]), int(raw["codebook_size"])
        topk_by_layer = {int(k): int(v) for k, v in (raw.get("special_topk_layers") or {}).items()}
        topk = int(raw.get("moe_router_topk") or 1)
        quality = {
            name: tuple((raw.get("quality_buckets") or {})[name])
            for name in raw.get("quality_features") or ()
        }
        if sum(map(len, quality.values())) != int(raw.get("quality_num_buckets") or 0):
            raise ValueError("quality_num_buckets is not the sum of quality_buckets")
        rates = tuple(raw.get("speaking_rate_buckets") or ())
        num_rates = int(raw.get("speaking_rate_num_buckets") or 0)
        if rates and len(rates) != num_rates:
            raise ValueError("speaking_rate_num_buckets is not the length of speaking_rate_buckets")
        paces = tuple(raw.get("speaking_rate_paces") or ())
        if paces and not (
            len(paces) == num_rates and all(p is None or 0.1 < float(p) < 10 for p in paces)
        ):
            raise ValueError("speaking_rate_paces are no multiples of the usual pace, one a bucket")
        default_quality = raw.get("default_quality_buckets", RELEASE_QUALITY_DEFAULT)
        silence = tuple(
            tuple(int(code) for code in frame)
            for frame in raw.get("silence_frames") or RELEASE_SILENCE_FRAMES
        )
        if any(len(frame) != num_codebooks for frame in silence):
            raise ValueError(f"silence_frames must hold {num_codebooks} codes per frame")
        strategy = raw.get("moe_balancing_strategy") or "legacy"
        if strategy not in ("legacy", "quantile"):
            raise ValueError(f"moe_balancing_strategy {strategy!r} is not legacy or quantile")
        has_speaker = bool(raw.get("speaker_enabled"))
        return cls(
            n_layers=n_layers,
            dim=dim,
            head_dim=head_dim,
            n_heads=n_heads,
            n_kv_heads=int(raw.get("n_kv_heads") or n_heads),
            ffn_dim=int(raw["ffn_dim"]) if "ffn_dim" in raw else _ffn_dim(raw, dim),
            norm_eps=float(raw["norm_eps"]),
            rope_theta=float(raw["rope_theta"]),
            max_rows=int(raw["max_seqlen"]),
            num_codebooks=num_codebooks,
            codebook_size=codebook_size,
            eoa_id=int(raw["eoa_id"]),
            audio_pad_id=int(raw["audio_pad_id"]),
            text_vocab=int(raw["text_vocab"]),
            loss_softcap=float(raw["loss_softcap"]),
            moe_num_experts=int(raw.get("moe_n_experts") or 1),
            moe_first_layer=int(raw.get("moe_start_from_layer") or 0),
            moe_end_layers=int(raw.get("moe_end_from_layer") or 0),
            moe_router_dim=int(raw.get("moe_router_dim") or 0),
            moe_topk=tuple(topk_by_layer.get(layer, topk) for layer in range(n_layers)),
            moe_bias_sign=-1 if strategy == "quantile" else 1,
            speaker_dim=int(raw["speaker_embedding_dim"]) if has_speaker else None,
            speaker_lda_dim=int(raw.get("speaker_lda_dim") or 0) or None,
            has_background_marker=bool(raw.get("speaker_background_token_enabled")),
            has_accurate_marker=bool(raw.get("accurate_mode_token_enabled")),
            rate_buckets=rates,
            rate_paces=paces,
            num_rate_buckets=num_rates,
            quality_buckets=quality,
            default_quality={k: int(v) for k, v in default_quality.items() if k in quality},
            silence_frames=silence,
            sampling_defaults={**RELEASE_SAMPLING, **(raw.get("sampling_defaults") or {})},
            default_language=raw.get("default_language"),
            dtype=str(raw.get("dtype") or "bfloat16"),
            extra=dict(raw),
        )


def _ffn_dim(raw: Mapping[str, Any], dim: int) -> int:
    multiple = int(raw["multiple_of"])
    return multiple * math.ceil(float(raw["ffn_dim_multiplier"]) * dim / multiple)


def read_params(checkpoint: Path) -> dict[str, Any]:
    """The keys of params.json, from a folder or from a GGUF file.

    The file's sizes count; what its control ids mean stands in params.json beside it, or is what
    the release's mean. Raises ``CheckpointError`` when that cannot be.
    """
    if not is_gguf(checkpoint):
        raw = read_json(checkpoint / "params.json")
        return nested if isinstance(nested := raw.get("model"), dict) else raw
    sizes, folder = GgufFile(checkpoint).params(), checkpoint.parent
    has_params = (folder / "params.json").is_file()
    controls = read_params(folder) if has_params else RELEASE_CONTROLS
    told, found = controls.get("text_vocab"), sizes["text_vocab"]
    if told != found:
        whose = (
            f"the params.json beside it says {told}" if has_params else f"the release's is {told}"
        )
        raise CheckpointError(
            f"model: {checkpoint.name} has text_vocab {found} and {whose}, so what its control ids"
            " mean is unknown; put the params.json of this model beside it."
        )
    return {**controls, **sizes}
