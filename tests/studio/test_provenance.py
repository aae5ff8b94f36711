"""Which marks a body bears, that they can be switched off, and that files carry their words."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import numpy as np
import pytest
import soundfile

from studio.inspection import LIMITS
from studio.media.containers import demuxer_of
from studio.media.encode import Encoder
from studio.media.reading import MAX_TAG_CHARS, MAX_TAGS, read_tags
from studio.media.wav_info import info_chunk
from studio.provenance import Marker
from studio.settings import Settings

RATE_HZ = 44_100
FACTS = {"model": "nano", "request_id": "ask-1", "seed": 7}
TRAINED = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
# Words that a line-by-line reader would trip over.
AWKWARD = 'a=b; c\\d #e\n[STREAM]\nf "g" ü'


def streamed(marker: Marker, pieces: list[np.ndarray]) -> list[np.ndarray]:
    async def source() -> AsyncIterator[np.ndarray]:
        for piece in pieces:
            yield piece

    async def collect() -> list[np.ndarray]:
        return [piece async for piece in marker.marked(source(), RATE_HZ)]

    return asyncio.run(collect())


def body_of(format: str, tags: dict[str, str], *, is_live: bool) -> bytes:
    encoder = Encoder(format, RATE_HZ, tags=tags, is_live=is_live)
    return encoder.feed(np.full(20_000, 0.1, np.float32)) + encoder.finish()


def tags_in(body: bytes, tmp_path) -> dict[str, str]:
    path = tmp_path / "body"
    path.write_bytes(body)
    with path.open("rb", buffering=0) as file:
        return read_tags(file, demuxer_of(file), LIMITS)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return (np.random.default_rng(2).standard_normal(40_000) * 0.1).astype(np.float32)


def test_streamed_is_whole(noise: np.ndarray) -> None:
    marker = Marker(Settings())
    whole = marker.mark(noise, RATE_HZ)
    pieces = streamed(marker, np.split(noise, [7_168, 7_200, 25_000]))
    assert np.array_equal(np.concatenate(pieces), whole)
    assert len(whole) == len(noise)
    assert not np.array_equal(whole, noise)
    assert all(len(piece) for piece in pieces)
    assert streamed(marker, []) == []


def test_a_first_chunk_of_the_engine_is_not_held_back(noise: np.ndarray) -> None:
    first = streamed(Marker(Settings()), np.split(noise, [7_168]))[0]
    assert len(first) >= 0.12 * RATE_HZ


def test_without_watermark_the_chunks_pass_untouched(noise: np.ndarray) -> None:
    marker = Marker(Settings(no_watermark=True))
    pieces = np.split(noise, [7_168, 25_000])
    assert [id(piece) for piece in streamed(marker, pieces)] == [id(piece) for piece in pieces]
    assert marker.mark(noise, RATE_HZ) is noise


def test_the_answer_says_which_marks_it_bears() -> None:
    every = Marker(Settings())
    assert every.headers("wav", is_live=False) == {
        "X-AI-Generated": "true",
        "X-Marked": "watermark, metadata",
    }
    assert every.headers("aac", is_live=True)["X-Marked"] == "watermark"
    no_metadata = Marker(Settings(no_metadata=True))
    assert no_metadata.headers("mp3", is_live=False)["X-Marked"] == "watermark"
    assert no_metadata.tags(**FACTS) == {}
    none = Marker(Settings(no_watermark=True, no_metadata=True))
    assert none.headers("wav", is_live=False) == {"X-AI-Generated": "true"}


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("format", ["mp3", "opus", "flac"])
def test_a_file_says_who_made_it(format: str, is_live: bool, tmp_path) -> None:
    tags = Marker(Settings()).tags(**FACTS)
    found = tags_in(body_of(format, tags, is_live=is_live), tmp_path)
    assert found["digital_source_type"] == TRAINED
    assert {name: found[name] for name in ("ai_generated", "model", "request_id", "seed")} == {
        "ai_generated": "true",
        "model": "nano",
        "request_id": "ask-1",
        "seed": "7",
    }


@pytest.mark.parametrize("is_live", [True, False])
def test_a_wav_file_says_it_in_its_info(is_live: bool, tmp_path) -> None:
    tags = Marker(Settings()).tags(**FACTS)
    body = body_of("wav", tags, is_live=is_live)
    comment = tags_in(body, tmp_path)["comment"]
    assert comment.startswith("AI-generated speech.")
    for fact in (TRAINED, "model: nano", "request_id: ask-1", "seed: 7"):
        assert fact in comment
    assert b"ISFT\x0e\0\0\0ZONOS2 Studio\0" in body
    samples, _ = soundfile.read(io.BytesIO(body), dtype="int16")
    assert len(samples) == 20_000


@pytest.mark.parametrize("text", ["", "a", "ab", "über"])
def test_info_chunks_are_even_and_counted(text: str) -> None:
    chunk = info_chunk({"comment": text, "unknown": "left out"})
    assert chunk[:4] == b"LIST"
    assert int.from_bytes(chunk[4:8], "little") == len(chunk) - 8
    assert len(chunk) % 2 == 0
    size = int.from_bytes(chunk[16:20], "little")
    assert chunk[20 : 20 + size] == text.encode() + b"\0"
    assert info_chunk({"unknown": "left out"}) == b""


def test_awkward_words_are_read_as_they_were_written(tmp_path) -> None:
    assert tags_in(body_of("flac", {"comment": AWKWARD}, is_live=False), tmp_path) == {
        "comment": AWKWARD
    }


def test_endless_words_are_cut(tmp_path) -> None:
    tags = {f"t{number}": "x" * 3_000 for number in range(70)}
    found = tags_in(body_of("flac", tags, is_live=False), tmp_path)
    assert len(found) == MAX_TAGS
    assert {len(value) for value in found.values()} == {MAX_TAG_CHARS}
    tags = {f"t{number}": "x" * 50_000 for number in range(70)}
    assert tags_in(body_of("flac", tags, is_live=False), tmp_path) == {}
