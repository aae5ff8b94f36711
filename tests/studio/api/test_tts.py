"""Zyphra's POST /tts/generate and GET /tts/capabilities: its names, defaults, gates and errors."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from engine import InvalidRequest
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import declared_controls
from studio.api.tts_capabilities import capabilities
from studio.api.tts_schemas import SchemaFault, speech_fields
from tests.shadow.release import RELEASE_PARAMS

FEATURES = ["lufs", "max_pause", "trailing_silence_s"]
SHORT = {"text": "Hi.", "max_tokens": 12, "seed": 1}
# What Zyphra's page sends when nothing was touched but the text.
UNTOUCHED_PAGE = {
    "text": "Good morning.",
    "language": "en_us",
    "text_normalization": False,
    "temperature": 0.3,
    "topk": 106,
    "top_p": 0,
    "min_p": 0.18,
    "cfg_scale": 1,
    "prefix_cfg_scale": 1,
    "max_tokens": 20,
    "fade_out_ms": 20,
    "speaking_rate_enabled": False,
    "quality_enabled": True,
    "quality_buckets": {"trailing_silence_s": 3},
    "repetition_window": 50,
    "repetition_penalty": 1.2,
    "repetition_codebooks": 8,
    "seed": None,
    "long_form": None,
    "long_form_chunk_chars": 150,
    "long_form_window_chunks": 2,
    "long_form_pin_anchor": True,
    "long_form_split_mode": "word",
    "stream": True,
    "speaker_embedding_id": None,
    "clean_speaker_background": False,
    "accurate_mode": True,
    "speaker_blend_embedding_id_a": None,
    "speaker_blend_embedding_id_b": None,
    "speaker_blend_t": None,
}


def fields(**sent: object) -> dict[str, object]:
    return speech_fields({"text": "Hi."} | sent, FEATURES)[0]


# What the fields mean -------------------------------------------------------------------------


def test_the_defaults_are_zyphras():
    assert fields() == {
        "text": "Hi.",
        "language": "en_us",
        "stream": True,
        "speaking_rate_enabled": False,
        "emotion_enabled": False,
    }


def test_a_closed_gate_hides_the_fields_behind_it_and_says_so():
    sent = {"text": "Hi.", "speed": 2.0, "speaking_rate_bucket": None, "emotion_valence": 0.5}
    given, hidden = speech_fields(sent | {"emotion_sliders": {"happy": 1}}, FEATURES)
    assert hidden == ["speed", "emotion_sliders", "emotion_valence"]
    assert not set(hidden) & set(given)
    opened, hidden = speech_fields(
        sent | {"speaking_rate_enabled": True, "emotion_enabled": True}, FEATURES
    )
    assert hidden == []
    assert (opened["speed"], opened["emotion_valence"]) == (2.0, 0.5)


@pytest.mark.parametrize(("speed", "used"), [(0.01, 0.25), (1.0, 1.0), (9, 4.0), (-1, -1)])
def test_any_pace_is_taken_and_conditions_the_model(speed, used):
    given = fields(speaking_rate_enabled=True, speed=speed)
    assert (given["speed"], given["speed_mode"]) == (used, "condition")


def test_an_open_gate_with_nothing_behind_it_is_a_mistake():
    with pytest.raises(InvalidRequest, match="needs one of speaking_rate_bucket"):
        fields(speaking_rate_enabled=True, speed=None)


@pytest.mark.parametrize(
    ("sent", "used"),
    [
        ({}, "absent"),
        ({"quality_values": {"lufs": -20}}, "absent"),
        ({"quality_buckets": None}, dict.fromkeys(FEATURES)),
        ({"quality_buckets": {}}, dict.fromkeys(FEATURES)),
        ({"quality_buckets": {"lufs": 5}}, dict.fromkeys(FEATURES) | {"lufs": 5}),
        ({"quality_buckets": [5]}, [5, None, None]),
        ({"quality_buckets": [1, 2, 3, 4]}, [1, 2, 3, 4]),
        ({"quality_buckets": {"lufs": 5}, "quality_enabled": False}, {"lufs": 5}),
    ],
)
def test_a_choice_of_quality_is_the_whole_choice(sent, used):
    assert fields(**sent).get("quality_buckets", "absent") == used


@pytest.mark.parametrize(
    ("sent", "language"),
    [
        ({}, "en_us"),
        ({"language": None}, None),
        ({"language": "de"}, "de"),
        ({"text_normalization": False}, "en_us"),
        ({"text_normalization": False, "language": "de"}, "de"),
        ({"lang": "de"}, None),
    ],
)
def test_the_language_is_english_unless_something_else_was_said(sent, language):
    assert fields(**sent).get("language") == language


@pytest.mark.parametrize(
    ("sent", "format", "is_streamed"),
    [
        ({"format": "pcm"}, "pcm_f32", True),
        ({"format": "PCM", "stream": False}, "pcm_f32", False),
        ({"format": "wav"}, "wav", False),
        ({"format": "wav", "stream": True}, "wav", True),
        ({"format": "mp3"}, "mp3", False),
    ],
)
def test_samples_are_floats_and_streamed_and_files_are_whole(sent, format, is_streamed):
    given = fields(**sent)
    assert (given["format"], given["stream"]) == (format, is_streamed)


@pytest.mark.parametrize(
    ("sent", "place", "kind"),
    [
        ({}, "text", "missing"),
        ({"text": None}, "text", "missing"),
        ({"text": 5}, "text", "string_type"),
        ({"input": ["a"]}, "text", "string_type"),
        ({"text": "a", "stream": "yes"}, "stream", "bool_type"),
        ({"text": "a", "topk": True}, "topk", "float_type"),
        ({"text": "a", "temperature": "1"}, "temperature", "float_type"),
        ({"text": "a", "temperature": float("nan")}, "temperature", "finite_number"),
        ({"text": "a", "speaker_embedding_id": 7}, "speaker_embedding_id", "string_type"),
    ],
)
def test_a_wrong_type_is_a_fault_of_the_schema(sent, place, kind):
    with pytest.raises(SchemaFault) as caught:
        speech_fields(sent, FEATURES)
    (fault,) = caught.value.detail
    assert (fault["loc"][:2], fault["type"]) == (["body", place], kind)
    assert fault["msg"] and "input" not in fault


def test_null_is_absent_wherever_zyphra_gives_it_no_meaning():
    nulls = dict.fromkeys(UNTOUCHED_PAGE) | {"text": "Hi."}
    given = speech_fields(nulls, FEATURES)[0]
    given.pop("quality_buckets")  # null: nothing is asked for
    assert given == {k: v for k, v in fields().items() if k != "language"}


# Over HTTP ------------------------------------------------------------------------------------


def test_samples_are_those_of_the_engine_streamed_or_whole(client, engine):
    sent = {"text": "Hi.", "seed": 5, "max_tokens": 14}
    answers = [client.post("/tts/generate", json=sent | more) for more in ({}, {"stream": False})]
    expected, _ = engine.speak("Hi.", seed=5, max_new_frames=14).read()
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "audio/pcm"
        assert answer.headers["X-Audio-Sample-Rate"] == "44100"
        assert answer.headers["X-Audio-Channels"] == "1"
        assert answer.headers["X-Audio-Format"] == "float32"
        assert answer.headers["X-Seed"] == "5"
        assert np.array_equal(np.frombuffer(answer.content, "<f4"), expected)


def test_the_seed_that_was_drawn_gives_the_same_sound_again(client):
    first = client.post("/tts/generate", json=SHORT | {"seed": None})
    again = client.post("/tts/generate", json=SHORT | {"seed": int(first.headers["X-Seed"])})
    assert again.content == first.content


def test_a_body_of_zonos2_cpp_gives_a_wav_file(client):
    sent = {"input": "Hi.", "format": "wav", "max_tokens": 12, "seed": 1}
    answer = client.post("/tts/generate", json=sent)
    assert answer.headers["Content-Type"] == "audio/wav"
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    info = soundfile.info(io.BytesIO(answer.content))
    assert (info.samplerate, info.channels, info.subtype) == (44_100, 1, "PCM_16")


def test_the_page_that_nobody_touched_is_understood(client):
    answer = client.post("/tts/generate", json=UNTOUCHED_PAGE)
    assert answer.status_code == 200, answer.text
    ignored = set(answer.headers["X-Ignored-Fields"].split(", "))
    assert ignored == {name for name in UNTOUCHED_PAGE if name.startswith("long_form_")}
    assert np.abs(np.frombuffer(answer.content, "<f4")).max() > 0.02


def test_what_a_checkpoint_lacks_is_refused_and_what_a_gate_hides_is_not(client):
    expressive = client.post("/tts/generate", json=SHORT | {"accurate_mode": False})
    assert expressive.status_code == 400
    hidden = client.post(
        "/tts/generate", json=SHORT | {"emotion_sliders": {"happy": 1}, "speed": 2}
    )
    assert hidden.status_code == 200
    assert hidden.headers["X-Ignored-Fields"] == "speed, emotion_sliders"
    steered = {"emotion_sliders": {"happy": 1}, "emotion_enabled": True}
    assert client.post("/tts/generate", json=SHORT | steered).status_code == 400


def test_a_fault_of_the_schema_is_422_in_fastapis_form(client):
    answer = client.post("/tts/generate", json={"texty": "Hi."})
    assert answer.status_code == 422
    assert answer.json() == {
        "detail": [{"type": "missing", "loc": ["body", "text"], "msg": "Field required"}]
    }


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        ({"text": " "}, 400, "invalid_value"),
        ({"text": "Hi.", "max_tokens": 0}, 400, "invalid_value"),
        ({"text": "Hi.", "language": "tlh"}, 400, "invalid_value"),
        ({"text": "Hi.", "language": "tlh", "text_normalization": False}, 400, "invalid_value"),
        ({"text": "Hi.", "format": "midi"}, 400, "unsupported_format"),
        ({"text": "a" * 50_001}, 400, "string_above_max_length"),
        ({"text": "Hi.", "speaker_embedding_id": "spk_none"}, 404, "voice_not_found"),
        ({"text": "Hi.", "speaker_embedding_id": "../../etc/passwd"}, 404, "voice_not_found"),
        ({"text": "Hi.", "speaker_blend_embedding_id_a": "heart"}, 400, None),
        ({"text": "Hi.", "speaker_audio_base64": "AAAA"}, 400, "invalid_reference_audio"),
        (
            {
                "text": "Hi.",
                "speaker_embedding_id": "deep",
                "speaker_blend_embedding_id_a": "deep",
                "speaker_blend_embedding_id_b": "heart",
            },
            400,
            "conflicting_fields",
        ),
        ({"text": "Hi.", "what": 1, "strict": True}, 400, "unknown_field"),
    ],
)
def test_errors_say_what_is_wrong_in_detail_first(client, sent, status, code):
    answer = client.post("/tts/generate", json=sent)
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert list(told) == ["detail", "error"]
    assert told["detail"] == told["error"]["message"]
    assert code in (None, told["error"]["code"])


def test_what_is_no_json_object_is_told_in_detail_too(client):
    for body, content_type, status in (
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"text=a", "application/x-www-form-urlencoded", 415),
    ):
        answer = client.post("/tts/generate", content=body, headers={"Content-Type": content_type})
        assert answer.status_code == status
        assert isinstance(answer.json()["detail"], str)


# Capabilities ---------------------------------------------------------------------------------

KEYS = {
    **dict.fromkeys(("text_normalization_enabled", "speaker_enabled"), bool),
    **dict.fromkeys(("speaking_rate_enabled", "quality_enabled", "emotion_enabled"), bool),
    **dict.fromkeys(("speaker_background_token_enabled", "accurate_mode_token_enabled"), bool),
    **dict.fromkeys(("speaker_audio_upload", "speaker_embedding_upload"), bool),
    **dict.fromkeys(("speaker_embedding_cache", "speaker_embedding_blend"), bool),
    **dict.fromkeys(("default_voices_enabled", "emotion_calibrated"), bool),
    **dict.fromkeys(("speaker_embedding_dim", "n_codebooks", "max_tokens"), int),
    **dict.fromkeys(("speaking_rate_num_buckets", "quality_num_buckets"), int),
    **dict.fromkeys(("text_norm_languages", "speaking_rate_buckets", "quality_features"), list),
    **dict.fromkeys(("emotion_names", "emotion_axes", "formats", "sample_rates"), list),
    **dict.fromkeys(("quality_buckets", "quality_dropout_by_feature"), dict),
    **dict.fromkeys(("default_quality_buckets", "languages"), dict),
    **dict.fromkeys(("max_input_chars", "long_form_chunk_chars"), int),
    "long_form_enabled": bool,
}


def test_capabilities_have_zyphras_keys_and_types(client):
    shown = client.get("/tts/capabilities").json()
    assert {name: type(shown[name]) for name in KEYS} == KEYS
    assert shown["speaker_embedding_dim"] == 128
    assert shown["default_quality_buckets"] == {"trailing_silence_s": 2}
    assert shown["speaking_rate_buckets"][4] == "17-21"
    assert {"wav", "mp3", "pcm_f32"} <= set(shown["formats"])
    assert not shown["emotion_enabled"]


def test_capabilities_of_the_release_are_those_of_its_checkpoint():
    emotions = SimpleNamespace(names=("happy",), axes=("valence",), is_calibrated=True)
    config = Zonos2Config.from_dict(RELEASE_PARAMS)
    family = SimpleNamespace(
        controls=declared_controls(config),
        speaker_dim=config.speaker_dim,
        num_codebooks=config.num_codebooks,
        max_rows=config.max_rows,
        sampling_defaults=config.sampling_defaults,
        emotions=emotions,
        segment_chars=150,
        continues=True,
    )
    codec = SimpleNamespace(sample_rate_hz=44_100)
    engine = SimpleNamespace(family=family, encoder=None, voices={}, codec=codec)
    normaliser = SimpleNamespace(reads={"en_us": "grammar", "ru": "num2words"}.get)
    shown = capabilities(engine, normaliser, 1000)
    assert shown["text_normalization_enabled"]
    assert shown["text_norm_languages"] == ["en_us", "ru"]
    assert (shown["speaker_embedding_dim"], shown["max_tokens"]) == (2048, 6144)
    assert shown["quality_num_buckets"] == 60
    assert shown["default_quality_buckets"] == {"trailing_silence_s": 3}
    assert shown["quality_features"][0] == "lufs" and len(shown["quality_buckets"]["lufs"]) == 12
    assert shown["speaker_background_token_enabled"] and shown["accurate_mode_token_enabled"]
    assert (shown["emotion_names"], shown["emotion_axes"]) == (["happy"], ["valence"])
    assert shown["emotion_enabled"] and shown["emotion_calibrated"]
    assert not shown["speaker_audio_upload"] and not shown["default_voices_enabled"]
    json.dumps(shown)
