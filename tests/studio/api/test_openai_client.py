"""The official OpenAI client, with nothing changed but the base URL."""

import base64
import io
import json

import av
import openai
import pytest

from studio.media.encode import FORMATS
from studio.server import create_api
from studio.settings import Settings
from tests.studio.api.test_live import LONG, SOON_S, is_idle, until

SHORT = {"max_new_tokens": 20, "seed": 3}
HEARD_S = 12 / 25  # of those 20 rows 8 are delay; a frame is 40 ms


@pytest.fixture(scope="module")
def sglang(server):
    """The door of SGLang-Omni's page: whole WAV files."""
    with openai.OpenAI(base_url=f"{server}/v1", api_key="anything") as client:
        yield client


@pytest.fixture(scope="module")
def ai(server):
    """The door with OpenAI's own defaults."""
    with openai.OpenAI(base_url=f"{server}/openai/v1", api_key="sk-anything") as client:
        yield client


def speak(client, **fields):
    usual = {"model": "tts-1", "voice": "alloy", "input": "Hello there.", "extra_body": SHORT}
    return client.audio.speech.create(**(usual | fields))


def decoded(data: bytes) -> tuple[str, float]:
    """Codec and seconds of a file."""
    with av.open(io.BytesIO(data)) as file:
        (stream,) = file.streams.audio
        num_samples = sum(frame.samples for frame in file.decode(stream))
        return stream.codec_context.name, num_samples / stream.codec_context.sample_rate


@pytest.mark.parametrize(
    ("model", "voice"), [("tts-1", "alloy"), ("tts-1-hd", "nova"), ("gpt-4o-mini-tts", "onyx")]
)
def test_the_plainest_call_gives_an_mp3(ai, model, voice):
    answer = ai.audio.speech.create(model=model, voice=voice, input="Hi.", extra_body=SHORT)
    assert answer.response.headers["Content-Type"] == "audio/mpeg"
    codec, duration_s = decoded(answer.content)
    assert codec.startswith("mp3") and duration_s == pytest.approx(HEARD_S, abs=0.12)
    assert "X-Ignored-Fields" not in answer.response.headers


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_six_formats_arrive_while_they_are_made(ai, name, tmp_path):
    fields = {"model": "gpt-4o-mini-tts", "voice": "coral", "input": "Hello there."}
    with ai.audio.speech.with_streaming_response.create(
        **fields, response_format=name, extra_body=SHORT
    ) as response:
        assert response.headers["Content-Type"] == FORMATS[name].media_type
        assert response.headers["Transfer-Encoding"] == "chunked"
        response.stream_to_file(tmp_path / f"speech.{name}")
    data = (tmp_path / f"speech.{name}").read_bytes()
    if name == "pcm":  # 24 kHz, as all clients of OpenAI take for granted
        assert len(data) / 48_000 == pytest.approx(HEARD_S, abs=0.001)
    else:
        assert decoded(data)[1] == pytest.approx(HEARD_S, abs=0.12)


def test_wav_and_pcm_of_the_other_door_are_whole_files(sglang, engine, wav, tmp_path):
    answer = speak(sglang, response_format="wav")
    samples, rate_hz = wav(answer.content)
    assert rate_hz == 44_100 and len(samples) == 12 * engine.codec.hop
    assert speak(sglang, response_format="pcm").content == answer.content[44:]
    assert answer.response.headers["Content-Length"] == str(len(answer.content))
    answer.write_to_file(tmp_path / "speech.wav")
    assert (tmp_path / "speech.wav").read_bytes() == answer.content


def test_events_carry_the_samples_of_the_stream(ai):
    fields = {"response_format": "pcm"}
    plain = speak(ai, **fields).content
    answer = speak(ai, **fields, stream_format="sse")
    assert answer.response.headers["Content-Type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    *deltas, done = (json.loads(line.removeprefix("data: ")) for line in lines)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == plain
    assert [delta["index"] for delta in deltas] == list(range(len(deltas)))
    assert deltas[0]["sample_rate"] == 24_000 and deltas[0]["response_format"] == "pcm"
    assert done["type"] == "speech.audio.done" and done["seed"] == 3
    usage = done["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["output_tokens"] == 12 and done["duration"] == pytest.approx(HEARD_S, abs=0.01)
    assert done["finish_reason"] == "length"


def test_a_voice_object_the_usual_speed_and_more_fields(sglang):
    extra = SHORT | {"temperature": 0.7, "language": "English", "foo": 1}
    answer = speak(
        sglang, voice={"id": "heart"}, speed=1.0, instructions="calmly", extra_body=extra
    )
    headers = answer.response.headers
    assert headers["X-Ignored-Fields"] == "instructions, foo"
    assert (headers["X-Voice"], headers["X-Model"], headers["X-Seed"]) == ("heart", "nano", "3")
    assert "X-Speed" not in headers
    assert headers["X-Completion-Tokens"] == "12" and int(headers["X-Prompt-Tokens"]) > 12


def test_a_speed_is_followed(sglang):
    """C36: half and double the pace differ by 2.5 to 6 times."""
    text = "Count one two three four five."
    answers = [
        speak(sglang, input=text, speed=speed, extra_body={"seed": 3}) for speed in (0.5, 2.0)
    ]
    slow_s, fast_s = (float(answer.response.headers["X-Audio-Duration"]) for answer in answers)
    assert 2.5 < slow_s / fast_s < 6
    ways = [answer.response.headers["X-Speed"] for answer in answers]
    assert ways == ["condition+stretch"] * 2
    buckets = [answer.response.headers["X-Speaking-Rate-Bucket"] for answer in answers]
    assert buckets == ["1", "6"]
    decoded_s = [decoded(answer.content)[1] for answer in answers]
    assert decoded_s == pytest.approx([slow_s, fast_s], abs=0.001)


@pytest.mark.parametrize(
    ("fields", "error", "param", "code"),
    [
        ({"input": ""}, openai.BadRequestError, "input", "invalid_value"),
        ({"speed": 5.0}, openai.BadRequestError, "speed", "invalid_value"),
        ({"response_format": "ogg"}, openai.BadRequestError, "response_format", "unsupported_for"),
        ({"voice": "nobody"}, openai.NotFoundError, "voice", "voice_not_found"),
        ({"extra_body": {"ref_audio": "?"}}, openai.BadRequestError, "ref_audio", "invalid_ref"),
    ],
)
@pytest.mark.parametrize("door", ["ai", "sglang"])
def test_mistakes_are_the_clients_own_error_classes(request, door, fields, error, param, code):
    with pytest.raises(error) as caught:
        speak(request.getfixturevalue(door), **fields)
    assert caught.value.param == param and caught.value.code.startswith(code)
    assert caught.value.request_id
    assert param in str(caught.value)


def test_other_refusals_have_their_classes_too(engine, serving, data_uri):
    strict = Settings(
        require_consent=True, strict_model=True, api_key=("a-key-of-16-letters",), no_watermark=True
    )
    with serving(create_api(engine, strict)) as address:
        base = f"{address}/openai/v1"
        with openai.OpenAI(base_url=base, api_key="a-key-of-16-letters") as known:
            with pytest.raises(openai.PermissionDeniedError) as caught:
                speak(known, extra_body=SHORT | {"ref_audio": data_uri})
            assert caught.value.code == "consent_required"
            with pytest.raises(openai.NotFoundError) as caught:
                speak(known, model="gpt-9")
            assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
            told = SHORT | {"ref_audio": data_uri, "consent": "The speaker is me."}
            assert speak(known, extra_body=told).content
        with (
            openai.OpenAI(base_url=base, api_key="unknown") as stranger,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            speak(stranger)
        assert caught.value.code == "invalid_api_key"


def test_a_mistake_is_sent_once(ai, monkeypatch):
    sent = []
    send = ai._client.send
    monkeypatch.setattr(ai._client, "send", lambda *a, **k: sent.append(1) or send(*a, **k))
    for fields in ({"input": ""}, {"voice": "nobody"}, {"speed": 9.0}):
        with pytest.raises(openai.APIStatusError):
            speak(ai, **fields)
    assert len(sent) == 3


def test_an_id_in_use_is_a_conflict_and_not_retried(ai, engine, monkeypatch):
    named = {"X-Request-ID": "twice"}
    fields = {"model": "tts-1", "voice": "alloy", "input": LONG}
    with ai.audio.speech.with_streaming_response.create(**fields, extra_headers=named) as first:
        pieces = first.iter_bytes(100)  # dropping it would close the connection
        assert next(pieces)
        sent = []
        send = ai._client.send
        monkeypatch.setattr(ai._client, "send", lambda *a, **k: sent.append(1) or send(*a, **k))
        with pytest.raises(openai.ConflictError) as caught:
            speak(ai, extra_headers=named)
        assert caught.value.code == "request_id_in_use" and len(sent) == 1
    until(lambda: is_idle(engine))


def test_closing_in_the_middle_frees_the_slot(ai, engine):
    fields = {"model": "tts-1", "voice": "alloy", "input": LONG}
    with ai.audio.speech.with_streaming_response.create(**fields) as response:
        pieces = response.iter_bytes(100)
        assert next(pieces)
        until(lambda: engine.stats.num_live == 1)
    assert until(lambda: is_idle(engine)) < SOON_S, "the slot is still taken"


def test_models_are_listed_at_both_doors(ai, sglang):
    for client in (ai, sglang):
        assert "tts-1" in [model.id for model in client.models.list()]
        assert client.models.retrieve("Zyphra/ZONOS2").object == "model"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-9")
