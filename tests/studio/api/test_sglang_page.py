"""The requests of SGLang-Omni's ZONOS2 page as a reader runs them: with curl and with requests.

Only the port differs, and the recording: it lies in a media folder and on an allowed host.
"""

import json
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import requests
import soundfile

from studio.server import create_api
from studio.settings import Settings
from tests.studio.listening import read_by_ffmpeg

TEXT = "The train leaves at nine."
TRANSCRIPT = "The small boat is still tied to the pier."
SHORT = {"max_new_tokens": 25}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def places(recording, tmp_path_factory):
    """The recording, where the server may take it from: its folder, and by kind of place."""
    folder = tmp_path_factory.mktemp("media")
    (folder / "voice.wav").write_bytes(recording)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as files:
        Thread(target=files.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{files.server_port}/voice.wav"
        yield {"path": str(folder / "voice.wav"), "url": url}
        files.shutdown()


@pytest.fixture(scope="module")
def speech(engine, serving, places):
    """The address of a server that takes the recording from both places."""
    folder = Path(places["path"]).parent
    host = places["url"].split("/")[2]
    settings = Settings(no_watermark=True, media_root=folder, allow_media_host=(host,))
    with serving(create_api(engine, settings)) as address:
        yield f"{address}/v1/audio/speech"


@pytest.fixture
def curl(speech, tmp_path):
    """Run the page's curl command -> the folder it wrote into."""
    if not shutil.which("curl"):
        pytest.skip("curl is missing")

    def run(body, *options, output="output.wav"):
        command = ["curl", "-sS", *options, "-X", "POST", speech]
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        subprocess.run([*command, "--output", output], cwd=tmp_path, check=True, timeout=60)
        return tmp_path

    return run


@pytest.mark.parametrize("place", ["url", "path"])
def test_a_voice_is_cloned_by_references(curl, places, place):
    reference = {"audio_path": places[place], "text": TRANSCRIPT}
    folder = curl({"input": TEXT, "references": [reference]} | SHORT)
    samples, rate_hz = soundfile.read(folder / "output.wav")
    assert rate_hz == 44_100 and len(samples) > 10_000


def test_the_python_example(speech, places, tmp_path):
    body = {"input": TEXT, "ref_audio": places["url"], "ref_text": TRANSCRIPT} | SHORT
    response = requests.post(speech, json=body, timeout=60)
    response.raise_for_status()
    (tmp_path / "output.wav").write_bytes(response.content)
    assert soundfile.info(tmp_path / "output.wav").samplerate == 44_100
    assert response.headers["Content-Type"] == "audio/wav"
    assert response.headers["X-Ignored-Fields"] == "ref_text"  # what the page says of it
    assert response.headers["X-Finish-Reason"] == "length"
    for name in ("Prompt-Tokens", "Completion-Tokens", "Engine-Time"):
        assert float(response.headers[f"X-{name}"]) > 0
    assert response.headers["Content-Disposition"] == 'attachment; filename="speech.wav"'


def test_streamed_pcm_is_bare_samples_and_says_how_to_play_them(curl, places):
    body = {"input": TEXT, "ref_audio": places["url"], "ref_text": TRANSCRIPT}
    body |= {"response_format": "pcm", "stream": True}
    folder = curl(body | SHORT, "-D", "output.headers", output="output.pcm")
    headers = (folder / "output.headers").read_text().lower()
    for said in ("content-type: audio/pcm", "x-sample-rate: 44100", "x-channels: 1"):
        assert said in headers
    assert "x-bit-depth: 16" in headers and "transfer-encoding: chunked" in headers
    samples = np.frombuffer((folder / "output.pcm").read_bytes(), "<i2")
    assert len(samples) > 10_000 and np.abs(samples).max() > 500
    assert len(read_by_ffmpeg(samples.tobytes(), "pcm", 44_100)) == len(samples)


def test_a_data_uri_is_a_recording_too(speech, data_uri):
    body = {"input": TEXT, "ref_audio": data_uri, "ref_text": TRANSCRIPT} | SHORT
    assert requests.post(speech, json=body, timeout=60).status_code == 200


@pytest.mark.parametrize("language", ["Chinese", "Auto", "Russian", None])
def test_languages_of_the_page_are_accepted(speech, language):
    body = {"input": "今天天气不错。", "language": language, "max_new_tokens": 12}
    assert requests.post(speech, json=body, timeout=60).status_code == 200


def test_a_frame_budget_of_0_is_the_callers_mistake(speech):
    response = requests.post(speech, json={"input": "Hi.", "max_new_tokens": 0}, timeout=60)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "max_new_tokens")


def test_input_alone_is_enough(speech):
    assert requests.post(speech, json={"input": "Hi."}, timeout=60).status_code == 200
    health = requests.get(speech.replace("/v1/audio/speech", "/health"), timeout=60)
    assert "healthy" in health.text


def test_on_demand_only_pcm_is_streamed_as_the_page_says(speech):
    body = {"input": "Hi.", "max_new_tokens": 12, "stream": True, "strict": True}
    refused = requests.post(speech, json=body, timeout=60)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "response_format"
    body["response_format"] = "pcm"
    assert requests.post(speech, json=body, timeout=60).status_code == 200
