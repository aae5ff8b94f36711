"""POST /v1/audio/speech/batch: its items, its results, its share of the queue, and its end."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import threading
import time

import httpx
import numpy as np
import pytest
import soundfile

from engine import Engine, InvalidRequest
from studio.api.batch import _items
from studio.api.speakers import Speakers
from studio.server import create_api
from studio.settings import Settings
from tests.studio.api.test_live import LONG, SOON_S, connect, is_idle, until
from tests.studio.conftest import NANO

PATH = "/v1/audio/speech/batch"
SHORT = {"max_new_tokens": 12, "seed": 1}


def sound(result: dict) -> bytes:
    assert result["status"] == "success", result
    return base64.b64decode(result["audio_data"])


# Items and what they share --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shared", "item", "merged"),
    [
        ({"voice": "a", "seed": 1}, {"seed": 2}, {"voice": "a", "seed": 2}),
        ({"voice": "a"}, {"voice": None}, {"voice": "a"}),
        ({"voice": "a"}, {"speaker": "b"}, {"speaker": "b"}),
        ({"response_format": "mp3"}, {"format": "wav"}, {"format": "wav"}),
        ({"voice": "a"}, {"ref_audio": "x"}, {"ref_audio": "x"}),
        ({"ref_audio": "x"}, {"speaker_audio_base64": "y"}, {"speaker_audio_base64": "y"}),
        ({"references": [1], "top_k": 5}, {"voice": "a"}, {"top_k": 5, "voice": "a"}),
        ({"speed": 2}, {"speaking_rate": 15}, {"speaking_rate": 15}),
        ({"extra_params": {"seed": 1}}, {}, {"extra_params": {"seed": 1}}),
    ],
)
def test_what_an_item_sets_replaces_what_the_batch_shares(shared, item, merged):
    (only,) = _items({**shared, "items": [{"input": "Hi."} | item]})
    assert only == {"input": "Hi."} | merged


@pytest.mark.parametrize("items", [None, [], {}, "a", [{}] * 33, [{"input": "a"}, "b"], [[]]])
def test_items_are_1_to_32_objects(items):
    with pytest.raises(InvalidRequest, match=r"^items(\[\d\])?: "):
        _items({"items": items})


# Results --------------------------------------------------------------------------------------


def test_each_item_has_its_own_result_in_the_shape_of_sglang(client, engine):
    items = [
        {"input": "Hi."},
        {"input": ""},
        {"input": "Hi.", "voice": "deep", "response_format": "mp3", "what": 1},
        {"input": "Hi.", "voice": "nobody"},
        {"input": "Hi.", "stream": True},
    ]
    answer = client.post(PATH, json={"items": items, **SHORT})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    told = answer.json()
    assert (told["total"], told["succeeded"], told["failed"]) == (5, 2, 3)
    assert told["id"] == answer.headers["X-Request-ID"]
    results = told["results"]
    assert [result["index"] for result in results] == [0, 1, 2, 3, 4]
    statuses = ["success", "error", "success", "error", "error"]
    assert [result["status"] for result in results] == statuses
    plain, _, other, unknown, streamed = results
    assert (plain["format"], plain["media_type"], plain["error"]) == ("wav", "audio/wav", None)
    samples, _ = soundfile.read(io.BytesIO(sound(plain)), dtype="int16")
    expected, _ = engine.speak("Hi.", seed=1, max_new_frames=12).read()
    assert np.array_equal(samples, np.rint(expected * 32_767))
    assert (plain["seed"], plain["sample_rate"]) == (1, 44_100)
    assert plain["duration"] == pytest.approx(len(samples) / 44_100, abs=1e-3)
    assert (other["media_type"], other["ignored_fields"]) == ("audio/mpeg", ["what"])
    assert sound(other)[:3] == b"ID3" or sound(other)[0] == 0xFF
    assert unknown["audio_data"] is None and "no voice 'nobody'" in unknown["error"]
    assert (unknown["code"], streamed["param"]) == ("voice_not_found", "stream")


def test_a_recording_that_items_share_is_prepared_once(client, data_uri, monkeypatch):
    heard, hear = [], Speakers.hear
    monkeypatch.setattr(Speakers, "hear", lambda self, s: heard.append(s) or hear(self, s))
    items = [{"input": "Hi."}, {"input": "Ho."}, {"input": "Hi.", "voice": "heart"}]
    body = {"items": items, "references": [{"audio_path": data_uri}], **SHORT}
    results = client.post(PATH, json=body).json()["results"]
    assert len(heard) == 1
    single = client.post(
        "/v1/audio/speech", json={"input": "Hi.", "ref_audio": data_uri, **SHORT}
    ).content
    assert sound(results[0]) == single
    assert sound(results[2]) != single
    bad = {"items": [{"input": "Hi."}, {"input": "Ho."}], "ref_audio": "AAAA", **SHORT}
    told = client.post(PATH, json=bad).json()
    assert told["failed"] == 2 and len(heard) == 3
    assert {result["code"] for result in told["results"]} == {"invalid_reference_audio"}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "items"),
        ({"items": [{"input": "Hi."}] * 33}, "items"),
        ({"items": [{"input": "Hi."}, 5]}, "items[1]"),
        ({"items": [{"input": "a" * 30_000}, {"input": "b" * 30_000}]}, "items"),
    ],
)
def test_what_is_no_batch_is_refused_whole(client, body, param):
    answer = client.post(PATH, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


# The queue ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow():
    """An engine with two slots and places for one owner's two requests."""
    with Engine.open(
        NANO, device="cpu", num_slots=2, max_waiting=3, max_waiting_per_owner=2
    ) as engine:
        yield engine


@pytest.fixture(scope="module")
def narrow_server(narrow, serving):
    settings = Settings(max_waiting_per_owner=2, no_watermark=True)
    with serving(create_api(narrow, settings)) as address:
        yield address


def send(address: str, **body: object) -> http.client.HTTPConnection:
    connection = connect(address)
    connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json"})
    return connection


def test_items_never_take_more_of_the_queue_than_their_owner_may_have(
    narrow_server, narrow, monkeypatch
):
    most, is_over, has_seen_two = 0, threading.Event(), threading.Event()
    decode = narrow.codec.decode

    def decode_when_seen(codes):
        assert has_seen_two.wait(60)  # no item ends before
        return decode(codes)

    monkeypatch.setattr(narrow.codec, "decode", decode_when_seen)

    def watch() -> None:
        nonlocal most
        while not is_over.wait(0.002):
            stats = narrow.stats
            most = max(most, stats.num_live + stats.num_waiting)
            if most > 1:
                has_seen_two.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    items = [{"input": "Hi.", "seed": seed} for seed in range(5)]
    answer = httpx.post(f"{narrow_server}{PATH}", json={"items": items} | SHORT, timeout=120)
    is_over.set()
    watcher.join()
    told = answer.json()
    assert (told["succeeded"], told["failed"]) == (5, 0)
    assert most == 2
    assert until(lambda: is_idle(narrow)) < SOON_S


def test_a_client_that_leaves_takes_all_of_its_items_with_it(narrow_server, narrow):
    for delay_s in (0.0, 0.1):
        connection = send(narrow_server, items=[{"input": LONG}] * 6)
        until(lambda: narrow.stats.num_live == 2)
        time.sleep(delay_s)
        connection.sock.close()
        assert until(lambda: is_idle(narrow)) < SOON_S
        time.sleep(0.1)
        assert is_idle(narrow)


@contextlib.contextmanager
def crowd(address: str, engine: Engine, num_waiting: int):
    """Two long requests that speak, and ``num_waiting`` behind them."""
    body = json.dumps({"input": LONG, "stream": True})
    with contextlib.ExitStack() as stack:
        for number in range(1, 3 + num_waiting):
            connection = connect(address)
            stack.callback(connection.close)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/audio/speech", body, headers)
            place = (min(number, 2), max(number - 2, 0))
            until(lambda place=place: (engine.stats.num_live, engine.stats.num_waiting) == place)
        yield


def test_a_batch_that_finds_no_place_is_refused_as_one_request_would_be(narrow_server, narrow):
    with crowd(narrow_server, narrow, 2):
        start_s, body = time.monotonic(), {"items": [{"input": "Hi."}] * 2}
        answer = httpx.post(f"{narrow_server}{PATH}", json=body, timeout=120)
        assert time.monotonic() - start_s < 10  # a place would be free when one has ended
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["error"]["code"] == "rate_limited"
    assert until(lambda: is_idle(narrow)) < SOON_S


@pytest.mark.slow
def test_items_wait_where_others_of_the_batch_have_found_a_place(narrow_server, narrow):
    with crowd(narrow_server, narrow, 1):
        items = [{"input": "Hi.", "seed": seed} for seed in range(4)]
        connection = send(narrow_server, items=items, max_new_tokens=12)
        until(lambda: narrow.stats.num_waiting == 2)
        time.sleep(0.2)
    told = json.loads(connection.getresponse().read())
    connection.close()
    assert (told["succeeded"], told["failed"]) == (4, 0)
