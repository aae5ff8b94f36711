"""Stage ``codec``: fit a new quantizer to speech and start a codec folder with it.

Decoder, shards and language model made with another quantizer do not fit the new one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from engine.codec.nano import NanoCodecConfig
from engine.weights import read_json
from training.alignment import align
from training.decoder import trainable_codec
from training.encode import frame_features
from training.quantizer import Quantizer, codec_features, fit
from training.speech import read_takes
from training.work import Work, replacing


def fit_codec(work: Work, base: Path, hours: float) -> Path:
    """Fit to at most ``hours`` of speech -> folder ``codec`` with an untrained decoder."""
    folder = work.folder("codec")
    shutil.copyfile(base / "codec.json", folder / "codec.json")
    raw = read_json(folder / "codec.json")
    config = NanoCodecConfig.from_dict(raw)
    log_mel, windows = codec_features(folder)
    features, phonemes, num_frames = [], [], 0
    for path in sorted(work.folder("speech").glob("*.jsonl")):
        for take, samples in read_takes(path):
            features.append(frame_features(samples, log_mel, windows))
            phonemes.append(align(take)[1])
            num_frames += take.num_frames
        if num_frames >= hours * 90_000:
            break
    quantizer = fit(
        torch.cat(features),
        torch.from_numpy(np.concatenate(phonemes)),
        config.num_codebooks,
        config.codebook_size,
    )
    write_codec(folder, quantizer, trainable_codec(folder, None).decoder.state_dict())
    # Silence is what a sentence begins with; its codes belong to the language model's params.json.
    silence = torch.full((1, len(quantizer.mean)), float(np.log(np.float32(log_mel.log_floor))))
    with replacing(folder / "silence.json") as temporary:
        temporary.write_text(json.dumps(quantizer.encode(silence)[0].tolist()))
    work.journal("codec").add(frames=num_frames, silence=quantizer.encode(silence)[0].tolist())
    return folder


def write_codec(folder: Path, quantizer: Quantizer, decoder: dict[str, torch.Tensor]) -> None:
    """Write ``codec.safetensors``: encoder float32, codebooks and decoder float16."""
    tensors = {f"decoder.{name}": value.half() for name, value in decoder.items()}
    tensors |= quantizer.tensors()
    with replacing(folder / "codec.safetensors") as temporary:
        save_file({name: value.contiguous() for name, value in tensors.items()}, temporary)
