"""Prompt rows against the golden data: the release's layout, other layouts, and nano's."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.errors import CheckpointError, InvalidRequest
from engine.request import Delivery
from engine.zonos2.config import RELEASE_SILENCE_FRAMES, Zonos2Config
from engine.zonos2.controls import ResolvedControls, resolve_controls
from engine.zonos2.prompt import TextIds, build_rows

_FOLDER = Path(__file__).parents[2] / "golden"
_GOLDEN = json.loads(gzip.decompress((_FOLDER / "prompts.json.gz").read_bytes()))
_FEATURES = dict(
    zip(
        _GOLDEN["config"]["quality_features"],
        _GOLDEN["config"]["quality_bucket_counts"],
        strict=True,
    )
)
# Ours keeps the default of features not named and refuses unknown ones; upstream does neither.
_UPSTREAM_ONLY = {"no_such_feature"}


def _config(
    *,
    text_vocab: int = 519,
    num_rates: int = 8,
    features: dict[str, int] | None = None,
    has_markers: bool = True,
    num_codebooks: int = 9,
    audio_pad_id: int = 1025,
    silence: Any = RELEASE_SILENCE_FRAMES,
    **extra: Any,
) -> Zonos2Config:
    features = _FEATURES if features is None else features
    config = Zonos2Config.from_dict(
        {
            "n_layers": 2,
            "dim": 64,
            "head_dim": 32,
            "ffn_dim_multiplier": 1.5,
            "multiple_of": 64,
            "norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "max_seqlen": 512,
            "n_codebooks": num_codebooks,
            "codebook_size": 1024,
            "eoa_id": 1024,
            "audio_pad_id": audio_pad_id,
            "text_vocab": text_vocab,
            "loss_softcap": 15.0,
            "speaker_background_token_enabled": has_markers,
            "accurate_mode_token_enabled": has_markers,
            "speaking_rate_num_buckets": num_rates,
            "quality_num_buckets": sum(features.values()),
            "quality_features": list(features),
            "quality_buckets": {
                name: [f"{i}-{i + 1}" for i in range(n)] for name, n in features.items()
            },
            "silence_frames": [frame[:num_codebooks] for frame in RELEASE_SILENCE_FRAMES],
            **extra,
        }
    )
    return dataclasses.replace(config, silence_frames=tuple(silence))


_RELEASE = _config()


def _buckets(given: Any) -> dict[str, int | None] | None:
    """Upstream's buckets (which replace the default as a whole) as ours, every feature named."""
    if given is None:
        return None
    if isinstance(given, list):
        given = dict(zip(_FEATURES, given, strict=False))
    return {
        **dict.fromkeys(_FEATURES),
        **{name: bucket for name, bucket in given.items() if name not in _UPSTREAM_ONLY},
    }


def _rows(config: Zonos2Config, case: dict[str, Any]) -> Tensor:
    has_speaker = case.get("speaker_embedding_given", False)
    delivery = Delivery(
        speaking_rate_bucket=case.get("speaking_rate_bucket"),
        quality_buckets=_buckets(case.get("quality_buckets")),
        accurate_mode=case.get("accurate_mode", True),
        clean_speaker_background=case.get("clean_speaker_background", False),
    )
    controls = resolve_controls(config, delivery, has_speaker)
    return build_rows(config, case["text"], controls, has_speaker)


@pytest.mark.parametrize("case", _GOLDEN["cases"], ids=lambda case: case["name"])
def test_golden_prompts(case: dict[str, Any]) -> None:
    rows = _rows(_RELEASE, case)
    assert rows.dtype == torch.int64
    assert rows.tolist() == case["rows"]


def test_golden_text_ids() -> None:
    ids, golden = TextIds.of(_RELEASE), _GOLDEN["token_ids"]
    assert (ids.bos, ids.eos, ids.byte_offset) == (2, 3, golden["byte_offset"])
    assert ids.pad == golden["text_pad"]
    assert list(ids.rate) == golden["speaking_rate"]
    assert {name: list(each) for name, each in ids.quality.items()} == golden["quality"]
    assert ids.background == {
        "clean": golden["background_clean"],
        "noisy": golden["background_noisy"],
    }
    assert ids.accurate == golden["accurate"]


@pytest.mark.parametrize("case", _GOLDEN["alternative_layouts"], ids=lambda case: case["name"])
def test_golden_prompts_of_other_layouts(case: dict[str, Any]) -> None:
    layout = case["config"]
    counts = layout.get("quality_bucket_counts", [])
    num_codebooks = layout["n_codebooks"]
    silence = [frame[:num_codebooks] for frame in RELEASE_SILENCE_FRAMES]
    config = _config(
        text_vocab=layout["text_vocab"],
        num_rates=layout.get("speaking_rate_num_buckets", 0),
        features=dict(zip(_FEATURES, counts, strict=False)),
        has_markers=False,
        num_codebooks=num_codebooks,
        audio_pad_id=layout["audio_pad_id"],
        silence=silence if layout.get("prepend_silence", True) else (),
    )
    assert _rows(config, case).tolist() == case["rows"]


def test_golden_prompts_that_gain_markers_equal_ours_built_whole() -> None:
    # Upstream amends finished prompts when a speaker arrives; we always build them whole, so only
    # its cases that start without markers have a counterpart. Left out: the duplicated slot
    # (position -1), and markers already present that contradict the flags and are kept.
    own = {"slot_only", "no_slot", "slot_background_clean_accurate"}
    cases = [c for c in _GOLDEN["speaker_frame_insertion"] if c["name"] in own]
    assert len(cases) == 3
    for case in cases:
        is_clean = case["output_text_column"][1] == 516
        rows = _rows(
            _RELEASE,
            {
                "text": "Hi",
                "speaker_embedding_given": True,
                "accurate_mode": case["accurate_mode"],
                "clean_speaker_background": is_clean,
            },
        )
        assert rows[:, -1].tolist() == case["output_text_column"]


def test_golden_faults() -> None:
    def asked(**fields: Any) -> None:
        resolve_controls(_RELEASE, Delivery(**fields), has_speaker=False)

    # Our buckets go by feature name, so upstream's "feature index 6" is an unknown name.
    for fields in (
        {"speaking_rate_bucket": 8},
        {"speaking_rate_bucket": -1},
        {"quality_buckets": {"lufs": 12}},
        {"quality_buckets": {"lufs": -1}},
        {"quality_buckets": {"6": 0}},
    ):
        with pytest.raises(InvalidRequest):
            asked(**fields)
    bare = _config(text_vocab=448, num_rates=0, features={}, has_markers=False)
    with pytest.raises(InvalidRequest):
        resolve_controls(bare, Delivery(speaking_rate_bucket=0), has_speaker=False)
    # Upstream accepts buckets that overlap the byte ids; a prompt would be ambiguous, so we do not.
    for text_vocab, num_rates in ((447, 0), (448, 8), (455, 8)):
        with pytest.raises(CheckpointError, match=f"text_vocab {text_vocab}"):
            TextIds.of(
                _config(text_vocab=text_vocab, num_rates=num_rates, features={}, has_markers=False)
            )
    for key, value in (("text_vocab", None), ("audio_pad_id", None)):
        with pytest.raises(CheckpointError):
            _config(**{key: value})


@pytest.mark.parametrize("text", ["ab\ud800", "ab\udfffcd"])
def test_half_a_surrogate_pair_is_named_by_its_place(text: str) -> None:
    controls = resolve_controls(_RELEASE, Delivery(), has_speaker=False)
    with pytest.raises(InvalidRequest, match=r"character 3 .*U\+D[8F]") as caught:
        build_rows(_RELEASE, text, controls, has_speaker=False)
    caught.value.message.encode()  # the sentence itself must be writable


def _nano() -> Zonos2Config:
    """Nano's controls: one quality feature, no markers, five rows of its own silence."""
    silence = [(11, 743, 906, 865, 480, 304, 205, 91, 808)] * 5
    return _config(
        text_vocab=464,
        features={"trailing_silence_s": 8},
        has_markers=False,
        silence=silence,
        default_quality_buckets={"trailing_silence_s": 2},
    )


def test_nanos_check_prompt() -> None:
    with np.load(_FOLDER / "nano_check.npz") as data:
        expected = data["rows"]
    case = {"text": "This box speaks.", "speaker_embedding_given": True}
    config = dataclasses.replace(_nano(), default_quality={"trailing_silence_s": 3})
    assert _rows(config, case).tolist() == expected.tolist()


def test_nanos_own_defaults_and_table() -> None:
    config = _nano()
    ids = TextIds.of(config)
    assert (list(ids.rate), list(ids.quality["trailing_silence_s"])) == (
        list(range(448, 456)),
        list(range(456, 464)),
    )
    assert (ids.pad, ids.background, ids.accurate) == (464, {}, None)
    rows = _rows(config, {"text": "a", "speaker_embedding_given": True, "speaking_rate_bucket": 1})
    assert rows[:5, -1].tolist() == [464, 449, 458, 2, 192 + ord("a")]
    # Five rows are fewer than nine codebooks: the last four never hold a silence code.
    assert rows[-1].tolist() == [11, 743, 906, 865, 480, 1025, 1025, 1025, 1025, 464]


def test_without_a_voice_there_is_no_slot_row() -> None:
    controls = ResolvedControls(None, {}, None, False)
    voiced = build_rows(_RELEASE, "hi", controls, has_speaker=True)
    plain = build_rows(_RELEASE, "hi", controls, has_speaker=False)
    assert torch.equal(voiced[1:], plain)
    assert voiced[0].tolist() == [1025] * 9 + [519]
