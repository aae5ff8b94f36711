"""Checkpoints with random weights, of any size, that speak noise as fast as real ones speak words.

- Names and shapes are the release's; nothing outside this module knows that a model is random.
- Their end of audio lies beyond the vocabulary, so a request lasts as long as it is asked to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine import Sampling
from engine.codec.dac import DacCodec
from engine.codec.dac_files import DacConfig
from engine.weights import shapes_of
from engine.zonos2.checkpoint import empty_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.family import Zonos2Family

# spec/zonos2.md 1.2 and 8.1; controls add no tensors and are left out.
RELEASE: Mapping[str, Any] = {
    "model_type": "zonos2",
    "dtype": "bfloat16",
    "n_layers": 28,
    "dim": 2048,
    "head_dim": 128,
    "n_kv_heads": 4,
    "ffn_dim_multiplier": 1.5,
    "multiple_of": 256,
    "norm_eps": 1e-5,
    "rope_theta": 10000,
    "max_seqlen": 6144,
    "n_codebooks": 9,
    "codebook_size": 1024,
    "eoa_id": 1 << 20,
    "audio_pad_id": 1025,
    "text_vocab": 519,
    "loss_softcap": 15.0,
    "speaker_enabled": True,
    "speaker_embedding_dim": 2048,
    "speaker_lda_dim": 1024,
    "moe_n_experts": 16,
    "moe_router_topk": 1,
    "moe_start_from_layer": 3,
    "moe_end_from_layer": 1,
    "moe_router_dim": 128,
    "special_topk_layers": {"26": 2},
}
REDUCED = {**RELEASE, "n_layers": 12, "dim": 1024, "special_topk_layers": {"10": 2}}
TINY = {
    **RELEASE,
    "n_layers": 5,
    "dim": 128,
    "head_dim": 32,
    "multiple_of": 64,
    "max_seqlen": 512,
    "moe_n_experts": 4,
    "moe_router_dim": 32,
    "special_topk_layers": {"3": 2},
}
SIZES: Mapping[str, Mapping[str, Any]] = {"tiny": TINY, "reduced": REDUCED, "release": RELEASE}
CODEC_WIDTH = 1536
CODEC: dict[str, Any] = {
    "codec_type": "dac",
    "sampling_rate": 44_100,
    "n_codebooks": 9,
    "codebook_size": 1024,
    "codebook_dim": 8,
    "encoder_hidden_size": 64,
    "decoder_hidden_size": CODEC_WIDTH,
    "downsampling_ratios": [2, 4, 8, 8],
}
# Every code about equally likely: no repetition that the engine would mend.
SAMPLING = Sampling(temperature=2.0, top_k=1024, top_p=0.0, min_p=0.0, repetition_penalty=1.0)
LOUDNESS = 0.1  # RMS of the codec's noise: no silence that the engine would mend
SHARD_BYTES = 1 << 30
NOISE_NUMBERS = 1 << 24  # random numbers drawn once and laid over every tensor


def make_checkpoint(folder: Path, size: str, codec_width: int | None = None) -> Path:
    """Write a checkpoint of one of ``SIZES`` and a DAC into ``folder``, unless it is there.

    The DAC has the release's width unless ``codec_width`` says otherwise.
    """
    params = SIZES[size]
    if (folder / "params.json").exists() and (folder / "codec.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    shapes = shapes_of(empty_backbone(Zonos2Config.from_dict(params)))
    noise = torch.randn(NOISE_NUMBERS, generator=torch.Generator().manual_seed(0)).bfloat16()
    shard: dict[str, Tensor] = {}
    where: dict[str, str] = {}

    def flush() -> None:
        name = f"model-{len(set(where.values())) + 1:05}.safetensors"
        save_file(shard, folder / name)
        where.update(dict.fromkeys(shard, name))
        shard.clear()

    for name, shape in shapes.items():
        shard[name] = _random(name, torch.Size(shape), noise)
        if sum(tensor.nbytes for tensor in shard.values()) > SHARD_BYTES:
            flush()
    flush()
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    codec_config = {**CODEC, "decoder_hidden_size": codec_width or CODEC["decoder_hidden_size"]}
    save_file(
        {name: tensor.contiguous() for name, tensor in random_codec(codec_config).items()},
        folder / "codec.safetensors",
    )
    (folder / "codec.json").write_text(json.dumps(codec_config))
    (folder / "params.json").write_text(json.dumps(params))  # last: now it is whole
    return folder


def _random(name: str, shape: torch.Size, noise: Tensor) -> Tensor:
    count = shape.numel()
    start = hash_of(name) % (len(noise) // 2)
    repeats = -(-count // (len(noise) // 2))
    drawn = noise[start : start + len(noise) // 2].repeat(repeats)[:count].view(shape)
    if "norm" in name or name.endswith("temp"):
        return (1 + 0.1 * drawn).contiguous()
    return _evened(name, drawn * shape[-1] ** -0.5).contiguous()


def _evened(name: str, tensor: Tensor) -> Tensor:
    """Make a router choose all experts about equally often, as a trained one does.

    What its GELUs give has a mean above zero, which would favour the same experts in every row.
    """
    if name.endswith((".balancing_biases", ".bias")):
        return torch.zeros_like(tensor)
    if name.endswith("router_mlp.4.weight"):
        return tensor - tensor.mean(dim=-1, keepdim=True)
    return tensor


def hash_of(name: str) -> int:
    """A number that is the same in every process."""
    return sum((index + 1) * byte * 7919 for index, byte in enumerate(name.encode()))


@torch.inference_mode()
def random_family(size: str, device: torch.device, dtype: torch.dtype) -> Zonos2Family:
    """A random checkpoint of one of ``SIZES`` made where it is used, without files."""
    config = Zonos2Config.from_dict(SIZES[size])
    model = empty_backbone(config).to(dtype).to_empty(device=device)
    generator = torch.Generator(device).manual_seed(0)
    for name, tensor in model.state_dict().items():
        is_scale = "norm" in name or name.endswith("temp")
        if is_scale:
            tensor.fill_(1.0)
        else:
            tensor.normal_(0.0, tensor.shape[-1] ** -0.5, generator=generator)
            tensor.copy_(_evened(name, tensor))
    model.prepare()
    return Zonos2Family(config, model.eval().requires_grad_(False), device)


def random_dac(width: int, device: torch.device) -> DacCodec:
    """The DAC of ``random_codec`` as the engine takes it."""
    config = {**CODEC, "decoder_hidden_size": width}
    codec = DacCodec(DacConfig.from_transformers(config)).requires_grad_(False).eval()
    codec.load_state_dict(random_codec(config))
    return codec.to(device)


@torch.inference_mode()
def random_codec(config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a DAC whose noise has the loudness of speech."""
    generator = torch.Generator().manual_seed(1)
    codec = DacCodec(DacConfig.from_transformers(config)).requires_grad_(False).eval()
    for name, parameter in codec.named_parameters():
        if name.endswith("alpha"):
            parameter.fill_(1.0)
        else:
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 1 << 8
            parameter.normal_(0.0, fan_in**-0.5, generator=generator)
    codes = torch.randint(0, codec.codebook_size, (1, 12, codec.num_codebooks), generator=generator)
    for _ in range(3):  # tanh bends the scale a little
        loudness = codec.decode(codes).square().mean().sqrt()
        codec.decoder.model[-2].weight.mul_(LOUDNESS / loudness)  # type: ignore[operator, union-attr]
    return {name: tensor.clone() for name, tensor in codec.state_dict().items()}
