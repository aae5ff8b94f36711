"""The codec's way from sound to codes: log-mel frames, a projection, nine nested codebooks.

- The first codebook clusters a linear discriminant projection on phonemes, so that it tells more
  about the sound and less about the speaker; eight residual codebooks follow by k-means.
- Tensors and names are those of ``codec.safetensors``; the engine reads the decoder's part.
- Source: the same method made the first codec; measured there: 0.96 % residual energy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.speaker.features import LogMel
from engine.weights import read_json, read_tensors
from training.alignment import NUM_PHONEME_IDS
from training.shards import NO_PHONEME

CHUNK_FRAMES = 16_384
LATENT_DIM, FIRST_DIM = 72, 28
FIT_FRAMES = 120_000
FIRST_ITERATIONS, NEXT_ITERATIONS = 14, 9
MIN_PHONEME_FRAMES = 200


@dataclass(frozen=True, eq=False)
class Quantizer:
    """How features [F] become codes.

    mean [F], projection [F, D], first_projection [D, L], first_centroids [K, L],
    codebooks [C, K, D].
    """

    mean: Tensor
    projection: Tensor
    first_projection: Tensor
    first_centroids: Tensor
    codebooks: Tensor

    @classmethod
    def load(cls, folder: Path) -> Quantizer:
        """Read the encoder's tensors of ``codec.safetensors``.

        They are copied out of the file's mapping: a stage runs for hours, and a file that was
        written over meanwhile has once given it other codes, silently.
        """
        tensors = read_tensors(folder / "codec.safetensors")
        return cls.of({name: tensor.clone() for name, tensor in tensors.items()})

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Quantizer:
        """Pick the tensors by their names in ``codec.safetensors``."""
        names = ("mean", "projection", "first_projection", "first_centroids")
        return cls(
            **{name: tensors[f"encoder.{name}"].float() for name in names},
            codebooks=tensors["quantizer.codebooks"].float(),
        )

    def tensors(self) -> dict[str, Tensor]:
        """What ``codec.safetensors`` stores: the encoder float32, the codebooks float16."""
        return {
            "encoder.mean": self.mean,
            "encoder.projection": self.projection,
            "encoder.first_projection": self.first_projection,
            "encoder.first_centroids": self.first_centroids,
            "quantizer.codebooks": self.codebooks.half(),
        }

    def encode(self, features: Tensor) -> Tensor:
        """Frames [T, F] -> codes [T, C] int64."""
        return torch.cat([self._encode(part) for part in features.float().split(CHUNK_FRAMES)])

    def _encode(self, features: Tensor) -> Tensor:
        residual = (features - self.mean) @ self.projection
        codes = [nearest(residual @ self.first_projection, self.first_centroids)]
        residual = residual - self.codebooks[0][codes[0]]
        for book in self.codebooks[1:]:
            codes.append(nearest(residual, book))
            residual = residual - book[codes[-1]]
        return torch.stack(codes, dim=1)


def nearest(points: Tensor, centroids: Tensor) -> Tensor:
    """The closest centroid [K, D] of every point [N, D] -> [N]."""
    half_norms = centroids.square().sum(1) / 2
    parts = points.split(CHUNK_FRAMES)
    return torch.cat([(part @ centroids.T - half_norms).argmax(1) for part in parts])


def codec_features(folder: Path) -> tuple[LogMel, int]:
    """The front end that ``codec.json`` describes, and its windows per frame."""
    raw: dict[str, Any] = read_json(folder / "codec.json")
    encoder = {**raw["encoder"], "sample_rate_hz": raw["sample_rate_hz"]}
    return LogMel.from_dict(encoder), int(encoder["subframes_per_frame"])


def fit(features: Tensor, phonemes: Tensor, num_codebooks: int, codebook_size: int) -> Quantizer:
    """Fit a quantizer to frames [N, F] with phoneme ids [N] (``NO_PHONEME`` where unknown)."""
    generator = torch.Generator().manual_seed(0)
    mean = features.mean(0)
    dim = min(LATENT_DIM, features.shape[1])
    values, vectors = torch.linalg.eigh(torch.cov((features - mean).T))
    kept = values.flip(0)[:dim]
    projection = vectors.flip(1)[:, :dim] / (kept.sum() / dim).sqrt()
    latent = (features - mean) @ projection
    first_projection = _discriminants(latent, phonemes, min(FIRST_DIM, dim))
    chosen = torch.randperm(len(latent), generator=generator)[:FIT_FRAMES]
    latent = latent[chosen]
    projected = latent @ first_projection
    centroids = k_means(projected, codebook_size, FIRST_ITERATIONS, generator)
    books = [_means(latent, nearest(projected, centroids), codebook_size)]
    residual = latent - books[0][nearest(projected, centroids)]
    for _ in range(1, num_codebooks):
        books.append(k_means(residual, codebook_size, NEXT_ITERATIONS, generator))
        residual = residual - books[-1][nearest(residual, books[-1])]
    return Quantizer(mean, projection, first_projection, centroids, torch.stack(books))


def _discriminants(latent: Tensor, phonemes: Tensor, dim: int) -> Tensor:
    """Directions [D, dim] that separate phonemes best, scaled by how well they do."""
    known = phonemes != NO_PHONEME
    latent, phonemes = latent[known], phonemes[known].long()
    counts = torch.bincount(phonemes, minlength=NUM_PHONEME_IDS).float()
    means = _means(latent, phonemes, NUM_PHONEME_IDS)
    within = torch.cov((latent - means[phonemes]).T)
    within = within + 1e-3 * within.diagonal().mean() * torch.eye(len(within))
    # Rare phonemes count by the root of their number.
    weight = (counts * (counts >= min(MIN_PHONEME_FRAMES, int(counts.max())))).sqrt()
    weight = weight / weight.sum()
    centred = means - (weight[:, None] * means).sum(0)
    between = (centred * weight[:, None]).T @ centred
    whiten = torch.linalg.inv(torch.linalg.cholesky(within))
    values, vectors = torch.linalg.eigh(whiten @ between @ whiten.T)
    best = values.flip(0)[:dim].clamp(min=1e-6)
    return (whiten.T @ vectors.flip(1)[:, :dim]) * best**0.25


def _means(points: Tensor, labels: Tensor, num_labels: int) -> Tensor:
    counts = torch.bincount(labels, minlength=num_labels).float().clamp(min=1)
    sums = torch.zeros(num_labels, points.shape[1]).index_add_(0, labels, points)
    return sums / counts[:, None]


def k_means(points: Tensor, num: int, iterations: int, generator: torch.Generator) -> Tensor:
    """Lloyd's algorithm from drawn points; a centroid that loses all its points is drawn anew."""
    drawn = torch.randint(len(points), (num,), generator=generator)
    centroids = points[drawn].clone()
    for _ in range(iterations):
        labels = nearest(points, centroids)
        centroids = _means(points, labels, num)
        empty = torch.bincount(labels, minlength=num) == 0
        redrawn = torch.randint(len(points), (int(empty.sum()),), generator=generator)
        centroids[empty] = points[redrawn]
    return centroids
