"""The official OpenAI client, with nothing changed but the base URL."""

import openai
import pytest

SHORT = {"max_new_tokens": 20, "seed": 3}


@pytest.fixture(scope="module")
def ai(server):
    with openai.OpenAI(base_url=f"{server}/v1", api_key="anything") as client:
        yield client


@pytest.fixture
def create(ai):
    def speak(**fields):
        usual = {"model": "tts-1", "voice": "alloy", "input": "Hello there.", "extra_body": SHORT}
        return ai.audio.speech.create(**(usual | fields))

    return speak


def test_wav_and_pcm(create, engine, wav, tmp_path):
    answer = create(response_format="wav")
    samples, rate_hz = wav(answer.content)
    assert rate_hz == 44_100 and len(samples) == 12 * engine.codec.hop
    assert create(response_format="pcm").content == answer.content[44:]
    answer.write_to_file(tmp_path / "speech.wav")
    assert (tmp_path / "speech.wav").read_bytes() == answer.content


def test_streaming_response(ai, engine):
    with ai.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts",
        voice="coral",
        input="Hello there.",
        response_format="pcm",
        extra_body=SHORT | {"stream": True},
    ) as response:
        assert response.headers["X-Sample-Rate"] == "44100"
        assert sum(map(len, response.iter_bytes(4096))) == 2 * 12 * engine.codec.hop


def test_a_voice_object_and_the_usual_speed(create):
    answer = create(response_format="wav", voice={"id": "heart"}, speed=1.0, instructions="calmly")
    assert answer.response.headers["X-Ignored-Fields"] == "instructions"


@pytest.mark.parametrize(
    ("fields", "error", "param", "code"),
    [
        ({"input": ""}, openai.BadRequestError, "input", "invalid_value"),
        ({"speed": 5.0}, openai.BadRequestError, "speed", "invalid_value"),
        (
            {"response_format": "mp3"},
            openai.BadRequestError,
            "response_format",
            "unsupported_format",
        ),
        ({"voice": "nobody"}, openai.NotFoundError, "voice", "voice_not_found"),
    ],
)
def test_mistakes_are_the_clients_own_error_classes(create, fields, error, param, code):
    with pytest.raises(error) as caught:
        create(**({"response_format": "wav"} | fields))
    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.request_id
    assert param in str(caught.value)


def test_a_mistake_is_sent_once(ai, create, monkeypatch):
    sent = []
    send = ai._client.send
    monkeypatch.setattr(ai._client, "send", lambda *a, **k: sent.append(1) or send(*a, **k))
    with pytest.raises(openai.BadRequestError):
        create(input="", response_format="wav")
    assert len(sent) == 1


def test_models_are_listed(ai):
    assert "tts-1" in [model.id for model in ai.models.list()]
    assert ai.models.retrieve("Zyphra/ZONOS2").object == "model"
