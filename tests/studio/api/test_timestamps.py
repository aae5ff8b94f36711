"""When what is said, with the sound and in the events of a stream."""

from __future__ import annotations

import base64
import json

import pytest

PATH = "/v1/audio/speech/with-timestamps"
BODY = {"input": "Yes, 2 do.", "pronunciations": {"2": "not all"}, "seed": 3}


@pytest.fixture(scope="module")
def both(client) -> dict:
    answer = client.post(PATH, json=BODY | {"timestamp_granularities": ["word", "chunk"]})
    assert (answer.status_code, answer.headers["X-Seed"]) == (200, "3")
    return answer.json()


def test_the_sound_comes_with_its_sentences(client, both):
    told = both
    sound = client.post("/v1/audio/speech", json=BODY)
    assert base64.b64decode(told["audio"]) == sound.content
    assert (told["format"], told["seed"], told["sample_rate"]) == ("wav", 3, 44_100)
    assert told["duration"] == float(sound.headers["X-Audio-Duration"])
    only = told["timestamps"][0]
    assert (only["granularity"], only["text"], only["chunk"]) == ("chunk", BODY["input"], 0)
    assert 0 <= only["start"] < only["end"] < told["duration"]


def test_words_lie_within_their_sentence_also_where_the_sound_was_stretched(client, both):
    wished = {"timestamps": "word", "speed": 1.6, "speed_mode": "stretch"}
    faster = client.post(PATH, json=BODY | wished).json()["timestamps"]
    chunk, *words = both["timestamps"]
    assert faster[-1]["end"] == pytest.approx(words[-1]["end"] / 1.6, abs=0.002)
    assert [word["text"] for word in words] == ["Yes,", "not", "all", "do."]
    assert words[0]["start"] == chunk["start"] and words[-1]["end"] == pytest.approx(
        chunk["end"], abs=0.002
    )
    assert all(word["start"] < word["end"] for word in words)


def test_events_tell_the_times_once_they_are_known(client, both):
    body = BODY | {"stream_format": "sse", "response_format": "pcm", "timestamps": "word"}
    events = [
        json.loads(line.removeprefix("data: "))
        for line in client.post("/v1/audio/speech", json=body).text.splitlines()
        if line.startswith("data: ")
    ]
    kinds = [event["type"].removeprefix("speech.audio.") for event in events]
    assert kinds[0] == "delta" and kinds[-1] == "done" and kinds.count("timestamps") == 1
    told = events[kinds.index("timestamps")]
    assert told["granularity"] == "word"
    assert [{"granularity": "word", **item} for item in told["items"]] == both["timestamps"][1:]


def test_events_are_as_before_where_nobody_asks(client):
    body = BODY | {"stream_format": "sse", "timestamps": "none", "max_new_tokens": 12}
    assert "speech.audio.timestamps" not in client.post("/v1/audio/speech", json=body).text


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (PATH, {"timestamps": "letter"}, "timestamps"),
        (PATH, {"timestamp_granularities": ["word", 1]}, "timestamp_granularities"),
        (PATH, {"stream": True}, "stream"),
        (PATH, {"voice": "hart"}, "voice"),
        ("/v1/audio/speech", {"timestamp_granularities": 7}, "timestamp_granularities"),
        ("/v1/audio/speech", {"timestamps": "word", "strict": True}, "timestamps"),
    ],
)
def test_what_is_wrong_is_refused_by_name(client, path, body, param):
    error = client.post(path, json=BODY | body).json()["error"]
    assert error["param"] == param and error["message"].startswith(("strict", param))


def test_a_plain_sound_has_no_place_for_times(client):
    answer = client.post(
        "/v1/audio/speech", json=BODY | {"timestamps": "word", "max_new_tokens": 12}
    )
    assert answer.headers["X-Ignored-Fields"] == "timestamps"
