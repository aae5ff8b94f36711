"""One voice as one file: what was packed comes back bit for bit, and nothing else comes in."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from engine import InvalidRequest, TooLarge
from studio import vectors, voice_file
from studio.voice_card import Card
from studio.voice_records import Voice, VoiceEmbedding

NANO, RELEASE = "0123456789abcdef", "f" * 16
CARD = Card("Zoë / 王", "de", ("warm", "ÄÖ"), "line\nline", "what it says")
EMBEDDING = f"embedding-{NANO}.safetensors"


def vector(seed: int, dim: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dim).astype(np.float32)


EMBEDDINGS = (
    VoiceEmbedding(NANO, "nano", vector(1, 128)),
    VoiceEmbedding(RELEASE, "Zyphra/ZONOS2", vector(2, 2048)),
)


@pytest.fixture(scope="module")
def packed() -> bytes:
    voice = Voice("voice_x", "local", CARD, "recording", 1.0, 2.0, {}, 2, True, 0, 1)
    return voice_file.pack(voice, EMBEDDINGS, (b"fLaC one", b"fLaC two"), b"fLaC preview")


def parts_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_what_was_packed_comes_back_bit_for_bit(packed):
    unpacked = voice_file.unpack(packed)
    assert unpacked.card == CARD
    assert unpacked.clips == (b"fLaC one", b"fLaC two")
    for before, after in zip(EMBEDDINGS, unpacked.embeddings, strict=True):
        assert (after.encoder, after.model) == (before.encoder, before.model)
        assert after.vector.tobytes() == before.vector.tobytes()


def test_a_file_says_what_it_is_and_holds_no_clock(packed):
    parts = parts_of(packed)
    assert list(parts) == [
        "voice.json",
        EMBEDDING,
        f"embedding-{RELEASE}.safetensors",
        "clip-1.flac",
        "clip-2.flac",
        "preview.flac",
    ]
    assert json.loads(parts["voice.json"])["name"] == CARD.name
    assert voice_file.unpack(zipped(parts)).card == CARD  # as other programs would zip it again


def changed(**parts: bytes | None) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """The parts of a good file with some replaced, added or (None) left out."""
    names = {"manifest": "voice.json", "embedding": EMBEDDING, "clip": "clip-1.flac"}

    def change(good: dict[str, bytes]) -> dict[str, bytes]:
        new = good | {names.get(name, name): part for name, part in parts.items()}
        return {name: part for name, part in new.items() if part is not None}

    return change


def manifest(**fields: object) -> bytes:
    usual = {"format": "zonos2-studio-voice", "version": 1, "name": "A", "models": {}}
    return json.dumps(usual | fields).encode()


SAVED = vectors.to_bytes(vector(1, 128))
BAD_PARTS = [
    (changed(manifest=None), "does not describe a voice"),
    (changed(manifest=b"{"), "does not describe a voice"),
    (changed(manifest=b"[" * 50_000), "does not describe a voice"),
    (changed(manifest=b"[1]"), "does not describe a voice"),
    (changed(manifest=manifest(format="zip")), "does not describe a voice"),
    (changed(manifest=manifest(version=2)), "newer studio"),
    (changed(manifest=manifest(name=None)), "name: "),
    (changed(manifest=manifest(name="../../x\0")), "control character"),
    (changed(manifest=manifest(name="default")), "meaning of its own"),
    (changed(manifest=manifest(tags={"a": 1})), "tags: "),
    (changed(manifest=manifest(notes=["x"])), "notes: "),
    (changed(manifest=b'"' + b"x" * 70_000 + b'"'), "voice.json has more than"),
    (changed(embedding=None, **{f"embedding-{RELEASE}.safetensors": None}), "no speaker embedding"),
    (changed(embedding=b""), "no safetensors file"),
    (changed(embedding=SAVED[:-1]), "no safetensors file"),
    (changed(embedding=b"\xff" * 64), "no safetensors file"),
    (changed(embedding=b"\x80\x04cos\nsystem\n"), "no safetensors file"),
    (changed(embedding=SAVED + bytes(60_000)), "has more than"),
    (changed(embedding=vectors.to_bytes(np.full(8, np.nan))), "no finite numbers"),
    (changed(embedding=vectors.to_bytes(np.zeros(8))), "its length 0"),
    (changed(embedding=vectors.to_bytes(np.full(8, 1e30))), "its length"),
    (changed(embedding=vectors.to_bytes(np.ones((2, 4)))), "its shape is [2, 4]"),
    (changed(embedding=vectors.to_bytes(np.ones(0))), "its shape is [0]"),
    (changed(embedding=SAVED.replace(b"speaker_embedding", b"speaker_embeddinh")), "one tensor"),
    (changed(**{"../../canary.wav": b"x"}), "no part of a voice"),
    (changed(**{"/etc/passwd": b"x"}), "no part of a voice"),
    (changed(**{"clip-9.flac": b"x"}), "no part of a voice"),
    (changed(**{"embedding-x.safetensors": SAVED}), "no part of a voice"),
    (changed(clip=bytes(voice_file.MAX_CLIP_BYTES + 1)), "clip-1.flac has more than"),
    (lambda good: good | {f"embedding-{n:016x}.safetensors": SAVED for n in range(40)}, "parts"),
]


@pytest.mark.parametrize(("change", "says"), BAD_PARTS)
def test_other_parts_are_refused_in_one_sentence(packed, change, says):
    with pytest.raises(InvalidRequest) as caught:
        voice_file.unpack(zipped(change(parts_of(packed))))
    assert says in caught.value.message and len(caught.value.message) < 300


def lying_about_its_size(good: bytes) -> bytes:
    """The clip declared as 8 bytes, though it unpacks to 4 MB."""
    bomb = zipped(parts_of(good) | {"clip-1.flac": bytes(4_000_000)})
    return bomb.replace((4_000_000).to_bytes(4, "little"), (8).to_bytes(4, "little"))


def twice(good: bytes) -> bytes:
    file = io.BytesIO(good)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr("voice.json", manifest())
    return file.getvalue()


def commented(good: bytes) -> bytes:
    file = io.BytesIO(good)
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"hello"
    return file.getvalue()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda good: b"", "no zip archive"),
        (lambda good: b"RIFF" + bytes(100), "no zip archive"),
        (lambda good: good[:-30], "no zip archive"),
        (lambda good: good[40:], "no zip archive"),
        (commented, "no zip archive"),
        (lying_about_its_size, "no zip archive"),
        (twice, "no zip archive"),
        (lambda good: zipped(parts_of(good), zipfile.ZIP_LZMA), "no zip archive"),
        (lambda good: good.replace(b"fLaC one", b"fLaC 0ne"), "no zip archive"),
        (lambda good: good[:-12] + b"\xff\xff\xff\x7f" + good[-8:], "parts"),
    ],
)
def test_other_archives_are_refused_in_one_sentence(packed, spoil, says):
    with pytest.raises(InvalidRequest, match="file cannot be used") as caught:
        voice_file.unpack(spoil(packed))
    assert says in caught.value.message


def test_a_bomb_is_refused_before_it_is_in_memory(packed):
    bomb = zipped(parts_of(packed) | {"clip-1.flac": bytes(100_000_000)})
    assert len(bomb) < 1_000_000
    tracemalloc.start()
    with pytest.raises(InvalidRequest, match="has more than"):
        voice_file.unpack(bomb)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2_000_000
    with pytest.raises(TooLarge, match="25 MB"):
        voice_file.unpack(bytes(voice_file.MAX_FILE_BYTES + 1))


def test_no_damage_is_a_fault_of_ours(packed):
    """Whatever is changed in a good file, it is read or refused; nothing else is raised."""
    chance = random.Random(8)
    refused = 0
    for _ in range(600):
        data = bytearray(packed)
        for _ in range(chance.randrange(1, 5)):
            at = chance.choice([chance.randrange(len(data)), len(data) - 1 - chance.randrange(600)])
            data[at] = chance.randrange(256)
        try:
            voice_file.unpack(bytes(data))
        except InvalidRequest:
            refused += 1
    assert refused > 300
