"""The Descript Audio Codec's decoder: nine codes per 512 samples at 44.1 kHz to a waveform.

- Sizes come from the file's own configuration, so the release and a small model of the same
  architecture are one class; names and files are the business of ``engine.codec.dac_files``.
- Computed in float32: transposed convolutions in bfloat16 are audibly noisy.
- Source: spec/zonos2.md section 8.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.codec.context import context_frames
from engine.codec.dac_files import DILATIONS, KERNEL, DacConfig, decoder_tensors, read_descript
from engine.weights import check_tensors, read_json, read_tensors, shapes_of

DESCRIPT_FILE = "weights_44khz_8kbps_0.0.1.pth"
TRANSFORMERS_FOLDER = "dac_44khz"


class Snake(nn.Module):
    """x + sin(alpha x)^2 / alpha, with an alpha per channel: [B, channels, steps]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(x, (self.alpha + 1e-9).reciprocal(), (self.alpha * x).sin().square())


class ResidualUnit(nn.Module):
    """A dilated and a pointwise convolution beside the identity: [B, channels, steps]."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        padding = KERNEL // 2 * dilation
        self.block = nn.Sequential(
            Snake(channels),
            nn.Conv1d(channels, channels, KERNEL, padding=padding, dilation=dilation),
            Snake(channels),
            nn.Conv1d(channels, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.block(x)
        return x + changed


class UpsamplingBlock(nn.Module):
    """``stride`` times the steps and half the channels, then three residual units."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        half = channels // 2
        self.block = nn.Sequential(
            Snake(channels),
            nn.ConvTranspose1d(channels, half, 2 * stride, stride, padding=stride // 2),
            *(ResidualUnit(half, dilation) for dilation in DILATIONS),
        )

    def forward(self, x: Tensor) -> Tensor:
        upsampled: Tensor = self.block(x)
        return upsampled


class DacDecoder(nn.Module):
    """Latents [B, latent_dim, T] to samples [B, 1, T * hop] in (-1, 1)."""

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        widths = [config.width >> block for block in range(len(config.strides) + 1)]
        self.model = nn.Sequential(
            nn.Conv1d(config.latent_dim, config.width, KERNEL, padding=KERNEL // 2),
            *map(UpsamplingBlock, widths, config.strides),
            Snake(widths[-1]),
            nn.Conv1d(widths[-1], 1, KERNEL, padding=KERNEL // 2),
            nn.Tanh(),
        )

    def forward(self, latents: Tensor) -> Tensor:
        samples: Tensor = self.model(latents)
        return samples


class Codebook(nn.Module):
    """Codes [B, T] of one codebook to their share of the latents [B, latent_dim, T]."""

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        self.codebook = nn.Embedding(config.codebook_size, config.codebook_dim)
        self.out_proj = nn.Conv1d(config.codebook_dim, config.latent_dim, 1)

    def forward(self, codes: Tensor) -> Tensor:
        # The vectors are used as stored: only the encoder's search normalises them.
        share: Tensor = self.out_proj(self.codebook(codes).mT)
        return share


class DacQuantizer(nn.Module):
    """Codes [B, T, num_codebooks] to the sum of all codebooks' latents [B, latent_dim, T]."""

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(Codebook(config) for _ in range(config.num_codebooks))

    def forward(self, codes: Tensor) -> Tensor:
        shares = [book(codes[..., k]) for k, book in enumerate(self.quantizers)]
        return torch.stack(shares).sum(0)


class DacCodec(nn.Module):
    """Codes to samples; fulfils ``engine.codec.base.Codec``. Call under ``inference_mode``."""

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        self.sample_rate_hz = config.sample_rate_hz
        self.hop = config.hop
        self.num_codebooks = config.num_codebooks
        self.codebook_size = config.codebook_size
        self.context_left, self.context_right = context_frames(config.layers)
        self.quantizer = DacQuantizer(config)
        self.decoder = DacDecoder(config)

    @classmethod
    def open(
        cls, folder: Path, raw_config: Mapping[str, Any], device: torch.device | str
    ) -> DacCodec:
        """Load ``codec.safetensors``, described by transformers' keys in ``codec.json``."""
        config = DacConfig.from_transformers(raw_config)
        return cls._filled(config, read_tensors(folder / "codec.safetensors"), device)

    @classmethod
    def open_transformers(cls, folder: Path, device: torch.device | str) -> DacCodec:
        """Load the ``config.json`` and ``model.safetensors`` of a transformers ``DacModel``."""
        config = DacConfig.from_transformers(read_json(folder / "config.json"))
        return cls._filled(config, read_tensors(folder / "model.safetensors"), device)

    @classmethod
    def open_descript(cls, file: Path, device: torch.device | str) -> DacCodec:
        """Load descript's own weight file, which carries its sizes along."""
        return cls._filled(*read_descript(file), device)

    @classmethod
    def find(cls, folder: Path, device: torch.device | str) -> DacCodec | None:
        """The DAC that stands with a checkpoint in ``folder`` as people have it, or None.

        Descript's file in ``folder`` or its subfolder ``dac_44khz``, or transformers' two files
        in that subfolder. Raises ``CheckpointError`` when what is there cannot be used.
        """
        subfolder = folder / TRANSFORMERS_FOLDER
        for file in (folder / DESCRIPT_FILE, subfolder / DESCRIPT_FILE):
            if file.is_file():
                return cls.open_descript(file, device)
        if (folder / "config.json").is_file() and not (folder / "params.json").is_file():
            subfolder = folder  # a repository of the codec alone
        return cls.open_transformers(subfolder, device) if subfolder.is_dir() else None

    @classmethod
    def _filled(
        cls, config: DacConfig, tensors: Mapping[str, Tensor], device: torch.device | str
    ) -> DacCodec:
        with torch.device("meta"):
            codec = cls(config)
        ready = decoder_tensors(tensors, num_blocks=len(config.strides))
        check_tensors(shapes_of(codec), ready, "the DAC codec's tensors do not fit its sizes")
        codec.to_empty(device=device).load_state_dict(ready)
        return codec.eval().requires_grad_(False)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def decode_rows(self) -> int:
        """Rows of every streaming call: 1 on a CPU, where a lone request would pay for the rest."""
        return 1 if self.device.type == "cpu" else 8

    def decode(self, codes: Tensor) -> Tensor:
        """Codes [B, T, num_codebooks] int64 to samples [B, T * hop] float32."""
        batch, num_frames, _ = codes.shape
        if num_frames == 0:
            return torch.zeros(batch, 0, device=self.device)
        samples: Tensor = self.decoder(self.quantizer(codes))  # [B, 1, T * hop]
        return samples[:, 0]
