"""Every format through the doors, whole and streamed: one header each, one length, one sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import httpx
import numpy as np
import pytest

from bench.judges import Transcriber
from studio.media.encode import FORMATS
from tests.studio.listening import likeness, read_by_ffmpeg, read_sound

RATE_HZ = 44_100
MEDIA_TYPES = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "pcm": "audio/pcm",
    "pcm_f32": "audio/pcm",
}
LOSSLESS = ("wav", "flac", "pcm", "pcm_f32")
WAYS = list(product(MEDIA_TYPES, (True, False)))
IDS = [f"{name}-{'streamed' if is_live else 'whole'}" for name, is_live in WAYS]
SHORT = {"seed": 1, "max_new_tokens": 16}
Replies = Mapping[tuple[str, bool], httpx.Response]


@pytest.fixture(scope="module")
def all_replies(server: str) -> Callable[[Mapping[str, object]], Replies]:
    """Ask /v1 for one text in every format, streamed and whole, all at the same time."""

    def ask(fields: Mapping[str, object]) -> Replies:
        def one(way: tuple[str, bool]) -> httpx.Response:
            body = {**fields, "response_format": way[0], "stream": way[1]}
            return httpx.post(f"{server}/v1/audio/speech", json=body, timeout=120)

        with ThreadPoolExecutor(len(WAYS)) as threads:
            return dict(zip(WAYS, threads.map(one, WAYS), strict=True))

    return ask


@pytest.fixture(scope="module")
def replies(all_replies: Callable[[Mapping[str, object]], Replies]) -> Replies:
    return all_replies(
        {"model": "zonos2", "input": "Count one two three.", "voice": "alloy", "seed": 1}
    )


def test_every_format_has_its_case():
    assert set(MEDIA_TYPES) == set(FORMATS)


@pytest.mark.parametrize(("name", "is_live"), WAYS, ids=IDS)
def test_a_reply_says_what_it_is(name: str, is_live: bool, replies: Replies) -> None:
    reply = replies[name, is_live]
    assert reply.status_code == 200, reply.text
    headers = reply.headers
    assert headers["content-type"] == MEDIA_TYPES[name]
    rate_hz, sample_type = (48_000 if name == "opus" else RATE_HZ), "int16"
    if name == "pcm_f32":
        sample_type = "float32"
    assert headers["x-sample-rate"] == headers["x-audio-sample-rate"] == str(rate_hz)
    assert headers["x-channels"] == headers["x-audio-channels"] == "1"
    assert headers["x-audio-format"] == sample_type
    assert headers["x-bit-depth"] == ("32" if name == "pcm_f32" else "16")
    assert ("content-length" in headers) is not is_live
    assert ("content-disposition" in headers) is not is_live


@pytest.mark.parametrize(("name", "is_live"), WAYS, ids=IDS)
def test_a_body_has_one_header_and_true_sizes(name: str, is_live: bool, replies: Replies) -> None:
    body = replies[name, is_live].content
    counted = {mark: body.count(mark) for mark in (b"RIFF", b"fLaC", b"OpusHead", b"Xing")}
    mark = {"wav": b"RIFF", "flac": b"fLaC", "opus": b"OpusHead"}.get(name)
    assert {mark for mark, count in counted.items() if count} == ({mark} - {None})
    assert max(counted.values()) <= 1
    assert body.count(b"ID3") + body.count(b"Info") <= (2 if name == "mp3" else 0)
    if name == "wav":
        open_size = 0xFFFF_FFFF
        data = body.index(b"data")
        sizes = [int.from_bytes(body[at : at + 4], "little") for at in (4, data + 4)]
        true = [len(body) - 8, len(body) - data - 8]
        assert sizes == ([open_size, open_size] if is_live else true)


@pytest.mark.parametrize(("name", "is_live"), WAYS, ids=IDS)
def test_all_are_the_same_sound(name: str, is_live: bool, replies: Replies) -> None:
    spoken, _ = read_sound(replies["pcm", False].content, "pcm", RATE_HZ)
    body = replies[name, is_live].content
    if name in LOSSLESS:
        heard, _ = read_sound(body, name, RATE_HZ)
        exact = np.rint(np.clip(heard, -1, 1) * 32_767) / 2**15 if name == "pcm_f32" else heard
        np.testing.assert_array_equal(exact, spoken)
        return
    heard = read_by_ffmpeg(body, name, RATE_HZ)
    assert abs(len(heard) - len(spoken)) < 0.12 * RATE_HZ
    alike, delay = likeness(heard, spoken)  # falls below a half when the pitch is off by 0.1 %
    assert alike > 0.97
    assert 0 <= delay < 0.06 * RATE_HZ


def test_float_samples_are_the_same_streamed_and_whole(replies: Replies) -> None:
    assert replies["pcm_f32", True].content == replies["pcm_f32", False].content


@pytest.mark.parametrize(("door", "rate_hz"), [("/openai/v1", 24_000), ("/v1", 44_100)])
def test_pcm_is_what_stock_clients_take_it_for(door: str, rate_hz: int, client) -> None:
    def speak(name: str) -> httpx.Response:
        body = {"model": "zonos2", "input": "Count one.", "voice": "alloy", "response_format": name}
        reply = client.post(f"{door}/audio/speech", json=body | SHORT)
        assert reply.status_code == 200
        return reply

    pcm, wav = speak("pcm"), speak("wav")
    assert pcm.headers["x-sample-rate"] == str(rate_hz)
    assert (pcm.headers["x-channels"], pcm.headers["x-bit-depth"]) == ("1", "16")
    assert b"RIFF" not in pcm.content[:64]
    heard, _ = read_sound(pcm.content, "pcm", rate_hz)
    expected, wav_rate_hz = read_sound(wav.content, "wav", 0)
    assert len(heard) / rate_hz == pytest.approx(len(expected) / wav_rate_hz, abs=0.1)
    level_db = 20 * np.log10(np.std(heard) / np.std(expected))
    assert abs(level_db) < 1


def test_a_rate_can_be_asked_for_and_is_said(client) -> None:
    body = {"input": "Hi.", "response_format": "pcm", **SHORT}
    native = client.post("/v1/audio/speech", json=body)
    slower = client.post("/v1/audio/speech", json=body | {"sample_rate": 16_000})
    assert slower.headers["x-sample-rate"] == "16000"
    assert len(slower.content) == pytest.approx(len(native.content) * 16_000 / RATE_HZ, abs=4)


@pytest.mark.slow
def test_four_sentences_end_with_their_last_word_in_every_format(
    all_replies: Callable[[Mapping[str, object]], Replies],
) -> None:
    text = "This is the first. This is the second. This is the third. The last word is harbour."
    replies = all_replies({"input": text, "seed": 2})
    transcriber = Transcriber()
    lengths_s = []
    for (name, is_live), reply in replies.items():
        assert reply.status_code == 200
        heard = read_by_ffmpeg(reply.content, name, RATE_HZ)
        lengths_s.append(len(heard) / RATE_HZ)
        if name not in LOSSLESS or (name, is_live) == ("wav", False):
            words = transcriber.hear(heard, RATE_HZ).lower().strip(" .!?")
            assert words.endswith(("harbour", "harbor")), (name, is_live, words)
    assert max(lengths_s) - min(lengths_s) < 0.12
