"""Stage ``encode``: audio batches -> shards of codes, alignments and speaker embeddings.

- Needs a folder with a codec (``codec.json``, ``codec.safetensors``) and a speaker encoder; the
  shipped ones by default, so that new speech fits a language model that exists.
- ``import_corpus`` turns the first corpus's arrays into the same shards.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soxr
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.speaker.encoder import open_speaker_encoder
from engine.speaker.features import LogMel
from engine.speaker.nano import NanoSpeakerEncoder
from engine.weights import read_json
from training.alignment import align
from training.quantizer import Quantizer, codec_features
from training.shards import HELD_OUT, NO_ALIGNMENT, Utterance, write_shard
from training.speech import FRAME_SAMPLES, Take, read_takes
from training.teacher import SAMPLE_RATE_HZ
from training.work import Eta, Work

EMBEDDED_S = 2.4
EMBEDDING_BATCH = 16
BATCHES_PER_SHARD = 10
IMPORTED_PER_SHARD = 2000


class Encoder:
    """Codes and embeddings of takes."""

    def __init__(self, codec_folder: Path, speaker_folder: Path) -> None:
        self._log_mel, self._windows_per_frame = codec_features(codec_folder)
        self._quantizer = Quantizer.load(codec_folder)
        encoder = open_speaker_encoder(speaker_folder)
        if not isinstance(encoder, NanoSpeakerEncoder):
            raise ValueError("the speaker folder holds no trained encoder")
        self._encoder = encoder
        self._speaker_log_mel = LogMel.from_dict(read_json(speaker_folder / "speaker_encoder.json"))

    @torch.inference_mode()
    def encode(self, takes: Sequence[tuple[Take, np.ndarray]]) -> list[Utterance]:
        """Utterances of takes with their int16 samples at 24 kHz."""
        embeddings = self._embeddings([samples for _, samples in takes])
        utterances = []
        for (take, samples), embedding in zip(takes, embeddings, strict=True):
            frames = frame_features(samples, self._log_mel, self._windows_per_frame)
            byte_index, phoneme_id = align(take)
            utterances.append(
                Utterance(
                    text=take.text,
                    speaker=take.speaker,
                    speech_s=take.speech_s,
                    trailing_silence_s=take.trailing_silence_s,
                    codes=self._quantizer.encode(frames).numpy().astype(np.uint16),
                    byte_index=byte_index,
                    phoneme_id=phoneme_id,
                    embedding=embedding,
                )
            )
        return utterances

    def _embeddings(self, clips: list[np.ndarray]) -> np.ndarray:
        """Embeddings [n, dim] float16 of the first 2.4 s, in groups of similar length."""
        longest = int(EMBEDDED_S * SAMPLE_RATE_HZ)
        order = np.argsort([min(len(clip), longest) for clip in clips])
        embedded: dict[int, np.ndarray] = {}
        for start in range(0, len(order), EMBEDDING_BATCH):
            group = order[start : start + EMBEDDING_BATCH]
            length = min(len(clips[group[0]]), longest)
            features = torch.stack(
                [self._speaker_log_mel(as_float(clips[i][:length])) for i in group]
            )
            for i, vector in zip(group, self._encoder.embed(features), strict=True):
                embedded[int(i)] = vector.numpy().astype(np.float16)
        return np.stack([embedded[i] for i in range(len(clips))])


def as_float(samples: np.ndarray) -> Tensor:
    """int16 samples -> float32 in [-1, 1)."""
    return torch.from_numpy(samples.astype(np.float32) / 32768)


def at_codec_rate(samples: np.ndarray, log_mel: LogMel, hop: int) -> Tensor:
    """int16 samples at 24 kHz -> float32 at the codec's rate, exactly ``hop`` per frame."""
    num_frames = len(samples) // FRAME_SAMPLES
    resampled = soxr.resample(as_float(samples).numpy(), SAMPLE_RATE_HZ, log_mel.sample_rate_hz)
    wanted = num_frames * hop
    clip = torch.from_numpy(resampled[:wanted].astype(np.float32))
    return F.pad(clip, (0, wanted - len(clip)))


def frame_features(samples: np.ndarray, log_mel: LogMel, windows_per_frame: int) -> Tensor:
    """int16 samples at 24 kHz -> log-mel frames [T, windows_per_frame * num_mels]."""
    clip = at_codec_rate(samples, log_mel, log_mel.hop * windows_per_frame)
    windows = log_mel(clip)
    return windows.reshape(-1, windows_per_frame * log_mel.num_mels)


def encode_speech(work: Work, codec_folder: Path, speaker_folder: Path) -> None:
    """Write ``shards/speech-*.npz`` for every finished group of batches that has none."""
    encoder, journal, eta = Encoder(codec_folder, speaker_folder), work.journal("encode"), Eta()
    batches = sorted(work.folder("speech").glob("*.jsonl"))
    # The first batch is never learnt from; it holds every kind of text.
    starts = range(1, len(batches), BATCHES_PER_SHARD)
    groups = [batches[:1], *(batches[i : i + BATCHES_PER_SHARD] for i in starts)]
    for done, group in enumerate(groups):
        name = f"speech-{group[0].stem}.npz" if done else f"{HELD_OUT}-speech.npz"
        path = work.folder("shards") / name
        # The last group may still grow; it is encoded again when it is longer than its shard says.
        mark = path.with_suffix(".batches")
        if path.exists() and mark.exists() and mark.read_text() == str(len(group)):
            continue
        utterances = [u for batch in group for u in encoder.encode(read_takes(batch))]
        size_bytes = write_shard(path, utterances)
        mark.write_text(str(len(group)))
        journal.add(
            shard=path.stem,
            utterances=len(utterances),
            size_bytes=size_bytes,
            eta_s=eta.left_s((done + 1) / len(groups)),
        )


def import_corpus(work: Work, folder: Path) -> None:
    """Turn a corpus of ``NAME.npz`` + ``NAME.jsonl.gz`` into ``shards/NAME-*.npz``."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        codes = arrays["code_low"].astype(np.uint16) + 256 * arrays["code_high"].astype(np.uint16)
        byte_index = arrays["byte_index"].astype(np.uint16)
        byte_index[byte_index == 0xFF] = NO_ALIGNMENT
        with gzip.open(path.with_name(path.stem + ".jsonl.gz"), "rt", encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines]
        utterances = []
        for i, entry in enumerate(entries):
            frames = slice(*map(int, arrays["frame_start"][i : i + 2]))
            utterances.append(
                Utterance(
                    text=entry["text"],
                    speaker=entry["speaker"],
                    speech_s=entry["speech_s"],
                    trailing_silence_s=entry["trailing_silence_s"],
                    codes=codes[:, frames].T,
                    byte_index=byte_index[frames],
                    phoneme_id=arrays["phoneme_id"][frames],
                    embedding=arrays["embedding"][i],
                )
            )
        for start in range(0, len(utterances), IMPORTED_PER_SHARD):
            target = work.folder("shards") / f"{path.stem}-{start:05d}.npz"
            if not target.exists():
                write_shard(target, utterances[start : start + IMPORTED_PER_SHARD])
