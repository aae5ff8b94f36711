"""The log-mel front end of a speaker encoder, set by the encoder's JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.compat import ensure_torchaudio

# Written out in the file so that nobody has to guess; another value would need another front end.
FIXED = {
    "mel_window": "hann_periodic",
    "mel_scale": "slaney",
    "mel_norm": "slaney",
    "magnitude_power": 1,
    "log": "natural",
}


@dataclass(frozen=True)
class LogMel:
    """Mono samples [n] to features [n // hop, num_mels], float32.

    Window k is centred on sample ``hop * k + first_centre``; beyond the clip lies silence, or with
    ``edges`` "reflect" its mirror image, and the clip must then outlast half a window and hop.
    """

    sample_rate_hz: int
    n_fft: int
    win_length: int
    hop: int
    num_mels: int
    min_hz: float
    max_hz: float
    log_floor: float
    first_centre: int
    edges: str = "constant"

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> LogMel:
        """Read the encoder's JSON keys; raises ``KeyError`` or ``ValueError`` naming the key."""
        for key, value in FIXED.items():
            if raw[key] != value:
                raise ValueError(f"{key} {raw[key]!r} is not {value!r}")
        return cls(
            sample_rate_hz=int(raw["sample_rate_hz"]),
            n_fft=int(raw["mel_n_fft"]),
            win_length=int(raw["mel_win_length"]),
            hop=int(raw["mel_hop"]),
            num_mels=int(raw["mel_n_mels"]),
            min_hz=float(raw["mel_fmin"]),
            max_hz=float(raw["mel_fmax"]),
            log_floor=float(raw["log_floor"]),
            first_centre=int(raw["first_window_centre_sample"]),
        )

    @cached_property
    def filters(self) -> Tensor:
        """Triangular mel filters of unit area [n_fft // 2 + 1, num_mels]."""
        ensure_torchaudio()
        from torchaudio.functional import melscale_fbanks

        return melscale_fbanks(
            self.n_fft // 2 + 1,
            self.min_hz,
            self.max_hz,
            self.num_mels,
            self.sample_rate_hz,
            norm=FIXED["mel_norm"],
            mel_scale=FIXED["mel_scale"],
        )

    def __call__(self, samples: Tensor) -> Tensor:
        num_windows = len(samples) // self.hop
        half = self.n_fft // 2
        padding = (half - self.first_centre, half + self.first_centre)
        spectrum = torch.stft(
            F.pad(samples[None], padding, mode=self.edges)[0],
            self.n_fft,
            self.hop,
            self.win_length,
            torch.hann_window(self.win_length),
            center=False,
            return_complex=True,
        )  # [n_fft // 2 + 1, windows]
        mels = spectrum.abs()[:, :num_windows].T @ self.filters
        return mels.clamp(min=self.log_floor).log()
