import pytest

from engine import Engine, EngineStats


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
    for model in listed["data"]:
        assert client.get(f"/v1/models/{model['id']}").json() == model
    response = client.get("/v1/models/gpt-9")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
