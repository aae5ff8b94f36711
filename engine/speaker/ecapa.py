"""The release's speaker encoder: an ECAPA-TDNN without batch norm, 2048 numbers per voice.

- Parameter names are the published ones (76 tensors); every size comes from ``config.json``, with
  the release's where the file is silent. Stored as bfloat16, computed in float32.
- The whole recording is one input, at its own level; nothing is normalised before or after.
- Published as marksverdhei/Qwen3-Voice-Embedding-12Hz-1.7B, whose code is not needed.
- Source: spec/zonos2.md sections 7.1 and 7.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.errors import CheckpointError
from engine.speaker.features import LogMel
from engine.speaker.reference import as_recorded, resampled
from engine.weights import load_strictly

FOLDER = "speaker_encoder"
N_FFT, HOP = 1024, 256
LOG_FLOOR = 1e-5
MIN_VARIANCE = 1e-12
RELEASE_SIZES: Mapping[str, Any] = {
    "mel_dim": 128,
    "enc_dim": 2048,
    "enc_channels": (512, 512, 512, 512, 1536),
    "enc_kernel_sizes": (5, 3, 3, 3, 1),
    "enc_dilations": (1, 2, 3, 4, 1),
    "enc_attention_channels": 128,
    "enc_res2net_scale": 8,
    "enc_se_channels": 128,
    "sample_rate": 24_000,
}


@dataclass(frozen=True)
class EcapaConfig:
    """Sizes of the network; ``channels``, ``kernel_sizes`` and ``dilations`` go by stage.

    The first stage reads the mel bands, the last one all stages between.
    """

    num_mels: int
    dim: int
    channels: tuple[int, ...]
    kernel_sizes: tuple[int, ...]
    dilations: tuple[int, ...]
    attention_channels: int
    res2net_scale: int
    se_channels: int
    sample_rate_hz: int

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> EcapaConfig:
        """Read ``config.json``; raises ``CheckpointError`` naming what does not fit."""
        given = {**RELEASE_SIZES, **raw}
        try:
            config = cls(
                num_mels=int(given["mel_dim"]),
                dim=int(given["enc_dim"]),
                channels=tuple(map(int, given["enc_channels"])),
                kernel_sizes=tuple(map(int, given["enc_kernel_sizes"])),
                dilations=tuple(map(int, given["enc_dilations"])),
                attention_channels=int(given["enc_attention_channels"]),
                res2net_scale=int(given["enc_res2net_scale"]),
                se_channels=int(given["enc_se_channels"]),
                sample_rate_hz=int(given["sample_rate"]),
            )
            config._check()
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise CheckpointError(
                f"model: {FOLDER}/config.json has an unusable value ({error})."
            ) from None
        return config

    def _check(self) -> None:
        if not 3 <= len(self.channels) == len(self.kernel_sizes) == len(self.dilations):
            raise ValueError("enc_channels, enc_kernel_sizes and enc_dilations differ in length")
        if len(set(self.channels[:-1])) > 1 or self.channels[0] % self.res2net_scale:
            raise ValueError(
                f"all but the last of enc_channels {list(self.channels)} must be one multiple of"
                f" enc_res2net_scale {self.res2net_scale}"
            )
        if any(size % 2 == 0 for size in self.kernel_sizes):
            raise ValueError(f"enc_kernel_sizes {list(self.kernel_sizes)} must be odd")


class TimeDelay(nn.Module):
    """A convolution over time, mirrored at both ends, and ReLU: [B, channels, T]."""

    def __init__(self, inputs: int, outputs: int, kernel_size: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(
            inputs, outputs, kernel_size, dilation=dilation, padding="same", padding_mode="reflect"
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()


class Res2Net(nn.Module):
    """Groups of channels, each but the first filtered together with the result before it."""

    def __init__(self, channels: int, scale: int, kernel_size: int, dilation: int) -> None:
        super().__init__()
        width = channels // scale
        self.blocks = nn.ModuleList(
            TimeDelay(width, width, kernel_size, dilation) for _ in range(scale - 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        first, *others = x.chunk(len(self.blocks) + 1, dim=1)
        done = [first]
        for block, group in zip(self.blocks, others, strict=True):
            done.append(block(group if len(done) == 1 else group + done[-1]))
        return torch.cat(done, dim=1)


class SqueezeExcitation(nn.Module):
    """Every channel scaled by what the whole clip holds in all channels: [B, channels, T]."""

    def __init__(self, channels: int, se_channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, se_channels, 1)
        self.conv2 = nn.Conv1d(se_channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.conv2(self.conv1(x.mean(2, keepdim=True)).relu()).sigmoid()


class Stage(nn.Module):
    """One squeeze-excitation Res2Net block with its residual: [B, channels, T]."""

    def __init__(self, config: EcapaConfig, stage: int) -> None:
        super().__init__()
        channels = config.channels[stage]
        self.tdnn1 = TimeDelay(channels, channels, 1, 1)
        self.res2net_block = Res2Net(
            channels, config.res2net_scale, config.kernel_sizes[stage], config.dilations[stage]
        )
        self.tdnn2 = TimeDelay(channels, channels, 1, 1)
        self.se_block = SqueezeExcitation(channels, config.se_channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))


class AttentivePooling(nn.Module):
    """[B, channels, T] to means and deviations over time, weighted by attention: [B, 2C, 1]."""

    def __init__(self, channels: int, attention_channels: int) -> None:
        super().__init__()
        self.tdnn = TimeDelay(3 * channels, attention_channels, 1, 1)
        self.conv = nn.Conv1d(attention_channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        even = x.new_full((1, 1, x.shape[2]), 1 / x.shape[2])
        clip = self._statistics(x, even).expand(-1, -1, x.shape[2])
        scores = self.conv(self.tdnn(torch.cat([x, clip], dim=1)).tanh())
        return self._statistics(x, scores.softmax(dim=2))

    @staticmethod
    def _statistics(x: Tensor, weights: Tensor) -> Tensor:
        mean = (weights * x).sum(2, keepdim=True)
        variance = (weights * (x - mean).square()).sum(2, keepdim=True)
        return torch.cat([mean, variance.clamp(min=MIN_VARIANCE).sqrt()], dim=1)


class EcapaTdnn(nn.Module):
    """Log-mel features [B, T, num_mels] to embeddings [B, dim]."""

    def __init__(self, config: EcapaConfig) -> None:
        super().__init__()
        channels, stages = config.channels, range(1, len(config.channels) - 1)
        self.blocks = nn.ModuleList(
            [
                TimeDelay(
                    config.num_mels, channels[0], config.kernel_sizes[0], config.dilations[0]
                ),
                *(Stage(config, stage) for stage in stages),
            ]
        )
        self.mfa = TimeDelay(
            sum(channels[stage] for stage in stages),
            channels[-1],
            config.kernel_sizes[-1],
            config.dilations[-1],
        )
        self.asp = AttentivePooling(channels[-1], config.attention_channels)
        self.fc = nn.Conv1d(2 * channels[-1], config.dim, 1)

    def forward(self, features: Tensor) -> Tensor:
        outputs = [self.blocks[0](features.mT)]
        for stage in self.blocks[1:]:
            outputs.append(stage(outputs[-1]))
        pooled = self.asp(self.mfa(torch.cat(outputs[1:], dim=1)))
        embedding: Tensor = self.fc(pooled).squeeze(2)
        return embedding


class EcapaSpeakerEncoder:
    """The release's encoder behind ``engine.speaker.encoder.SpeakerEncoder``, on the CPU."""

    name = "qwen3_ecapa_tdnn"

    def __init__(
        self, raw_config: Mapping[str, Any], tensors: Mapping[str, Tensor], identity: str
    ) -> None:
        config = EcapaConfig.from_dict(raw_config)
        self.identity = identity
        self.dim = config.dim
        self.sample_rate_hz = config.sample_rate_hz
        self._log_mel = LogMel(
            sample_rate_hz=config.sample_rate_hz,
            n_fft=N_FFT,
            win_length=N_FFT,
            hop=HOP,
            num_mels=config.num_mels,
            min_hz=0.0,
            max_hz=config.sample_rate_hz / 2,
            log_floor=LOG_FLOOR,
            first_centre=HOP // 2,  # (1024 - 256) / 2 = 384 mirrored samples at each end
            edges="reflect",
        )
        with torch.device("meta"):
            network = EcapaTdnn(config)
        self._network = network.to_empty(device="cpu").eval().requires_grad_(False)
        load_strictly(self._network, tensors, f"{FOLDER}/model.safetensors")

    def warm(self) -> None:
        """Import torchaudio and compute the mel filters (about 1 s)."""
        _ = self._log_mel.filters

    def encode(self, samples: np.ndarray, sample_rate_hz: int) -> Tensor:
        """Mono float samples [n] to an embedding [dim]; raises ``InvalidReference``.

        The recording is used as it is; of a longer one, 30 s from the first speech on.
        """
        clip = as_recorded(samples, sample_rate_hz)
        features = self._log_mel(resampled(clip, sample_rate_hz, self.sample_rate_hz))
        with torch.no_grad():
            embedding: Tensor = self._network(features[None])[0]
        return embedding
