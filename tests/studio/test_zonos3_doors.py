"""A second family through every door: nothing in the studio knows which one is open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

import app
from engine import Engine
from studio.media.pcm import to_int16
from studio.server import create_api
from studio.settings import Settings
from studio.ui.desk import Desk
from studio.ui.page import build_page
from studio.ui.view import View, build_view
from tests.engine.zonos3.random_checkpoint import make_checkpoint
from tests.studio.ui.conftest import Page, open_desk

TEXT = "The boat is tied up."
SECONDS_PER_FRAME = 1 / 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three layers of the random family, at the card's frame rate and codebooks."""
    small = {"n_layers": 3, "attention_layers": [1], "codebook_size": 64}
    return make_checkpoint(tmp_path_factory.mktemp("zonos3") / "random", **small)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.open(folder, device="cpu", num_slots=2) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(engine: Engine) -> TestClient:
    unmarked = Settings(no_watermark=True)
    return TestClient(create_api(engine, unmarked), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def view(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> View:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
        return build_view(engine, Settings())


@pytest.fixture(scope="module")
def desk(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return open_desk(engine, Settings(data=tmp_path_factory.mktemp("data"), no_watermark=True))


def budget_s(text: str) -> float:
    """How long noise speaks: all the rows that a text of this length may take, less the delay."""
    num_rows = np.ceil((4.0 + 0.16 * len(text.encode())) / SECONDS_PER_FRAME)
    return float((num_rows - 9) * SECONDS_PER_FRAME)


def test_say_writes_noise_of_the_right_length(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "noise.wav"
    model = ["--model", str(folder), "--device", "cpu"]
    assert app.main(["say", TEXT, "--out", str(out), "--voice", "ben", "--seed", "7", *model]) == 0
    assert re.match(r"seed 7, \d+\.\d\d s, rtf ", capsys.readouterr().out)
    info = soundfile.info(out)
    assert info.samplerate == 44_100
    assert info.duration == pytest.approx(budget_s(TEXT), abs=1e-6)


def test_the_release_ends_say_with_2_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say = ["say", TEXT, "--out", str(tmp_path / "a.wav"), "--model", "Zyphra/ZONOS3-Mini"]
    assert app.main(say) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and shown.endswith(".\n")
    assert "Zyphra/ZONOS3-Mini cannot be opened yet" in shown
    assert "(1) the keys of params.json" in shown and "(12) how emotion" in shown


def test_the_route_speaks_and_follows_the_controls(client: TestClient, engine: Engine) -> None:
    def speak(**fields: object) -> np.ndarray:
        body = {"input": TEXT, "seed": 3, "max_new_tokens": 24, "response_format": "pcm"} | fields
        answer = client.post("/v1/audio/speech", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["X-Sample-Rate"] == "44100"
        return np.frombuffer(answer.content, dtype="<i2")

    plain = speak()
    assert len(plain) == (24 - 9) * 2940
    expected, _ = engine.speak(TEXT, seed=3, max_new_frames=24).read()
    assert np.array_equal(plain, to_int16(expected))
    assert np.array_equal(speak(stream=True), plain)
    for fields in (
        {"quality_buckets": {"lufs": 9}},
        {"quality_values": {"bandwidth_hz": 4000}},
        {"speaking_rate": 30},
        {"voice": "ben"},
        {"cfg_scale": 2.0},
    ):
        assert not np.array_equal(speak(**fields), plain), fields


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"quality_buckets": {"estimated_snr": 1}}, "it has: lufs, bandwidth_hz"),
        ({"accurate_mode": False}, "no control for the expressive mode"),
        ({"emotion_sliders": {"happy": 1.0}}, "no emotion directions"),
        ({"speaking_rate_bucket": 30}, "from 0 to 29"),
    ],
)
def test_the_route_refuses_what_this_model_lacks(
    client: TestClient, fields: dict[str, object], says: str
) -> None:
    answer = client.post("/v1/audio/speech", json={"input": TEXT} | fields)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


def test_the_page_shows_its_three_controls_and_no_others(view: View, desk: Desk) -> None:
    shown = {setting.name: setting for setting in view.settings if setting.kind != "sampling"}
    assert list(shown) == ["lufs", "bandwidth_hz", "speaking_rate", "cfg_scale"]
    for name, num_buckets in (("lufs", 10), ("bandwidth_hz", 10), ("speaking_rate", 30)):
        choices = shown[name].field.choices  # type: ignore[attr-defined]
        assert len(choices) == num_buckets + 1  # and the one that leaves it to the model
        assert shown[name].field.value == -1  # type: ignore[attr-defined]
    assert [name for name, _ in view.voice.choices] == ["ann", "ben"]
    assert not view.recording.visible
    build_page(desk)


def test_a_press_on_the_page_streams_the_engines_own_samples(
    view: View, desk: Desk, engine: Engine
) -> None:
    page = Page(view, desk)
    updates = page.run(page.press(text=TEXT, seed=11))
    live = [update[view.live] for update in updates[1:] if view.live in update]
    assert len(live) > 1
    (take,) = desk.stores.history.newest(page.owner)
    samples, rate_hz = soundfile.read(desk.stores.history.path(take), dtype="int16")
    expected, _ = engine.speak(TEXT, seed=11).read()
    assert rate_hz == 44_100
    assert np.array_equal(samples, to_int16(expected))
    assert f"{budget_s(TEXT):.1f} s of speech" in page.status()
