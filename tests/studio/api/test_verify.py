"""/v1/audio/verify: what was made here is told from what was not, whoever sends what."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from engine import Engine
from studio.api import verify as module
from studio.media.pcm import wav_header
from studio.server import create_api
from studio.settings import Settings

PATH = "/v1/audio/verify"
AUDIO = Path(__file__).resolve().parents[2] / "fixtures" / "audio"
ASK = {"input": "The small boat is still tied to the pier.", "seed": 5, "response_format": "mp3"}


@pytest.fixture(scope="module")
def studio(engine: Engine) -> TestClient:
    """The routes as they are by default: everything is marked."""
    return TestClient(create_api(engine, Settings()), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def made(studio: TestClient) -> bytes:
    answer = studio.post("/v1/audio/speech", json=ASK)
    assert answer.status_code == 200
    assert answer.headers["X-AI-Generated"] == "true"
    assert answer.headers["X-Marked"] == "watermark, metadata"
    return answer.content


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path


def test_what_was_made_here_is_recognised(studio: TestClient, made: bytes, temporary: Path) -> None:
    answer = studio.post(PATH, files={"file": ("speech.mp3", made)})
    assert answer.status_code == 200
    told = answer.json()
    assert told["summary"].startswith("A machine spoke here: the sound bears the watermark")
    assert told["watermark"]["found"] is True
    assert told["watermark"]["confidence"] > 0.9
    assert told["watermark"]["seconds_checked"] > 2
    assert told["metadata"]["says_ai_generated"] is True
    assert told["metadata"]["tags"]["seed"] == "5"
    assert told["c2pa"] == {
        "found": False,
        "intact": False,
        "says_ai_generated": False,
        "signer": "",
        "generator": "",
        "sentence": "It holds no signed statement (C2PA).",
    }
    assert not list(temporary.iterdir()), "something of the file was left behind"


def test_a_person_is_not_taken_for_a_machine(studio: TestClient) -> None:
    person = (AUDIO / "ref_phone_aac.m4a").read_bytes()
    told = studio.post(PATH, content=person, headers={"Content-Type": "audio/mp4"}).json()
    assert told["watermark"]["found"] is False
    assert told["metadata"]["says_ai_generated"] is False
    assert told["summary"].startswith("Nothing in this file says that a machine spoke here")


def test_the_file_may_come_as_base64(studio: TestClient) -> None:
    body = base64.b64encode((AUDIO / "ref_300ms.wav").read_bytes()).decode()
    for text in (body, f"data:audio/wav;base64,{body}"):
        told = studio.post(PATH, json={"audio": text}).json()
        assert told["duration_s"] == pytest.approx(0.3, abs=0.01)
        assert "too short to be sure" in told["watermark"]["sentence"]


@pytest.mark.parametrize(
    ("send", "status", "sentence"),
    [
        ({"json": {}}, 400, "audio: it is missing"),
        ({"json": {"audio": 7}}, 400, "audio: it is missing"),
        ({"json": {"audio": "!!"}}, 400, "audio cannot be read: it is not base64"),
        ({"files": {"other": ("a.wav", b"RIFF")}}, 400, "file: it is missing"),
        ({"files": {"file": ("a.wav", b"hello")}}, 400, "not in an accepted format"),
        ({"content": b""}, 400, "it is empty"),
        ({"content": b"x", "headers": {"Content-Type": "text/plain"}}, 415, "not accepted"),
        ({"content": bytes(20_000_001)}, 413, "larger than 20 MB"),
        ({"files": {"file": ("a.wav", bytes(20_000_001))}}, 413, "larger than 20 MB"),
    ],
)
def test_what_cannot_be_checked_is_said(
    client: TestClient, send: dict, status: int, sentence: str
) -> None:
    answer = client.post(PATH, **send)
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]


@pytest.mark.parametrize(
    ("name", "status", "sentence"),
    [
        ("ref_3h_silence_bomb.flac", 413, "longer than 600 s"),
        ("ref_float_nan_inf.wav", 400, "values that are not sound"),
        ("ref_header_only_44b.wav", 400, "it holds no sound"),
        ("ref_elf_header.wav", 400, "not in an accepted format"),
    ],
)
def test_hostile_files_are_refused(
    client: TestClient, name: str, status: int, sentence: str
) -> None:
    answer = client.post(PATH, files={"file": (name, (AUDIO / name).read_bytes())})
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]


def test_silence_holds_nothing_to_find(client: TestClient) -> None:
    silence = wav_header(44_100, 120_000) + bytes(120_000)
    told = client.post(PATH, content=silence).json()
    assert told["watermark"] == {
        "found": False,
        "confidence": 0.0,
        "seconds_checked": 0.0,
        "sentence": (
            "No watermark was found, but 0.0 s of sound are too short to be sure; 2 s are."
        ),
    }


def test_too_many_files_at_once_are_put_off(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = SimpleNamespace(tasks_waiting=module.MAX_WAITING)
    limiter = SimpleNamespace(statistics=lambda: waiting)
    monkeypatch.setattr(module, "CapacityLimiter", lambda number: limiter)
    busy = TestClient(create_api(engine, Settings()), raise_server_exceptions=False)
    answer = busy.post(PATH, content=b"RIFF")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"


def test_the_route_is_described(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"][PATH]["post"]
    assert {"multipart/form-data", "application/json", "audio/*"} == set(
        described["requestBody"]["content"]
    )
    assert {"200", "400", "413", "415", "503"} <= set(described["responses"])
