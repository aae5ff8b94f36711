"""The embedded 44.1 kHz codec's decoder: nine codes per 40 ms frame to a waveform.

- Codebook vectors are summed, refined by ConvNeXt blocks at two and then four steps per frame, and
  each last step becomes one spectrum, inverted and overlap-added.
- Weights are stored as float16 and computed as float32; every size comes from ``codec.json``.
- The waveform encoder in the same file serves training only: its tensors are known by name and left
  unread.
- Tensors are [B, steps, channels], so that the linear layers, three fifths of the time, need no
  transposition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.context import Convolution, Upsampling, context_frames
from engine.errors import CheckpointError
from engine.weights import load_strictly, read_tensors

UPSAMPLING = 2  # new steps per step, before each group of blocks
ENCODER_TENSORS = ("mean", "projection", "first_projection", "first_centroids")


@dataclass(frozen=True)
class NanoCodecConfig:
    """Sizes of the decoder, from ``codec.json``; raises ``CheckpointError`` naming the key."""

    sample_rate_hz: int
    hop: int
    num_codebooks: int
    codebook_size: int
    latent_dim: int
    width: int
    hidden: int
    input_pad: tuple[int, int]
    block_kernel: int
    blocks_50hz_right: tuple[int, ...]
    blocks_100hz_right: tuple[int, ...]
    n_fft: int
    istft_hop: int
    output_gain: float
    log_magnitude_max: float
    declared_context: tuple[int, int]

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> NanoCodecConfig:
        """Read the keys of ``codec.json``."""
        try:
            decoder = raw["decoder"]
            left, right = (int(pad) for pad in decoder["input_pad"])
            config = cls(
                sample_rate_hz=int(raw["sample_rate_hz"]),
                hop=int(raw["hop"]),
                num_codebooks=int(raw["n_codebooks"]),
                codebook_size=int(raw["codebook_size"]),
                latent_dim=int(raw["latent_dim"]),
                width=int(decoder["width"]),
                hidden=int(decoder["hidden"]),
                input_pad=(left, right),
                block_kernel=int(decoder["block_kernel"]),
                blocks_50hz_right=tuple(map(int, decoder["blocks_50hz_right"])),
                blocks_100hz_right=tuple(map(int, decoder["blocks_100hz_right"])),
                n_fft=int(decoder["n_fft"]),
                istft_hop=int(decoder["istft_hop"]),
                output_gain=float(decoder["output_gain"]),
                log_magnitude_max=float(decoder["log_magnitude_max"]),
                declared_context=(
                    int(decoder["context_frames_left"]),
                    int(decoder["context_frames_right"]),
                ),
            )
        except KeyError as error:
            raise CheckpointError(f"model: codec.json lacks the key {error.args[0]!r}.") from None
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"model: codec.json has an unusable value ({error}).") from None
        if config.hop != UPSAMPLING**2 * config.istft_hop or config.n_fft % config.istft_hop:
            raise CheckpointError(
                f"model: codec.json has hop {config.hop}, istft_hop {config.istft_hop} and n_fft"
                f" {config.n_fft}; hop must be {UPSAMPLING**2} times istft_hop and n_fft a multiple"
                " of it."
            )
        return config

    @property
    def layers(self) -> list[Convolution | Upsampling]:
        """The layers that mix time, in the order of the forward pass."""
        reach = self.block_kernel - 1
        return [
            Convolution(*self.input_pad),
            Upsampling(UPSAMPLING, UPSAMPLING),
            *(Convolution(reach - right, right) for right in self.blocks_50hz_right),
            Upsampling(UPSAMPLING, UPSAMPLING),
            *(Convolution(reach - right, right) for right in self.blocks_100hz_right),
            Upsampling(self.istft_hop, self.n_fft, self.istft_trim),
        ]

    @property
    def istft_trim(self) -> int:
        """Samples cut from the front of the overlap-add, so that step k sits on its own hop."""
        return (self.n_fft - self.istft_hop) // 2


class NanoQuantizer(nn.Module):
    """Codes [B, T, num_codebooks] to the sum of their codebook vectors [B, T, latent_dim]."""

    def __init__(self, config: NanoCodecConfig) -> None:
        super().__init__()
        sizes = config.num_codebooks, config.codebook_size, config.latent_dim
        self.codebooks = nn.Parameter(torch.empty(sizes))

    def forward(self, codes: Tensor) -> Tensor:
        vectors = [F.embedding(codes[..., k], book) for k, book in enumerate(self.codebooks)]
        return torch.stack(vectors).sum(0)


class ConvNextBlock(nn.Module):
    """Depthwise convolution over time, then a residual feed-forward per step: [B, steps, width]."""

    def __init__(self, width: int, hidden: int, kernel: int, right: int) -> None:
        super().__init__()
        self.pad = (kernel - 1 - right, right)
        self.dw = nn.Conv1d(width, width, kernel, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.scale = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.dw(F.pad(x.mT, self.pad)).mT
        change = self.down(F.gelu(self.up(self.norm(mixed))))
        return torch.addcmul(x, change, self.scale)


class NanoDecoder(nn.Module):
    """Summed codebook vectors [B, T, latent_dim] to samples [B, T * hop]."""

    window: Tensor

    def __init__(self, config: NanoCodecConfig) -> None:
        super().__init__()
        self.config = config
        width, hidden, kernel = config.width, config.hidden, config.block_kernel
        self.inp = nn.Conv1d(config.latent_dim, UPSAMPLING * width, sum(config.input_pad) + 1)
        self.b50 = nn.ModuleList(
            ConvNextBlock(width, hidden, kernel, right) for right in config.blocks_50hz_right
        )
        self.up = nn.Linear(width, UPSAMPLING * width)
        self.b100 = nn.ModuleList(
            ConvNextBlock(width, hidden, kernel, right) for right in config.blocks_100hz_right
        )
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, config.n_fft + 2)
        window = torch.hann_window(config.n_fft) * config.output_gain
        self.register_buffer("window", window, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        batch, num_frames, _ = z.shape
        x = self.inp(F.pad(z.mT, self.config.input_pad)).mT
        # [B, T, 2 * width] holds the earlier of two half steps first.
        x = x.reshape(batch, UPSAMPLING * num_frames, self.config.width)
        for block in self.b50:
            x = block(x)
        x = self.up(x).view(batch, UPSAMPLING**2 * num_frames, self.config.width)
        for block in self.b100:
            x = block(x)
        log_magnitude, phase = self.out(self.norm(x)).chunk(2, dim=-1)
        magnitude = log_magnitude.clamp(max=self.config.log_magnitude_max).exp()
        spectrum = torch.complex(magnitude * phase.cos(), magnitude * phase.sin())
        return self._overlap_add(torch.fft.irfft(spectrum, self.config.n_fft) * self.window)

    def _overlap_add(self, pieces: Tensor) -> Tensor:
        """Pieces [B, steps, n_fft], one per istft_hop, to samples [B, steps * istft_hop]."""
        batch, num_steps, n_fft = pieces.shape
        hop, trim = self.config.istft_hop, self.config.istft_trim
        hops = pieces.view(batch, num_steps, n_fft // hop, hop)
        samples = pieces.new_zeros(batch, num_steps + n_fft // hop - 1, hop)
        for i in range(n_fft // hop):
            samples[:, i : i + num_steps] += hops[:, :, i]
        return samples.view(batch, -1)[:, trim : trim + num_steps * hop]


class NanoCodec(nn.Module):
    """Codes to samples; fulfils ``engine.codec.base.Codec``. Call under ``inference_mode``."""

    def __init__(self, config: NanoCodecConfig) -> None:
        super().__init__()
        self.sample_rate_hz = config.sample_rate_hz
        self.hop = config.hop
        self.num_codebooks = config.num_codebooks
        self.codebook_size = config.codebook_size
        self.context_left, self.context_right = context_frames(config.layers)
        if (self.context_left, self.context_right) != config.declared_context:
            raise CheckpointError(
                f"model: codec.json declares a context of {config.declared_context} frames, but its"
                f" layers need {(self.context_left, self.context_right)}."
            )
        self.quantizer = NanoQuantizer(config)
        self.decoder = NanoDecoder(config)

    @classmethod
    def open(
        cls, folder: Path, raw_config: Mapping[str, Any], device: torch.device | str
    ) -> NanoCodec:
        """Load ``codec.safetensors``; raises ``CheckpointError`` naming whatever does not fit."""
        codec = cls(NanoCodecConfig.from_dict(raw_config))
        tensors = read_tensors(folder / "codec.safetensors")
        for name in ENCODER_TENSORS:
            tensors.pop(f"encoder.{name}", None)
        load_strictly(codec, tensors, "codec.safetensors")
        return codec.eval().requires_grad_(False).to(device)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.decoder.window.device

    @property
    def decode_rows(self) -> int:
        """Rows of every streaming call: 1 on a CPU, where batches gain little.

        Measured on one EPYC core: 27 frames take 8.0 ms alone and 24.7 ms in a batch of four, which
        a single request would have to pay as well.
        """
        return 1 if self.device.type == "cpu" else 8

    def decode(self, codes: Tensor) -> Tensor:
        """Codes [B, T, num_codebooks] int64 to samples [B, T * hop] float32."""
        batch, num_frames, _ = codes.shape
        if num_frames == 0:
            return self.decoder.window.new_zeros(batch, 0)
        return self.decoder(self.quantizer(codes))
