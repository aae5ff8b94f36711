"""An address of the page opens one thing, for whom it was made, as the API's own route would."""

import pytest
from fastapi import FastAPI
from itsdangerous import TimestampSigner
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from studio.api.owners import Owners, owner_of
from studio.owner import Identity, Owner
from studio.ui import tickets as tickets_module
from studio.ui.tickets import Tickets

ANNA = Owner("visitor:anna", ("local",))


@pytest.fixture
def tickets() -> Tickets:
    return Tickets()


@pytest.fixture
def client(tickets: Tickets) -> TestClient:
    app = FastAPI()
    app.add_middleware(
        Owners, identity=Identity(b"k" * 32, ["a-key-of-sixteen"], is_personal=False)
    )

    @app.get("/v1/audio/things/{name:path}")
    def thing(request: Request, name: str, format: str = "flac") -> dict:
        if name == "gone":
            raise HTTPException(404, "It is not here.")
        return {"owner": owner_of(request).voices_of, "name": name, "format": format}

    @app.delete("/v1/audio/things/{name}")
    def delete(name: str) -> None:
        raise AssertionError

    app.router.routes.append(tickets.route())
    return TestClient(app)


def test_it_opens_the_route_for_its_owner_even_where_keys_are_asked_for(client, tickets):
    path = "/v1/audio/things/a%20b?format=wav"
    assert client.get(path).status_code == 401
    address = tickets.address(ANNA, path)
    assert not address.startswith("/")
    assert client.get(address).json() == {
        "owner": ["visitor:anna", "local"],
        "name": "a b",
        "format": "wav",
    }
    assert client.get(f"{address}?format=mp3").json()["format"] == "wav"


def test_what_the_route_refuses_is_refused(client, tickets):
    reply = client.get(tickets.address(ANNA, "/v1/audio/things/gone"))
    assert reply.status_code == 404
    assert reply.json() == {"detail": "It is not here."}


def test_it_only_reads(client, tickets):
    assert client.delete(tickets.address(ANNA, "/v1/audio/things/x")).status_code == 405


def test_it_cannot_be_made_changed_or_used_for_ever(client, tickets, monkeypatch):
    address = tickets.address(ANNA, "/v1/audio/things/x")
    for forged in (
        "page/open/x",
        address[:-1],
        Tickets().address(ANNA, "/v1/audio/things/x"),
        address.replace("page/open/", "page/open/W"),
    ):
        assert client.get(forged).status_code == 404
    later = TimestampSigner("").get_timestamp() + tickets_module.LIFE_S + 1
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda self: later)
    assert client.get(address).status_code == 404
