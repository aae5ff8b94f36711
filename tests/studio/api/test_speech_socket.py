"""WS /v1/audio/speech/stream over a real socket: order, limits, cancellation, ends."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from engine import Engine
from studio.api import speech_socket, speech_socket_wire
from studio.api.speakers import Speakers
from studio.server import create_api
from studio.settings import Settings
from tests.studio.api.test_live import LONG, SOON_S, hold_decoding, is_idle, until
from tests.studio.conftest import NANO

KEY = "a-key-for-the-tests"
CONFIG = {"response_format": "pcm", "seed": 3, "max_new_tokens": 12}
# As long as LONG, in one sentence: nobody sees the border between two.
ENDLESS = LONG.replace(". ", ", and ") + "that is all. "


def tell(socket: ClientConnection, kind: str, **fields: object) -> None:
    socket.send(json.dumps({"type": kind} | fields))


def hear(socket: ClientConnection, timeout_s: float = 120) -> dict:
    """The next message; sound comes as {"type": "sound", "data": ...}."""
    frame = socket.recv(timeout_s)
    return {"type": "sound", "data": frame} if isinstance(frame, bytes) else json.loads(frame)


def hear_until(socket: ClientConnection, kind: str) -> list[dict]:
    """Messages up to the next one of this kind."""
    heard = [hear(socket)]
    while heard[-1]["type"] != kind:
        heard.append(hear(socket))
    return heard


def kinds(heard: list[dict]) -> list[str]:
    return [message["type"] for message in heard]


@contextlib.contextmanager
def session(server: str, **config: object) -> Iterator[ClientConnection]:
    """A configured socket."""
    with opened(server) as socket:
        tell(socket, "session.config", **(CONFIG | config))
        told = hear(socket)
        assert told["type"] == "session.configured", told
        yield socket


def opened(server: str, **options: object) -> ClientConnection:
    address = server.replace("http://", "ws://") + "/v1/audio/speech/stream"
    return connect(address, max_size=None, proxy=None, **options)


# Text in, sentences out -----------------------------------------------------------------------


def test_sentences_are_spoken_in_their_order_as_the_route_speaks_them(server, engine):
    with session(server, voice="deep") as socket:
        for piece in ("Hi", " there. I", " am"):
            tell(socket, "input.text", text=piece)
        tell(socket, "input.done")
        heard = hear_until(socket, "session.done")
    assert kinds(heard) == ["audio.start", "sound", "audio.done"] * 2 + ["session.done"]
    texts = ["Hi there.", "I am"]
    starts, sounds, ends = heard[:-1:3], heard[1:-1:3], heard[2:-1:3]
    assert [start["sentence_text"] for start in starts] == texts
    for index, (start, sound, end) in enumerate(zip(starts, sounds, ends, strict=True)):
        about = {"utterance_index": 0, "sentence_index": index}
        assert (
            start.items() >= (about | {"format": "pcm", "sample_rate": 44_100, "seed": 3}).items()
        )
        assert end.items() >= (about | {"total_bytes": len(sound["data"]), "error": False}).items()
        expected, _ = engine.speak(texts[index], voice="deep", seed=3, max_new_frames=12).read()
        assert np.array_equal(np.frombuffer(sound["data"], "<i2"), np.rint(expected * 32_767))
    assert heard[-1].items() >= {"total_sentences": 2, "cancelled": False}.items()


def test_a_sentence_is_spoken_before_the_next_one_is_written(server):
    with session(server, stream_audio=True, max_new_tokens=28) as socket:
        tell(socket, "input.text", text="The boat is tied up. And then")
        heard = hear_until(socket, "audio.done")
        assert heard[0]["sentence_text"] == "The boat is tied up."
        assert kinds(heard).count("sound") > 1, "while it is made"
        tell(socket, "input.done")
        assert hear_until(socket, "session.done")[0]["sentence_text"] == "And then"


def test_one_socket_speaks_several_utterances_and_may_be_configured_anew(server):
    with session(server) as socket:
        tell(socket, "input.text", text="One.")
        tell(socket, "input.done")
        tell(socket, "input.done")
        first, empty = hear_until(socket, "session.done"), hear_until(socket, "session.done")
        assert (first[-1]["utterance_index"], first[-1]["total_sentences"]) == (0, 1)
        assert kinds(empty) == ["session.done"]
        assert (empty[-1]["utterance_index"], empty[-1]["total_sentences"]) == (1, 0)
        tell(socket, "session.config", session={"response_format": "mp3", "max_new_tokens": 12})
        assert hear(socket)["response_format"] == "mp3"
        tell(socket, "input.text", text="Two, and three.")
        tell(socket, "input.done")
        start, sound, *_ = hear_until(socket, "session.done")
        assert (start["format"], start["utterance_index"]) == ("mp3", 2)
        assert sound["data"][:3] == b"ID3" or sound["data"][0] == 0xFF


def test_clauses_are_spoken_where_they_were_asked_for(server):
    with session(server, split_granularity="clause") as socket:
        tell(socket, "input.text", text="One, two")
        assert hear_until(socket, "audio.done")[0]["sentence_text"] == "One,"


def test_closing_politely_first_speaks_what_was_ended(server):
    with session(server) as socket:
        tell(socket, "input.text", text="Hi. Not")
        tell(socket, "input.done")
        tell(socket, "input.text", text=" this")
        tell(socket, "session.close")
        heard = hear_until(socket, "session.done")
        assert heard[-1]["total_sentences"] == 2
        with pytest.raises(ConnectionClosed):
            hear(socket)
        assert socket.close_code == 1000


def test_a_recording_is_read_once_for_the_whole_session(server, data_uri, monkeypatch):
    heard, read = [], Speakers.hear
    monkeypatch.setattr(Speakers, "hear", lambda self, s: heard.append(s) or read(self, s))
    with session(server, ref_audio=data_uri) as socket:
        tell(socket, "input.text", text="Hi. Ho. ")
        for _ in range(2):
            assert not hear_until(socket, "audio.done")[-1]["error"]
    assert len(heard) == 1


# Cancelling and leaving -----------------------------------------------------------------------


def test_cancelling_frees_the_slot_and_ends_everything_that_waited(server, engine):
    with session(server, stream_audio=True, max_new_tokens=2000) as socket:
        tell(socket, "input.text", text=ENDLESS)
        tell(socket, "input.done")
        tell(socket, "input.text", text="More of it. And")
        hear_until(socket, "sound")
        until(lambda: engine.stats.num_live == 1)
        tell(socket, "input.cancel")
        assert until(lambda: is_idle(engine)) < SOON_S
        heard = hear_until(socket, "session.done") + hear_until(socket, "session.done")
        assert {"sound"} >= set(kinds(heard)) - {"audio.done", "session.done"}
        ends = [message for message in heard if message["type"] != "sound"]
        assert [end["cancelled"] for end in ends] == [True] * len(ends)
        assert [end["utterance_index"] for end in ends if end["type"] == "session.done"] == [0, 1]
        assert not any(message.get("error") for message in heard)
        tell(socket, "session.config", **CONFIG)
        assert hear(socket)["type"] == "session.configured"
        tell(socket, "input.text", text="Go on. ")
        start = hear_until(socket, "audio.done")[0]
        assert (start["sentence_text"], start["utterance_index"]) == ("Go on.", 2)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_client_that_leaves_frees_its_slot(server, engine, is_streamed):
    with session(server, stream_audio=is_streamed, max_new_tokens=2000) as socket:
        tell(socket, "input.text", text=LONG)
        until(lambda: engine.stats.num_live == 1)
        socket.socket.close()
        assert until(lambda: is_idle(engine)) < SOON_S


# What is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "input.text", "text": "Hi."}, "invalid_value"),
        ({"type": "session.config", "response_format": "midi"}, "unsupported_format"),
        ({"type": "session.config", "voice": "nobody"}, "voice_not_found"),
        ({"type": "session.config", "ref_audio": "AAAA"}, "invalid_reference_audio"),
        ({"type": "session.config", "stream_audio": "yes"}, "invalid_value"),
        ({"type": "session.config", "split_granularity": []}, "invalid_value"),
        ({"type": "session.config", "session": 5}, "invalid_value"),
        ([], "invalid_json"),
        ("{", "invalid_json"),
        (b"\x00", "invalid_json"),
    ],
)
def test_a_session_that_cannot_be_configured_is_closed(server, message, code):
    with opened(server) as socket:
        socket.send(message if isinstance(message, (str, bytes)) else json.dumps(message))
        told = hear(socket)
        assert (told["type"], told["code"]) == ("error", code)
        assert told["message"] == told["error"]["message"]
        with pytest.raises(ConnectionClosed):
            hear(socket)
        assert socket.close_code == 1008


def test_a_message_that_cannot_be_used_is_told_and_the_session_goes_on(server):
    with session(server, input="not this") as socket:
        for message, code in (
            ("no json", "invalid_json"),
            (json.dumps({"type": "input.text"}), "invalid_value"),
            (json.dumps({"type": "input.text", "text": 5}), "invalid_value"),
            (json.dumps({"type": "input.more"}), "invalid_value"),
            (json.dumps({"type": "input.text", "text": "a" * (130 << 10)}), "message_too_large"),
        ):
            socket.send(message)
            told = hear(socket)
            assert (told["type"], told["code"]) == ("error", code)
        tell(socket, "input.text", text="Hi. and")
        hear_until(socket, "audio.done")
        tell(socket, "session.config")
        assert hear(socket)["code"] == "conflict", "text is waiting"
        tell(socket, "input.done")
        assert not hear_until(socket, "session.done")[-2]["error"]


def test_a_sentence_that_fails_is_told_and_the_next_one_is_spoken(server, engine, monkeypatch):
    decode = engine.codec.decode
    with session(server) as socket:
        monkeypatch.setattr(engine.codec, "decode", lambda codes: 1 / 0)
        tell(socket, "input.text", text="Hi. ")
        heard = hear_until(socket, "audio.done")
        assert kinds(heard) == ["error", "audio.done"]
        assert heard[0]["code"] == "generation_failed" and heard[0]["sentence_index"] == 0
        assert (heard[1]["error"], heard[1]["total_bytes"]) == (True, 0)
        monkeypatch.setattr(engine.codec, "decode", decode)
        tell(socket, "input.text", text="Ho. ")
        assert kinds(hear_until(socket, "audio.done")) == ["audio.start", "sound", "audio.done"]


def test_too_much_waiting_text_ends_the_session(server, engine, monkeypatch):
    monkeypatch.setattr(speech_socket, "MAX_WAITING_CHARS", 2 * len(LONG))
    with session(server, stream_audio=True) as socket:
        for _ in range(4):
            tell(socket, "input.text", text=LONG)
        told = [m for m in hear_until(socket, "error") if m["type"] == "error"]
        assert told[0]["code"] == "too_large"
        with pytest.raises(ConnectionClosed):
            hear_until(socket, "never")
        assert socket.close_code == 1009
    assert until(lambda: is_idle(engine)) < SOON_S


def test_a_sentence_that_is_too_long_is_not_spoken(engine, serving, tmp_path):
    settings = Settings(data=tmp_path, max_input_chars=20)
    with serving(create_api(engine, settings)) as address, session(address) as socket:
        tell(socket, "input.text", text="This sentence is far too long for here. ")
        heard = hear_until(socket, "audio.done")
        assert (heard[0]["code"], heard[1]["error"]) == ("string_above_max_length", True)


def test_a_full_queue_is_told_with_the_wait(engine, serving, tmp_path):
    with Engine.open(
        NANO, device="cpu", num_slots=1, max_waiting=1, max_waiting_per_owner=1
    ) as one:
        requests = [one.speak(LONG)]
        until(lambda: one.stats.num_live == 1)
        requests.append(one.speak(LONG))
        app = create_api(one, Settings(data=tmp_path))
        with serving(app) as address, session(address) as socket:
            tell(socket, "input.text", text="Hi. ")
            told = hear_until(socket, "audio.done")
            assert told[0]["code"] in ("queue_full", "rate_limited")
            assert told[0]["retry_after_s"] >= 1
        for request in requests:
            request.cancel()


# Deadlines and strangers ----------------------------------------------------------------------


def test_a_client_that_says_nothing_is_given_up(server, engine, monkeypatch):
    monkeypatch.setattr(speech_socket, "CONFIG_TIMEOUT_S", 0.05)
    monkeypatch.setattr(speech_socket, "IDLE_TIMEOUT_S", 0.1)
    with opened(server) as socket:
        assert hear(socket)["code"] == "timeout"
        with pytest.raises(ConnectionClosed):
            hear(socket)
        assert socket.close_code == 1008
    monkeypatch.undo()
    may_go_on = hold_decoding(monkeypatch, engine)
    with session(server, stream_audio=True, max_new_tokens=60) as socket:
        tell(socket, "input.text", text="This is spoken for longer than silence may last. ")
        hear_until(socket, "sound")
        monkeypatch.setattr(speech_socket, "IDLE_TIMEOUT_S", 0.05)
        tell(socket, "input.text", text="")  # the limit counts from the next message on
        time.sleep(0.2)
        may_go_on.set()
        assert kinds(hear_until(socket, "error"))[-2:] == ["audio.done", "error"]
        with pytest.raises(ConnectionClosed):
            hear(socket)
        assert socket.close_code == 1000


def test_a_page_of_another_origin_may_not_open_it(server, serving, engine, tmp_path):
    own = server.removeprefix("http://")
    for origin in ("https://evil.example", "null", "http://[", f"https://{own}.evil.example"):
        with pytest.raises(InvalidStatus) as refused:
            opened(server, origin=origin)
        assert refused.value.response.status_code == 403
    with opened(server, origin=f"http://{own}") as socket:
        assert socket.close_code is None
    settings = Settings(data=tmp_path, cors_origin=("https://app.example",))
    app, origin = create_api(engine, settings), "https://app.example"
    with serving(app) as address, opened(address, origin=origin) as socket:
        assert socket.close_code is None


def test_where_keys_are_asked_for_the_socket_asks_for_one_too(engine, serving, tmp_path):
    with serving(create_api(engine, Settings(data=tmp_path, api_key=(KEY,)))) as address:
        with pytest.raises(InvalidStatus) as refused:
            opened(address)
        assert refused.value.response.status_code == 403
        with opened(address, additional_headers={"Authorization": f"Bearer {KEY}"}) as socket:
            assert socket.close_code is None


def test_a_configuration_may_be_large_and_no_larger(server, monkeypatch):
    monkeypatch.setattr(speech_socket_wire, "MAX_CONFIG_BYTES", 400_000)
    with opened(server) as socket:
        tell(socket, "session.config", note="a" * 300_000, **CONFIG)
        assert hear(socket)["ignored_fields"] == ["note"]
        tell(socket, "session.config", note="a" * 500_000)
        assert hear(socket)["code"] == "message_too_large"
