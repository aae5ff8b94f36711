"""The dictionary of a caller over HTTP: its own, changed as a whole or word by word."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from studio.server import create_api
from studio.settings import Settings

PATH = "/v1/audio/pronunciations"
KEYS = ("the-key-of-the-first", "the-key-of-the-second")


@pytest.fixture
def client(engine, tmp_path):
    settings = Settings(data=tmp_path / "data", api_key=KEYS)
    return TestClient(
        create_api(engine, settings),
        raise_server_exceptions=False,
        headers={"Authorization": f"Bearer {KEYS[0]}"},
    )


def listed(client, key: str = KEYS[0]) -> list[dict]:
    answer = client.get(PATH, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200 and answer.headers["Cache-Control"] == "no-store"
    return answer.json()["data"]


def test_a_word_is_stored_shown_said_otherwise_and_deleted(client) -> None:
    sent = {"written": "SQL", "spoken": "sequel", "language": "English", "case_sensitive": True}
    stored = client.post(PATH, json=sent)
    assert stored.status_code == 200
    word = stored.json()
    assert word.pop("created") > 1e9
    about = sent | {"language": "en", "object": "pronunciation", "own": True}
    assert word == about | {"id": word["id"]}
    again = client.post(PATH, json=sent | {"spoken": "ess queue ell"}).json()
    assert again["id"] == word["id"]
    assert [one["spoken"] for one in listed(client)] == ["ess queue ell"]
    assert listed(client, KEYS[1]) == []
    gone = client.delete(f"{PATH}/{word['id']}")
    assert gone.json() == {"id": word["id"], "object": "pronunciation", "deleted": True}
    assert listed(client) == []
    assert client.delete(f"{PATH}/{word['id']}").status_code == 404


def test_all_words_are_put_at_once_in_either_form_or_none_is(client) -> None:
    whole = {"pronunciations": {"a": "x", "b": "y"}}
    answer = client.put(PATH, json=whole)
    assert [word["written"] for word in answer.json()["data"]] == ["a", "b"]
    wrong = {"pronunciations": [{"written": "c", "spoken": "z"}, {"written": "?", "spoken": "z"}]}
    refused = client.put(PATH, json=wrong)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "pronunciations[1].written"
    assert [word["written"] for word in listed(client)] == ["a", "b"]
    assert client.put(PATH, json={"pronunciations": []}).json()["data"] == []


@pytest.mark.parametrize(
    ("method", "body", "param"),
    [
        ("post", {"written": "a"}, "spoken"),
        ("post", {"written": "a", "spoken": 3}, "spoken"),
        ("post", {"written": "a", "spoken": "x" * 201}, "pronunciation.spoken"),
        ("post", {"written": "!", "spoken": "x"}, "pronunciation.written"),
        ("post", {"written": "a", "spoken": "b", "language": "xx"}, "language"),
        ("post", {"written": "a", "spoken": "b", "lang": "de"}, "lang"),
        ("put", {}, "pronunciations"),
        ("put", {"pronunciations": "a"}, "pronunciations"),
        ("put", {"pronunciations": {f"w{at}": "x" for at in range(501)}}, "pronunciations"),
    ],
)
def test_a_mistake_is_one_clear_sentence(client, method, body, param) -> None:
    answer = client.request(method, PATH, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert error["message"].endswith(".") and len(error["message"]) < 400
    assert listed(client) == []


def test_the_routes_are_documented(client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths[PATH]) == {"get", "post", "put"}
    assert set(paths[f"{PATH}/{{word_id}}"]) == {"delete"}
