"""A ZONOS3-shaped checkpoint with random weights: every part of the family at a small width.

Layers, mixers, codebooks, frame rate and buckets are those of the model's card; widths are not. It
says nothing but noise. The tokenizer is a real byte-level file with tokens across spaces.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.codec.istft import IstftCodec, IstftCodecConfig
from engine.zonos3.checkpoint import empty_backbone
from engine.zonos3.config import Zonos3Config

TEXT = "The boat is tied up, and the sea is calm. " * 3

PARAMS: dict[str, Any] = {
    "model_type": "zonos3",
    "dim": 32,
    "n_layers": 11,
    "attention_layers": [3, 7],
    "norm_eps": 1e-6,
    "max_rows": 1024,
    "n_heads": 4,
    "n_kv_heads": 1,
    "head_dim": 8,
    "rope_theta": 10_000.0,
    "delta_key_heads": 2,
    "delta_value_heads": 4,
    "delta_key_dim": 8,
    "delta_value_dim": 8,
    "delta_conv_kernel": 4,
    "delta_beta_max": 1.0,
    "ffn_dim": 48,
    "moe_first_layer": 1,
    "moe_num_experts": 8,
    "moe_top_k": 2,
    "moe_router_dim": 16,
    "moe_latent_dim": 16,
    "moe_ffn_dim": 24,
    "num_codebooks": 10,
    "codebook_size": 4096,
    "loss_softcap": 15.0,
    "tokenizer_size": 264,
    "bos_id": 262,
    "eos_id": 263,
    "condition_edges": {
        "lufs": [-45, -40, -35, -30, -26, -23, -20, -17, -14],
        "bandwidth_hz": [3500, 4500, 6000, 7500, 9000, 11000, 13000, 16000, 19000],
        "speaking_rate": list(range(4, 33)),
    },
    "speaker_dim": 192,
    "max_clip_frames": 900,
    "segment_chars": 150,
    "sampling_defaults": {
        "temperature": 1.0,
        # The end of audio has logit 0 (see below): about half of the codes are likelier.
        "top_k": 8,
        "top_p": 0.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "repetition_window": 0,
        "repetition_codebooks": -1,
    },
    "default_voice": "ann",
}
CODEC: dict[str, Any] = {
    "codec_type": "istft",
    "sample_rate_hz": 44_100,
    "hop": 2940,
    "n_codebooks": 10,
    "codebook_size": 4096,
    "decoder": {
        "width": 16,
        "hidden": 24,
        "kernel": 3,
        "num_blocks": 2,
        "resolutions": [{"n_fft": 1176, "hop": 294}, {"n_fft": 5880, "hop": 1470}],
        "max_magnitude": 100.0,
        "min_envelope": 0.1,
    },
}


def make_checkpoint(folder: Path, *, ends: bool = False, seed: int = 0, **changed: Any) -> Path:
    """Write a whole checkpoint; without ``ends`` its sampling never draws the end of audio."""
    params = PARAMS | changed
    generator = torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(params))
    weights = random_weights(Zonos3Config.from_dict(params), generator)
    if not ends:
        head = weights["head.weight"].view(params["num_codebooks"], -1, params["dim"])
        head[:, params["codebook_size"]] = 0.0
    save_file(weights, folder / "model.safetensors")
    codec = CODEC | {key: params[key] for key in ("codebook_size",)}
    (folder / "codec.json").write_text(json.dumps(codec))
    save_file(random_codec(codec, generator), folder / "codec.safetensors")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    dim = params["speaker_dim"]
    voices = {name: torch.randn(dim, generator=generator) for name in ("ann", "ben")}
    save_file(voices, folder / "voices.safetensors")
    clip = torch.randint(0, params["codebook_size"], (30, 10), generator=generator)
    save_file({"ben": clip.to(torch.int16)}, folder / "voice_clips.safetensors")
    return folder


def random_weights(config: Zonos3Config, generator: torch.Generator) -> dict[str, Tensor]:
    """Weights at which every layer has a say; decay as trained models begin (spec 4.1)."""
    weights = {}
    for name, tensor in empty_backbone(config).state_dict().items():
        drawn = torch.randn(tensor.shape, generator=generator)
        if name.endswith("decay_log"):
            drawn = (torch.rand(tensor.shape, generator=generator) * 16 + 0.01).log()
        elif name.endswith("decay_bias"):
            low, high = math.log(1e-3), math.log(0.1)
            step = (torch.rand(tensor.shape, generator=generator) * (high - low) + low).exp()
            drawn = step + (-torch.expm1(-step)).log()
        elif name.endswith("balancing_biases"):
            drawn = 0.05 * drawn  # beside probabilities of about 1 / 8
        elif name.endswith("query") or (
            tensor.ndim > 1 and "embedder" not in name and "temp" not in name
        ):
            drawn = drawn / math.sqrt(tensor.shape[-1])
        elif "norm" in name:
            drawn = 1 + 0.1 * drawn
        weights[name] = drawn
    return weights


def random_codec(raw: dict[str, Any], generator: torch.Generator) -> dict[str, Tensor]:
    """Weights of the codec; its sound is loud enough to be heard and far from clipping."""
    codec = IstftCodec(IstftCodecConfig.from_dict(raw))
    weights = {}
    for name, tensor in codec.state_dict().items():
        drawn = torch.randn(tensor.shape, generator=generator)
        weights[name] = drawn / math.sqrt(tensor.shape[-1]) if tensor.ndim > 1 else drawn
    return weights


def tokenizer() -> dict[str, Any]:
    """A byte-level BPE file whose merges cross a space: "the sea" can be one token."""
    bytes_ = [chr(code) for code in _byte_symbols()]
    merges = [["t", "h"], ["th", "e"], ["the", "Ġ"], ["theĠ", "s"], ["e", "a"], ["theĠs", "ea"]]
    words = [*bytes_, *("".join(pair) for pair in merges), "<s>", "</s>"]
    special = [
        {
            "id": words.index(token),
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token in ("<s>", "</s>")
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level | {"use_regex": False},
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {word: index for index, word in enumerate(words)},
            "merges": merges,
        },
    }


def _byte_symbols() -> list[int]:
    """The printable character that stands for each byte in such files."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [byte if byte in plain else next(rest) for byte in range(256)]
