"""The release as its users meet it, on a shadow of it: by command from a hub, and by route."""

from __future__ import annotations

import base64
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

from engine import Engine, SpeechRequest
from engine.hub import CODEC_REPOSITORY, ENCODER_REPOSITORY, PINNED
from studio.server import create_api
from studio.settings import Settings
from tests.shadow.hub import fake_hub
from tests.shadow.release import (
    QUALITY_BUCKETS,
    make_codec,
    make_emotions,
    make_encoder,
    make_release,
)

REPOSITORY = Path(__file__).resolve().parents[2]
NANO = REPOSITORY / "assets" / "nano"
RELEASE = "Zyphra/ZONOS2"
# 20 frames are heard of these 28: the last 8 complete the delayed codes.
BODY = {"input": "Hello.", "seed": 1, "max_new_tokens": 28}
CONTROLS: tuple[dict[str, Any], ...] = (
    {"speed": 2.0},
    {"speaking_rate": 9.0},
    {"speaking_rate_bucket": 7},
    {"accurate_mode": False},
    {"clean_speaker_background": True},
    *({"quality_buckets": {name: 0}} for name in QUALITY_BUCKETS),
    {"quality_values": {"lufs": -40.0}},
    {"quality_values": {"estimated_snr": 50.0}},
)


def recording() -> bytes:
    """A WAV file of two seconds of a buzzing voice."""
    times_s = np.arange(48_000) / 24_000
    tones = sum(np.sin(2 * np.pi * 120 * k * times_s) / k for k in range(1, 20))
    file = io.BytesIO()
    soundfile.write(file, 0.1 * tones * (1.2 + np.sin(9 * times_s)), 24_000, format="WAV")
    return file.getvalue()


def test_the_command_fetches_it_from_a_hub_and_speaks_like_a_recording(tmp_path: Path) -> None:
    reference, out = tmp_path / "reference.wav", tmp_path / "said.wav"
    reference.write_bytes(recording())

    def say(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable, "app.py", "say", "Hello.", "--model", RELEASE, "--device", "cpu",
                "--reference", str(reference), "--seed", "2", "--out", str(out),
            ],
            cwd=REPOSITORY,
            env={**os.environ, "HF_HOME": str(tmp_path / "home"), **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )  # fmt: skip

    cold = say(HF_HUB_OFFLINE="1")
    assert cold.returncode == 2
    assert f"hf download {RELEASE} --revision {PINNED[RELEASE]}" in cold.stderr
    with fake_hub() as hub:
        hub.add(RELEASE, make_release(tmp_path / "a", has_codec=False, has_encoder=False))
        hub.repositories[RELEASE].commit = PINNED[RELEASE]
        hub.add(CODEC_REPOSITORY, make_codec(tmp_path / "b"))
        hub.add(ENCODER_REPOSITORY, make_encoder(tmp_path / "c"))
        online = say(HF_HUB_OFFLINE="0", HF_ENDPOINT=hub.url)
    assert online.returncode == 0, online.stderr
    assert re.match(r"seed 2, \d+\.\d\d s, rtf ", online.stdout)
    assert (
        len(re.findall(r"model\.\w+: sha256 [0-9a-f]{64}, as the hub promises", online.stderr)) == 3
    )
    assert soundfile.info(out).samplerate == 44_100


@pytest.fixture(scope="module")
def shadow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = make_release(tmp_path_factory.mktemp("release"), ends=False)
    directions = make_emotions(tmp_path_factory.mktemp("directions"))
    with Engine.open(folder, device="cpu", emotion_directions=directions) as engine:
        yield engine


@pytest.fixture(scope="module")
def client(shadow: Engine) -> TestClient:
    settings = Settings(no_watermark=True, no_metadata=True)
    return TestClient(create_api(shadow, settings), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def voice() -> dict[str, str]:
    return {"ref_audio": "data:audio/wav;base64," + base64.b64encode(recording()).decode()}


def test_wav_and_stream_are_the_same_sound(client: TestClient, voice: dict[str, str]) -> None:
    whole = client.post("/v1/audio/speech", json=BODY | voice)
    assert whole.status_code == 200, whole.text
    samples, rate_hz = soundfile.read(io.BytesIO(whole.content), dtype="int16")
    assert (rate_hz, len(samples)) == (44_100, 20 * 512)
    assert np.abs(samples).max() > 1000
    pcm = {"response_format": "pcm", "stream": True}
    assert client.post("/v1/audio/speech", json=BODY | voice | pcm).content == whole.content[44:]
    silent = client.post("/v1/audio/speech", json=BODY)
    assert silent.status_code == 200
    assert silent.content != whole.content


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_every_declared_control_is_heard_here_and_a_400_where_it_is_not_declared(
    shadow: Engine,
    client: TestClient,
    voice: dict[str, str],
    control: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[SpeechRequest] = []
    submit = shadow.submit
    monkeypatch.setattr(shadow, "submit", lambda wish, *_: asked.append(wish) or submit(wish))
    short = BODY | voice | {"max_new_tokens": 10}
    for body in (short, short | control):
        response = client.post("/v1/audio/speech", json=body)
        assert response.status_code == 200, response.text
    plain, changed = (shadow.family.plan(wish.text, wish).main.rows.tolist() for wish in asked)
    assert plain != changed


@pytest.mark.parametrize(
    "steering",
    [
        {"emotion_sliders": {"happy": 1.0}},
        pytest.param({"emotion_valence": -1.0, "emotion_arousal": 0.5}, marks=pytest.mark.slow),
        {"cfg_scale": 2.0},
    ],
    ids=str,
)
def test_emotion_and_guidance_are_heard(
    client: TestClient, voice: dict[str, str], steering: dict[str, Any]
) -> None:
    def heard(**more: Any) -> bytes:
        response = client.post("/v1/audio/speech", json=BODY | voice | more)
        assert response.status_code == 200, response.text
        return response.content

    plain = heard()
    assert heard(emotion_strength=3.0, emotion_cfg_scale=2.0) == plain  # nothing to be strong about
    steered = heard(**steering)
    assert steered != plain and heard(**steering) == steered
    if "cfg_scale" not in steering:
        assert heard(**steering, emotion_enabled=False) == plain
        assert heard(**steering, emotion_cfg_scale=2.0) not in (plain, steered)


def test_an_emotion_that_is_not_there_is_told(client: TestClient, voice: dict[str, str]) -> None:
    for more, field, told in (
        ({"emotion_sliders": {"bored": 1}}, "emotion_sliders", "happy, sad, angry, surprised"),
        ({"emotion_sliders": {"happy": 3}}, "emotion_sliders.happy", "-1 to 2"),
        ({"emotion_valence": 2}, "emotion_valence", "-1 to 1"),
        ({"cfg_scale": 9}, "cfg_scale", "-2 to 5"),
    ):
        response = client.post("/v1/audio/speech", json=BODY | voice | more)
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, field)
        assert told in error["message"]


def test_what_nano_does_not_declare_is_a_400_there() -> None:
    undeclared = [
        control
        for control in CONTROLS
        if not {"speed", "speaking_rate", "speaking_rate_bucket"} & set(control)
        and "trailing_silence_s" not in str(control)
    ]
    assert len(undeclared) == 9
    with Engine.open(NANO, device="cpu", num_slots=1) as nano:
        client = TestClient(create_api(nano, Settings()), raise_server_exceptions=False)
        emotion: dict[str, Any] = {"emotion_sliders": {"happy": 1.0}}
        for control in (*undeclared, emotion):
            response = client.post("/v1/audio/speech", json=BODY | control)
            assert response.status_code == 400, control
            assert next(iter(control)) in response.json()["error"]["message"]
