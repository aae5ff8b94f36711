"""One voice as one file: a zip that is written for keeps and read as if a stranger had made it.

- Inside: ``voice.json`` (the card, the models), ``embedding-<encoder>.safetensors`` for each
  encoder, ``clip-<n>.flac`` for each kept recording, ``preview.flac`` for people who look inside.
- Reading believes nothing: sizes are bounded before and while unpacking, other names are refused,
  vectors are checked. Clips come back as bytes that nobody has decoded yet.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import InvalidRequest, TooLarge
from studio import vectors
from studio.voice_card import Card
from studio.voice_records import Voice, VoiceEmbedding

MAX_CLIPS = 8
# Thirty seconds of 24-bit samples at 48 kHz, in a format that only makes them smaller.
MAX_CLIP_BYTES = 4_500_000
MAX_FILE_BYTES = 25_000_000  # less than a form may have
MAX_ENCODERS = 8
_MAX_JSON_BYTES = 65_536
_FORMAT, _VERSION = "zonos2-studio-voice", 1
_MANIFEST, _PREVIEW = "voice.json", "preview.flac"
_EMBEDDING = re.compile(r"embedding-([0-9a-f]{16})\.safetensors")
_CLIP = re.compile(rf"clip-([1-{MAX_CLIPS}])\.flac")
_MAX_ENTRIES = 2 + MAX_CLIPS + MAX_ENCODERS
# The head of an archive's table of contents says how long it is; it stands at the very end.
_END = struct.Struct("<4s4H2LH")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAX_TABLE_BYTES = 256 * _MAX_ENTRIES
_WORDS = ("name", "language", "tags", "notes", "transcript")
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(ValueError, RuntimeError, OverflowError),  # RuntimeError: encrypted, or an unknown method
)


@dataclass(frozen=True, eq=False)
class Unpacked:
    """What a file holds: ``clips`` are bytes from outside, to be decoded with care."""

    card: Card
    embeddings: tuple[VoiceEmbedding, ...]
    clips: tuple[bytes, ...]


def pack(
    voice: Voice,
    embeddings: Sequence[VoiceEmbedding],
    clips: Sequence[bytes],
    preview: bytes | None,
) -> bytes:
    """The voice as one file; the same voice gives the same bytes."""
    card = voice.card
    manifest = {
        "format": _FORMAT,
        "version": _VERSION,
        "name": card.name,
        "language": card.language,
        "tags": list(card.tags),
        "notes": card.notes,
        "transcript": card.transcript,
        "models": {embedding.encoder: embedding.model for embedding in embeddings},
    }
    parts = {_MANIFEST: json.dumps(manifest, ensure_ascii=False, indent=1).encode()}
    for embedding in embeddings:
        parts[f"embedding-{embedding.encoder}.safetensors"] = vectors.to_bytes(embedding.vector)
    parts |= {f"clip-{number}.flac": clip for number, clip in enumerate(clips, 1)}
    if preview is not None:
        parts[_PREVIEW] = preview
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # dated 1980: no clock in the file
    return file.getvalue()


def unpack(data: bytes, field: str = "file") -> Unpacked:
    """Read a file of ``pack``, from anywhere; raises ``InvalidRequest`` and ``TooLarge``."""
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(
            f"{field}: it has {len(data) / 1e6:.1f} MB and the limit is {MAX_FILE_BYTES / 1e6:.0f}"
            " MB; send a voice that this studio exported.",
            field=field,
        )
    _check_table(data, field)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {entry.filename: _part(archive, entry, field) for entry in _entries(archive)}
    except _UNREADABLE:
        raise _refused(field, "it is damaged, or no zip archive") from None
    manifest = _manifest(parts.get(_MANIFEST, b""), field)
    models = manifest.get("models")
    embeddings = tuple(
        VoiceEmbedding(found[1], _model(models, found[1]), vectors.from_bytes(part, name))
        for name, part in sorted(parts.items())
        if (found := _EMBEDDING.fullmatch(name))
    )
    clips = tuple(part for name, part in sorted(parts.items()) if _CLIP.fullmatch(name))
    if not embeddings:
        raise _refused(field, "it holds no speaker embedding")
    words = {name: manifest[name] for name in _WORDS if name in manifest}
    return Unpacked(Card(**{"name": None, **words}), embeddings, clips)


def _check_table(data: bytes, field: str) -> None:
    """Refuse an archive whose table of contents would be long: it is read before any entry is."""
    if len(data) < _END.size:
        raise _refused(field, "it is damaged, or no zip archive")
    mark, _, _, _, num_entries, table_bytes, _, comment_bytes = _END.unpack(data[-_END.size :])
    if mark != b"PK\x05\x06" or comment_bytes:
        raise _refused(field, "it is damaged, or no zip archive")
    # The larger form of the table has a head of its own, which would win over this one.
    if num_entries > _MAX_ENTRIES or table_bytes > _MAX_TABLE_BYTES or b"PK\x06\x07" in data[-42:]:
        raise _refused(field, f"it has more than {_MAX_ENTRIES} parts")


def _entries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    entries = archive.infolist()
    known = {entry.filename for entry in entries if entry.compress_type in _METHODS}
    if len(known) != len(entries):  # a name twice, or an unusual method
        raise zipfile.BadZipFile
    return entries


def _part(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, field: str) -> bytes:
    name = entry.filename
    if name == _MANIFEST:
        limit = _MAX_JSON_BYTES
    elif _EMBEDDING.fullmatch(name):
        limit = vectors.MAX_BYTES
    elif _CLIP.fullmatch(name) or name == _PREVIEW:
        limit = MAX_CLIP_BYTES
    else:
        raise _refused(field, f"{name[:40]!r} is no part of a voice")
    if entry.file_size > limit:
        raise _refused(field, f"its part {name} has more than {limit} bytes")
    with archive.open(entry) as part:
        content = part.read(limit + 1)  # never more, whatever was declared
    if len(content) != entry.file_size:
        raise zipfile.BadZipFile
    return content


def _manifest(data: bytes, field: str) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise _refused(field, f"its {_MANIFEST} does not describe a voice")
    if manifest.get("version") != _VERSION:
        raise _refused(field, f"it was written by a newer studio (this one reads {_VERSION})")
    return manifest


def _model(models: object, encoder: str) -> str:
    """The name of the model that an embedding was made with, for sentences to people."""
    name = models.get(encoder) if isinstance(models, Mapping) else None
    if isinstance(name, str) and name.isprintable() and 0 < len(name) <= 100:
        return name
    return "another model"


def _refused(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field} cannot be used: {reason}; send a voice that this studio exported.",
        field=field,
        code="invalid_voice_file",
    )
