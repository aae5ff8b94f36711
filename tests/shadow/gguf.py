"""A shadow of the GGUF files of zonos2.cpp, written and read back by the package gguf itself.

As ``release``, it is made from the published description (spec/zonos2.md 1.4) and from nothing of
``engine``, in both directions: what the engine gets wrong is not wrong here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.shadow.release import RELEASE_PARAMS, SHADOW_SIZES

# Rows of 256 numbers, as K quantisations need them, in six layers of which two have experts.
PARAMS: Mapping[str, Any] = (
    RELEASE_PARAMS
    | SHADOW_SIZES
    | {
        "dim": 256,
        "head_dim": 64,
        "n_kv_heads": 2,
        "multiple_of": 256,
        "n_layers": 6,
        "moe_n_experts": 4,
        "moe_router_dim": 32,
        "special_topk_layers": {"4": 2},
    }
)
HIGH_PRECISION = ("audio_embd", "text_embd", "spk_", "output.", "router_")
K_BLOCK_BYTES = {"Q4_K": 144, "Q6_K": 210}  # of 256 numbers


def metadata(params: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says beside its tensors, without the architecture's prefix."""
    multiple, dim, layers = params["multiple_of"], params["dim"], params["n_layers"]
    first, end = params["moe_start_from_layer"], params["moe_end_from_layer"]
    topk = params["special_topk_layers"]
    return {
        "block_count": layers,
        "context_length": params["max_seqlen"],
        "embedding_length": dim,
        "head_dim": params["head_dim"],
        "attention.head_count": params["n_heads"] or dim // params["head_dim"],
        "attention.head_count_kv": params["n_kv_heads"],
        "feed_forward_length": multiple * math.ceil(params["ffn_dim_multiplier"] * dim / multiple),
        "rope.freq_base": params["rope_theta"],
        "attention.layer_norm_rms_epsilon": params["norm_eps"],
        "attention.qk_norm_epsilon": 1e-6,
        "logit_softcap": params["loss_softcap"],
        "expert_count": params["moe_n_experts"],
        "expert_used_count_per_layer": [
            topk.get(str(layer), params["moe_router_topk"]) if first <= layer < layers - end else 0
            for layer in range(layers)
        ],
        "n_codebooks": params["n_codebooks"],
        "codebook_size": params["codebook_size"],
        "audio_vocab": params["codebook_size"] + 2,
        "eoa_id": params["eoa_id"],
        "audio_pad_id": params["audio_pad_id"],
        "text_vocab": params["text_vocab"],
        "speaker.embedding_dim": params["speaker_embedding_dim"],
        "speaker.lda_dim": params["speaker_lda_dim"],
    }


def stored_tensors(weights: Mapping[str, Tensor], params: Mapping[str, Any]) -> dict[str, Tensor]:
    """A release's weights under the names, and in the pieces, of a file."""
    books = params["n_codebooks"]
    stored = {
        **{
            f"audio_embd.{k}.weight": weights[f"multi_embedder.embedders.{k}.weight"]
            for k in range(books)
        },
        "text_embd.weight": weights[f"multi_embedder.embedders.{books}.weight"],
        "spk_lda.weight": weights["speaker_lda_projection.weight"],
        "spk_lda.bias": weights["speaker_lda_projection.bias"],
        "spk_proj.weight": weights["speaker_projection.weight"],
        "spk_proj.bias": weights["speaker_projection.bias"],
        "output_norm.weight": weights["out_norm.weight"],
        "output.weight": weights["multi_output.weight"],
    }
    for layer in range(params["n_layers"]):
        old, new = f"layers.{layer}.", f"blk.{layer}."
        keys, values = weights[old + "attention.wkv.weight"]
        stored |= {
            new + "attn_norm.weight": weights[old + "attention_norm.weight"],
            new + "ffn_norm.weight": weights[old + "ffn_norm.weight"],
            new + "attn_q.weight": weights[old + "attention.wq.weight"],
            new + "attn_k.weight": keys,
            new + "attn_v.weight": values,
            new + "attn_output.weight": weights[old + "attention.wo.weight"],
            new + "attn_gate.weight": weights[old + "attention.gater.weight"],
            new + "attn_temp": weights[old + "attention.temp"].flatten().abs(),
        }
        old += "feed_forward."
        if old + "w_in.weight" in weights:
            up, gate = weights[old + "w_in.weight"]
            stored |= {
                new + "ffn_up.weight": up,
                new + "ffn_gate.weight": gate,
                new + "ffn_down.weight": weights[old + "w_out.weight"],
            }
            continue
        stored |= {
            new + "ffn_gate_exps.weight": weights[old + "experts.w13"][:, 0::2],
            new + "ffn_up_exps.weight": weights[old + "experts.w13"][:, 1::2],
            new + "ffn_down_exps.weight": weights[old + "experts.w2"],
            new + "router_down.weight": weights[old + "router.down_proj.weight"],
            new + "router_down.bias": weights[old + "router.down_proj.bias"],
            new + "router_mlp0.weight": weights[old + "router.router_mlp.0.weight"],
            new + "router_mlp0.bias": weights[old + "router.router_mlp.0.bias"],
            new + "router_mlp2.weight": weights[old + "router.router_mlp.2.weight"],
            new + "router_mlp2.bias": weights[old + "router.router_mlp.2.bias"],
            new + "router_mlp4.weight": weights[old + "router.router_mlp.4.weight"],
            new + "router_norm.weight": weights[old + "router.rmsnorm_eda.weight"],
            new + "router_bias": weights[old + "router.balancing_biases"],
        }
        if old + "router.router_states_scale" in weights:
            stored[new + "router_eda_scale"] = weights[old + "router.router_states_scale"]
    return stored


def release_tensors(stored: Mapping[str, Tensor], params: Mapping[str, Any]) -> dict[str, Tensor]:
    """The inverse of ``stored_tensors``."""
    books = params["n_codebooks"]
    weights = {
        **{
            f"multi_embedder.embedders.{k}.weight": stored[f"audio_embd.{k}.weight"]
            for k in range(books)
        },
        f"multi_embedder.embedders.{books}.weight": stored["text_embd.weight"],
        "speaker_lda_projection.weight": stored["spk_lda.weight"],
        "speaker_lda_projection.bias": stored["spk_lda.bias"],
        "speaker_projection.weight": stored["spk_proj.weight"],
        "speaker_projection.bias": stored["spk_proj.bias"],
        "out_norm.weight": stored["output_norm.weight"],
        "multi_output.weight": stored["output.weight"],
    }
    for layer in range(params["n_layers"]):
        old, new = f"blk.{layer}.", f"layers.{layer}."
        halves = [stored[old + "attn_k.weight"], stored[old + "attn_v.weight"]]
        weights |= {
            new + "attention_norm.weight": stored[old + "attn_norm.weight"],
            new + "ffn_norm.weight": stored[old + "ffn_norm.weight"],
            new + "attention.wq.weight": stored[old + "attn_q.weight"],
            new + "attention.wkv.weight": torch.stack(halves),
            new + "attention.wo.weight": stored[old + "attn_output.weight"],
            new + "attention.gater.weight": stored[old + "attn_gate.weight"],
            new + "attention.temp": stored[old + "attn_temp"].reshape(1, -1, 1),
        }
        new += "feed_forward."
        if old + "ffn_up.weight" in stored:
            halves = [stored[old + "ffn_up.weight"], stored[old + "ffn_gate.weight"]]
            weights |= {
                new + "w_in.weight": torch.stack(halves),
                new + "w_out.weight": stored[old + "ffn_down.weight"],
            }
            continue
        gate, up = stored[old + "ffn_gate_exps.weight"], stored[old + "ffn_up_exps.weight"]
        weights |= {
            new + "experts.w13": torch.stack([gate, up], dim=2).flatten(1, 2),
            new + "experts.w2": stored[old + "ffn_down_exps.weight"],
            new + "router.down_proj.weight": stored[old + "router_down.weight"],
            new + "router.down_proj.bias": stored[old + "router_down.bias"],
            new + "router.router_mlp.0.weight": stored[old + "router_mlp0.weight"],
            new + "router.router_mlp.0.bias": stored[old + "router_mlp0.bias"],
            new + "router.router_mlp.2.weight": stored[old + "router_mlp2.weight"],
            new + "router.router_mlp.2.bias": stored[old + "router_mlp2.bias"],
            new + "router.router_mlp.4.weight": stored[old + "router_mlp4.weight"],
            new + "router.rmsnorm_eda.weight": stored[old + "router_norm.weight"],
            new + "router.balancing_biases": stored[old + "router_bias"],
        }
        if old + "router_eda_scale" in stored:
            weights[new + "router.router_states_scale"] = stored[old + "router_eda_scale"]
    return weights


def write_gguf(
    path: Path,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    *,
    kind: str = "F16",
    experts: str | None = None,
    architecture: str = "zonos2",
) -> Path:
    """Write ``tensors`` (of a file's names) and ``facts``; vectors are float32, matrices ``kind``.

    The sensitive ones stay in F16. ``experts`` Q4_K or Q6_K fills theirs with random blocks, as the
    package can read these and not make them.
    """
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    writer = GGUFWriter(path, architecture)
    for key, value in facts.items():
        name = f"{architecture}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    random = np.random.default_rng(5)
    for name, tensor in tensors.items():
        wide = tensor.float().numpy()
        if wide.ndim < 2:
            writer.add_tensor(name, wide)
        elif experts and "_exps" in name:
            blocks = _random_blocks(wide.shape, experts, random)
            writer.add_tensor(name, blocks, raw_dtype=GGMLQuantizationType[experts])
        elif kind == "F16" or any(part in name for part in HIGH_PRECISION):
            writer.add_tensor(name, wide.astype(np.float16))
        else:
            quantised = GGMLQuantizationType[kind]
            writer.add_tensor(name, quantize(wide, quantised), raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def read_gguf(path: Path) -> dict[str, Tensor]:
    """Every tensor of a file, dequantised to float32, in torch's order of dimensions."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    return {
        tensor.name: torch.tensor(dequantize(tensor.data, tensor.tensor_type))
        for tensor in GGUFReader(path).tensors
    }


def _random_blocks(
    shape: tuple[int, ...], kind: str, random: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Random bytes whose factors (float16, within the block) make numbers of about 1 / 16."""
    size = K_BLOCK_BYTES[kind]
    blocks = random.integers(0, 256, (*shape[:-1], shape[-1] // 256, size), dtype=np.uint8)
    if kind == "Q4_K":  # factor and offset come first
        blocks[..., 0:4] = np.array([2e-4, 1.5e-3], np.float16).view(np.uint8)
    else:  # the factor comes last, behind 16 signed scales
        blocks[..., -2:] = np.array([5e-5], np.float16).view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)
