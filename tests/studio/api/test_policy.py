"""Every route and whom it lets in, where keys are set: closed unless it stands in the list."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from studio.api.owners import KEY_COOKIE
from studio.server import create_api
from studio.settings import Settings

KEY = "a-key-for-the-tests"
BEARER = {"Authorization": f"Bearer {KEY}"}
# What anybody may ask; /metrics looks itself at who asks, a ticket says itself for whom it opens.
OPEN = {
    "/health", "/healthz", "/ready", "/v1", "/docs", "/openapi.json", "/metrics", "/sign-in",
}  # fmt: skip
# The page's own, as Gradio mounts them below "/".
PAGE = ["/", "/config", "/gradio_api/queue/join", "/gradio_api/upload", "/assets/index.js", "/x/y"]


@pytest.fixture(scope="module")
def app(engine, tmp_path_factory):
    return create_api(engine, Settings(api_key=(KEY,), data=tmp_path_factory.mktemp("data")))


@pytest.fixture
def client(app) -> TestClient:
    return TestClient(app, raise_server_exceptions=False, follow_redirects=False)


def routes(router):
    """Every path with its methods, parameters filled in."""
    for route in router.routes:
        if isinstance(route, Route | APIRoute):
            yield re.sub(r"\{[^}]*\}", "x", route.path), sorted(route.methods or {"GET", "POST"})
        elif not isinstance(route, WebSocketRoute):
            yield from routes(route.original_router)


def test_a_route_that_is_not_listed_needs_a_key(app, client):
    seen = set()
    for path, methods in routes(app):
        for method in methods:
            status = client.request(method, path).status_code
            if path in OPEN:
                seen.add(path)
                assert status != 401 or path == "/sign-in", (method, path)
            else:
                assert status == 401, (method, path)
    assert seen == OPEN
    assert len(list(routes(app))) > 40


def test_the_web_socket_needs_a_key_as_well(client):
    with (
        pytest.raises(WebSocketDisconnect) as caught,
        client.websocket_connect("/v1/audio/speech/stream"),
    ):
        pass
    assert caught.value.code == 1008


@pytest.mark.parametrize("path", PAGE)
def test_the_page_is_not_open_to_strangers(client, path):
    for method in ("GET", "POST"):
        assert client.request(method, path).status_code == 401
    assert 'name="key"' in client.get("/").text


def test_whoever_signs_in_may_use_the_page_until_the_key_is_gone(app, client, engine, tmp_path):
    wrong = client.post("/sign-in", files={"key": (None, "a-key-nobody-knows")})
    assert wrong.status_code == 401 and "No key" in wrong.text
    right = client.post("/sign-in", files={"key": (None, KEY)})
    assert right.status_code == 303 and right.headers["Location"] == "./"
    cookie = right.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Max-Age" not in cookie
    assert client.get("/config").status_code == 404  # let in; these routes have no page
    assert client.get("/v1/models").status_code == 401  # no route takes a cookie for a key
    assert client.get("/v1/models", headers=BEARER).status_code == 200
    signed = client.cookies[KEY_COOKIE]
    identity = app.state.stores.identity
    assert identity.who_signed_in(signed) == identity.key_holder(KEY)
    assert identity.who_signed_in(signed[:-1]) is None
    # A cookie is no visitor, and another key's studio does not know it.
    assert identity.visitor(signed) is None
    other = TestClient(create_api(engine, Settings(api_key=("another-key-of-16",), data=tmp_path)))
    other.cookies[KEY_COOKIE] = signed
    assert other.get("/config").status_code == 401


def test_without_keys_the_page_is_open_and_there_is_no_way_in(engine, tmp_path):
    client = TestClient(create_api(engine, Settings(data=tmp_path)))
    assert client.get("/sign-in").status_code == 404
    assert client.get("/config").status_code == 404
