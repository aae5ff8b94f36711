"""Stage ``decoder``: train the engine's own codec decoder to turn true codes into sound.

- Mel spectra at five resolutions teach loudness and timbre; linear spectra below 4 kHz teach the
  harmonics, on which the pitch of low voices hangs. Half of the crops are of low voices.
- Books are dropped at random, so that the first few alone already make speech.
- Time is CPU time on a CPU; ``state.pt`` holds everything to go on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from engine.codec.nano import NanoCodec, NanoCodecConfig
from engine.speaker.features import LogMel
from engine.weights import read_json
from training.encode import at_codec_rate, frame_features
from training.quantizer import Quantizer, codec_features
from training.speech import read_takes
from training.voices import FIRST_FOLDED, voice_of
from training.work import Work, replacing

CROP_FRAMES = 26  # 1.04 s
BATCH = 8
MEL_SCALES = ((4096, 128), (2048, 80), (1024, 56), (512, 32), (256, 16))  # n_fft, bands
LINEAR_SCALES = (4096, 2048, 1024)
LINEAR_MAX_HZ = 4000.0
LINEAR_WEIGHT, CONVERGENCE_WEIGHT = 0.6, 0.5
LOW_F0_SCALE = 0.65  # below about 135 Hz
ALL_BOOKS_SHARE, MIN_BOOKS = 0.6, 2
BETAS, WEIGHT_DECAY, MAX_NORM = (0.8, 0.99), 0.01, 2.0
WARM_STEPS, FINAL_RATE_SHARE = 60, 0.05


class SpectralLoss(nn.Module):
    """Mean log-mel distance over scales, plus linear-frequency distance below 4 kHz."""

    def __init__(self, sample_rate_hz: int) -> None:
        super().__init__()
        self.sample_rate_hz = sample_rate_hz
        for n_fft, bands in MEL_SCALES:
            bank = LogMel(
                sample_rate_hz, n_fft, n_fft, n_fft // 4, bands, 0.0, sample_rate_hz / 2, 1e-3, 0
            )
            self.register_buffer(f"filters_{n_fft}", bank.filters)

    def forward(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
        """Samples [B, n] twice -> mel distance, linear distance."""
        both = torch.cat([made, true])
        spectra = {n_fft: _magnitudes(both, n_fft) for n_fft, _ in MEL_SCALES}
        mel = both.new_zeros(())
        for n_fft, _ in MEL_SCALES:
            bands = spectra[n_fft] @ getattr(self, f"filters_{n_fft}")
            a, b = bands.clamp(min=3e-4 * n_fft / 2048).log().chunk(2)
            mel = mel + (a - b).abs().mean() / len(MEL_SCALES)
        linear = both.new_zeros(())
        for n_fft in LINEAR_SCALES:
            top = int(LINEAR_MAX_HZ / self.sample_rate_hz * n_fft)
            a, b = (spectra[n_fft][..., :top] + 0.05 * n_fft / 4096).chunk(2)
            linear = linear + (a.log() - b.log()).abs().mean()
            linear = linear + CONVERGENCE_WEIGHT * (a - b).norm() / b.norm()
        return mel, linear


def _magnitudes(samples: Tensor, n_fft: int) -> Tensor:
    """[B, n] -> [B, windows, n_fft // 2 + 1]; the root's slope stays finite at silence."""
    window = torch.hann_window(n_fft, device=samples.device)
    spectrum = torch.stft(
        samples, n_fft, n_fft // 4, window=window, pad_mode="constant", return_complex=True
    )
    return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt().mT


@dataclass(frozen=True, eq=False)
class Clip:
    """samples [T * hop] int16 at the codec's rate; codes [T, C] int64."""

    samples: np.ndarray
    codes: Tensor
    is_low: bool


def load_clips(work: Work, folder: Path, hours: float) -> list[Clip]:
    """Clips of at least one crop, spread over all batches until ``hours`` are reached."""
    log_mel, windows = codec_features(folder)
    quantizer, hop = Quantizer.load(folder), log_mel.hop * windows
    batches = sorted(work.folder("speech").glob("*.jsonl"))
    wanted = hours * 3600 * 25 / max(1, len(batches))
    clips = []
    for path in batches:
        num_frames = 0
        for take, samples in read_takes(path):
            if take.num_frames < CROP_FRAMES:
                continue
            codes = quantizer.encode(frame_features(samples, log_mel, windows))
            sound = at_codec_rate(samples, log_mel, hop).clamp(-1, 1).numpy()
            is_low = (
                take.speaker >= FIRST_FOLDED and voice_of(take.speaker)[0].f0_scale < LOW_F0_SCALE
            )
            clips.append(Clip((sound * 32767).astype(np.int16), codes, is_low))
            num_frames += take.num_frames
            if num_frames >= wanted:
                break
    return clips


def draw_batch(
    clips: Sequence[Clip], codebooks: Tensor, hop: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Summed codebook vectors [B, T, D] and their samples [B, T * hop]."""
    low = [clip for clip in clips if clip.is_low] or clips
    latents, sounds = [], []
    for index in range(BATCH):
        pool = low if index % 2 else clips
        clip = pool[int(rng.integers(len(pool)))]
        start = int(rng.integers(len(clip.codes) - CROP_FRAMES + 1))
        codes = clip.codes[start : start + CROP_FRAMES]
        num_books = codes.shape[1]
        if rng.random() >= ALL_BOOKS_SHARE:
            num_books = int(rng.integers(MIN_BOOKS, num_books + 1))
        vectors = [codebooks[k][codes[:, k]] for k in range(num_books)]
        latents.append(torch.stack(vectors).sum(0))
        crop = clip.samples[start * hop : (start + CROP_FRAMES) * hop]
        sounds.append(torch.from_numpy(crop.astype(np.float32) / 32767))
    return torch.stack(latents), torch.stack(sounds)


def trainable_codec(folder: Path, weights: Path | None) -> NanoCodec:
    """The engine's codec of ``folder``, with ``weights`` or freshly drawn ones."""
    codec = NanoCodec(NanoCodecConfig.from_dict(read_json(folder / "codec.json")))
    if weights is not None:
        tensors = load_file(weights)
        codec.load_state_dict(
            {
                name: value.float()
                for name, value in tensors.items()
                if not name.startswith("encoder.")
            }
        )
    else:
        torch.manual_seed(0)
        for name, module in codec.decoder.named_modules():
            if name.startswith("b") and name.count(".") == 1:
                nn.init.constant_(module.scale, 0.3)
    # Under autocast the last layer gives bfloat16, from which no complex spectrum can be made.
    codec.decoder.out.register_forward_hook(lambda module, inputs, output: output.float())
    return codec.requires_grad_(True)


def train_decoder(
    work: Work,
    folder: Path,
    minutes: float,
    *,
    from_weights: bool,
    hours: float,
    name: str = "decoder",
) -> Path:
    """Train until ``minutes`` of own time are spent -> the file of decoder weights."""
    torch.manual_seed(0)
    codec = trainable_codec(folder, folder / "codec.safetensors" if from_weights else None)
    codebooks = Quantizer.load(folder).codebooks
    decoder, loss = codec.decoder.train(), SpectralLoss(codec.sample_rate_hz)
    peak = 1e-3 if from_weights else 2e-3
    optimiser = torch.optim.AdamW(
        decoder.parameters(), lr=peak, betas=BETAS, weight_decay=WEIGHT_DECAY
    )
    path, journal = work.folder(name) / "state.pt", work.journal(name)
    num_steps, spent_s = 0, 0.0
    if path.exists():
        state = torch.load(path, weights_only=True)
        decoder.load_state_dict(state["decoder"])
        optimiser.load_state_dict(state["optimiser"])
        num_steps, spent_s = state["num_steps"], state["spent_s"]
    clips = load_clips(work, folder, hours)
    rng = np.random.default_rng((1, num_steps))
    told: list[tuple[float, float]] = []
    last = time.process_time()
    while (share := spent_s / (minutes * 60)) < 1:
        latents, sounds = draw_batch(clips, codebooks, codec.hop, rng)
        for group in optimiser.param_groups:
            group["lr"] = (
                peak * min(1, (num_steps + 1) / WARM_STEPS) * max(FINAL_RATE_SHARE, 1 - share)
            )
        with torch.autocast("cpu", torch.bfloat16):
            made = decoder(latents)
        mel, linear = loss(made.float(), sounds)
        (mel + LINEAR_WEIGHT * linear).backward()
        nn.utils.clip_grad_norm_(decoder.parameters(), MAX_NORM)
        optimiser.step()
        optimiser.zero_grad()
        num_steps += 1
        now = time.process_time()
        spent_s, last = spent_s + now - last, now
        told.append((float(mel.detach()), float(linear.detach())))
        if len(told) == 50 or spent_s >= minutes * 60:
            mean_mel, mean_linear = np.mean(told, axis=0)
            journal.add(
                step=num_steps,
                spent_s=round(spent_s, 1),
                mel=round(float(mean_mel), 4),
                linear=round(float(mean_linear), 4),
                eta_s=round(minutes * 60 - spent_s),
            )
            told = []
            with replacing(path) as temporary:
                torch.save(
                    {
                        "decoder": decoder.state_dict(),
                        "optimiser": optimiser.state_dict(),
                        "num_steps": num_steps,
                        "spent_s": spent_s,
                    },
                    temporary,
                )
    return path
