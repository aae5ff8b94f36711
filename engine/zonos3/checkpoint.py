"""A ZONOS3-shaped folder as configuration, backbone and clips; the release's own is refused.

- Keys and tensors must be this studio's. A folder that calls itself zonos3 and has others is told
  apart by name, and what would have to be known to read it is said.
- Source: spec/zonos3.md section 3 and section 7, point 11.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from engine.errors import CheckpointError, InvalidRequest
from engine.memory import Footprint
from engine.request import Sampling
from engine.sampling.settings import resolve
from engine.speaker.voices import load_voices
from engine.weights import check_tensors, read_json, read_tensors, shapes_of
from engine.zonos2.checkpoint import WEIGHT_FILES, find_weights
from engine.zonos3.backbone import Backbone
from engine.zonos3.config import Zonos3Config
from engine.zonos3.facts import missing_facts

CLIPS_FILE = "voice_clips.safetensors"
# Choosing experts and fading memories are knife-edge, and heads are float32 by the card (spec 1.2).
FLOAT32_SUFFIXES = (".balancing_biases", ".decay_log", ".decay_bias", "head.weight")
NAMES_SHOWN = 12


def load_config(folder: Path) -> Zonos3Config:
    """The configuration of ``folder``; raises ``CheckpointError`` naming keys that are not known.

    The tensors of a folder that cannot be read are named with them.
    """
    try:
        config = Zonos3Config.from_dict(read_json(folder / "params.json"))
    except CheckpointError as error:
        raise _unresolved(error.message, _tensors_there(folder)) from None
    try:
        resolve(Sampling(), config.sampling_defaults)
    except (InvalidRequest, KeyError) as error:
        reason = error.message if isinstance(error, InvalidRequest) else f"{error} is missing."
        raise CheckpointError(f"model: sampling_defaults in params.json: {reason}") from None
    return config


def check_folder(folder: Path) -> Zonos3Config:
    """The configuration, with the tensors' names and shapes checked if they are there already."""
    config = load_config(folder)
    if tensors := _tensors_there(folder):
        _check_names(config, tensors)
    return config


def load_backbone(
    folder: Path, config: Zonos3Config, device: torch.device, dtype: torch.dtype
) -> Backbone:
    """The weights of ``folder`` as a ready backbone; raises ``CheckpointError``."""
    tensors = read_tensors(find_weights(folder))
    _check_names(config, tensors)
    placed = {
        name: tensor.to(device, torch.float32 if name.endswith(FLOAT32_SUFFIXES) else dtype)
        for name, tensor in tensors.items()
    }
    model = empty_backbone(config)
    model.load_state_dict(placed, strict=True, assign=True)
    model.prepare()
    return model.eval().requires_grad_(False)


def empty_backbone(config: Zonos3Config) -> Backbone:
    """A backbone without storage (meta device): names and shapes only."""
    with torch.device("meta"):
        return Backbone(config)


def load_clips(folder: Path, config: Zonos3Config) -> dict[str, Tensor]:
    """Codes [T, C] int64 of the voices that come with a clip, by name; empty without the file.

    Raises ``CheckpointError`` for a clip without its voice, too long, or with codes out of range.
    """
    if not (folder / CLIPS_FILE).exists():
        return {}
    voices = load_voices(folder)
    clips = {name: clip.long() for name, clip in read_tensors(folder / CLIPS_FILE).items()}
    for name, clip in clips.items():
        if name not in voices:
            raise CheckpointError(f"model: the clip {name!r} in {CLIPS_FILE} belongs to no voice.")
        is_shaped = clip.ndim == 2 and clip.shape[1] == config.num_codebooks
        if not is_shaped or not 0 < len(clip) <= config.max_clip_frames:
            raise CheckpointError(
                f"model: the clip {name!r} in {CLIPS_FILE} has shape {list(clip.shape)}; it must be"
                f" 1 to {config.max_clip_frames} frames of {config.num_codebooks} codes."
            )
        if clip.min() < 0 or clip.max() >= config.codebook_size:
            raise CheckpointError(
                f"model: the clip {name!r} in {CLIPS_FILE} holds codes outside 0 to"
                f" {config.codebook_size - 1}."
            )
    return clips


def footprint(config: Zonos3Config, dtype: torch.dtype) -> Footprint:
    """Weights, one slot's memory and the work of the longest prefill, in ``dtype``.

    A delta layer's memory does not grow with the sequence. The work is counted: all sources of the
    attention residuals stand side by side twice in float32, beside one delta layer's inputs.
    """
    weights = sum(
        torch.Size(shape).numel() * (4 if name.endswith(FLOAT32_SUFFIXES) else dtype.itemsize)
        for name, shape in shapes_of(empty_backbone(config)).items()
    )
    kv_numbers = 2 * len(config.attention_layers) * config.n_kv_heads * config.head_dim
    matrix = config.delta_value_heads * config.delta_key_dim * config.delta_value_dim
    tail = (config.delta_conv_kernel - 1) * config.delta_channels
    recurrent_bytes = len(config.delta_layers) * (matrix * 4 + tail * dtype.itemsize)
    sources = 2 * config.n_layers + 1
    row_numbers = 3 * sources * config.dim + (config.delta_conv_kernel + 4) * config.delta_channels
    return Footprint(
        weights=weights,
        slot=config.max_rows * kv_numbers * dtype.itemsize + recurrent_bytes,
        working=config.max_rows * row_numbers * 4,
    )


def _tensors_there(folder: Path) -> dict[str, Tensor]:
    files = (folder / name for name in WEIGHT_FILES)
    file = next((file for file in files if file.is_file()), None)
    return {} if file is None else read_tensors(file)


def _check_names(config: Zonos3Config, tensors: dict[str, Tensor]) -> None:
    expected = shapes_of(empty_backbone(config))
    if set(tensors) - set(expected):
        raise _unresolved("model: the weights do not fit params.json.", tensors, set(expected))
    check_tensors(expected, tensors, "the weights do not fit params.json")


def _unresolved(
    reason: str, tensors: dict[str, Tensor], known: set[str] | frozenset[str] = frozenset()
) -> CheckpointError:
    """The refusal of a folder that is zonos3 by its own word and not in this studio's layout."""
    names = sorted(set(tensors) - known)
    listed = ", ".join(f"{name} {list(tensors[name].shape)}" for name in names[:NAMES_SHOWN])
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    told = f"; unresolved tensors: {listed}{more}" if names else ""
    return CheckpointError(
        f"{reason.removesuffix('.')}{told}; to read the release's own layout, these facts are"
        f" missing: {missing_facts()}."
    )
