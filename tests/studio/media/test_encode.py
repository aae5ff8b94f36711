"""Seven formats: the same bytes however the samples were cut, and the sound that went in."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
import tracemalloc
from collections.abc import AsyncIterator

import av
import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import GenerationFailed, InvalidRequest
from studio.media import encode
from studio.media.encode import (
    FORMATS,
    SAMPLE_RATES_HZ,
    Encoder,
    available_formats,
    bits_per_second,
    encoded,
    known_format,
)
from studio.media.muxed import Codec
from studio.media.pcm import to_int16
from tests.studio.listening import likeness, read_by_ffmpeg, read_sound

RATE_HZ = 44_100
LOSSLESS = [name for name, known in FORMATS.items() if known.is_lossless]
LOSSY = [name for name in FORMATS if name not in LOSSLESS]
CHUNK = 7_056  # the engine's first: 0.16 s


def noise(duration_s: float, seed: int = 0) -> np.ndarray:
    """Something that no codec finds easy, with a swell."""
    num_samples = round(duration_s * RATE_HZ)
    swell = 0.1 + 0.1 * np.sin(np.arange(num_samples) / 4_000)
    samples = np.random.default_rng(seed).standard_normal(num_samples) * swell
    return samples.astype(np.float32)


SOUND = noise(0.7)


def body_of(encoder: Encoder, samples: np.ndarray, cuts: list[int] | None = None) -> bytes:
    pieces = np.split(samples, cuts if cuts is not None else range(CHUNK, len(samples), CHUNK))
    return b"".join([*(encoder.feed(piece) for piece in pieces), encoder.finish()])


def decoded(body: bytes, encoder: Encoder) -> np.ndarray:
    samples, rate_hz = read_sound(body, encoder.format.name, encoder.sample_rate_hz)
    assert rate_hz == encoder.sample_rate_hz
    return samples


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(list(FORMATS)),
    st.booleans(),
    st.sampled_from([None, *SAMPLE_RATES_HZ]),
    st.lists(st.integers(0, 20_000), max_size=6).map(sorted),
)
def test_pieces_are_the_whole(name, is_live, rate_hz, cuts):
    sound = SOUND[:20_000]
    whole = body_of(Encoder(name, RATE_HZ, rate_hz, is_live=is_live), sound, [])
    assert body_of(Encoder(name, RATE_HZ, rate_hz, is_live=is_live), sound, cuts) == whole


@pytest.mark.parametrize("rate_hz", SAMPLE_RATES_HZ)
@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_formats_hold_the_rounded_samples_live_and_whole(name, rate_hz):
    expected = SOUND if rate_hz == RATE_HZ else soxr.resample(SOUND, RATE_HZ, rate_hz, "HQ")
    if name != "pcm_f32":
        expected = to_int16(expected).astype(np.float32) / 2**15
    for is_live in (True, False):
        encoder = Encoder(name, RATE_HZ, rate_hz, is_live=is_live)
        np.testing.assert_array_equal(decoded(body_of(encoder, SOUND), encoder), expected)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
@pytest.mark.parametrize("rate_hz", SAMPLE_RATES_HZ)
@pytest.mark.parametrize("name", LOSSY)
def test_lossy_formats_keep_length_and_pitch(name, rate_hz, is_live):
    duration_s, hz = 0.9, 1_000.0
    tone = np.sin(2 * np.pi * hz * np.arange(round(duration_s * RATE_HZ)) / RATE_HZ)
    encoder = Encoder(name, RATE_HZ, rate_hz, is_live=is_live)
    samples = decoded(body_of(encoder, 0.3 * tone.astype(np.float32)), encoder)
    # What a codec adds before and behind is frames of it: without a place in the stream to say so,
    # up to two of 1024 samples in AAC, and 1105 samples and a frame of 576 in slow live MP3.
    added_s = len(samples) / encoder.sample_rate_hz - duration_s
    says_length = name == "opus" or (name == "mp3" and not is_live)
    slow_s = {"aac": 2_048, "mp3": 1_105 + 576}.get(name, 0) / encoder.sample_rate_hz
    assert -0.001 < added_s < (0.001 if says_length else max(slow_s, 0.06))
    assert rate_hz < 22_050 or added_s < 0.12
    middle = samples[len(samples) // 4 : len(samples) * 3 // 4]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle)), 1 << 18))
    assert spectrum.argmax() * encoder.sample_rate_hz / (1 << 18) == pytest.approx(hz, rel=1e-3)
    level_db = 20 * np.log10(np.sqrt(2 * np.mean(middle**2)) / 0.3)
    assert abs(level_db) < 0.5  # LAME scales by 0.95, which leaves room for what coding adds


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_sentence_is_heard_as_it_was_spoken(name, is_live, recording, wav):
    pcm, rate_hz = wav(recording)
    assert rate_hz == RATE_HZ
    sentence = pcm.astype(np.float32) / 2**15
    body = body_of(Encoder(name, RATE_HZ, is_live=is_live), sentence)
    heard = read_by_ffmpeg(body, name, RATE_HZ)
    assert abs(len(heard) - len(sentence)) < 0.12 * RATE_HZ
    how_alike, delay = likeness(heard, sentence)
    assert 0 <= delay < 0.06 * RATE_HZ
    assert how_alike > 0.98


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_body_has_one_header(name, is_live):
    body = body_of(Encoder(name, RATE_HZ, tags={"title": "A"}, is_live=is_live), SOUND)
    marks = (b"RIFF", b"fLaC", b"OpusHead", b"OpusTags", b"ID3", b"Xing", b"Info")
    found = {mark: body.count(mark) for mark in marks if mark in body}
    assert found == {
        "wav": {b"RIFF": 1},
        "mp3": {b"ID3": 1} if is_live else {b"ID3": 1, b"Info": 1},
        "opus": {b"OpusHead": 1, b"OpusTags": 1},
        "flac": {b"fLaC": 1},
    }.get(name, {})


@pytest.mark.parametrize("tags", [{}, {"title": "odd"}], ids=["plain", "tagged"])
def test_wav_says_its_exact_size_or_leaves_it_open(tags):
    whole = body_of(Encoder("wav", RATE_HZ, tags=tags, is_live=False), SOUND)
    size = whole.index(b"data") + 4
    assert size % 2 == 0
    assert int.from_bytes(whole[4:8], "little") == len(whole) - 8
    assert int.from_bytes(whole[size : size + 4], "little") == len(whole) - size - 4
    assert len(whole) - size - 4 == 2 * len(SOUND)
    live = body_of(Encoder("wav", RATE_HZ, tags=tags, is_live=True), SOUND)
    assert live[4:8] == live[size : size + 4] == b"\xff" * 4
    read, _ = soundfile.read(io.BytesIO(whole), dtype="int16")
    np.testing.assert_array_equal(read, to_int16(SOUND))


def test_flac_says_its_length_and_digest_where_they_are_known():
    whole = body_of(Encoder("flac", RATE_HZ, is_live=False), SOUND)
    assert int.from_bytes(whole[21:26], "big") & (1 << 36) - 1 == len(SOUND)
    assert whole[26:42] == hashlib.md5(to_int16(SOUND).tobytes()).digest()
    live = body_of(Encoder("flac", RATE_HZ, is_live=True), SOUND)
    assert int.from_bytes(live[21:26], "big") & (1 << 36) - 1 == 0
    assert live[26:42] == bytes(16)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
def test_ogg_is_one_chain_of_pages_that_leave_soon(is_live):
    body = body_of(Encoder("opus", RATE_HZ, is_live=is_live), noise(1.5))
    at, kinds, numbers, ends = 0, [], [], []
    while at < len(body):
        assert body[at : at + 4] == b"OggS"
        kinds.append(body[at + 5])
        ends.append(int.from_bytes(body[at + 6 : at + 14], "little"))
        numbers.append(int.from_bytes(body[at + 18 : at + 22], "little"))
        num_segments = body[at + 26]
        at += 27 + num_segments + sum(body[at + 27 : at + 27 + num_segments])
    assert [kind & 2 for kind in kinds] == [2] + [0] * (len(kinds) - 1)
    assert [kind & 4 for kind in kinds] == [0] * (len(kinds) - 1) + [4]
    assert numbers == list(range(len(numbers)))
    lengths_s = np.diff([0, *ends[2:]]) / 48_000
    assert (lengths_s.max() < 0.07) if is_live else (lengths_s.max() > 0.9)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
def test_aac_is_frames_that_each_say_their_length(is_live):
    body = body_of(Encoder("aac", RATE_HZ, is_live=is_live), SOUND)
    at = num_frames = 0
    while at < len(body):
        assert body[at] == 0xFF
        assert body[at + 1] & 0xF6 == 0xF0
        at += int.from_bytes(body[at + 3 : at + 6], "big") >> 5 & 0x1FFF
        num_frames += 1
    assert at == len(body)
    assert num_frames == -(-len(SOUND) // 1024) + 1


@pytest.mark.parametrize("name", FORMATS)
def test_the_first_chunk_is_on_its_way_at_once(name):
    encoder = Encoder(name, RATE_HZ, is_live=True)
    head = len(encoder.feed(SOUND[:0]))
    assert head == {"wav": 44, "mp3": 20, "opus": 97, "flac": 60}.get(name, 0)
    sound = encoder.feed(SOUND[:CHUNK])
    frame_bytes = 4 if name == "pcm_f32" else 2 if name in LOSSLESS else 128_000 / 8 / RATE_HZ
    assert len(sound) > 0.2 * CHUNK * frame_bytes * (0.5 if name == "flac" else 1)


@pytest.mark.parametrize("name", FORMATS)
def test_a_whole_file_comes_at_the_end(name):
    encoder = Encoder(name, RATE_HZ, is_live=False)
    assert encoder.feed(SOUND) == b""
    assert len(encoder.finish()) > 5_000


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
@pytest.mark.parametrize("name", ["wav", "mp3", "opus", "flac"])
def test_tags_are_read_back(name, is_live):
    tags = {"title": "Ünï", "comment": "made by a machine", "encoder": "this studio"}
    body = body_of(Encoder(name, RATE_HZ, tags=tags, is_live=is_live), SOUND)
    with av.open(io.BytesIO(body)) as container:
        found = {**container.metadata, **container.streams[0].metadata}
    found = {name.lower().replace("encoded_by", "encoder"): text for name, text in found.items()}
    assert found == tags


@pytest.mark.parametrize("name", LOSSY)
def test_the_bitrate_is_kept_where_the_codec_can(name):
    sound = noise(1.0)
    sizes = [
        len(body_of(Encoder(name, RATE_HZ, bitrate=bitrate, is_live=False), sound))
        for bitrate in ("32k", None, "320k")
    ]
    most = {"mp3": 320, "opus": 256, "aac": 264}[name]  # of one channel, kilobits per second
    np.testing.assert_allclose(np.array(sizes) / 125, [32, 128, most], rtol=0.25)


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "whole"])
@pytest.mark.parametrize("name", FORMATS)
def test_no_sound_at_all_is_an_empty_body_and_no_crash(name, is_live):
    assert len(Encoder(name, RATE_HZ, 24_000, is_live=is_live).finish()) < 500


def test_an_abandoned_encoder_goes_quietly():
    for name in FORMATS:
        Encoder(name, RATE_HZ, is_live=True).feed(SOUND)


def test_a_live_body_is_not_kept_in_memory():
    encoder, minute = Encoder("flac", RATE_HZ, is_live=True), noise(2.0)
    encoder.feed(minute)
    tracemalloc.start()
    try:
        for _ in range(20):
            encoder.feed(minute)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * minute.nbytes


def test_the_event_loop_is_left_alone():
    threads = set()

    class Watched(Encoder):
        def feed(self, samples: np.ndarray) -> bytes:
            threads.add(threading.get_ident())
            return super().feed(samples)

        def finish(self) -> bytes:
            threads.add(threading.get_ident())
            return super().finish()

    async def source() -> AsyncIterator[np.ndarray]:
        for piece in np.array_split(SOUND, 5):
            yield piece

    async def collect() -> bytes:
        encoder = Watched("mp3", RATE_HZ, is_live=True)
        return b"".join([piece async for piece in encoded(source(), encoder)])

    assert asyncio.run(collect()) == body_of(Encoder("mp3", RATE_HZ, is_live=True), SOUND)
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("given_", ["ogg", "", "mp3 ; rm", "x" * 500])
def test_an_unknown_format_is_refused_by_naming_the_others(given_):
    with pytest.raises(InvalidRequest, match="wav, mp3, opus, aac, flac, pcm, pcm_f32") as caught:
        known_format(given_)
    assert caught.value.code == "unsupported_format"
    assert caught.value.field == "response_format"
    assert len(caught.value.message) < 200
    assert known_format(" MP3").name == "mp3"


def test_a_codec_that_this_build_lacks_is_left_out(monkeypatch):
    lacking = encode.Format("mp3", "audio/mpeg", "mp3", Codec("no_such_encoder", "mp3", "fltp"))
    monkeypatch.setattr(encode, "FORMATS", {**FORMATS, "mp3": lacking})
    available_formats.cache_clear()
    try:
        with pytest.raises(InvalidRequest, match="use one of wav, opus, aac") as caught:
            Encoder("mp3", RATE_HZ, is_live=True)
        assert caught.value.code == "unsupported_format"
    finally:
        monkeypatch.undo()
        available_formats.cache_clear()
    assert available_formats() == tuple(FORMATS)


@pytest.mark.parametrize("rate_hz", [0, -1, 11_025, 44_099, 96_000])
def test_a_rate_that_is_not_offered_is_refused(rate_hz):
    with pytest.raises(InvalidRequest, match=f"{rate_hz} Hz is not offered; use one of 8000,"):
        Encoder("wav", RATE_HZ, rate_hz, is_live=True)


def test_bitrates_are_read_as_people_write_them():
    assert bits_per_second(None) == bits_per_second("128K ") == bits_per_second(128_000) == 128_000
    assert (bits_per_second("32k"), bits_per_second("320000")) == (32_000, 320_000)
    for wrong in (0, 128, -64_000, "31k", "321k", "k", "", "1e5", "²²k", "9" * 5_000, True, "64kk"):
        with pytest.raises(InvalidRequest, match="32k to 320k"):
            bits_per_second(wrong)


def test_a_failing_codec_is_a_failed_generation():
    encoder = Encoder("mp3", RATE_HZ, is_live=True)
    encoder.finish()
    with pytest.raises(GenerationFailed, match="could not be written as mp3"):
        encoder.feed(SOUND)
