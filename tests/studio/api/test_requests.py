"""How requests stand, and how they are ended from elsewhere: never by or for another owner."""

import json
from threading import Event, Thread

import httpx
import pytest

from engine import Cancelled, Conflict, FinishReason, NotFound, SpeechStream, Timings
from studio.api import requests as tracking
from studio.api.requests import Requests
from studio.owner import Identity, Owner, signing_key
from studio.server import create_api
from studio.settings import Settings
from tests.studio.api.test_live import LONG, is_idle, until

ME, YOU = Owner("visitor:me"), Owner("visitor:you")


def stream_of(request_id="a"):
    cancelled = []
    timings = Timings(submitted_s=0.0, admitted_s=0.1, num_prompt_rows=5)
    stream = SpeechStream(
        request_id, 7, 100, timings, lambda: cancelled.append(1), lambda: (2, 3.0)
    )
    return stream, cancelled


def test_a_request_is_known_to_its_owner_alone():
    requests = Requests()
    tracked = requests.begin(ME, "a")
    assert requests.find(ME, "a") is tracked
    assert requests.running(ME) == ["a"] and requests.running(YOU) == []
    with pytest.raises(NotFound) as unknown:
        requests.find(ME, "b")
    with pytest.raises(NotFound) as foreign:
        requests.find(YOU, "a")
    assert foreign.value.message == unknown.value.message.replace("'b'", "'a'")
    assert requests.begin(YOU, "a") is not tracked  # ids of others are free


def test_an_id_in_use_is_refused_until_its_request_has_ended():
    requests = Requests()
    first = requests.begin(ME, "a")
    with pytest.raises(Conflict) as caught:
        requests.begin(ME, "a")
    assert caught.value.code == "request_id_in_use"
    requests.end(first)
    assert requests.begin(ME, "a").report()["status"] == "preparing"


def test_a_report_goes_from_preparing_to_the_end():
    requests = Requests()
    tracked = requests.begin(ME, "a")
    assert tracked.report()["status"] == "preparing"
    stream, _ = stream_of()
    tracked.attach(stream)
    report = tracked.report()
    assert (report["status"], report["num_ahead"], report["wait_s"]) == ("queued", 2, 3.0)
    assert report["seed"] == 7 and report["usage"]["input_tokens"] == 5
    stream.finish(FinishReason.LENGTH)
    requests.end(tracked)
    assert tracked.report()["status"] == "length" and tracked.has_ended
    json.dumps(tracked.report())


def test_a_cancellation_counts_whenever_it_comes():
    early, late = Requests().begin(ME, "a"), Requests().begin(ME, "b")
    stream, cancelled = stream_of()
    early.cancel()
    early.attach(stream)
    assert cancelled
    stream, cancelled = stream_of()
    late.attach(stream)
    late.cancel()
    assert cancelled


@pytest.mark.parametrize(("error", "status"), [(None, "cancelled"), (NotFound("x."), "failed")])
def test_one_that_never_spoke_says_why(error, status):
    requests = Requests()
    tracked = requests.begin(ME, "a")
    requests.end(tracked, error)
    report = tracked.report()
    assert report["status"] == status
    assert (report["error"] is None) is (error is None)


def test_finished_ones_are_forgotten_by_number_and_by_age(monkeypatch):
    requests = Requests()
    monkeypatch.setattr(tracking, "MAX_FINISHED", 3)
    for number in range(5):
        requests.end(requests.begin(ME, str(number)))
    with pytest.raises(NotFound):
        requests.find(ME, "1")
    assert requests.find(ME, "2")
    monkeypatch.setattr(tracking, "KEPT_S", 0.0)
    with pytest.raises(NotFound):
        requests.find(ME, "4")


# Over a socket -------------------------------------------------------------------------------


@pytest.fixture
def speaking(server, engine):
    """One long request that alone is being spoken, under an id of the client's choice."""
    asked = {"input": LONG, "stream": True, "seed": 1}
    with httpx.Client(base_url=server, timeout=120) as http:
        until(lambda: is_idle(engine) and not http.get("/v1/audio/queue").json()["requests"])
        named = {"X-Request-ID": "mine-1"}
        with http.stream("POST", "/v1/audio/speech", json=asked, headers=named) as response:
            pieces = response.iter_bytes()
            next(pieces)
            yield http, pieces


def test_a_request_is_watched_and_ended_from_elsewhere(speaking, engine):
    http, pieces = speaking
    report = http.get("/v1/audio/requests/mine-1").json()
    assert report["status"] == "speaking" and report["spoken_s"] > 0 and report["seed"] == 1
    assert report["timings"]["first_chunk_ms"] > 0
    queue = http.get("/v1/audio/queue").json()
    assert queue["speaking"] == 1 and "mine-1" in queue["requests"]
    events, has_begun = [], Event()

    def watch():
        with http.stream("GET", "/v1/audio/requests/mine-1/events") as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            for line in filter(None, response.iter_lines()):
                events.append(line)
                has_begun.set()

    watcher = Thread(target=watch)
    watcher.start()
    assert has_begun.wait(60)
    assert http.delete("/v1/audio/requests/mine-1").json()["cancelled"] is True
    with pytest.raises(httpx.RemoteProtocolError):  # a body that was cut is no whole one
        list(pieces)
    watcher.join(60)
    assert not watcher.is_alive()
    assert events[0] == "event: speaking" and events[-2] == "event: cancelled"
    last = json.loads(events[-1].removeprefix("data: "))
    assert last["status"] == "cancelled" and last["error"]["code"] == Cancelled.code
    assert http.get("/v1/audio/requests/mine-1").json()["status"] == "cancelled"
    assert http.delete("/v1/audio/requests/mine-1").json()["cancelled"] is False
    until(lambda: is_idle(engine))


def stranger() -> str:
    """The signed text of a visitor who was never here."""
    key = signing_key(Settings().data_folder)
    return Identity(key, (), is_personal=True).new_visitor()


def test_a_whole_file_that_was_cancelled_says_so(server, engine):
    answers = []

    def ask():
        headers = {"X-Request-ID": "whole-1"}
        speech = f"{server}/v1/audio/speech"
        answers.append(httpx.post(speech, json={"input": LONG}, headers=headers, timeout=120))

    waiter = Thread(target=ask)
    waiter.start()
    place = f"{server}/v1/audio/requests/whole-1"
    until(lambda: httpx.delete(place, timeout=120).status_code != 404)
    waiter.join(60)
    assert answers[0].status_code == 499
    assert answers[0].json()["error"]["code"] == "cancelled"
    until(lambda: is_idle(engine))


def test_another_owner_sees_nothing_of_it(speaking, engine):
    http, _ = speaking
    for method, path in (
        ("GET", "/v1/audio/requests/mine-1"),
        ("DELETE", "/v1/audio/requests/mine-1"),
        ("GET", "/v1/audio/requests/mine-1/events"),
    ):
        visitor = {"X-Studio-Owner": stranger()}
        answer = http.request(method, path, headers=visitor)
        unknown = http.request(method, path.replace("mine-1", "none-9"), headers=visitor)
        assert answer.status_code == unknown.status_code == 404
        assert answer.json()["error"]["code"] == "request_not_found"
        assert answer.text.replace("mine-1", "none-9") == unknown.text
    assert engine.stats.num_live == 1


def test_a_finished_request_says_how_it_went(client):
    headers = {"X-Request-ID": "done-1"}
    body = {"input": "Hi.", "max_new_tokens": 12}
    response = client.post("/v1/audio/speech", json=body, headers=headers)
    report = client.get("/v1/audio/requests/done-1").json()
    assert report["status"] == response.headers["X-Finish-Reason"] == "length"
    assert report["usage"]["output_tokens"] == int(response.headers["X-Completion-Tokens"])
    assert report["timings"]["total_s"] > 0
    bad = client.post("/v1/audio/speech", json={"input": "Hi.", "voice": "nobody"}, headers=headers)
    assert bad.status_code == 404
    report = client.get("/v1/audio/requests/done-1").json()
    assert report["status"] == "failed" and report["error"]["code"] == "voice_not_found"


def test_the_share_of_the_queue_goes_by_key_or_by_address(engine, monkeypatch, serving):
    seen = []
    submit = engine.submit
    monkeypatch.setattr(engine, "submit", lambda wish, *_: seen.append(wish.owner) or submit(wish))
    key = "a-key-of-16-letters"
    body = {"input": "Hi.", "max_new_tokens": 12}
    for settings in (Settings(no_watermark=True), Settings(no_watermark=True, api_key=(key,))):
        with serving(create_api(engine, settings)) as address:
            headers = {"Authorization": f"Bearer {key}"}
            speech = f"{address}/v1/audio/speech"
            assert httpx.post(speech, json=body, headers=headers, timeout=120).is_success
    assert seen[0] == "127.0.0.1" and seen[1].startswith("key:")
