import base64
import io
import json
import struct
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from engine import NotFound, Sampling, SpeechRequest
from studio.api.schemas import SpeechBody
from studio.api.spellings import NAMES
from studio.media.pcm import to_int16
from studio.server import create_api
from studio.settings import Settings
from tests.studio.conftest import UNMARKED

# Ten frames are the shortest sound: nine rows of delay and one.
SHORT = {"input": "Hi.", "seed": 1, "max_new_tokens": 12}


@pytest.fixture
def post(client):
    def send(body, **headers):
        return client.post("/v1/audio/speech", content=json.dumps(body), headers=headers)

    return send


def error_of(response) -> dict:
    """The checked error body."""
    body = response.json()
    error = body["error"]
    assert set(body) == {"error", "detail"} and set(error) == {"message", "type", "param", "code"}
    assert body["detail"] == error["message"] and error["message"].endswith(".")
    assert isinstance(error["code"], str) and isinstance(error["type"], str)
    assert "Traceback" not in response.text and "/site-packages" not in response.text
    assert response.headers["X-Request-ID"]
    return error


def test_wav_is_the_engines_own_samples_with_their_exact_size(post, engine, wav):
    response = post({"input": "Hi.", "seed": 7, "voice": "heart"})
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "audio/wav"
    assert int(response.headers["Content-Length"]) == len(response.content)
    samples, rate_hz = wav(response.content)
    spoken, engine_rate_hz = engine.speak("Hi.", voice="heart", seed=7).read()
    assert rate_hz == engine_rate_hz == 44_100
    np.testing.assert_array_equal(samples, to_int16(spoken))
    headers = response.headers
    assert headers["X-Seed"] == "7"
    assert headers["X-Finish-Reason"] == "stop"
    assert float(headers["X-Audio-Duration"]) == pytest.approx(len(samples) / rate_hz, abs=1e-3)
    assert float(headers["X-RTF"]) > 0 and float(headers["X-Queue-Ms"]) >= 0
    assert headers["Cache-Control"] == "no-store"


def test_pcm_is_the_wav_without_its_header_whole_or_streamed(post):
    whole = post(SHORT)
    bare = post(SHORT | {"response_format": "pcm"})
    streamed = post(SHORT | {"response_format": "PCM", "stream": True})
    streamed_wav = post(SHORT | {"stream": True})
    assert bare.headers["Content-Type"] == streamed.headers["Content-Type"] == "audio/pcm"
    assert int(bare.headers["Content-Length"]) == len(bare.content)
    assert "Content-Length" not in streamed.headers
    assert whole.content[44:] == bare.content == streamed.content == streamed_wav.content[44:]
    assert struct.unpack("<4sI4s", streamed_wav.content[:12]) == (b"RIFF", 0xFFFFFFFF, b"WAVE")
    for response in (whole, bare, streamed, streamed_wav):
        headers = response.headers
        said = [headers[f"X-{name}"] for name in ("Sample-Rate", "Channels", "Bit-Depth", "Seed")]
        assert said == ["44100", "1", "16", "1"]


def test_the_end_can_be_faded_whole_or_streamed(post, wav):
    body = {"input": "Hello.", "seed": 3}
    plain, rate_hz = wav(post(body).content)
    faded, _ = wav(post(body | {"fade_out_ms": 200}).content)
    streamed = post(body | {"fade_out_ms": 200, "stream": True, "response_format": "pcm"}).content
    num_faded = round(0.2 * rate_hz)
    assert len(faded) == len(plain) and faded.tobytes() == streamed
    assert np.array_equal(faded[:-num_faded], plain[:-num_faded])
    assert faded[-1] == 0 and not np.array_equal(faded, plain)
    assert post(body | {"fade_out_ms": 3000}).json()["error"]["param"] == "fade_out_ms"


def test_a_drawn_seed_is_told_and_gives_the_same_bytes_again(post):
    first = post({"input": "Hi.", "max_new_tokens": 12, "seed": None})
    assert post(SHORT | {"seed": int(first.headers["X-Seed"])}).content == first.content
    assert post({"input": "Hi.", "max_new_tokens": 12, "seed": -1}).status_code == 200


def test_every_field_reaches_the_engine(client, engine, monkeypatch):
    asked: list[SpeechRequest] = []
    submit = engine.submit
    monkeypatch.setattr(engine, "submit", lambda wish, *_: asked.append(wish) or submit(wish))
    body = {
        "input": "Hi.",
        "voice": {"id": "heart"},
        "language": "pt-BR",
        "temperature": 0.5,
        "topk": 7,
        "top_p": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.5,
        "repetition_window": 9,
        "repetition_codebooks": -1,
        "seed": 4,
        "max_tokens": 12,
        "speaking_rate_bucket": 3,
        "quality_buckets": [1],
    }
    assert client.post("/v1/audio/speech", json=body, headers={"X-Request-ID": "me-1"}).is_success
    (wish,) = asked
    assert wish.sampling == Sampling(0.5, 7, 0.9, 0.05, 1.5, 9, -1)
    assert (wish.text, wish.language, wish.seed) == ("Hi.", "pt_br", 4)
    assert (wish.max_new_frames, wish.request_id) == (12, "me-1")
    assert wish.delivery.speaking_rate_bucket == 3
    assert wish.delivery.quality_buckets == {"trailing_silence_s": 1}
    assert wish.speaker is engine.voices["heart"]


@pytest.mark.parametrize("voice", [None, "default", "", "alloy", "Cedar", {"id": "nova"}])
def test_the_default_voice_has_many_names(post, voice):
    assert post(SHORT | {"voice": voice}).content == post(SHORT).content


def test_stock_names_can_stand_for_chosen_voices(engine):
    client = TestClient(create_api(engine, replace(UNMARKED, stock_voice=(("alloy", "deep"),))))

    def spoken(voice):
        body = SHORT | {"max_new_tokens": 40, "voice": voice}
        return client.post("/v1/audio/speech", json=body).content

    assert spoken("Alloy") == spoken("deep") != spoken("echo")


def test_a_stock_name_for_a_voice_that_does_not_exist_is_told_at_the_start(engine):
    with pytest.raises(NotFound, match="nobody"):
        create_api(engine, Settings(stock_voice=(("alloy", "nobody"),)))


@pytest.mark.parametrize(
    "reference",
    [
        lambda uri: {"references": [{"audio_path": uri}]},
        lambda uri: {"references": [{"data": uri.partition(",")[2], "media_type": "audio/wav"}]},
        lambda uri: {"ref_audio": uri, "voice": "alloy"},
        lambda uri: {"ref_audio": uri.partition(",")[2], "voice": "default"},
    ],
)
def test_a_reference_changes_the_voice(post, data_uri, reference):
    response = post(SHORT | reference(data_uri))
    assert response.status_code == 200
    assert response.content != post(SHORT).content
    assert response.content == post(SHORT | {"ref_audio": data_uri}).content


def test_a_reference_comes_from_the_media_folder_or_an_allowed_host(
    engine, recording, tmp_path, post, data_uri
):
    (tmp_path / "voice.wav").write_bytes(recording)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as files:
        Thread(target=files.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{files.server_port}"
        settings = replace(UNMARKED, media_root=tmp_path, allow_media_host=(host,))
        opened = TestClient(create_api(engine, settings))
        expected = post(SHORT | {"ref_audio": data_uri}).content
        for place in ("voice.wav", str(tmp_path / "voice.wav"), f"http://{host}/voice.wav"):
            body = SHORT | {"references": [{"audio_path": place}]}
            assert opened.post("/v1/audio/speech", json=body).content == expected
        files.shutdown()


def test_a_reference_gets_its_warnings_told(post, recording, wav):
    samples, rate_hz = wav(recording)
    file = io.BytesIO()
    soundfile.write(file, samples[: int(1.8 * rate_hz)], rate_hz, format="WAV")
    response = post(SHORT | {"ref_audio": base64.b64encode(file.getvalue()).decode()})
    assert "short" in response.headers["X-Warnings"]


UNREADABLE = "invalid_reference_audio"
BAD_REQUESTS = [
    ({"input": ""}, 400, "input", "invalid_value", "some words"),
    ({"input": " \n\t"}, 400, "input", "invalid_value", "some words"),
    ({"input": "...!"}, 400, "input", "invalid_value", "some words"),
    ({"input": None}, 400, "input", "missing_required_parameter", "missing"),
    ({"input": "\ud800"}, 400, "input", "invalid_value", "some words"),
    ({"input": "x" * 50_001}, 400, "input", "string_above_max_length", "50000"),
    ({"temperature": 9}, 400, "temperature", "invalid_value", "0 to 2"),
    ({"top_k": True}, 400, "top_k", "invalid_value", "True"),
    ({"min_p": float("nan")}, 400, "min_p", "invalid_value", "nan"),
    ({"seed": 2**32}, 400, "seed", "invalid_value", "4294967295"),
    ({"seed": 1.5}, 400, "seed", "invalid_value", "1.5"),
    ({"max_new_tokens": 0}, 400, "max_new_tokens", "invalid_value", "from 1"),
    ({"max_new_tokens": 3}, 400, "max_new_tokens", "invalid_value", "ask for more"),
    ({"voice": "nobody"}, 404, "voice", "voice_not_found", "heart"),
    ({"language": "Klingon"}, 400, "language", "invalid_value", "German"),
    ({"response_format": "ogg"}, 400, "response_format", "unsupported_format", "wav, mp3"),
    ({"speed": 4.1}, 400, "speed", "invalid_value", "0.25 to 4"),
    ({"speed": 2, "speaking_rate": 9}, 400, "speed", "conflicting_fields", "one of them"),
    ({"speaking_rate_bucket": 8}, 400, "speaking_rate_bucket", "invalid_value", "0 to 7"),
    ({"speaking_rate_bucket": 1.5}, 400, "speaking_rate_bucket", "invalid_value", "whole"),
    ({"speaking_rate": 0}, 400, "speaking_rate", "invalid_value", "above 0"),
    ({"quality_buckets": "best"}, 400, "quality_buckets", "invalid_value", "trailing_silence_s"),
    ({"quality_buckets": {"x": 1}}, 400, "quality_buckets", "invalid_value", "trailing_silence_s"),
    ({"accurate_mode": False}, 400, "accurate_mode", "unsupported_parameter", "no control"),
    ({"ref_audio": "data:;base64,AAAA"}, 400, "ref_audio", UNREADABLE, "WAV"),
    ({"ref_audio": ""}, 400, "ref_audio", UNREADABLE, "empty"),
    ({"ref_audio": "?!"}, 400, "ref_audio", UNREADABLE, "base64"),
    ({"ref_audio": "../a.wav"}, 400, "ref_audio", UNREADABLE, "--media-root"),
    ({"ref_audio": "http://127.0.0.1:9/a.wav"}, 400, "ref_audio", UNREADABLE, "public"),
    ({"voice": "deep", "ref_audio": "AAAA"}, 400, "ref_audio", "conflicting_fields", "one of"),
    ({"strict": True, "foo": 1}, 400, "foo", "unknown_field", "foo"),
    ({"strict": True, "model": "gpt-9"}, 400, "model", "unknown_field", "model"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "status", "param", "code", "says"), BAD_REQUESTS)
def test_a_users_mistake_is_one_clear_sentence(post, fields, status, param, code, says):
    response = post({"input": "Hi."} | fields)
    error = error_of(response)
    assert (response.status_code, error["param"], error["code"]) == (status, param, code)
    assert says in error["message"] and len(error["message"]) < 400


@pytest.mark.parametrize("name", [name for name in SpeechBody.model_fields if name != "strict"])
@pytest.mark.parametrize(
    "value", [10**400, -(10**400), float("inf")], ids=["huge", "minus_huge", "infinite"]
)
def test_no_number_is_too_large_to_be_refused(post, name, value):
    if name == "max_new_tokens" and value == 10**400:
        return  # a frame budget has no upper limit
    response = post({"input": "Hi."} | {name: value})
    assert response.status_code == 400
    assert len(error_of(response)["message"]) < 400


def test_after_every_mistake_the_next_request_works(post, engine):
    for fields, *_ in BAD_REQUESTS[::4]:
        assert post({"input": "Hi."} | fields).status_code >= 400
    assert post(SHORT).status_code == 200
    assert engine.stats.num_live == engine.stats.num_waiting == 0


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b"", "application/json", 400, "invalid_json"),
        (b"{bad", "application/json", 400, "invalid_json"),
        (b'{"input": "\xff"}', "application/json", 400, "invalid_json"),
        (b"[" * 100_000, "application/json", 400, "invalid_json"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "application/json", 400, "invalid_json"),
        (b"[1]", "application/json", 400, "invalid_json"),
        (b'"text"', "application/json; charset=utf-8", 400, "invalid_json"),
        (b"null", "application/json", 400, "invalid_json"),
        (b"input=Hi.", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"Hi.", "text/plain", 415, "unsupported_media_type"),
    ],
)
def test_bodies_that_are_no_json_object(client, content, kind, status, code):
    response = client.post("/v1/audio/speech", content=content, headers={"Content-Type": kind})
    assert (response.status_code, error_of(response)["code"]) == (status, code)


def test_a_body_without_a_content_type_is_taken_as_json(client):
    response = client.post("/v1/audio/speech", content=json.dumps(SHORT))
    assert response.status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_told_the_right_one(client, method):
    response = client.request(method, "/v1/audio/speech")
    assert response.status_code == 405 and response.headers["Allow"] == "POST"
    assert error_of(response)["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/v1/audio/nothing", "/v1/x", "/nothing"])
def test_unknown_paths_have_the_envelope(client, path):
    response = client.get(path)
    assert (response.status_code, error_of(response)["code"]) == (404, "not_found")


def test_ignored_fields_are_named_and_their_names_cannot_break_the_header(post):
    response = post(SHORT | {"instructions": "calm", "user": "u", "a\r\nX-Evil: 1": 1, "ä": 2})
    assert response.status_code == 200
    assert response.headers["X-Ignored-Fields"] == "instructions, a%0D%0AX-Evil%3A%201, %C3%A4"
    assert "X-Evil" not in response.headers
    many = post(SHORT | {f"field_{index}": index for index in range(1000)})
    assert len(many.headers["X-Ignored-Fields"]) < 400


@pytest.mark.parametrize("model", ["zonos2", "Zyphra/ZONOS2", "tts-1", "nano", None])
def test_the_model_answers_to_many_names(post, model):
    assert "X-Ignored-Fields" not in post(SHORT | {"model": model}).headers


def test_an_unknown_model_name_is_reported(post):
    assert post(SHORT | {"model": "tts-9"}).headers["X-Ignored-Fields"] == "model"


def test_the_clients_request_id_is_kept_if_it_is_sane(post):
    assert post(SHORT, **{"X-Request-ID": "job.7"}).headers["X-Request-ID"] == "job.7"
    for insane in ("", "a b", "x" * 65, '"><script>'):
        given = post({}, **{"X-Request-ID": insane}).headers["X-Request-ID"]
        assert given != insane and len(given) == 32


def test_a_fault_of_ours_says_nothing_about_itself(client, engine, monkeypatch):
    def fail(wish):
        raise RuntimeError("a secret")

    monkeypatch.setattr(engine, "submit", fail)
    response = client.post("/v1/audio/speech", json=SHORT, headers={"X-Request-ID": "id-7"})
    assert response.status_code == 500
    assert error_of(response)["code"] == "internal_error"
    assert "id-7" in response.text and "secret" not in response.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
ANY_NAME = st.sampled_from(NAMES) | st.text(max_size=10)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(ANY_NAME, JSON, min_size=1, max_size=3))
def test_no_json_in_any_field_is_a_fault_of_ours(post, fields):
    response = post(SHORT | {"stream": False} | fields)
    if response.status_code == 200:
        assert len(response.content) > 44
    else:
        assert response.status_code in (400, 404)
        assert error_of(response)["param"]


def test_the_documentation_describes_the_route_and_its_examples_run(client, post):
    page = client.get("/openapi.json").json()
    route = page["paths"]["/v1/audio/speech"]["post"]
    body = route["requestBody"]["content"]["application/json"]
    schemas = page["components"]["schemas"]
    properties = schemas["SpeechBody"]["properties"]
    assert set(properties) == set(SpeechBody.model_fields)
    assert all("description" in field for field in properties.values())
    assert properties["top_k"]["maximum"] == 1026
    for reference in _references(page):
        assert reference.removeprefix("#/components/schemas/") in schemas
    for example in body["examples"].values():
        response = post(example["value"] | {"max_new_tokens": 12})
        assert response.status_code == 200 and "X-Ignored-Fields" not in response.headers
    assert client.get("/docs").status_code == 200


def _references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from _references(item)
