"""POST /v1/audio/dialogue: one sound, all files, or JSON; and what it refuses."""

from __future__ import annotations

import base64
import io
import json
import time
import zipfile

import numpy as np
import pytest

from studio.server import create_api
from studio.settings import Settings
from tests.studio.api.test_live import SOON_S, connect, is_idle, until

PATH = "/v1/audio/dialogue"
BODY = {
    "script": "Anna: Yes.\nBen: It cost $20.",
    "cast": {"Anna": "heart", "Ben": {"voice": "deep", "pronunciations": {"$20": "a lot"}}},
    "seed": 7,
}


@pytest.fixture(scope="module")
def archive(client) -> zipfile.ZipFile:
    answer = client.post(PATH, json=BODY | {"output": "zip"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="dialogue.zip"'
    return zipfile.ZipFile(io.BytesIO(answer.content))


def test_a_script_becomes_one_sound(client, wav, archive):
    answer = client.post(PATH, json=BODY | {"what": 1})
    assert answer.status_code == 200
    headers = answer.headers
    assert (headers["Content-Type"], headers["X-Seed"]) == ("audio/wav", "7")
    assert headers["X-Voice"] == "heart%2C%20deep"
    assert (headers["X-Ignored-Fields"], headers["X-AI-Generated"]) == ("what", "true")
    samples, rate_hz = wav(answer.content)
    assert float(headers["X-Audio-Duration"]) == pytest.approx(len(samples) / rate_hz, abs=1e-3)
    assert archive.read("mix.wav") == answer.content


def test_the_archive_holds_the_mix_a_file_a_line_the_subtitles_and_the_script(archive, wav):
    names = ["mix.wav", "lines/001-Anna.wav", "lines/002-Ben.wav"]
    assert archive.namelist() == [*names, "mix.srt", "mix.vtt", "script.json"]
    assert archive.testzip() is None
    srt, vtt = (archive.read(f"mix.{kind}").decode() for kind in ("srt", "vtt"))
    assert srt.startswith("1\n00:00:00,0") and "\nBen: It cost $20.\n" in srt
    assert vtt.startswith("WEBVTT\n") and "<v Anna>Yes.\n" in vtt
    script = json.loads(archive.read("script.json"))
    assert (script["seed"], script["cast"]) == (7, BODY["cast"])
    assert [turn["text"] for turn in script["turns"]] == ["Yes.", "It cost $20."]
    assert script["lines"][1]["file"] == names[2]
    line, _ = wav(archive.read(names[1]))
    mix, rate_hz = wav(archive.read("mix.wav"))
    first, last = (round(script["lines"][0][at] * rate_hz) for at in ("start", "end"))
    assert np.array_equal(mix[first + 500 : last], line[first + 500 : last])


@pytest.mark.slow
def test_its_script_gives_the_same_lines_again_and_one_seed_changes_one(client, archive, wav):
    script = json.loads(archive.read("script.json"))
    script["turns"][0]["seed"] += 1
    answer = client.post(PATH, json=script | {"output": "zip"})
    assert "X-Ignored-Fields" not in answer.headers
    other = zipfile.ZipFile(io.BytesIO(answer.content))
    assert other.read("lines/002-Ben.wav") == archive.read("lines/002-Ben.wav")
    assert other.read("lines/001-Anna.wav") != archive.read("lines/001-Anna.wav")


def test_json_has_the_sound_and_the_times(client, archive):
    answer = client.post(PATH, json=BODY | {"output": "json"})
    told = answer.json()
    assert base64.b64decode(told["audio"]) == archive.read("mix.wav")
    assert (told["format"], told["media_type"], told["seed"]) == ("wav", "audio/wav", 7)
    assert told["srt"] == archive.read("mix.srt").decode()
    first, second = told["lines"]
    assert (first["name"], first["voice"], first["turn"]) == ("Anna", "heart", 0)
    assert first["cues"] == [{"text": "Yes.", "start": first["start"], "end": first["end"]}]
    assert second["start"] - first["end"] == pytest.approx(0.35, abs=0.002)
    assert told["usage"]["output_tokens"] > 0 and told["warnings"] == []
    assert told["id"] == answer.headers["X-Request-ID"]


def test_the_mix_bears_the_marks(engine):
    from starlette.testclient import TestClient

    marked = TestClient(create_api(engine, Settings()), raise_server_exceptions=False)
    plain = {"script": "heart: Yes.", "seed": 1, "max_new_tokens": 12}
    answer = marked.post(PATH, json=plain)
    assert answer.headers["X-Marked"] == "watermark, metadata"
    assert b"AI-generated speech" in answer.content
    settings = Settings(no_watermark=True, no_metadata=True)
    unmarked = TestClient(create_api(engine, settings)).post(PATH, json=plain)
    assert unmarked.content[-20_000:] != answer.content[-20_000:]


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "script"),
        ({"script": 5}, 400, "script"),
        ({"turns": "heart: Hi."}, 400, "script"),
        ({"turns": [{"voice": "heart"}]}, 400, "turns[0].text"),
        ({"script": "heart: Hi.", "turns": []}, 400, "turns"),
        ({"script": "heart: Hi.", "cast": ["heart"]}, 400, "cast"),
        ({"script": "heart: Hi.", "pause_ms": -1}, 400, "pause_ms"),
        ({"script": "heart: Hi.", "pause_ms": True}, 400, "pause_ms"),
        ({"script": "heart: Hi.", "output": "tape"}, 400, "output"),
        ({"script": "heart: Hi.", "response_format": "tape"}, 400, "response_format"),
        ({"script": "heart: Hi.", "sample_rate": 1}, 400, "sample_rate"),
        ({"script": "heart: Hi.", "stream": True}, 400, "stream"),
        ({"script": "heart: Hi.", "seed": -2}, 400, "seed"),
        ({"script": "heart: Hi.", "store": True, "strict": True}, 400, "store"),
        ({"script": "heart: Hi.\nhart: Ho."}, 404, "turns[1].voice"),
        ({"turns": [{"voice": "heart", "text": "Hi.", "speed": 9}]}, 400, "turns[0].speed"),
        ({"turns": [{"text": "Hi.", "bitrate": 1}], "strict": True}, 400, "turns[0].bitrate"),
    ],
)
def test_what_is_wrong_is_refused_by_its_place(client, body, status, param):
    answer = client.post(PATH, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert error["message"].startswith((param, "strict: ", "script and turns "))


def test_the_route_is_documented(client):
    page = client.get("/openapi.json").json()
    operation = page["paths"][PATH]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) == {"script", "turns", "cast", "pause_ms", "output"}
    assert {"200", "400", "404", "429"} <= set(operation["responses"])
    for example in operation["requestBody"]["content"]["application/json"]["examples"].values():
        assert set(example["value"]) <= {*schema["properties"], "seed", "voice"}


def test_a_client_that_leaves_takes_all_lines_with_it(server, engine):
    script = "\n".join(
        f"heart: This is the line number {n} of a long dialogue." for n in range(120)
    )
    connection = connect(server)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", PATH, json.dumps({"script": script}), headers)
    until(lambda: engine.stats.num_live > 0)
    connection.sock.close()
    assert until(lambda: is_idle(engine)) < SOON_S
    time.sleep(0.1)
    assert is_idle(engine)
