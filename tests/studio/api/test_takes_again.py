"""Takes of real speech over HTTP: kept as heard, and made again to the sample."""

import json
import time

import anyio
import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from engine import StorageFailed
from studio.api.keeping import NO_SETTINGS, Keeping
from studio.api.schemas import SpeechBody
from studio.api.speakers import default_id
from studio.owner import LOCAL
from studio.server import create_api
from studio.settings import Settings
from studio.take_file import TakeFile
from tests.studio.takes_kit import MAKING, error_of, heard, keep

TEXT = "The small boat is tied to the pier."
SHORT = {"input": TEXT, "seed": 7, "max_new_tokens": 14}


@pytest.fixture(scope="module")
def app(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    api = create_api(engine, Settings(no_watermark=True, data=folder, max_takes=50))
    yield api
    api.state.stores.close()


@pytest.fixture
def history(app):
    yield app.state.stores.history
    app.state.stores.history.delete_all(LOCAL, starred=True)


@pytest.fixture
def client(app):
    return TestClient(app, raise_server_exceptions=False)


def stored(client, body):
    """Speak ``body`` and keep it -> the id of the take, and the answer."""
    response = client.post("/v1/audio/speech", json=body | {"store": True})
    assert response.status_code == 200, response.text
    return response.headers["X-Take"], response


ODD = {
    **SHORT,
    "voice": "deep",
    "temperature": 0.7,
    "topk": 40,
    "language": "pt-BR",
    "speed": 1.3,
    "fade_out_ms": 40,
    "response_format": "pcm",
    "stream": True,
}
OTHERS = [
    SHORT,
    SHORT | {"voice": "deep", "seed": None, "quality": "raw", "cfg_scale": 1.5},
    SHORT | {"speed": 0.7, "response_format": "opus", "sample_rate": 16_000, "bitrate": "64k"},
]


@pytest.mark.parametrize(
    "body", [ODD, *(pytest.param(body, marks=pytest.mark.slow) for body in OTHERS)]
)
def test_a_take_is_what_was_heard_and_again_is_the_same_to_the_sample(
    client, engine, history, body
):
    take_id, response = stored(client, body)
    samples = heard(client.get(f"/v1/audio/takes/{take_id}/audio"))
    if body.get("response_format") == "pcm":
        assert response.content == samples.tobytes()
    elif "response_format" not in body:
        np.testing.assert_array_equal(heard(response), samples)
    again = client.post(f"/v1/audio/takes/{take_id}/again")
    assert again.headers["Content-Type"] == "audio/wav" and "X-Take" not in again.headers
    assert again.headers["X-Seed"] == response.headers["X-Seed"]
    assert "X-Ignored-Fields" not in again.headers
    np.testing.assert_array_equal(heard(again), samples)
    settings = client.get(f"/v1/audio/takes/{take_id}").json()["settings"]
    assert settings["seed"] == int(response.headers["X-Seed"]) and settings["input"] == TEXT
    assert settings["top_k"] == body.get("topk", engine.family.sampling_defaults["top_k"])
    sent_again = settings | {"response_format": "wav", "sample_rate": None}
    np.testing.assert_array_equal(heard(client.post("/v1/audio/speech", json=sent_again)), samples)
    assert [take.id for take in history.newest(LOCAL)] == [take_id]  # nobody asked for another


def test_a_voice_that_was_brought_along_speaks_again_until_it_is_forgotten(client, engine, history):
    vector = -engine.voices["deep"].numpy()
    take_id, response = stored(client, SHORT | {"speaker_embedding": vector.tolist()})
    take = history.find(LOCAL, take_id)
    assert take.voice_id is None and not NO_SETTINGS & set(take.settings)
    np.testing.assert_array_equal(history.speaker(LOCAL, take_id), vector)
    again = client.post(f"/v1/audio/takes/{take_id}/again")
    np.testing.assert_array_equal(heard(again), heard(response))
    history.forget_voice(vector)
    gone = client.post(f"/v1/audio/takes/{take_id}/again")
    assert "its sound is still here" in error_of(gone, 409, "voice_deleted")
    sound = client.get(f"/v1/audio/takes/{take_id}/audio")
    np.testing.assert_array_equal(heard(sound), heard(response))


@pytest.mark.slow
def test_of_a_recording_only_the_numbers_are_kept_and_it_speaks_again(client, history, data_uri):
    take_id, response = stored(client, SHORT | {"ref_audio": data_uri})
    take = history.find(LOCAL, take_id)
    assert take.voice == "reference" and data_uri[30:90] not in json.dumps(take.settings)
    again = client.post(f"/v1/audio/takes/{take_id}/again")
    np.testing.assert_array_equal(heard(again), heard(response))


@pytest.mark.slow
def test_a_client_that_leaves_half_way_leaves_no_take(app, history, serving):
    body = {"input": f"{TEXT} " * 20, "store": True, "stream": True, "response_format": "pcm"}
    with serving(app) as address:
        speech = httpx.stream("POST", f"{address}/v1/audio/speech", json=body, timeout=120)
        with speech as response:
            assert response.headers["X-Take"].startswith("take_")
            pieces = response.iter_raw()
            next(pieces)
            assert [path.suffix for path in history._folder.iterdir()] == [".part"]
        deadline_s = time.monotonic() + 60
        while list(history._folder.iterdir()):
            assert time.monotonic() < deadline_s, "the file of the take is still there"
            time.sleep(0.01)
    assert history.newest(LOCAL) == []


def test_a_voice_of_the_same_name_does_not_speak_for_the_models_own(app, client, engine, history):
    """The library is asked before the model; a take means the voice it was spoken with."""
    take = keep(
        history, LOCAL, voice="heart", voice_id="heart", speaker=engine.voices["heart"].numpy()
    )
    asked = []
    resolve = app.state.speaking.speakers.resolve

    async def watched(ask, owner):
        asked.append(ask)
        return await resolve(ask, owner)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.state.speaking.speakers, "resolve", watched)
        patch.setattr(engine, "submit", lambda wish, *_: asked.append(wish) or 1 / 0)
        client.post(f"/v1/audio/takes/{take.id}/again")
    ask, wish = asked
    assert ask.voice == default_id("heart")
    assert wish.voice_id == "heart" and wish.speaker is engine.voices["heart"]


def test_every_field_of_a_request_is_either_a_setting_or_known_to_be_none():
    """A new field must not bring a recording into the settings by accident."""
    fields = set(SpeechBody.model_fields)
    assert fields >= NO_SETTINGS
    may_hold_sound = {
        name
        for name, field in SpeechBody.model_fields.items()
        if any(word in str(field.annotation) for word in ("bytes", "Reference", "float]"))
        and "dict" not in str(field.annotation)
    }
    assert may_hold_sound <= NO_SETTINGS


def test_a_take_of_another_model_is_not_made_again_by_this_one(client, history):
    take = keep(history, LOCAL, model="other")
    again = client.post(f"/v1/audio/takes/{take.id}/again")
    message = error_of(again, 409, "take_of_another_model")
    assert "other" in message and "nano" in message


async def two_chunks():
    yield np.zeros(4410, np.float32)
    yield np.ones(4410, np.float32)


def passed_on(history):
    """Chunks on their way through a keeping -> the keeping, and how many arrived."""
    keeping = Keeping(history, LOCAL, MAKING, 44_100)

    async def run():
        return [len(chunk) async for chunk in keeping.kept(two_chunks())]

    return keeping, anyio.run(run)


@pytest.mark.parametrize("fails_at", ["record", "write", "finish"])
def test_speech_goes_on_when_its_take_cannot_be_kept(history, monkeypatch, fails_at):
    def full(*_):
        raise StorageFailed("takes: the disk is full; make room and try again.")

    target = history if fails_at == "record" else TakeFile
    monkeypatch.setattr(target, fails_at, full)
    keeping, arrived = passed_on(history)
    assert keeping.take is None and keeping.headers() == {} and "disk is full" in keeping.note
    assert arrived == [4410, 4410] and history.newest(LOCAL) == []
    assert list(history._folder.glob("*")) == []


def test_a_fault_of_ours_costs_the_take_and_not_the_speech(history, monkeypatch):
    monkeypatch.setattr(history, "record", lambda *_: 1 / 0)
    keeping, arrived = passed_on(history)
    assert arrived == [4410, 4410] and "the log of the studio has more" in keeping.note


def test_chunks_that_are_left_half_way_leave_no_take(history):
    async def run():
        keeping = Keeping(history, LOCAL, MAKING, 44_100)
        pieces = keeping.kept(two_chunks())
        await anext(pieces)
        assert keeping.headers()["X-Take"].startswith("take_")
        assert len(list(history._folder.glob("*"))) == 1
        await pieces.aclose()

    anyio.run(run)
    assert list(history._folder.glob("*")) == [] and history.newest(LOCAL) == []
