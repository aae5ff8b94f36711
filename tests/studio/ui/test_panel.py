"""The settings on the page are the tables of the engine, and come back as its terms."""

from types import SimpleNamespace

import gradio as gr
import pytest

from engine import SAMPLING_RANGES, Control, Delivery, Emotion, Engine, Guidance
from studio.api.parse import SpeechAsk, parse_speech
from studio.ui.panel import (
    UNSET,
    Setting,
    delivery_settings,
    emotion_settings,
    guidance_settings,
    sampling_settings,
    setting_values,
    speech_fields,
    unshown,
)

CONTROLS = (
    Control("speaking_rate", "rate", "bytes/s", ("0-8", "8-11", "11+"), None),
    Control("lufs", "quality", "LUFS", ("-50--45.5", "-45.5+"), None),
    Control("trailing_silence_s", "quality", "s", ("0-0.1", "0.1+"), 1),
    Control("clean_speaker_background", "flag", "", (), False),
    Control("accurate_mode", "flag", "", (), True),
)


@pytest.fixture
def settings(engine: Engine) -> list[Setting]:
    """Those of a checkpoint with every kind of control, and nano's sampling."""
    family = SimpleNamespace(controls=CONTROLS, sampling_defaults=engine.family.sampling_defaults)
    with gr.Blocks():
        stub = SimpleNamespace(family=family)
        return [*delivery_settings(stub), *sampling_settings(stub)]


def values(settings: list[Setting], **changed: float) -> list[float]:
    return [changed.get(setting.name, setting.default) for setting in settings]


def read(settings: list[Setting], values: list[float]) -> SpeechAsk:
    """What the engine is asked for."""
    fields = {"input": "Hello.", **speech_fields(settings, values)}
    return parse_speech(fields, 100, controls=CONTROLS)


def test_each_sampling_setting_has_the_engines_range_and_the_checkpoints_default(engine):
    with gr.Blocks():
        sliders = {setting.name: setting for setting in sampling_settings(engine)}
    assert list(sliders) == list(SAMPLING_RANGES)
    for name, limits in SAMPLING_RANGES.items():
        field = sliders[name].field
        assert (field.minimum, field.maximum) == (limits.minimum, limits.maximum)
        assert field.value == engine.family.sampling_defaults[name]
        assert (field.step == 1) == limits.is_integer


def test_only_declared_controls_are_shown(engine):
    with gr.Blocks():
        names = [setting.name for setting in delivery_settings(engine)]
    assert names == [control.name for control in engine.family.controls]
    assert "accurate_mode" not in names  # nano was trained without


def test_untouched_settings_are_the_checkpoints_defaults(engine, settings):
    choice = read(settings, values(settings))
    for name, default in engine.family.sampling_defaults.items():
        assert getattr(choice.sampling, name) == default
    assert choice.emotion is None and choice.guidance == Guidance()
    assert choice.delivery == Delivery(
        quality_buckets={"lufs": None, "trailing_silence_s": 1},
        accurate_mode=True,
        clean_speaker_background=False,
    )


def test_emotion_and_guidance_are_shown_where_they_can_act_and_arrive(engine, monkeypatch):
    with gr.Blocks():
        assert emotion_settings(engine) == []
        assert [setting.name for setting in guidance_settings(engine)] == ["cfg_scale"]
    loaded = SimpleNamespace(names=("happy", "sad"), axes=("arousal",), is_calibrated=True)
    monkeypatch.setattr(engine.family, "emotions", loaded)
    with gr.Blocks():
        settings = [*emotion_settings(engine), *guidance_settings(engine)]
    assert [setting.field.label for setting in settings] == [
        "Happy",
        "Sad",
        "Arousal",
        "Voice guidance",
        "Emotion guidance",
    ]
    choice = read(settings, [0.0, 0.5, -1.0, 2.0, 1.5])
    assert choice.emotion == Emotion(sliders={"sad": 0.5}, arousal=-1.0)
    assert choice.guidance == Guidance(speaker=2.0, emotion=1.5)


def test_changed_settings_arrive(settings):
    changed = {
        "temperature": 0.7,
        "speaking_rate": 2,
        "lufs": 0,
        "trailing_silence_s": UNSET,
        "accurate_mode": False,
        "clean_speaker_background": True,
    }
    choice = read(settings, values(settings, **changed))
    assert choice.sampling.temperature == 0.7
    assert choice.delivery == Delivery(
        speaking_rate_bucket=2,
        quality_buckets={"lufs": 0, "trailing_silence_s": None},
        accurate_mode=False,
        clean_speaker_background=True,
    )


def test_what_was_asked_for_is_shown_again(settings):
    changed = {
        "temperature": 0.7,
        "speaking_rate": 2,
        "lufs": UNSET,
        "trailing_silence_s": 0,
        "accurate_mode": False,
    }
    shown = values(settings, **changed)
    assert setting_values(settings, speech_fields(settings, shown)) == shown
    assert setting_values(settings, {}) == values(settings)


def test_emotions_are_shown_again(engine, monkeypatch):
    loaded = SimpleNamespace(names=("happy", "arousal"), axes=("arousal",), is_calibrated=True)
    monkeypatch.setattr(engine.family, "emotions", loaded)
    with gr.Blocks():
        settings = [*emotion_settings(engine), *guidance_settings(engine)]
    shown = [0.5, 0.25, -1.0, 2.0, 1.5]
    assert setting_values(settings, speech_fields(settings, shown)) == shown


def test_what_this_checkpoint_has_not_shows_the_default(settings):
    fields = {
        "temperature": 1e9,
        "speaking_rate_bucket": 17,
        "quality_buckets": {"lufs": 99, "echo": 1},
        "accurate_mode": "yes",
    }
    assert setting_values(settings, fields) == values(settings)


def test_fields_that_the_page_lacks_are_named_where_they_act(settings):
    fields = {"speed": 1.5, "fade_out_ms": 0.0, "speed_mode": "auto", "temperature": 1.0}
    assert unshown(fields) == ["speed"]
