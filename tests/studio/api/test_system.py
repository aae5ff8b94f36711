import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.testclient import TestClient

from engine import Engine, EngineStats
from studio.api.metrics import Metrics
from studio.server import create_api
from studio.settings import Settings


def stats(**changes) -> EngineStats:
    values = {
        "num_slots": 8,
        "num_live": 0,
        "num_waiting": 0,
        "heartbeat_age_s": 0.1,
        "mean_service_s": 1.0,
        "is_draining": False,
    }
    return EngineStats(**(values | changes))


def test_health_says_healthy(client):
    response = client.get("/health")
    assert response.status_code == 200
    assert response.json()["status"] == "healthy" and response.json()["model"] == "nano"


@pytest.mark.parametrize(
    ("changes", "health", "ready"),
    [
        ({}, 200, 200),
        ({"heartbeat_age_s": 60.0}, 200, 200),  # nothing to do: nothing is stuck
        ({"heartbeat_age_s": 9.0, "num_live": 1}, 200, 200),
        ({"heartbeat_age_s": 11.0, "num_live": 1}, 503, 503),
        ({"heartbeat_age_s": 11.0, "num_waiting": 1}, 503, 503),
        ({"is_draining": True, "num_live": 1}, 200, 503),
    ],
)
def test_a_stuck_engine_is_unhealthy_and_a_draining_one_not_ready(
    client, monkeypatch, changes, health, ready
):
    monkeypatch.setattr(Engine, "stats", property(lambda self: stats(**changes)))
    assert client.get("/health").status_code == health
    response = client.get("/ready")
    assert response.status_code == ready
    assert ready == 200 or int(response.headers["Retry-After"]) >= 1


def test_zyphras_clients_find_somebody(client):
    assert client.get("/v1").json() == {"status": "ok"}


def test_models_are_listed_and_found_one_by_one(client):
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert listed["data"][0]["id"] == "nano"
    assert client.get("/openai/v1/models").json() == listed
    for model in listed["data"]:
        assert client.get(f"/v1/models/{model['id']}").json() == model
        assert client.get(f"/openai/v1/models/{model['id']}").json() == model
    response = client.get("/v1/models/gpt-9")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


def scraped(text: str) -> dict[str, float]:
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_speech_refusals_and_slots(engine):
    app = create_api(engine, Settings(no_watermark=True))
    here = TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 1))
    before = scraped(here.get("/metrics").text)
    assert before["zonos2_slots"] == 8 and before['zonos2_requests_total{reason="stop"}'] == 0
    body = {"input": "Hi.", "max_new_tokens": 20}
    assert here.post("/v1/audio/speech", json=body | {"stream": True}).is_success
    assert here.post("/v1/audio/speech", json=body).is_success
    assert here.post("/v1/audio/speech", json={"input": "Hi.", "voice": "no"}).is_client_error
    after = scraped(here.get("/metrics").text)
    assert after['zonos2_requests_total{reason="length"}'] == 2
    assert after['zonos2_refusals_total{code="voice_not_found"}'] == 1
    assert after["sglang_omni:audio_duration_s_count"] == 2
    assert after["sglang_omni:audio_duration_s_sum"] == pytest.approx(2 * 12 / 25)
    # These are of live sound alone.
    assert (
        after["sglang_omni:audio_ttfp_s_count"] == after["sglang_omni:audio_underrun_s_count"] == 1
    )
    assert 'sglang_omni:audio_continuity_ok_total{threshold_ms="500"}' in after
    assert after["zonos2_speaking"] == after["zonos2_waiting"] == 0


@pytest.mark.parametrize(
    ("host", "key", "status"),
    [
        ("127.0.0.1", None, 200),
        ("::1", None, 200),
        ("10.0.0.7", None, 403),
        ("10.0.0.7", "a-key-for-the-tests", 200),
        ("10.0.0.7", "another-key-of-no-use", 403),
    ],
)
def test_metrics_are_for_this_machine_or_a_key(engine, host, key, status):
    app = create_api(engine, Settings(api_key=("a-key-for-the-tests",)))
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    answer = TestClient(app, client=(host, 1)).get("/metrics", headers=headers)
    assert answer.status_code == status
    assert ("zonos2_slots" in answer.text) is (status == 200)


def test_the_longest_stop_of_a_player_is_measured(monkeypatch):
    now_s = 0.0
    monkeypatch.setattr("studio.api.metrics.time", SimpleNamespace(monotonic=lambda: now_s))

    async def chunks(pauses_s):
        nonlocal now_s
        for pause_s in pauses_s:
            now_s += pause_s
            yield np.zeros(10, np.float32)  # 0.1 s at 100 Hz

    async def play(pauses_s, reading_s=0.0):
        nonlocal now_s
        playback = Metrics(SimpleNamespace(stats=stats())).playback(100)
        async for _ in playback.of(chunks(pauses_s)):
            now_s += reading_s
        return playback.underrun_s

    assert asyncio.run(play([0.2, 0.0, 0.15])) == 0  # the wait for the first is no stop
    assert asyncio.run(play([0.0, 0.3, 0.0, 0.25])) == pytest.approx(0.2)
    assert asyncio.run(play([0.0, 0.0, 0.0], reading_s=5.0)) == 0  # the reader's own pauses


def test_a_strict_studio_knows_no_other_models(engine):
    strict = TestClient(create_api(engine, Settings(strict_model=True)))
    response = strict.post("/v1/audio/speech", json={"input": "Hi.", "model": "gpt-9"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["/v1", "/health", "/ready", "/metrics", "/docs", "/openapi.json"])
def test_routes_that_stand_alone_know_their_methods(client, path):
    answer = client.post(path)
    assert answer.status_code == 405 and "GET" in answer.headers["Allow"]
    assert answer.json()["error"]["code"] == "method_not_allowed"
