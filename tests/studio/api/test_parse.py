import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import MAX_SEED, SAMPLING_RANGES, Control, InvalidRequest
from studio.api.doors import OPENAI, SGLANG
from studio.api.parse import SpeechAsk, form_value, parse_speech
from studio.api.schemas import SpeechBody
from studio.api.spellings import ALIASES, NAMES

LIMIT = 100
RATES = ("0-8", "8-11", "11-14", "14-17", "17-21", "21-28", "28-40", "40+")
RATE = Control("speaking_rate", "rate", "bytes/s", RATES, None)
QUALITIES = [
    Control(name, "quality", "", ("0-1", "1+"), None)
    for name in ("lufs", "estimated_bandlimit_hz", "max_pause")
]


def parse(**fields: object) -> SpeechAsk:
    return parse_speech({"input": "Hello."} | fields, LIMIT, controls=[RATE, *QUALITIES])


def refusal(**fields: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
ANY_NAME = st.sampled_from(NAMES) | st.text(max_size=10)


@settings(deadline=None)
@given(st.dictionaries(ANY_NAME, JSON, max_size=6))
def test_any_json_is_parsed_or_refused_in_a_short_sentence(payload):
    try:
        ask = parse_speech(payload, LIMIT, controls=[RATE, *QUALITIES])
        assert set(ask.ignored).isdisjoint(SpeechBody.model_fields)
    except InvalidRequest as error:
        assert error.field
        assert len(error.message) < 600
        assert error.message.endswith(".")
        json.dumps(error.message)


@pytest.mark.parametrize("name", [name for name in SpeechBody.model_fields if name != "input"])
def test_null_is_absent(name):
    assert parse(**{name: None}).body == parse().body


OF_OTHER_TYPES = {
    "input": ("Hi.", "Ho."),
    "voice": ("heart", "deep"),
    "ref_audio": ("AAAA", "BBBB"),
    "language": ("de", "fr"),
    "text_normalization": (True, False),
    "timestamps": (["word"], ["chunk"]),
}


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_the_field_itself_unless_the_two_differ(alias, name):
    value, other = OF_OTHER_TYPES.get(name, (2, 3))
    payload = {"input": "Hi."} if name != "input" else {}
    assert getattr(parse_speech(payload | {alias: value}, LIMIT).body, name) == value
    assert getattr(parse_speech(payload | {alias: value, name: value}, LIMIT).body, name) == value
    with pytest.raises(InvalidRequest, match=f"{name} and {alias} contradict") as caught:
        parse_speech(payload | {name: value, alias: other}, LIMIT)
    assert caught.value.code == "conflicting_fields"


@pytest.mark.parametrize("name", [*SAMPLING_RANGES, "seed", "max_new_tokens", "speed"])
@pytest.mark.parametrize("value", [True, "1", math.nan, math.inf, [1], {}])
def test_what_is_not_a_number_is_no_number(name, value):
    error = refusal(**{name: value})
    assert error.field == name
    assert name in error.message and "give a" in error.message


@pytest.mark.parametrize(("name", "limits"), SAMPLING_RANGES.items())
def test_ranges_are_the_engines(name, limits):
    assert getattr(parse(**{name: limits.minimum}).sampling, name) == limits.minimum
    assert getattr(parse(**{name: limits.maximum}).sampling, name) == limits.maximum
    for value in (limits.minimum - 1, limits.maximum + 1):
        error = refusal(**{name: value})
        assert str(value) in error.message
        assert f"{limits.minimum:g} to {limits.maximum:g}" in error.message
    if limits.is_integer:
        assert "whole number" in refusal(**{name: limits.maximum - 0.5}).message


def test_the_error_names_the_field_as_it_was_sent():
    assert refusal(topk=5000).field == "topk"
    assert refusal(max_tokens=0).message.startswith("max_tokens: 0 ")
    with pytest.raises(InvalidRequest) as caught:
        parse_speech({"text": 5}, LIMIT)
    assert caught.value.field == "text"


@pytest.mark.parametrize(("sent", "seed"), [(0, 0), (-1, None), (MAX_SEED, MAX_SEED), (7.0, 7)])
def test_seeds(sent, seed):
    assert parse(seed=sent).body.seed == seed


@pytest.mark.parametrize("sent", [-2, MAX_SEED + 1, 1.5, "7", 10**30])
def test_seeds_that_do_not_exist(sent):
    assert str(MAX_SEED) in refusal(seed=sent).message


@pytest.mark.parametrize("value", [0, -1, 0.5])
def test_a_frame_budget_below_one_is_refused(value):
    assert refusal(max_new_tokens=value).field == "max_new_tokens"


@pytest.mark.parametrize(("sent", "speed"), [(1, None), (1.0, None), (0.25, 0.25), (4, 4)])
def test_the_usual_speed_counts_as_absent(sent, speed):
    assert parse(speed=sent).delivery.speed == speed


@pytest.mark.parametrize("value", [0.2, 4.1, 0, -1])
def test_speeds_outside_openais_range(value):
    assert "0.25 to 4" in refusal(speed=value).message


@pytest.mark.parametrize("name", ["stream", "store", "quality_enabled", "accurate_mode"])
@pytest.mark.parametrize("value", [1, 0, "true", "", []])
def test_truth_values_are_true_or_false_only(name, value):
    assert "give true or false" in refusal(**{name: value}).message


@pytest.mark.parametrize("value", ["ogg", "", 5, ["wav"]])
def test_an_unknown_format_is_refused_with_the_list(value):
    error = refusal(response_format=value)
    assert (error.code, error.field) == ("unsupported_format", "response_format")
    assert "wav, mp3, opus, aac, flac, pcm, pcm_f32" in error.message


def test_formats_ignore_case():
    assert parse(response_format="WAV").body.response_format == "wav"


def test_a_missing_text_and_a_long_one():
    with pytest.raises(InvalidRequest) as caught:
        parse_speech({}, LIMIT)
    assert (caught.value.field, caught.value.code) == ("input", "missing_required_parameter")
    assert parse(input="x" * LIMIT + "  \n").body.input
    error = refusal(input="x" * (LIMIT + 1))
    assert error.code == "string_above_max_length"
    assert "101" in error.message and "100" in error.message


@pytest.mark.parametrize("sent", ["heart", {"id": "heart"}, {"id": "heart", "name": "x"}])
def test_a_voice_is_a_name_or_an_object(sent):
    assert parse(voice=sent).body.voice == "heart"


@pytest.mark.parametrize("sent", [5, {"id": 5}, {}, {"name": "x"}, [], True])
def test_other_voices_are_refused(sent):
    assert refusal(voice=sent).field == "voice"


@pytest.mark.parametrize("name", ["audio_path", "ref_audio", "audio", "url", "data"])
def test_a_reference_goes_by_any_of_its_names(name):
    sound = parse(references=[{name: "AAAA", "media_type": "audio/wav"}]).speaker.sound
    assert sound is not None
    assert (sound.field, sound.text) == (f"references[0].{name}", "AAAA")


def test_ref_audio_is_short_for_one_reference():
    sound = parse(ref_audio="AAAA").speaker.sound
    assert sound is not None and (sound.field, sound.text) == ("ref_audio", "AAAA")
    assert parse(references=[]).speaker.sound is None


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"references": [{"data": "A"}, {"data": "B"}]}, "references", "invalid_value"),
        ({"references": [{}]}, "references[0]", "missing_required_parameter"),
        ({"references": [{"text": "said"}]}, "references[0]", "missing_required_parameter"),
        ({"references": [{"data": "A", "url": "B"}]}, "references[0].data", "conflicting_fields"),
        ({"references": [{"data": "A"}], "ref_audio": "B"}, "ref_audio", "conflicting_fields"),
        ({"references": {"data": "A"}}, "references", "invalid_value"),
        ({"references": ["A"]}, "references[0]", "invalid_value"),
        ({"references": [{"data": 5}]}, "references[0].data", "invalid_value"),
        ({"ref_audio": 5}, "ref_audio", "invalid_value"),
    ],
)
def test_references_that_cannot_be_meant(fields, field, code):
    error = refusal(**fields)
    assert (error.field, error.code) == (field, code)


def test_what_nobody_knows_is_noted_and_what_says_nothing_is_not():
    ask = parse(foo=1, bar=None, user="u1", metadata={}, references=[{"data": "A", "text": "said"}])
    assert ask.ignored == ("foo", "references[0].text")


def test_qualities_go_by_name_or_in_the_models_order():
    assert parse(quality_buckets=[3]).delivery.quality_buckets == {"lufs": 3}
    by_name = {"max_pause": None}
    assert parse(quality_buckets=by_name).delivery.quality_buckets == by_name
    assert "3 quality features: lufs, " in refusal(quality_values=[1, 2, 3, 4]).message


def test_a_preset_of_quality_fills_what_the_request_leaves_open():
    studio = parse(quality="Studio", quality_buckets={"lufs": 1}).delivery
    assert studio.quality_buckets == {"lufs": 1}
    assert studio.quality_values == {"estimated_bandlimit_hz": 22_000.0}
    nothing = dict.fromkeys(["lufs", "estimated_bandlimit_hz", "max_pause"])
    for off in ({"quality": "raw"}, {"quality_enabled": False, "quality_buckets": [1]}):
        assert parse(**off).delivery.quality_buckets == nothing
        assert parse(**off).delivery.quality_values is None
    assert parse_speech({"input": "Hi.", "quality": "phone"}, LIMIT).ignored == ("quality",)
    assert refusal(quality="best").field == "quality"


@pytest.mark.parametrize(
    ("fields", "way", "bucket", "stretch"),
    [
        ({}, None, None, 1.0),
        ({"speed": 1}, None, None, 1.0),
        ({"speed": 1, "speaking_rate_enabled": True}, "condition", 4, 1.0),
        ({"speed": 0.5}, "condition", 1, 1.0),
        ({"speed_factor": 2.0}, "condition", 6, 1.0),
        ({"speed": 4}, "condition", 7, 1.0),
        ({"speed": 2.0, "speed_mode": "stretch"}, "stretch", None, 2.0),
        ({"speed": 2.0, "speaking_rate_enabled": False}, None, None, 1.0),
        ({"speaking_rate": 8}, "condition", 1, 1.0),
        ({"rate_bucket": 3}, "condition", 3, 1.0),
    ],
)
def test_the_pace_is_conditioned_where_the_model_can(fields, way, bucket, stretch):
    pace = parse(**fields).pace
    assert (pace.way, pace.bucket, pace.stretch) == (way, bucket, stretch)


def test_a_model_without_rates_is_stretched_unless_conditioning_is_wished():
    payload = {"input": "Hi.", "speed": 0.5}
    assert parse_speech(payload, LIMIT).pace.stretch == 0.5
    assert parse_speech(payload, LIMIT).delivery.speed is None
    assert parse_speech(payload | {"speed_mode": "condition"}, LIMIT).delivery.speed == 0.5


@pytest.mark.parametrize("mode", ["auto", "condition", "stretch"])
def test_two_paces_contradict_each_other(mode):
    error = refusal(speed=2, speaking_rate=9, speed_mode=mode)
    assert (error.code, error.field) == ("conflicting_fields", "speed")


@pytest.mark.parametrize(
    ("fields", "format", "rate_hz", "bitrate"),
    [
        ({}, "wav", None, None),
        ({"response_format": "MP3", "bitrate": "64k"}, "mp3", None, 64_000),
        ({"output_format": "mp3_44100_128"}, "mp3", 44_100, 128_000),
        ({"output_format": "pcm_24000"}, "pcm", 24_000, None),
        ({"format": "pcm_f32", "sample_rate": 8000}, "pcm_f32", 8_000, None),
        ({"output_format": "pcm_f32_16000", "sample_rate": 16_000}, "pcm_f32", 16_000, None),
        ({"output_format": "opus_48000_32", "response_format": "opus"}, "opus", 48_000, 32_000),
    ],
)
def test_the_form_of_the_sound_has_several_spellings(fields, format, rate_hz, bitrate):
    ask = parse(**fields)
    assert (ask.format, ask.sample_rate_hz, ask.body.bitrate) == (format, rate_hz, bitrate)


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"output_format": "mp3_44100_128", "sample_rate": 8000}, "sample_rate", "conflict"),
        ({"output_format": "ulaw_8000"}, "output_format", "unsupported_format"),
        ({"output_format": "mp3_44000_128"}, "output_format", "invalid_value"),
        ({"output_format": "mp3_44100_999"}, "output_format", "invalid_value"),
        ({"sample_rate": 44_101}, "sample_rate", "invalid_value"),
        ({"sample_rate": True}, "sample_rate", "invalid_value"),
        ({"sample_rate": "8000"}, "sample_rate", "invalid_value"),
        ({"bitrate": 31_999}, "bitrate", "invalid_value"),
        ({"bitrate": [128]}, "bitrate", "invalid_value"),
        ({"mode": "loud"}, "mode", "invalid_value"),
        ({"mode": "expressive", "accurate_mode": True}, "accurate_mode", "conflict"),
        ({"emotion": 5}, "emotion", "invalid_value"),
        ({"emotion": "happy", "emotion_sliders": {"sad": 1}}, "emotion_sliders", "conflict"),
        ({"blend": ["heart", "deep"]}, "blend", "invalid_value"),
        ({"blend": {"a": "heart", "b": 5}}, "blend", "invalid_value"),
        ({"blend": {"a": "x", "b": "y", "t": 2}}, "blend", "invalid_value"),
        (
            {"speaker_blend_embedding_id_a": "heart"},
            "speaker_blend_embedding_id_b",
            "missing_required_parameter",
        ),
        ({"speaker_embedding": []}, "speaker_embedding", "invalid_embedding"),
        ({"speaker_embedding": [0.0, 0.0]}, "speaker_embedding", "invalid_embedding"),
        ({"speaker_embedding": [1.0, math.nan]}, "speaker_embedding", "invalid_embedding"),
        ({"speaker_embedding": [1.0, True]}, "speaker_embedding[1]", "invalid_value"),
        ({"speaker_embedding": [1.0], "ref_audio": "A"}, "speaker_embedding", "conflict"),
        (
            {"speaker_embedding": [1.0], "blend": {"a": "x", "b": "y"}},
            "blend",
            "conflict",
        ),
        ({"extra_body": [1]}, "extra_body", "invalid_value"),
        ({"extra_params": {"top_k": "7"}}, "top_k", "invalid_value"),
    ],
)
def test_spellings_that_cannot_be_meant(fields, field, code):
    error = refusal(**fields)
    assert error.field == field
    assert error.code.startswith(code)


def test_a_door_fills_in_what_its_clients_take_for_granted():
    ask = parse_speech({"input": "Hi."}, LIMIT, OPENAI)
    assert (ask.format, ask.sample_rate_hz, ask.is_live) == ("mp3", None, True)
    bare = parse_speech({"input": "Hi.", "response_format": "pcm"}, LIMIT, OPENAI)
    assert bare.sample_rate_hz == 24_000
    rated = {"input": "Hi.", "response_format": "pcm", "sample_rate": 44_100}
    assert parse_speech(rated, LIMIT, OPENAI).sample_rate_hz == 44_100
    assert parse_speech({"input": "Hi.", "response_format": "pcm"}, LIMIT, SGLANG).is_live is False
    for fields in ({"stream": True}, {"stream_format": "audio"}, {"stream_format": "SSE"}):
        assert parse(**fields).is_live
    assert parse(stream_format="sse").is_sse and not parse(stream=True).is_sse


def test_what_is_nested_counts_unless_the_top_level_says_otherwise():
    ask = parse(extra_params={"seed": 5, "topk": 3, "foo": 1}, extra_body={"input": "No."}, top_k=9)
    assert (ask.body.seed, ask.body.top_k, ask.body.input) == (5, 9, "Hello.")
    assert ask.ignored == ("foo",)


def test_names_that_choose_no_voice_give_way_to_one_that_does():
    for fields in ({"voice": "alloy", "speaker": "deep"}, {"voice_id": "deep", "voice": "default"}):
        assert parse(**fields).speaker.voice == "deep"
    assert refusal(voice="heart", speaker_embedding_id="deep").field == "speaker_embedding_id"


def test_a_blend_and_an_emotion_have_a_short_form():
    blend = parse(blend={"a": "heart", "b": "deep"}).speaker.blend
    assert blend is not None and (blend.first, blend.second, blend.t) == ("heart", "deep", 0.5)
    emotion = parse(emotion="happy").emotion
    assert emotion is not None and emotion.sliders == {"happy": 1.0}


@pytest.mark.parametrize(
    ("sent", "given"), [(True, True), ("I may.", True), ("no", False), ("", False)]
)
def test_consent_is_stated_in_words_or_as_true(sent, given):
    assert parse(consent=sent).speaker.has_consent is given


def test_a_bitrate_of_a_lossless_format_is_noted():
    assert parse(bitrate=64_000).ignored == ("bitrate",)
    assert parse(bitrate=64_000, response_format="aac").ignored == ()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("input", "7", "7"),
        ("voice", "1234", "1234"),
        ("speaker", '{"id": "heart"}', {"id": "heart"}),
        ("temperature", "0.5", 0.5),
        ("stream", "true", True),
        ("stream", "yes", "yes"),
        ("quality_buckets", "[1]", [1]),
        ("seed", "", None),
        ("format", "", None),
        ("text", "", ""),
        ("bitrate", "128k", "128k"),
    ],
)
def test_texts_of_a_form_mean_what_the_field_takes(name, text, value):
    assert form_value(name, text) == value
