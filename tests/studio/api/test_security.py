"""Headers, proxies, foreign pages, quotas, and a log without content."""

from __future__ import annotations

import logging

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from studio.api.owners import COOKIE, owner_of, share_of, share_of_address
from studio.server import create_api
from studio.settings import Settings

SPEECH = "/v1/audio/speech"
HERE = ("127.0.0.1", 1)
PROXY = ("10.1.2.3", 1)
SHORT = {"input": "Hi.", "max_new_tokens": 14}
FORWARDED = {
    "X-Forwarded-For": "6.6.6.6, 198.51.100.7",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Prefix": "/studio",
    "X-Forwarded-Host": "evil.example",
}


async def tell(request: Request) -> JSONResponse:
    """What the routes see of a request."""
    owner = owner_of(request)
    told = {
        "client": request.client and request.client.host,
        "scheme": request.url.scheme,
        "root": request.scope.get("root_path", ""),
        "owner": owner.id,
        "reads": list(owner.reads),
        "share": share_of(request, owner),
        "forwarded": sorted(name for name in request.headers if "forwarded" in name),
    }
    return JSONResponse(told)


@pytest.fixture
def door(engine, tmp_path):
    def make(host: str = "127.0.0.1", client=HERE, **options) -> TestClient:
        app = create_api(engine, Settings(data=tmp_path, no_watermark=True, **options))
        app.router.routes.insert(0, Route("/v1/who", tell))
        return TestClient(app, f"http://{host}", client=client, raise_server_exceptions=False)

    return make


def test_every_answer_forbids_a_browser_what_it_need_not_do(door):
    client = door()
    for answer in (client.get("/v1/models"), client.get("/v1/nothing"), client.post(SPEECH)):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "frame-ancestors 'self'" in policy
    assert "sha256-" in client.get("/docs").headers["Content-Security-Policy"]  # its own is kept


def test_a_space_and_named_origins_may_frame_the_page_and_nobody_else(door):
    space = door(public=True).get("/v1/models").headers
    assert "X-Frame-Options" not in space
    assert "frame-ancestors 'self' https://huggingface.co" in space["Content-Security-Policy"]
    named = door(frame_origin=("https://app.example",)).get("/v1/models").headers
    assert named["Content-Security-Policy"].endswith("frame-ancestors 'self' https://app.example")


# Proxies


def test_of_somebody_who_is_no_proxy_of_ours_nothing_is_believed(door):
    for client in (door(client=PROXY), door(client=PROXY, trusted_proxy=("192.0.2.0/24",))):
        told = client.get("/v1/who", headers=FORWARDED).json()
        assert told["client"] == "10.1.2.3" and told["scheme"] == "http" and told["root"] == ""
        assert told["forwarded"] == []  # Gradio would take its own address from them


def test_our_proxy_says_who_asks_how_and_below_which_path(door):
    client = door(client=PROXY, trusted_proxy=("10.0.0.0/8",))
    told = client.get("/v1/who", headers=FORWARDED).json()
    assert told["client"] == told["share"] == "198.51.100.7"  # 6.6.6.6 is what the client claims
    assert (told["scheme"], told["root"]) == ("https", "/studio")
    kept = client.get("/studio/v1/who", headers=FORWARDED).json()  # a prefix that was left in
    assert kept["root"] == "/studio" and kept["client"] == "198.51.100.7"
    for prefix in ("//evil.example", "/a\\b", "https://evil.example", "/" + "a" * 100):
        headers = FORWARDED | {"X-Forwarded-Prefix": prefix}
        assert client.get("/v1/who", headers=headers).json()["root"] == ""


def test_an_unnamed_proxy_of_this_machine_says_where_the_studio_is_shown_and_no_more(door):
    client = door()
    headers = FORWARDED | {"Host": "app.example", "Origin": "https://app.example"}
    told = client.get("/v1/who", headers=headers).json()
    assert (told["scheme"], told["root"], told["client"]) == ("https", "/studio", "127.0.0.1")
    assert told["forwarded"] == [f"x-forwarded-{name}" for name in ("host", "prefix", "proto")]
    assert client.post(SPEECH, json={}, headers=headers).status_code == 400  # and not 403
    assert told["reads"] == []  # what the user of this machine keeps is not for them


def test_whom_somebody_else_sends_is_not_the_user_of_a_personal_studio(door):
    client = door()
    assert client.get("/v1/who").json()["owner"] == "local"
    assert client.get("/v1/who", headers=FORWARDED).json()["owner"].startswith("visitor:")


def test_metrics_are_not_for_whom_a_proxy_of_this_machine_sends(door):
    assert door().get("/metrics").status_code == 200
    assert door().get("/metrics", headers=FORWARDED).status_code == 403
    known = door(trusted_proxy=("127.0.0.1/32",))
    assert known.get("/metrics").status_code == 200
    assert known.get("/metrics", headers=FORWARDED).status_code == 403


@pytest.mark.parametrize(
    ("host", "share"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
    ],
)
def test_an_address_that_is_changed_at_will_is_no_other_share(host, share):
    assert share_of_address(host) == share


# A personal studio and the web


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[::2]", "a]b]"])
def test_a_name_that_only_resolves_to_this_machine_is_not_answered(door, host):
    answer = door().get("/v1/models", headers={"Host": host})
    assert answer.status_code == 403 and answer.json()["error"]["code"] == "foreign_page"


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "[::1]:7860", "a.localhost"])
def test_every_name_of_this_machine_is(door, host):
    assert door().get("/v1/models", headers={"Host": host}).status_code == 200


def test_a_page_of_another_machine_can_make_a_personal_studio_do_nothing(door):
    foreign = {"Origin": "https://evil.example"}
    for origin in ("https://evil.example", "null", "file://127.0.0.1", "http://["):
        answer = door().post(SPEECH, json=SHORT, headers={"Origin": origin})
        assert answer.status_code == 403, origin
    assert door().delete("/v1/audio/takes", headers=foreign).status_code == 403
    for origin in ("http://127.0.0.1", "http://localhost:1919"):  # another page of this machine
        assert door().post(SPEECH, json={}, headers={"Origin": origin}).status_code == 400
    allowed = door(cors_origin=("https://evil.example",))
    assert allowed.post(SPEECH, json={}, headers=foreign).status_code == 400
    assert door(public=True).post(SPEECH, json={}, headers=foreign).status_code == 400


# Shares


def test_a_full_share_is_refused_before_the_body_is_looked_at(door):
    client = door(max_requests_per_owner=1, minutes_per_owner=1)
    speaking = client.app.state.speaking
    place = speaking.quota.take("127.0.0.1")
    below = [SPEECH + path for path in ("", "/batch", "/with-timestamps")]
    for path in (*below, "/openai" + SPEECH, "/tts/generate", "/v1/audio/dialogue"):
        answer = client.post(path, content=b"no JSON")
        assert answer.status_code == 429 and answer.headers["Retry-After"] == "2", path
    place.give_back(61.0)
    answer = client.post(SPEECH, json=SHORT)
    assert answer.status_code == 429 and 30 < int(answer.headers["Retry-After"]) <= 61
    assert "minutes of speech an hour" in answer.json()["detail"]


def test_a_request_takes_its_place_and_its_speech_off_the_share_however_it_ends(door):
    client = door(max_requests_per_owner=1, minutes_per_owner=1)
    quota = client.app.state.speaking.quota
    assert client.post(SPEECH, json=SHORT).status_code == 200
    assert client.post(SPEECH, json=SHORT | {"stream": True}).status_code == 200
    assert client.post(SPEECH, json=SHORT | {"max_new_tokens": 2}).status_code == 400
    assert client.post(SPEECH, json=SHORT | {"voice": "nobody"}).status_code == 404
    account = quota._accounts["127.0.0.1"]
    assert account.num_running == 0
    assert 0 < account.spoken_s < 3


# What is seen


def test_no_log_holds_a_word_that_was_sent(door, caplog):
    canary, key = "Kanarienvogel", "a-canary-key-of-ours"
    client = door(log_level="debug")
    with caplog.at_level(logging.DEBUG):
        sent = SHORT | {"input": f"{canary}."}
        assert client.post(SPEECH, json=sent | {"store": True}).status_code == 200
        assert client.post(SPEECH, json=sent | {"stream": True}).status_code == 200
        assert client.post("/tts/generate", json={"text": f"{canary}."}).status_code == 200
        for wrong in ({"voice": canary}, {"seed": canary}, {"max_new_tokens": 2}, {canary: 1}):
            client.post(SPEECH, json=sent | wrong | {"strict": True})
        client.post(SPEECH, content=f'{{"input": "{canary}"')
        client.get(f"/v1/audio/voices/{canary}?name={canary}", headers={"X-API-Key": key})
        form = {"name": canary, "consent": "true"}
        clip = {"audio_sample": (f"{canary}.wav", canary.encode())}
        assert client.post("/v1/audio/voices", data=form, files=clip).status_code == 400
        client.cookies[COOKIE] = canary
        client.get("/v1/who")
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]
    assert len(ours) > 8
    logged = "\n".join(record.getMessage() for record in ours)
    assert canary.lower() not in logged.lower() and key not in logged


def test_metrics_tell_of_answers_sound_waits_restarts_and_the_process(door):
    client = door()
    assert client.post(SPEECH, json=SHORT).status_code == 200
    assert client.get("/v1/nothing").status_code == 404
    text = client.get("/metrics").text
    for line in (
        'zonos2_http_responses_total{status="200"} 1.0',
        'zonos2_http_responses_total{status="404"} 1.0',
        "zonos2_queue_wait_seconds_count 1.0",
        "zonos2_engine_restarts 0.0",
        "zonos2_model_loaded 1.0",
    ):
        assert line in text, line
    for name in ("zonos2_audio_seconds_total", "process_open_fds", "zonos2_event_loop_lag"):
        assert name in text
