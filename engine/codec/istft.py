"""A causal codec: codes to samples through inverse short-time Fourier transforms of several sizes.

- Codebook vectors are summed and refined by causal ConvNeXt blocks, one step per frame. A head per
  resolution makes all its spectra of a frame at once; the resolutions' waveforms are summed.
- Spectrum c of a resolution writes samples c * hop to c * hop + n_fft - 1 and the sum of squared
  windows up to there divides them, so a sample never waits for a later frame: ``context_right`` is
  0, and ``engine.codec.streaming`` decodes it in pieces, exactly.
- Every size comes from ``codec.json``; everything is computed in float32.
- Source: spec/zonos3.md 4.6.
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
from engine.codec.nano import ConvNextBlock
from engine.errors import CheckpointError
from engine.weights import load_strictly, read_tensors


@dataclass(frozen=True)
class Resolution:
    """One transform: ``n_fft`` samples per spectrum, a new spectrum every ``hop`` samples."""

    n_fft: int
    hop: int


@dataclass(frozen=True)
class IstftCodecConfig:
    """Sizes of the decoder, from ``codec.json``; raises ``CheckpointError`` naming the key."""

    sample_rate_hz: int
    hop: int
    num_codebooks: int
    codebook_size: int
    width: int
    hidden: int
    kernel: int
    num_blocks: int
    resolutions: tuple[Resolution, ...]
    max_magnitude: float
    min_envelope: float

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> IstftCodecConfig:
        """Read the keys of ``codec.json``."""
        try:
            decoder = raw["decoder"]
            config = cls(
                sample_rate_hz=int(raw["sample_rate_hz"]),
                hop=int(raw["hop"]),
                num_codebooks=int(raw["n_codebooks"]),
                codebook_size=int(raw["codebook_size"]),
                width=int(decoder["width"]),
                hidden=int(decoder["hidden"]),
                kernel=int(decoder["kernel"]),
                num_blocks=int(decoder["num_blocks"]),
                resolutions=tuple(
                    Resolution(int(one["n_fft"]), int(one["hop"])) for one in decoder["resolutions"]
                ),
                max_magnitude=float(decoder["max_magnitude"]),
                min_envelope=float(decoder["min_envelope"]),
            )
        except KeyError as error:
            raise CheckpointError(f"model: codec.json lacks the key {error.args[0]!r}.") from None
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"model: codec.json has an unusable value ({error}).") from None
        for one in config.resolutions:
            if config.hop % one.hop or one.n_fft % one.hop or one.n_fft % 2:
                raise CheckpointError(
                    f"model: codec.json has a resolution of n_fft {one.n_fft} and hop {one.hop};"
                    f" n_fft must be even and a multiple of it, and it must divide {config.hop}."
                )
        return config

    @property
    def context(self) -> tuple[int, int]:
        """Frames before and after a frame that its samples depend on."""
        blocks = [Convolution(self.kernel - 1, 0)] * self.num_blocks
        reaches = []
        for one in self.resolutions:
            per_frame = self.hop // one.hop
            spectra = Upsampling(per_frame, per_frame)
            reaches.append(context_frames([*blocks, spectra, Upsampling(one.hop, one.n_fft)]))
        return max(left for left, _ in reaches), max(right for _, right in reaches)


class IstftHead(nn.Module):
    """Steps [B, T, width], one per frame, to one resolution's samples [B, T * frame hop]."""

    window: Tensor
    envelope: Tensor

    def __init__(self, config: IstftCodecConfig, resolution: Resolution) -> None:
        super().__init__()
        n_fft, self.hop = resolution.n_fft, resolution.hop
        self.n_fft = n_fft
        self.max_log_magnitude = float(torch.tensor(config.max_magnitude).log())
        self.out = nn.Linear(config.width, config.hop // self.hop * (n_fft + 2))
        window = torch.hann_window(n_fft)
        # Row c divides the samples of hop c: after n_fft / hop spectra it stays the same.
        envelope = window.square().view(-1, self.hop).cumsum(0).clamp(min=config.min_envelope)
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("envelope", envelope, persistent=False)

    def forward(self, steps: Tensor) -> Tensor:
        spectra = self.out(steps).unflatten(-1, (-1, self.n_fft + 2)).flatten(1, 2)  # [B, S, .]
        log_magnitude, phase = spectra.chunk(2, dim=-1)
        magnitude = log_magnitude.clamp(max=self.max_log_magnitude).exp()
        pieces = torch.fft.irfft(torch.polar(magnitude, phase), self.n_fft) * self.window
        hops = pieces.unflatten(-1, (-1, self.hop))  # [B, S, n_fft / hop, hop]
        num_spectra, overlap = hops.shape[1:3]
        samples = hops[:, :, 0].clone()
        for late in range(1, min(overlap, num_spectra)):
            samples[:, late:] += hops[:, : num_spectra - late, late]
        row = torch.arange(num_spectra, device=steps.device).clamp(max=overlap - 1)
        return (samples / self.envelope[row]).flatten(1)


class IstftCodec(nn.Module):
    """Codes to samples; fulfils ``engine.codec.base.Codec``. Call under ``inference_mode``."""

    def __init__(self, config: IstftCodecConfig) -> None:
        super().__init__()
        self.sample_rate_hz = config.sample_rate_hz
        self.hop = config.hop
        self.num_codebooks = config.num_codebooks
        self.codebook_size = config.codebook_size
        self.context_left, self.context_right = config.context
        sizes = config.num_codebooks, config.codebook_size, config.width
        self.codebooks = nn.Parameter(torch.empty(sizes))
        self.blocks = nn.ModuleList(
            ConvNextBlock(config.width, config.hidden, config.kernel, right=0)
            for _ in range(config.num_blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.heads = nn.ModuleList(IstftHead(config, one) for one in config.resolutions)

    @classmethod
    def open(
        cls, folder: Path, raw_config: Mapping[str, Any], device: torch.device | str
    ) -> IstftCodec:
        """Load ``codec.safetensors``; raises ``CheckpointError`` naming whatever does not fit."""
        codec = cls(IstftCodecConfig.from_dict(raw_config))
        load_strictly(codec, read_tensors(folder / "codec.safetensors"), "codec.safetensors")
        return codec.eval().requires_grad_(False).to(device)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.codebooks.device

    @property
    def decode_rows(self) -> int:
        """Rows of every streaming call: 1 on a CPU, where batches gain little."""
        return 1 if self.device.type == "cpu" else 8

    def decode(self, codes: Tensor) -> Tensor:
        """Codes [B, T, num_codebooks] int64 to samples [B, T * hop] float32."""
        batch, num_frames, _ = codes.shape
        if num_frames == 0:
            return self.codebooks.new_zeros(batch, 0)
        vectors = [F.embedding(codes[..., k], book) for k, book in enumerate(self.codebooks)]
        steps = torch.stack(vectors).sum(0)  # [B, T, width]
        for block in self.blocks:
            steps = block(steps)
        steps = self.norm(steps)
        return torch.stack([head(steps) for head in self.heads]).sum(0)
