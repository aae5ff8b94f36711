"""A shadow of the ZONOS2 release: its keys, names and layers, at a width that opens in a second.

Everything is written from the published description (spec/zonos2.md 1, 6.1, 7.1, 8.1) and from
nothing of ``engine``, so that a name the engine gets wrong is not wrong here too. The weights are
random with a fixed seed and scaled so that the logits are lively: it makes noise, of any length.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

_SILENCE = ("0-0.05", "0.05-0.1", "0.1-0.25", "0.25-0.5", "0.5-1", "1-2", "2-4", "4+")
QUALITY_BUCKETS: Mapping[str, tuple[str, ...]] = {
    "lufs": (
        "-1000--50", "-50--45.5", "-45.5--41", "-41--36.5", "-36.5--32", "-32--27.5",
        "-27.5--23", "-23--18.5", "-18.5--14", "-14--9.5", "-9.5--5", "-5+",
    ),
    "estimated_snr": (
        "-1000-0", "0-6", "6-12", "12-18", "18-24", "24-30", "30-36", "36-42", "42-48", "48-54",
        "54-60", "60+",
    ),
    "max_pause": tuple(f"{low / 2:g}-{(low + 1) / 2:g}" for low in range(12)),
    "estimated_bandlimit_hz": (
        "495.3-3433", "3433-6371", "6371-9310", "9310-12248", "12248-15186", "15186-18124",
        "18124-21062", "21062-24000",
    ),
    "leading_silence_s": _SILENCE,
    "trailing_silence_s": _SILENCE,
}  # fmt: skip
# The released params.json (spec 1.2). n_heads is null there: dim / head_dim.
RELEASE_PARAMS: Mapping[str, Any] = {
    "model_type": "zonos2",
    "dtype": "bfloat16",
    "n_layers": 28,
    "dim": 2048,
    "head_dim": 128,
    "n_heads": None,
    "n_kv_heads": 4,
    "ffn_dim_multiplier": 1.5,
    "multiple_of": 256,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_seqlen": 6144,
    "n_codebooks": 9,
    "codebook_size": 1024,
    "eoa_id": 1024,
    "audio_pad_id": 1025,
    "text_vocab": 519,
    "loss_softcap": 15.0,
    "speaker_enabled": True,
    "speaker_embedding_dim": 2048,
    "speaker_lda_dim": 1024,
    "speaker_background_token_enabled": True,
    "accurate_mode_token_enabled": True,
    "speaking_rate_num_buckets": 8,
    "speaking_rate_buckets": ["0-8", "8-11", "11-14", "14-17", "17-21", "21-28", "28-40", "40+"],
    "quality_num_buckets": 60,
    "quality_features": list(QUALITY_BUCKETS),
    "quality_buckets": {name: list(labels) for name, labels in QUALITY_BUCKETS.items()},
    "quality_dropout": dict.fromkeys(QUALITY_BUCKETS, 0.25),
    "moe_impl": "sonic",
    "moe_n_experts": 16,
    "moe_router_topk": 1,
    "special_topk_layers": {"26": 2},
    "moe_router_dim": 128,
    "moe_start_from_layer": 3,
    "moe_end_from_layer": 1,
}
SHADOW_SIZES: Mapping[str, int] = {
    "dim": 64,
    "head_dim": 16,
    "n_kv_heads": 1,
    "multiple_of": 32,
    "speaker_lda_dim": 32,
    "moe_router_dim": 16,
}
# The published sizes of the speaker encoder but for its channels.
ENCODER_CONFIG: Mapping[str, Any] = {
    "model_type": "ecapa_tdnn_speaker_encoder",
    "mel_dim": 128,
    "enc_dim": 2048,
    "enc_channels": [64, 64, 64, 64, 192],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 16,
    "enc_res2net_scale": 8,
    "enc_se_channels": 16,
    "sample_rate": 24000,
}
# transformers' keys of DAC 44.1 kHz but for its two widths.
CODEC_CONFIG: Mapping[str, Any] = {
    "model_type": "dac",
    "sampling_rate": 44100,
    "n_codebooks": 9,
    "codebook_size": 1024,
    "codebook_dim": 8,
    "downsampling_ratios": [2, 4, 8, 8],
    "upsampling_ratios": [8, 8, 4, 2],
    "encoder_hidden_size": 4,
    "hidden_size": 64,
    "decoder_hidden_size": 64,
    "hop_length": 512,
}
EOA_GAIN = 1.3
EMOTIONS = ("happy", "sad", "angry", "surprised", "valence", "arousal")


def make_release(
    folder: Path,
    *,
    has_codec: bool = True,
    has_encoder: bool = True,
    ends: bool = True,
    num_shards: int = 0,
    **sizes: int,
) -> Path:
    """Write a shadow release into ``folder``: params.json, model.pth and both companions.

    It ends its speech by chance, after half a second or so; without ``ends`` it never does.
    ``num_shards`` safetensors files and their index take the place of model.pth. ``sizes`` override
    keys of params.json.
    """
    params = RELEASE_PARAMS | SHADOW_SIZES | sizes
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(params))
    weights = random_weights(params, ends)
    if num_shards:
        _save_shards(weights, folder, num_shards)
    else:
        torch.save({"model": weights}, folder / "model.pth")
    if has_codec:
        make_codec(folder / "dac_44khz")
    if has_encoder:
        make_encoder(folder / "speaker_encoder")
    return folder


def _save_shards(weights: dict[str, Tensor], folder: Path, num_shards: int) -> None:
    files: dict[str, str] = {}
    for shard in range(num_shards):
        file = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
        part = dict(list(weights.items())[shard::num_shards])
        save_file(part, folder / file)
        files |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def release_shapes(params: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of a checkpoint with its shape (spec 1.3); 507 for the release's sizes."""
    dim, head_dim, kv = params["dim"], params["head_dim"], params["n_kv_heads"]
    heads = params["n_heads"] or dim // head_dim
    multiple = params["multiple_of"]
    ffn = multiple * math.ceil(params["ffn_dim_multiplier"] * dim / multiple)
    experts, router, layers = params["moe_n_experts"], params["moe_router_dim"], params["n_layers"]
    first, end = params["moe_start_from_layer"], params["moe_end_from_layer"]
    audio_vocab = params["codebook_size"] + 2
    books, speaker = params["n_codebooks"], params["speaker_embedding_dim"]
    lda = params["speaker_lda_dim"]
    shapes: dict[str, tuple[int, ...]] = {
        **{f"multi_embedder.embedders.{k}.weight": (audio_vocab, dim) for k in range(books)},
        f"multi_embedder.embedders.{books}.weight": (params["text_vocab"] + 1, dim),
        "multi_output.weight": (books * audio_vocab, dim),
        "out_norm.weight": (dim,),
        "speaker_lda_projection.weight": (lda, speaker),
        "speaker_lda_projection.bias": (lda,),
        "speaker_projection.weight": (dim, lda),
        "speaker_projection.bias": (dim,),
    }
    for layer in range(layers):
        one: dict[str, tuple[int, ...]] = {
            "attention.wq.weight": (heads * head_dim, dim),
            "attention.wkv.weight": (2, kv * head_dim, dim),
            "attention.wo.weight": (dim, heads * head_dim),
            "attention.temp": (1, heads, 1),
            "attention.gater.weight": (heads, dim),
            "attention_norm.weight": (dim,),
            "ffn_norm.weight": (dim,),
        }
        if first <= layer < layers - end:
            one |= {
                "feed_forward.experts.w13": (experts, 2 * ffn, dim),
                "feed_forward.experts.w2": (experts, dim, ffn),
                "feed_forward.router.down_proj.weight": (router, dim),
                "feed_forward.router.down_proj.bias": (router,),
                "feed_forward.router.router_mlp.0.weight": (router, router),
                "feed_forward.router.router_mlp.0.bias": (router,),
                "feed_forward.router.router_mlp.2.weight": (router, router),
                "feed_forward.router.router_mlp.2.bias": (router,),
                "feed_forward.router.router_mlp.4.weight": (experts, router),
                "feed_forward.router.rmsnorm_eda.weight": (router,),
                "feed_forward.router.balancing_biases": (experts,),
            }
            if layer > first:
                one["feed_forward.router.router_states_scale"] = (router,)
        else:
            one |= {
                "feed_forward.w_in.weight": (2, ffn, dim),
                "feed_forward.w_out.weight": (dim, ffn),
            }
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in one.items()}
    return shapes


def random_weights(params: Mapping[str, Any], ends: bool = True) -> dict[str, Tensor]:
    """Lively random bfloat16 weights: every product keeps its scale, the logits spread by 3.

    The logit of end of audio spreads a little further, or is 0: never among the likely ones.
    """
    generator = torch.Generator().manual_seed(0)

    def one(name: str, shape: tuple[int, ...]) -> Tensor:
        noise = torch.randn(shape, generator=generator)
        if name.endswith("balancing_biases"):
            return noise * 0.01
        if "norm" in name or name.endswith("temp"):
            return 1 + noise * 0.1
        if name.endswith(("bias", "router_states_scale")):
            return noise * 0.3
        if "embedders" in name:
            return noise
        gain = 3 if name == "multi_output.weight" else 1
        return noise * gain / math.sqrt(shape[-1])

    weights = {name: one(name, shape).bfloat16() for name, shape in release_shapes(params).items()}
    by_book = weights["multi_output.weight"].unflatten(0, (params["n_codebooks"], -1))
    by_book[:, params["eoa_id"]] *= EOA_GAIN if ends else 0
    return weights


def make_codec(folder: Path) -> Path:
    """Write a narrow DAC in transformers' format, loud enough for the noise to be heard."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CODEC_CONFIG))
    generator = torch.Generator().manual_seed(1)
    width, latent = CODEC_CONFIG["decoder_hidden_size"], CODEC_CONFIG["hidden_size"]
    size, book_dim = CODEC_CONFIG["codebook_size"], CODEC_CONFIG["codebook_dim"]
    strides = CODEC_CONFIG["upsampling_ratios"]
    tensors: dict[str, Tensor] = {}

    def layer(name: str, *shape: int, fan_in: int, num_out: int, gain: float = 1.0) -> None:
        noise = torch.randn(shape, generator=generator)
        tensors[f"{name}.weight"] = noise * gain / math.sqrt(fan_in)
        tensors[f"{name}.bias"] = torch.randn(num_out, generator=generator) * 0.01

    def conv(name: str, out: int, into: int, kernel: int, gain: float = 1.0) -> None:
        layer(name, out, into, kernel, fan_in=into * kernel, num_out=out, gain=gain)

    def snake(name: str, channels: int) -> None:
        tensors[f"{name}.alpha"] = torch.rand(1, channels, 1, generator=generator) + 0.5

    for book in range(CODEC_CONFIG["n_codebooks"]):
        prefix = f"quantizer.quantizers.{book}"
        tensors[f"{prefix}.codebook.weight"] = torch.randn(size, book_dim, generator=generator)
        conv(f"{prefix}.out_proj", latent, book_dim, 1, gain=1 / 3)
    conv("decoder.conv1", width, latent, 7)
    for block, stride in enumerate(strides):
        prefix = f"decoder.block.{block}"
        into, out = width >> block, width >> (block + 1)
        snake(f"{prefix}.snake1", into)
        # Of a transposed convolution's kernel, two taps meet in every sample.
        layer(f"{prefix}.conv_t1", into, out, 2 * stride, fan_in=2 * into, num_out=out)
        for unit in (1, 2, 3):
            snake(f"{prefix}.res_unit{unit}.snake1", out)
            conv(f"{prefix}.res_unit{unit}.conv1", out, out, 7, gain=0.5)
            snake(f"{prefix}.res_unit{unit}.snake2", out)
            conv(f"{prefix}.res_unit{unit}.conv2", out, out, 1, gain=0.5)
    last = width >> len(strides)
    snake("decoder.snake1", last)
    conv("decoder.conv2", 1, last, 7, gain=0.2)
    save_file(tensors, folder / "model.safetensors")
    return folder


def make_encoder(folder: Path, config: Mapping[str, Any] = ENCODER_CONFIG) -> Path:
    """Write a narrow ECAPA-TDNN under its 76 published names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(2)
    tensors = {
        name: (torch.randn(shape, generator=generator) / math.sqrt(math.prod(shape[1:]) or 1))
        for name, shape in encoder_shapes(config).items()
    }
    save_file(
        {name: tensor.bfloat16() for name, tensor in tensors.items()}, folder / "model.safetensors"
    )
    return folder


def encoder_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The speaker encoder's tensors (spec 7.1): convolutions [out, in, kernel] with biases."""
    channels, kernels = config["enc_channels"], config["enc_kernel_sizes"]
    attention, squeeze = config["enc_attention_channels"], config["enc_se_channels"]
    scale, wide = config["enc_res2net_scale"], config["enc_channels"][-1]
    convolutions = {"blocks.0.conv": (channels[0], config["mel_dim"], kernels[0])}
    for block in (1, 2, 3):
        width, prefix = channels[block], f"blocks.{block}"
        part = width // scale
        convolutions |= {
            f"{prefix}.tdnn1.conv": (width, channels[block - 1], 1),
            f"{prefix}.tdnn2.conv": (width, width, 1),
            f"{prefix}.se_block.conv1": (squeeze, width, 1),
            f"{prefix}.se_block.conv2": (width, squeeze, 1),
        }
        convolutions |= {
            f"{prefix}.res2net_block.blocks.{index}.conv": (part, part, kernels[block])
            for index in range(scale - 1)
        }
    convolutions |= {
        "mfa.conv": (wide, sum(channels[1:4]), kernels[4]),
        "asp.tdnn.conv": (attention, 3 * wide, 1),
        "asp.conv": (wide, attention, 1),
        "fc": (config["enc_dim"], 2 * wide, 1),
    }
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in convolutions.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


def make_emotions(folder: Path, dim: int = SHADOW_SIZES["dim"]) -> Path:
    """Write emotion directions in ``proj`` space with a calibration (spec 6.1)."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(3)
    directions = {}
    for name in EMOTIONS:
        vector = generator.standard_normal(dim).astype(np.float32)
        np.save(folder / f"{name}.npy", vector)
        kind = "axis" if name in ("valence", "arousal") else "named"
        norm = float(np.linalg.norm(vector))
        directions[name] = {"file": f"{name}.npy", "kind": kind, "norm": norm}
    manifest = {
        "dim": dim,
        "ref_base_norm": 8.0,
        "neutral": "neutral",
        "space": "proj",
        "directions": directions,
    }
    calibration = {
        "objective": "max_prob",
        "grid": [2, 3, 4, 5, 6, 8],
        "min_prob": 0.12,
        "global_default": 3.0,
        "default": {"happy": 3.0, "sad": 3.0, "angry": 3.0, "surprised": 4.0},
        "by_speaker": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "calibration.json").write_text(json.dumps(calibration))
    return folder
