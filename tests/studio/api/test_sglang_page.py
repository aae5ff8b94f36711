"""The requests of SGLang-Omni's ZONOS2 page, in the words a script would use, but for the port."""

import httpx
import numpy as np
import pytest

TEXT = "Good morning, the train leaves at nine."


@pytest.fixture
def speech(server):
    return f"{server}/v1/audio/speech"


@pytest.mark.parametrize("shape", ["references", "ref_audio"])
def test_a_data_uri_gives_a_wav_file(speech, data_uri, wav, shape):
    given = [{"audio_path": data_uri}] if shape == "references" else data_uri
    body = {"model": "Zyphra/zonos2", "input": TEXT, shape: given, "response_format": "wav"}
    response = httpx.post(speech, json=body | {"max_new_tokens": 25}, timeout=60)
    response.raise_for_status()
    samples, rate_hz = wav(response.content)
    assert rate_hz == 44_100 and len(samples) > 10_000
    assert response.headers["Content-Type"] == "audio/wav"
    assert "X-Ignored-Fields" not in response.headers


@pytest.mark.parametrize("shape", ["references", "ref_audio"])
def test_streamed_pcm_says_how_to_play_it(speech, data_uri, shape):
    given = [{"audio_path": data_uri}] if shape == "references" else data_uri
    body = {"input": TEXT, shape: given, "stream": True, "response_format": "pcm"}
    with httpx.stream("POST", speech, json=body | {"max_new_tokens": 25}, timeout=60) as response:
        response.raise_for_status()
        assert response.headers["Content-Type"] == "audio/pcm"
        assert response.headers["X-Sample-Rate"] == "44100"
        assert response.headers["X-Channels"] == "1"
        assert response.headers["X-Bit-Depth"] == "16"
        samples = np.frombuffer(b"".join(response.iter_bytes()), "<i2")
    assert len(samples) > 10_000


@pytest.mark.parametrize("language", ["Chinese", "Auto", "Russian", None])
def test_languages_of_the_page_are_accepted(speech, language):
    body = {"input": "Hi.", "language": language, "max_new_tokens": 12}
    assert httpx.post(speech, json=body, timeout=60).status_code == 200


def test_a_frame_budget_of_0_is_the_callers_mistake(speech):
    response = httpx.post(speech, json={"input": "Hi.", "max_new_tokens": 0})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "max_new_tokens")


def test_input_alone_is_enough(speech, server):
    assert httpx.post(speech, json={"input": "Hi."}, timeout=60).status_code == 200
    assert "healthy" in httpx.get(f"{server}/health").text
