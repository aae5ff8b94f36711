import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import MAX_SEED, SAMPLING_RANGES, InvalidRequest
from studio.api.parse import SpeechAsk, parse_speech
from studio.api.schemas import ALIASES, SpeechBody

LIMIT = 100


def parse(**fields: object) -> SpeechAsk:
    return parse_speech({"input": "Hello."} | fields, LIMIT)


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
NAMES = st.sampled_from([*SpeechBody.model_fields, *ALIASES]) | st.text(max_size=10)


@settings(deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=6))
def test_any_json_is_parsed_or_refused_in_a_short_sentence(payload):
    try:
        ask = parse_speech(payload, LIMIT)
        ask.delivery(["trailing_silence_s"])
        assert set(ask.ignored).isdisjoint(SpeechBody.model_fields)
    except InvalidRequest as error:
        assert error.field
        assert len(error.message) < 600
        assert error.message.endswith(".")
        json.dumps(error.message)


@pytest.mark.parametrize("name", [name for name in SpeechBody.model_fields if name != "input"])
def test_null_is_absent(name):
    assert parse(**{name: None}).body == parse().body


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_the_field_itself_unless_the_two_differ(alias, name):
    value = {"input": "Hi.", "voice": "heart", "response_format": "pcm"}.get(name, 7)
    payload = {"input": "Hi."} if name != "input" else {}
    assert getattr(parse_speech(payload | {alias: value}, LIMIT).body, name) == value
    assert getattr(parse_speech(payload | {alias: value, name: value}, LIMIT).body, name) == value
    other = {"input": "Ho.", "voice": "deep", "response_format": "wav"}.get(name, 8)
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
    assert parse(speed=sent).delivery([]).speed == speed


@pytest.mark.parametrize("value", [0.2, 4.1, 0, -1])
def test_speeds_outside_openais_range(value):
    assert "0.25 to 4" in refusal(speed=value).message


@pytest.mark.parametrize("name", ["stream", "strict", "accurate_mode", "clean_speaker_background"])
@pytest.mark.parametrize("value", [1, 0, "true", "", []])
def test_truth_values_are_true_or_false_only(name, value):
    assert "give true or false" in refusal(**{name: value}).message


@pytest.mark.parametrize("value", ["ogg", "", 5, ["wav"]])
def test_an_unknown_format_is_refused_with_the_list(value):
    error = refusal(response_format=value)
    assert (error.code, error.field) == ("unsupported_format", "response_format")
    assert "wav, pcm" in error.message


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
    sound = parse(references=[{name: "AAAA", "media_type": "audio/wav"}]).sound
    assert sound is not None
    assert (sound.field, sound.text) == (f"references[0].{name}", "AAAA")


def test_ref_audio_is_short_for_one_reference():
    sound = parse(ref_audio="AAAA").sound
    assert sound is not None and (sound.field, sound.text) == ("ref_audio", "AAAA")
    assert parse(references=[]).sound is None


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
    features = ["lufs", "max_pause"]
    assert parse(quality_buckets=[3]).delivery(features).quality_buckets == {"lufs": 3}
    by_name = {"max_pause": None}
    assert parse(quality_buckets=by_name).delivery(features).quality_buckets == by_name
    with pytest.raises(InvalidRequest, match="2 quality features: lufs, max_pause"):
        parse(quality_values=[1, 2, 3]).delivery(features)
