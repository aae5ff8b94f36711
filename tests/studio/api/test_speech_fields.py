"""Fields of the speech route that other families of clients send, over the whole way."""

import base64
import io
import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from engine import SpeechRequest
from studio.api.body import MAX_FORM_FILES
from studio.server import create_api
from studio.settings import Settings

SHORT = {"input": "Hi.", "seed": 1, "max_new_tokens": 12}


@pytest.fixture
def post(client):
    return lambda **fields: client.post("/v1/audio/speech", json=SHORT | fields)


@pytest.fixture
def asked(engine, monkeypatch):
    """What the engine was asked for."""
    wishes: list[SpeechRequest] = []
    submit = engine.submit
    monkeypatch.setattr(engine, "submit", lambda wish, *_: wishes.append(wish) or submit(wish))
    return wishes


def form(client, files=None, **fields):
    texts = {name: (None, text) for name, text in fields.items()}
    return client.post("/v1/audio/speech", files={**texts, **(files or {})})


# Speakers ------------------------------------------------------------------------------------


def test_an_embedding_speaks_like_the_voice_it_was_taken_from(post, engine):
    vector = engine.voices["deep"].numpy()
    file = io.BytesIO()
    np.save(file, np.stack([vector, vector]))
    as_file = base64.b64encode(file.getvalue()).decode()
    expected = post(voice="deep").content
    assert expected != post().content
    for fields in ({"speaker_embedding": vector.tolist()}, {"speaker_embedding_base64": as_file}):
        answer = post(voice="alloy", **fields)
        assert answer.content == expected and answer.headers["X-Voice"] == "embedding"
    refused = post(speaker_embedding=[1.0, 2.0])
    assert refused.json()["error"]["param"] == "speaker_embedding"
    assert "128" in refused.json()["detail"]


def test_a_blend_lies_between_its_voices(post, asked, engine):
    assert post(blend={"a": "heart", "b": "deep", "t": 0.25}).status_code == 200
    names = {"speaker_blend_embedding_id_a": "heart", "speaker_blend_embedding_id_b": "deep"}
    assert post(**names, speaker_blend_t=0).status_code == 200
    between, first = (wish.speaker for wish in asked)
    heart, deep = engine.voices["heart"], engine.voices["deep"]
    np.testing.assert_allclose(first, heart, atol=1e-6)
    distances = [float((between - voice).norm()) for voice in (heart, deep)]
    assert 0 < distances[0] < distances[1]
    assert post(blend={"a": "heart", "b": "nobody"}).status_code == 404


@pytest.mark.parametrize(
    ("fields", "second"),
    [
        ({"voice": "deep", "speaker_embedding": [1.0]}, "speaker_embedding"),
        ({"voice": "deep", "blend": {"a": "heart", "b": "deep"}}, "blend"),
        ({"ref_audio": "AAAA", "blend": {"a": "heart", "b": "deep"}}, "blend"),
        ({"speaker_embedding": [1.0], "speaker_embedding_base64": "A"}, "speaker_embedding_base64"),
    ],
)
def test_two_speakers_are_refused_by_the_name_of_the_second(post, fields, second):
    answer = post(**fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "conflicting_fields"
    assert answer.json()["error"]["param"] == second


# Forms ---------------------------------------------------------------------------------------


def test_a_form_brings_its_recording_as_a_file(client, post, recording, data_uri):
    fields = {key: str(value) for key, value in SHORT.items()}
    answer = form(client, {"audio_sample": ("voice.wav", recording, "audio/wav")}, **fields)
    assert answer.status_code == 200
    assert answer.content == post(ref_audio=data_uri).content


def test_texts_of_a_form_are_the_values_of_json(client, post):
    fields = {"input": "Hi.", "seed": "1", "max_new_tokens": "12", "speaker": '{"id": "deep"}'}
    fields |= {"temperature": "0.5", "stream": "false", "model": "tts-1", "language": ""}
    answer = form(client, {"empty": ("", b"")}, **fields)
    assert answer.content == post(voice="deep", temperature=0.5).content
    refused = form(client, **SHORT | {"seed": "1", "max_new_tokens": "12", "top_k": "many"})
    assert refused.json()["error"]["param"] == "top_k"


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b"", "multipart/form-data; boundary=x", 400, "missing_required_parameter"),
        (b"junk", "multipart/form-data; boundary=x", 400, "invalid_form"),
        (b"", "multipart/form-data", 400, "invalid_form"),
        (b"--x\r\n\r\nHi.\r\n--x--\r\n", "multipart/form-data; boundary=x", 400, "invalid_form"),
    ],
)
def test_forms_that_cannot_be_read(client, content, kind, status, code):
    answer = client.post("/v1/audio/speech", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_form_has_limits(client):
    many = [(f"f{number}", ("a.wav", b"x")) for number in range(MAX_FORM_FILES + 1)]
    assert client.post("/v1/audio/speech", files=many).json()["error"]["code"] == "invalid_form"
    twice = [("input", (None, "Hi.")), ("input", (None, "Ho."))]
    assert client.post("/v1/audio/speech", files=twice).json()["error"]["param"] == "input"


def test_a_file_in_the_place_of_a_text_is_refused(client):
    answer = form(client, {"input": ("text.txt", b"Hi.")})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")


# The rest ------------------------------------------------------------------------------------


def test_ignored_fields_of_other_models_are_all_reported(post):
    sent = {"task_type": "Base", "x_vector_only_mode": True, "token_count": 5, "ref_text": "a"}
    sent |= {"instructions": "calm", "stream_format": None, "extra_params": {"foo": 1}}
    silent = {"user": "u1", "metadata": {"a": 1}, "speaker_audio_name": "x.wav"}
    names = post(**sent, **silent).headers["X-Ignored-Fields"].split(", ")
    told = ["task_type", "x_vector_only_mode", "token_count", "ref_text", "instructions"]
    assert names == [*told, "foo"]


def test_a_studio_without_takes_says_that_it_keeps_none(engine):
    client = TestClient(create_api(engine, Settings(max_takes=0, no_watermark=True)))
    answer = client.post("/v1/audio/speech", json=SHORT | {"store": True})
    assert answer.status_code == 200
    assert answer.headers["X-Ignored-Fields"] == "store" and "X-Take" not in answer.headers
    strict = client.post("/v1/audio/speech", json=SHORT | {"store": True, "strict": True})
    assert strict.json()["error"]["param"] == "store"


@pytest.mark.parametrize("fields", [{}, {"stream_format": "sse"}], ids=["whole", "events"])
def test_a_stored_result_is_found_among_the_takes(post, client, fields):
    answer = post(store=True, response_format="wav", **fields)
    take = client.get(f"/v1/audio/takes/{answer.headers['X-Take']}").json()
    assert take["seed"] == 1 and take["text"] == "Hi."
    client.delete(f"/v1/audio/takes/{answer.headers['X-Take']}")


def test_a_stretched_stream_is_the_stretched_whole(post):
    fields = {"speed": 1.7, "speed_mode": "stretch", "response_format": "pcm"}
    whole = post(**fields)
    assert whole.headers["X-Speed"] == "stretch"
    assert "X-Speaking-Rate-Bucket" not in whole.headers
    assert whole.content == post(**fields, stream=True).content
    usual = post(response_format="pcm").content
    assert len(whole.content) == pytest.approx(len(usual) / 1.7, abs=4)


def test_speed_without_limits_in_json_is_refused(client):
    """C36: NaN as Python writes it into JSON."""
    for text in ("NaN", "Infinity", "0.2", "4.1", "0", "-1", '"fast"'):
        body = json.dumps(SHORT)[:-1] + f', "speed": {text}}}'
        answer = client.post("/v1/audio/speech", content=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "speed")


# Marks ---------------------------------------------------------------------------------------


def test_speech_is_marked_unless_the_studio_says_otherwise(engine, post):
    marking = TestClient(create_api(engine, Settings()))
    whole = marking.post("/v1/audio/speech", json=SHORT)
    plain = post()
    assert whole.headers["X-AI-Generated"] == plain.headers["X-AI-Generated"] == "true"
    assert whole.headers["X-Marked"] == "watermark, metadata"
    assert "X-Marked" not in plain.headers
    assert b"AI-generated speech" in whole.content[:1000]
    samples = [
        np.frombuffer(body[body.index(b"data") + 8 :], "<i2").astype(int)
        for body in (whole.content, plain.content)
    ]
    added = samples[0] - samples[1]
    assert len(samples[0]) == len(samples[1]) and 0 < np.abs(added).max() < 4000
    pcm = SHORT | {"response_format": "pcm"}
    streamed = marking.post("/v1/audio/speech", json=pcm | {"stream": True})
    assert streamed.headers["X-Marked"] == "watermark"
    assert streamed.content == marking.post("/v1/audio/speech", json=pcm).content
    assert streamed.content == samples[0].astype("<i2").tobytes()
