"""Keys, cookies and origins at the door."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from studio.api.headers import EXPOSED_HEADERS
from studio.api.owners import COOKIE, HEADER
from studio.server import create_api
from studio.settings import Settings

KEY = "a-key-for-the-tests"
SPEECH = "/v1/audio/speech"
ORIGIN = "https://app.example"


@pytest.fixture
def door(engine, tmp_path):
    def make(**options) -> TestClient:
        app = create_api(engine, Settings(data=tmp_path, **options))
        return TestClient(app, raise_server_exceptions=False)

    return make


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {KEY}"}, {"X-API-Key": "x"}],
)
def test_where_keys_are_asked_for_none_or_a_wrong_one_is_401(door, headers):
    client = door(api_key=(KEY,))
    for path in (SPEECH, "/v1/models", "/tts/generate", "/openai/v1/audio/speech", "/v1/nothing"):
        answer = client.post(path, json={"input": "Hello."}, headers=headers)
        assert answer.status_code == 401, path
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["X-Request-ID"]
    assert client.get(f"/v1/models?api_key={KEY}").status_code == 401, "never in an address"


@pytest.mark.parametrize(
    "headers", [{"Authorization": f"bearer {KEY}"}, {"X-API-Key": KEY}, {"xi-api-key": KEY}]
)
def test_a_known_key_opens_every_way_it_may_be_sent(door, headers):
    assert door(api_key=("another-key-of-ours", KEY)).get("/v1/models", headers=headers).is_success


def test_health_is_open_and_a_key_where_none_is_asked_for_is_ignored(door):
    client = door(api_key=(KEY,))
    assert all(
        client.get(path).is_success for path in ("/health", "/ready", "/v1", "/openapi.json")
    )
    assert door().get("/v1/models", headers={"Authorization": "Bearer sk-anything"}).is_success


def test_a_stranger_is_given_a_cookie_once_and_a_script_at_home_none(door):
    public = door(public=True)
    first = public.get("/v1/models")
    assert first.headers[HEADER] == public.cookies[COOKIE]
    assert "HttpOnly" in first.headers["Set-Cookie"] and "Lax" in first.headers["Set-Cookie"]
    assert "Set-Cookie" not in public.get("/v1/models").headers
    signed = {HEADER: first.headers[HEADER]}
    public.cookies.clear()
    assert "Set-Cookie" not in public.get("/v1/models", headers=signed).headers
    assert "Set-Cookie" in public.get("/v1/models", headers={HEADER: "forged.text"}).headers
    assert "Set-Cookie" not in door().get("/v1/models").headers


def test_over_https_the_cookie_survives_in_the_frame_of_another_site(door):
    public = door(public=True)
    public.base_url = "https://studio.example"
    cookie = public.get("/v1/models").headers["Set-Cookie"]
    assert all(word in cookie for word in ("Secure", "SameSite=None", "Partitioned"))


# C23


def test_no_origin_is_allowed_by_default(door):
    answer = door().options(
        SPEECH, headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    )
    assert answer.status_code < 500
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert (
        "Access-Control-Allow-Origin" not in door().get("/v1", headers={"Origin": ORIGIN}).headers
    )


@pytest.mark.parametrize("allowed", [ORIGIN, "*"])
def test_an_allowed_origin_may_ask_send_and_read(door, allowed):
    client = door(cors_origin=(allowed,), api_key=(KEY,))
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    answer = client.options(SPEECH, headers=asked)
    assert answer.status_code in (200, 204)
    assert answer.headers["Access-Control-Allow-Origin"] == allowed
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert "authorization" in answer.headers["Access-Control-Allow-Headers"].lower()
    assert "Access-Control-Allow-Credentials" not in answer.headers
    for headers in ({}, {"Authorization": f"Bearer {KEY}"}):  # a page may read why it was refused
        read = client.get("/v1/models", headers=headers | {"Origin": ORIGIN})
        assert read.headers["Access-Control-Allow-Origin"] == allowed
        assert set(EXPOSED_HEADERS) <= set(
            read.headers["Access-Control-Expose-Headers"].split(", ")
        )


def test_another_origin_stays_out(door):
    answer = door(cors_origin=(ORIGIN,)).get("/v1", headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_the_path_of_speech_knows_no_get(door):
    for answer in (door().get(SPEECH), door().head(SPEECH)):
        assert answer.status_code == 405 and answer.headers["Allow"] == "POST"
