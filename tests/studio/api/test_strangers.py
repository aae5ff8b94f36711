"""Whatever has an id: another owner hears the same as about an id that never was."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from starlette.testclient import TestClient

from studio.server import create_api
from studio.settings import Settings

KEYS = ("the-key-of-the-first", "the-key-of-the-second")
# Names of models belong to nobody.
NOBODYS = ("/openai/v1/models/{name}", "/v1/models/{name}")
BODIES = {"patch": {"notes": "mine", "title": "mine"}, "post": {"name": "Mine", "consent": True}}


@pytest.fixture(scope="module")
def client(engine, tmp_path_factory):
    settings = Settings(data=tmp_path_factory.mktemp("data"), api_key=KEYS)
    return TestClient(create_api(engine, settings), raise_server_exceptions=False)


def by(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "X-TTS-Session-ID": "one"}


@pytest.fixture(scope="module")
def ids(client, engine) -> dict[str, str]:
    """What the first owner has, by the name of the parameter in the path."""
    mine = by(KEYS[0])
    numbers = engine.voices["deep"].tolist()
    voice = client.post(
        "/v1/audio/voices",
        json={"name": "Anna", "speaker_embedding": numbers, "consent": True},
        headers=mine,
    )
    assert voice.status_code == 200, voice.text
    spoken = client.post(
        "/v1/audio/speech",
        json={"input": "Hi.", "voice": "Anna", "store": True, "max_new_tokens": 16},
        headers=mine | {"X-Request-ID": "first-request"},
    )
    assert spoken.status_code == 200, spoken.text
    file = np.asarray(numbers, np.float32)
    speaker = client.post("/tts/speakers", json=_npy(file), headers=mine)
    assert speaker.status_code == 200, speaker.text
    word = {"written": "Anna", "spoken": "Anja"}
    word = client.post("/v1/audio/pronunciations", json=word, headers=mine)
    assert word.status_code == 200, word.text
    return {
        "word_id": word.json()["id"],
        "voice": voice.json()["id"],
        "take_id": spoken.headers["X-Take"],
        "request_id": "first-request",
        "speaker_id": speaker.json()["id"],
    }


def _npy(vector: np.ndarray) -> dict[str, str]:
    file = io.BytesIO()
    np.save(file, vector)
    return {
        "label": "Anna",
        "speaker_embedding_base64": base64.b64encode(file.getvalue()).decode(),
    }


def test_every_route_with_an_id_refuses_another_owners(client, ids) -> None:
    num_asked = 0
    for path, operations in client.app.openapi()["paths"].items():
        if "{" not in path or path in NOBODYS:
            continue
        (parameter,) = (name for name in ids if f"{{{name}}}" in path)
        known = ids[parameter]
        unknown = known[:-4] + "zzzz"
        for method in operations:
            answers = []
            for wanted in (known, unknown):
                answer = client.request(
                    method,
                    path.replace(f"{{{parameter}}}", wanted),
                    json=BODIES.get(method),
                    headers=by(KEYS[1]),
                )
                assert answer.status_code == 404, (method, path, answer.text)
                answers.append(answer.text.replace(wanted, "ID"))
            assert answers[0] == answers[1], (method, path)
            num_asked += 1
    assert num_asked >= 18
    words = client.get("/v1/audio/pronunciations", headers=by(KEYS[0])).json()["data"]
    assert [word["id"] for word in words] == [ids["word_id"]]
    for path, parameter in (
        ("/v1/audio/voices/{}", "voice"),
        ("/v1/audio/takes/{}", "take_id"),
        ("/v1/audio/requests/{}", "request_id"),
    ):  # nothing of it was touched
        assert client.get(path.format(ids[parameter]), headers=by(KEYS[0])).status_code == 200


@pytest.mark.parametrize("field", ["voice", "speaker_embedding_id"])
def test_another_owners_voice_does_not_speak(client, ids, field) -> None:
    for wanted in (ids["voice"], ids["speaker_id"], "Anna"):
        answer = client.post(
            "/v1/audio/speech", json={"input": "Hi.", field: wanted}, headers=by(KEYS[1])
        )
        assert answer.status_code == 404, answer.text
        assert answer.json()["error"]["code"] == "voice_not_found"


def test_lists_hold_nothing_of_another_owner(client, ids) -> None:
    paths = ("/v1/audio/voices", "/v1/audio/takes", "/v1/audio/pronunciations", "/tts/speakers")
    for path in (*paths, "/v1/audio/queue"):
        seen = client.get(path, headers=by(KEYS[1])).text
        assert not any(known in seen for known in (*ids.values(), "Anna")), path
        assert client.get(path, headers=by(KEYS[0])).status_code == 200
