"""The pieces for the browser hold every sample once, and silence is broken by a heartbeat."""

import asyncio
import io

import numpy as np
import pytest
import soundfile

from engine import Cancelled, Engine, FinishReason, SpeechStream, Timings
from studio.media.pcm import to_int16
from studio.ui import sound
from studio.ui.sound import pieces_of, wav_bytes, waveform_peaks

RATE_HZ = 1000


@pytest.fixture
def stream() -> SpeechStream:
    return SpeechStream("id", 7, RATE_HZ, Timings(0.0), lambda: None, lambda: None)


async def all_pieces(stream: SpeechStream) -> list[np.ndarray | None]:
    return [piece async for piece in pieces_of(aiter(stream), stream.sample_rate_hz)]


def test_pieces_are_the_whole_speech_the_first_one_short(engine: Engine):
    text = "The small boat is still tied to the pier, and the sea is calm."
    pieces = [
        piece for piece in asyncio.run(all_pieces(engine.speak(text, seed=3))) if piece is not None
    ]
    whole, rate_hz = engine.speak(text, seed=3).read()
    np.testing.assert_array_equal(np.concatenate(pieces), to_int16(whole))
    assert sound.FIRST_PIECE_S <= len(pieces[0]) / rate_hz < sound.PIECE_S
    assert all(len(piece) >= sound.PIECE_S * rate_hz for piece in pieces[1:-1])


def test_a_silent_engine_still_gives_a_heartbeat(stream, monkeypatch):
    monkeypatch.setattr(sound, "HEARTBEAT_S", 0.01)

    async def listen() -> list[np.ndarray | None]:
        heard = []
        async for piece in pieces_of(aiter(stream), RATE_HZ):
            heard.append(piece)
            if len(heard) == 2:
                stream.push(np.ones(500, np.float32))
                stream.finish(FinishReason.STOP)
        return heard

    first, second, *rest = asyncio.run(listen())
    assert first is None
    assert second is None
    assert sum(len(piece) for piece in rest) == 500


def test_a_short_speech_is_not_held_back(stream):
    stream.push(np.ones(3, np.float32))
    stream.finish(FinishReason.STOP)
    (piece,) = asyncio.run(all_pieces(stream))
    assert piece.tolist() == [32767] * 3


def test_the_error_that_ended_it_is_raised_after_what_was_made(stream):
    stream.push(np.zeros(500, np.float32))
    stream.finish(FinishReason.CANCELLED, Cancelled("request: it was cancelled."))

    async def listen(heard: list) -> None:
        async for piece in pieces_of(aiter(stream), RATE_HZ):
            heard.append(piece)

    heard: list = []
    with pytest.raises(Cancelled):
        asyncio.run(listen(heard))
    assert [len(piece) for piece in heard] == [500]


def test_a_piece_is_a_whole_wav_file():
    pcm = np.arange(-400, 400, dtype="<i2")
    samples, rate_hz = soundfile.read(io.BytesIO(wav_bytes(pcm, RATE_HZ)), dtype="int16")
    assert rate_hz == RATE_HZ
    np.testing.assert_array_equal(samples, pcm)


def test_peaks_follow_the_loudness():
    pcm = np.concatenate([np.zeros(5000), np.full(5000, -16384)]).astype("<i2")
    peaks = waveform_peaks(pcm)
    assert len(peaks) == sound.NUM_PEAKS
    assert peaks[0] == 0.0
    assert peaks[-1] == 1.0
    assert waveform_peaks(np.full(3, -32768, "<i2")) == [1.0, 1.0, 1.0]
    assert waveform_peaks(np.zeros(3, "<i2")) == [0.0, 0.0, 0.0]


def test_closing_it_closes_what_it_reads(monkeypatch):
    monkeypatch.setattr(sound, "HEARTBEAT_S", 0.01)
    ended = []

    async def endless():
        try:
            yield np.ones(1, np.float32)
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def leave() -> None:
        pieces = pieces_of(endless(), RATE_HZ)
        assert await anext(pieces) is None
        await pieces.aclose()
        assert ended == [True]

    asyncio.run(leave())
