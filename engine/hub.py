"""From what the user calls a model to folders on disk: the checkpoint, its codec, its encoder.

- A folder is used as it is; what is missing in it is named with what to fetch and where to put it.
- A GGUF file holds the model alone: its companions lie in its folder, or in the hub's cache.
- A hub repository, and the companions that it lacks, are fetched once (``engine.download``).
- Nothing is opened here; nothing of a repository but the files that are opened is fetched.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from engine.codec.dac import DESCRIPT_FILE, TRANSFORMERS_FOLDER
from engine.download import Check, Progress, Wanted, cached, fetch
from engine.errors import CheckpointError
from engine.speaker import ecapa, nano
from engine.zonos2.checkpoint import WEIGHT_FILES
from engine.zonos2.config import read_params
from engine.zonos2.gguf import gguf_in, is_gguf
from engine.zonos3.facts import missing_facts

log = logging.getLogger(__name__)

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# The model page writes both spellings; the repository has one.
_ALIASES = {"Zyphra/zonos2": "Zyphra/ZONOS2"}
# The commit the studio was made for. What is not listed here is taken from its branch main.
PINNED = {"Zyphra/ZONOS2": "65f1e80f94b599d474bb6af9094a803dc52f60bd"}

# Repositories that nobody can open from what is public, by lower-case name, and what is missing.
UNREADABLE = dict.fromkeys(("zyphra/zonos3-mini", "zyphra/zonos3-mini-hf"), missing_facts())

# It holds one model in several precisions, so that one of its files has to be chosen.
GGUF_REPOSITORY = "Zyphra/ZONOS2-GGUF"

CODEC_REPOSITORY = "descript/dac_44khz"
ENCODER_REPOSITORY = "marksverdhei/Qwen3-Voice-Embedding-12Hz-1.7B"

CHECKPOINT = Wanted(
    first="params.json",
    weights=WEIGHT_FILES,
    others=(
        "*.json",
        "model-*.safetensors",
        "codec.safetensors",
        nano.WEIGHTS_FILE,
        "voices.safetensors",
        "voice_clips.safetensors",
        DESCRIPT_FILE,
        f"{TRANSFORMERS_FOLDER}/*.safetensors",
        f"{TRANSFORMERS_FOLDER}/{DESCRIPT_FILE}",
        f"{ecapa.FOLDER}/*.safetensors",
    ),
)
# The size of ENCODER_REPOSITORY's vectors; a model of another size needs an encoder of its own.
ENCODER_DIM = 2048
COMPANION = Wanted(first="config.json", weights=("model.safetensors",))


@dataclass(frozen=True)
class CheckpointFiles:
    """Where a model's parts lie; ``encoder_folder`` is None where the model came without one.

    ``checkpoint`` is what its family opens: ``folder``, or a GGUF file in it.
    """

    name: str
    folder: Path
    codec_folder: Path
    encoder_folder: Path | None
    gguf: Path | None = None

    @property
    def checkpoint(self) -> Path:
        """The GGUF file, or else the folder."""
        return self.gguf or self.folder


def locate(
    model: str | Path,
    *,
    revision: str | None = None,
    offline: bool = False,
    endpoint: str | None = None,
    progress: Progress = log.info,
    check: Check | None = None,
) -> CheckpointFiles:
    """The files of ``model``: as it lies on disk, or a hub repository ``owner/name`` fetched.

    On disk it is a folder or a GGUF file, which may also be named by its folder. ``check`` is given
    the folder with params.json, or that file, before anything large travels, and may refuse by
    raising. ``offline`` allows the cache only. See ``engine.download.fetch`` for the rest.
    Raises ``CheckpointError`` when there is no such model, or it cannot be fetched.
    """
    if model and (Path(model).is_dir() or is_gguf(Path(model))):
        checkpoint = _given(Path(model))
        if check is not None:
            check(checkpoint)
        return _companions_beside(checkpoint, progress)
    name = _ALIASES.get(str(model), str(model))
    if not _REPOSITORY.fullmatch(name):
        raise CheckpointError(
            f"model: there is no folder {str(model)!r}; give a checkpoint folder, a GGUF file or a"
            " hub repository such as Zyphra/ZONOS2."
        )

    if missing := UNREADABLE.get(name.lower()):
        raise CheckpointError(
            f"model: {name} cannot be opened yet, because its pages leave open what reading it"
            f" needs: {missing}; choose another model, such as Zyphra/ZONOS2."
        )

    if name.lower() == GGUF_REPOSITORY.lower():
        raise CheckpointError(
            f"model: {name} holds several GGUF files; fetch one with `hf download {GGUF_REPOSITORY}"
            " zonos2-q8_0.gguf --local-dir FOLDER` and open FOLDER/zonos2-q8_0.gguf."
        )

    def fetched(repository: str, wanted: Wanted, check: Check | None = None) -> Path:
        return fetch(
            repository,
            revision if repository == name and revision else PINNED.get(repository),
            wanted,
            is_offline=offline,
            endpoint=endpoint,
            progress=progress,
            check=check,
        )

    folder = fetched(name, CHECKPOINT, check)
    codec = folder if _has_codec(folder) else fetched(CODEC_REPOSITORY, COMPANION)
    encoder = folder if _has_encoder(folder) else None
    if encoder is None and _wants_encoder(folder):
        encoder = fetched(ENCODER_REPOSITORY, COMPANION)
    return CheckpointFiles(name, folder, codec, encoder)


def _given(path: Path) -> Path:
    """The checkpoint that ``path`` means: a GGUF file, or the folder with anything else."""
    if path.is_dir():
        has_weights = any((path / name).is_file() for name in WEIGHT_FILES)
        return path if has_weights else gguf_in(path) or path
    if not path.is_file():
        raise CheckpointError(f"model: there is no file {str(path)!r}; check the path.")
    return path


def _companions_beside(checkpoint: Path, progress: Progress) -> CheckpointFiles:
    if is_gguf(checkpoint):
        gguf, folder, name, told = checkpoint, checkpoint.parent, checkpoint.stem, checkpoint.name
    else:
        gguf, folder, name = None, checkpoint, checkpoint.name
        told = f"the folder {name!r}"
    codec = folder if _has_codec(folder) else gguf and cached(CODEC_REPOSITORY, None, COMPANION)
    if codec is None:
        raise CheckpointError(
            f"model: {told} has no codec; fetch it with"
            f" `{_command(CODEC_REPOSITORY, folder / TRANSFORMERS_FOLDER)}`, or put {DESCRIPT_FILE}"
            " into the folder."
        )
    encoder = folder if _has_encoder(folder) else None
    if encoder is None and _wants_encoder(checkpoint):
        encoder = gguf and cached(ENCODER_REPOSITORY, None, COMPANION)
        if encoder is None:
            command = _command(ENCODER_REPOSITORY, folder / ecapa.FOLDER)
            progress(f"{name} has no speaker encoder: to clone voices, fetch it with `{command}`")
    return CheckpointFiles(name, folder, codec, encoder, gguf)


def _has_codec(folder: Path) -> bool:
    places = ("codec.json", DESCRIPT_FILE, TRANSFORMERS_FOLDER)
    return any((folder / place).exists() for place in places)


def _has_encoder(folder: Path) -> bool:
    return any((folder / place).exists() for place in (nano.CONFIG_FILE, ecapa.FOLDER))


def _wants_encoder(checkpoint: Path) -> bool:
    """Whether the model follows a voice in the published encoder's space."""
    params = read_params(checkpoint)
    speaker_dim = params.get("speaker_embedding_dim") if params.get("speaker_enabled") else None
    return bool(speaker_dim == ENCODER_DIM)


def _command(repository: str, folder: Path) -> str:
    return f"hf download {repository} config.json model.safetensors --local-dir {folder}"
