"""The voices of Zyphra's page: uploaded, heard, blended, saved, forgotten; whose they are."""

from __future__ import annotations

import base64
import io
import json
import time
from urllib.parse import quote

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

from studio.api.tts_speakers import MAX_LABEL_CHARS
from studio.server import create_api
from studio.settings import Settings

KEYS = ("the-first-key-of-the-tests", "the-other-key-of-the-tests")
SESSION = {"X-TTS-Session-ID": "a-tab"}
SPEECH = {"text": "Hi.", "seed": 4, "max_tokens": 12}


@pytest.fixture(scope="module")
def app(engine, tmp_path_factory):
    """A studio of two key holders, so that there is somebody else."""
    settings = Settings(data=tmp_path_factory.mktemp("data"), api_key=KEYS, no_watermark=True)
    return create_api(engine, settings)


@pytest.fixture(scope="module")
def ann(app):
    return TestClient(app, headers=SESSION | {"X-API-Key": KEYS[0]}, follow_redirects=False)


@pytest.fixture(scope="module")
def ben(app):
    return TestClient(app, headers=SESSION | {"X-API-Key": KEYS[1]}, follow_redirects=False)


def npy(vector: np.ndarray) -> str:
    file = io.BytesIO()
    np.save(file, vector)
    return base64.b64encode(file.getvalue()).decode()


def add(client: TestClient, **fields: object) -> dict:
    headers = {"Content-Type": "application/json"}
    answer = client.post("/tts/speakers", content=json.dumps(fields), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def listed(client: TestClient, scope: str, **headers: str) -> list[dict]:
    speakers = client.get("/tts/speakers", headers=headers).json()["speakers"]
    return [speaker for speaker in speakers if speaker["scope"] == scope]


@pytest.fixture(scope="module")
def uploaded(ann, data_uri):
    """Ann's voice of a recording."""
    return add(ann, label="Deep", speaker_audio_base64=data_uri, speaker_audio_name="Deep.m4a")


def test_a_recording_becomes_a_voice_of_the_session(ann, uploaded, engine):
    about = {
        "label": "Deep",
        "source_type": "audio",
        "original_name": "Deep.m4a",
        "dimension": 128,
        "has_preview": True,
        "scope": "session",
        "is_default": False,
    }
    assert uploaded.items() >= about.items()
    assert uploaded["id"].startswith("spk_")
    assert abs(uploaded["created_at"] - time.time()) < 60
    assert uploaded["id"] in [speaker["id"] for speaker in listed(ann, "session")]


def test_the_preview_is_what_was_heard_of_the_recording(ann, uploaded, engine):
    answer = ann.get(f"/tts/speakers/{uploaded['id']}/preview")
    assert answer.headers["Content-Type"] == "audio/wav"
    samples, rate_hz = soundfile.read(io.BytesIO(answer.content), dtype="float32")
    assert rate_hz == 24_000
    assert 1.0 < len(samples) / rate_hz < 10 and np.abs(samples).max() > 0.05


def test_the_list_begins_with_the_models_voices_and_ends_with_the_newest(ann, uploaded, engine):
    vector = engine.voices["heart"].numpy()
    newest = add(ann, speaker_embedding_base64=npy(vector), speaker_embedding_name="my.voice.npy")
    assert newest["label"] == "my.voice"
    assert (newest["source_type"], newest["has_preview"]) == ("embedding_file", False)
    speakers = ann.get("/tts/speakers").json()["speakers"]
    scopes = [speaker["scope"] for speaker in speakers]
    assert scopes == sorted(scopes, key=["default", "library", "session"].index)
    assert [speaker["label"] for speaker in speakers[: len(engine.voices)]] == [*engine.voices]
    assert listed(ann, "session")[0]["id"] == newest["id"]
    usual = max(listed(ann, "default"), key=lambda speaker: speaker["created_at"])
    assert usual["label"] == engine.default_voice and usual["is_default"]
    assert usual["id"].startswith("default_") and len(usual["id"]) == len("default_") + 16
    assert listed(ann, "session", **{"X-TTS-Session-ID": "another tab"}) == []
    assert ann.get(f"/tts/speakers/{newest['id']}/preview").status_code == 404


def test_every_id_speaks_and_blends_at_every_door(ann, uploaded, engine):
    heart = next(v["id"] for v in listed(ann, "default") if v["label"] == "heart")

    def speak(path: str = "/tts/generate", **fields: object) -> bytes:
        answer = ann.post(path, json=SPEECH | fields)
        assert answer.status_code == 200, answer.text
        return answer.content

    expected, _ = engine.speak("Hi.", voice="heart", seed=4, max_new_frames=12).read()
    assert speak(speaker_embedding_id=heart) == expected.astype("<f4").tobytes()
    own = speak(speaker_embedding_id=uploaded["id"])
    blends = [
        speak(
            speaker_blend_embedding_id_a=heart,
            speaker_blend_embedding_id_b=uploaded["id"],
            speaker_blend_t=t,
        )
        for t in (0, 1)
    ]
    assert blends[0] == speak(speaker_embedding_id=heart)
    assert blends[1] == own != blends[0]
    assert speak("/v1/audio/speech", voice=uploaded["id"], response_format="pcm_f32") == own


def test_a_voice_of_the_model_is_heard_where_the_library_speaks_it(ann, engine):
    voice = listed(ann, "default")[0]["id"]
    answer = ann.get(f"/tts/speakers/{voice}/preview")
    assert answer.status_code == 307
    assert answer.headers["Location"] == f"../../../v1/audio/voices/{voice}/preview"


def test_saving_takes_a_declaration_and_moves_the_voice_into_the_library(ann, data_uri, app):
    voice = add(ann, label="To stay", speaker_audio_base64=data_uri)
    before = ann.post("/tts/generate", json=SPEECH | {"speaker_embedding_id": voice["id"]}).content
    path = f"/tts/speakers/{voice['id']}/save"
    refused = ann.post(path, json={"name": "Stays"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "consent_required")
    fields = {"name": "Stays", "consent": True, "language": "German", "tags": ["warm"]}
    saved = ann.post(path, json=fields).json()
    assert saved.items() >= {"label": "Stays", "scope": "library", "source_type": "audio"}.items()
    assert (saved["language"], saved["tags"]) == ("de", ["warm"])
    assert saved["id"].startswith("voice_")
    assert [v["label"] for v in listed(ann, "library")] == ["Stays"]
    assert ann.post(path, json=fields).status_code == 404, "it has moved"
    after = ann.post("/tts/generate", json=SPEECH | {"speaker_embedding_id": "stays"}).content
    assert after == before
    (declared,) = ann.get(f"/v1/audio/voices/{saved['id']}").json()["consents"]
    assert len(declared["clip_hash"]) == 64
    other = add(ann, label="Stays", speaker_audio_base64=data_uri)
    taken = ann.post(f"/tts/speakers/{other['id']}/save", json={"consent": True})
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "voice_exists")
    assert ann.delete(f"/v1/audio/voices/{saved['id']}").is_success


def test_a_voice_is_forgotten_with_everything_that_was_kept(ann, data_uri, app):
    voice = add(ann, speaker_audio_base64=data_uri, label="To go")
    assert ann.delete(f"/tts/speakers/{voice['id']}").json() == {
        "id": voice["id"],
        "deleted": True,
    }
    for answer in (
        ann.delete(f"/tts/speakers/{voice['id']}"),
        ann.get(f"/tts/speakers/{voice['id']}/preview"),
        ann.post("/tts/generate", json=SPEECH | {"speaker_embedding_id": voice["id"]}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "voice_not_found")
    assert "To go" not in ann.get("/tts/speakers").text


def test_what_belongs_to_somebody_else_is_answered_like_what_does_not_exist(ann, ben, uploaded):
    taken, missing = uploaded["id"], "spk_" + "x" * (len(uploaded["id"]) - 4)
    assert listed(ben, "session") == []

    def answers(speaker_id: str) -> list[tuple[int, str]]:
        got = [
            ben.get(f"/tts/speakers/{speaker_id}/preview"),
            ben.delete(f"/tts/speakers/{speaker_id}"),
            ben.post(f"/tts/speakers/{speaker_id}/save", json={"consent": True}),
            ben.post("/tts/generate", json=SPEECH | {"speaker_embedding_id": speaker_id}),
        ]
        # The names that are near depend on the id alone.
        told = [
            answer.text.replace(speaker_id, "ID").replace("deep, heart", "heart, deep")
            for answer in got
        ]
        return [(answer.status_code, text) for answer, text in zip(got, told, strict=True)]

    assert answers(taken) == answers(missing)
    assert {status for status, _ in answers(taken)} == {404}
    times_ms: dict[str, list[float]] = {taken: [], missing: []}
    for speaker_id in (taken, missing) * 15:
        start_s = time.perf_counter()
        ben.get(f"/tts/speakers/{speaker_id}/preview")
        times_ms[speaker_id].append(1e3 * (time.perf_counter() - start_s))
    # The quickest of each: a busy machine only ever adds.
    assert abs(min(times_ms[taken]) - min(times_ms[missing])) < 20
    assert ann.get(f"/tts/speakers/{taken}/preview").is_success


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({}, 400, "speaker_audio_base64"),
        ({"speaker_audio_base64": "AAAA", "speaker_embedding_base64": "AAAA"}, 400, None),
        ({"speaker_audio_base64": "AAAA"}, 400, "speaker_audio_base64"),
        ({"speaker_embedding_base64": "AAAA"}, 400, "speaker_embedding_base64"),
        ({"speaker_embedding_base64": npy(np.ones(7))}, 400, "speaker_embedding_base64"),
        ({"speaker_embedding_base64": npy(np.full(128, np.nan))}, 400, "speaker_embedding_base64"),
    ],
)
def test_what_holds_no_voice_is_refused(ann, fields, status, param):
    answer = ann.post("/tts/speakers", json=fields)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["detail", "error"]
    assert param in (None, answer.json()["error"]["param"])


def test_types_and_the_session_are_looked_at(ann, data_uri):
    assert ann.post("/tts/speakers", json={"label": 5}).status_code == 422
    for session in ("", "s" * 200):
        headers = {"X-TTS-Session-ID": session}
        answer = ann.post("/tts/speakers", json={"speaker_audio_base64": data_uri}, headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "X-TTS-Session-ID"


@pytest.mark.parametrize(
    "label", ["../../canary", "\ud800\x00\n<b>" + "a" * 5000, "  ", "Zoë \u202e"]
)
def test_a_label_is_one_short_line_whatever_was_sent(ann, engine, label):
    voice = add(
        ann,
        label=label,
        speaker_embedding_name=label,
        speaker_embedding_base64=npy(engine.voices["deep"].numpy()),
    )
    for text in (voice["label"], voice["original_name"]):
        assert len(text) <= MAX_LABEL_CHARS and text.isprintable()
    assert voice["label"]
    answer = ann.post("/tts/generate", json=SPEECH | {"speaker_embedding_id": voice["id"]})
    assert answer.status_code == 200 and answer.headers["X-Voice"]


@pytest.mark.parametrize(
    "name",
    [
        "../../../../etc/passwd",
        "/etc/passwd",
        "/etc/nothing",
        "C:\\x",
        "a\0.wav",
        "....//",
        "n" * 4000,
    ],
)
def test_a_name_never_becomes_a_path(ann, name):
    path = f"/tts/speakers/{quote(name, safe='')}"
    for answer in (
        ann.get(f"{path}/preview"),
        ann.delete(path),
        ann.post(f"{path}/save", json={"consent": True}),
    ):
        assert answer.status_code in (404, 405)
        assert "root:" not in answer.text


def test_a_studio_that_wants_a_declaration_wants_it_here_too(engine, tmp_path):
    app = create_api(engine, Settings(data=tmp_path, require_consent=True))
    client = TestClient(app, headers=SESSION)
    fields = {"speaker_embedding_base64": npy(engine.voices["deep"].numpy())}
    refused = client.post("/tts/speakers", json=fields)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "consent_required")
    voice = add(client, consent=True, **fields)
    spoken = client.post("/tts/generate", json=SPEECH | {"speaker_embedding_id": voice["id"]})
    assert spoken.status_code == 200
