import argparse
from dataclasses import fields, replace
from pathlib import Path

import pytest

from engine import MAX_TEXT_CHARS, InvalidRequest
from studio.settings import MODEL_OPTIONS, Settings, add_options, read_settings


def read(*flags: str, **environment: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return read_settings(parser.parse_args(flags), environment)


def test_without_anything_the_defaults_hold():
    assert read() == Settings()
    assert (Settings().host, Settings().port, Settings().model) == ("127.0.0.1", 7860, None)


def test_a_flag_wins_over_the_environment_and_that_over_the_default():
    assert read(STUDIO_PORT="8001").port == 8001
    assert read("--port", "8000", STUDIO_PORT="8001").port == 8000
    assert read(STUDIO_PORT="").port == 7860


def test_every_option_has_a_flag_a_variable_and_help(tmp_path, capsys):
    texts = {
        "model": "Zyphra/ZONOS2",
        "device": "cuda:1",
        "codec_device": "cuda:1",
        "dtype": "bfloat16",
        "host": "0.0.0.0",
        "emotion_directions": str(tmp_path),
        "media_root": str(tmp_path),
        "allow_media_host": "127.0.0.1:9000",
        "stock_voice": "alloy=heart",
        "log_level": "debug",
        "data": str(tmp_path),
        "c2pa_certificate": __file__,
        "c2pa_key": __file__,
        "api_key": "a-key-of-16-chars",
        "cors_origin": "https://app.example",
        "trusted_proxy": "10.0.0.0/8",
        "frame_origin": "https://app.example",
        "log_format": "json",
    }
    with pytest.raises(SystemExit):
        read("--help")
    shown = capsys.readouterr().out
    for spec in fields(Settings):
        is_switch = spec.default is False
        text = "true" if is_switch else texts.get(spec.name, "5")
        flag = "--" + spec.name.replace("_", "-")
        variable = "STUDIO_" + spec.name.upper()
        by_flag = read(flag) if is_switch else read(flag, text)
        assert by_flag == read(**{variable: text}) != Settings()
        assert flag in shown and variable in shown


def test_lists_repeat_as_flags_and_go_by_commas_in_the_environment():
    hosts = ("127.0.0.1:1", "[::1]:2")
    assert (
        read("--allow-media-host", hosts[0], "--allow-media-host", hosts[1]).allow_media_host
        == hosts
    )
    assert read(STUDIO_ALLOW_MEDIA_HOST=", ".join(hosts)).allow_media_host == hosts
    assert read("--stock-voice", "Alloy=heart").stock_voice == (("alloy", "heart"),)


@pytest.mark.parametrize(
    ("flag", "value", "remedy"),
    [
        ("--port", "65536", "0 to 65535"),
        ("--port", "-1", "0 to 65535"),
        ("--port", "eighty", "0 to 65535"),
        ("--slots", "0", "1 to 256"),
        ("--device", "tpu", "cuda:N"),
        ("--codec-device", "auto", "cpu, cuda or cuda:N"),
        ("--codec-device", "cuda:", "cpu, cuda or cuda:N"),
        ("--prefill-rows", "0", "1 to 1000000"),
        ("--first-chunk-frames", "0", "1 to 1000"),
        ("--chunk-frames", "1001", "1 to 1000"),
        ("--dtype", "int4", "bfloat16"),
        ("--media-root", "/no/such/folder", "exists"),
        ("--allow-media-host", "http://a", "HOST:PORT"),
        ("--stock-voice", "alloy", "NAME=VOICE"),
        ("--max-input-chars", str(MAX_TEXT_CHARS + 1), str(MAX_TEXT_CHARS)),
        ("--log-level", "loud", "warning"),
        ("--model", " ", "not empty"),
        ("--data", __file__, "a folder"),
        ("--api-key", "short", "16 to 256"),
        ("--api-key", "sixteen letters é", "ASCII"),
        ("--cors-origin", "app.example", "https://"),
        ("--c2pa-key", "/no/such/file", "exists"),
        ("--trusted-proxy", "proxy.example", "10.0.0.0/8"),
        ("--frame-origin", "app.example", "https://"),
        ("--log-format", "xml", "json"),
    ],
)
def test_a_wrong_value_is_one_sentence_with_option_value_and_remedy(flag, value, remedy):
    variable = "STUDIO_" + flag[2:].replace("-", "_").upper()
    for name, give in (
        (flag, lambda: read(f"{flag}={value}")),
        (variable, lambda: read(**{variable: value})),
    ):
        with pytest.raises(InvalidRequest) as caught:
            give()
        message = caught.value.message
        assert message.startswith(f"{name}: {value!r} is not allowed; ") and message.endswith(".")
        assert remedy in message


def test_only_the_chosen_options_become_flags():
    parser = argparse.ArgumentParser()
    add_options(parser, MODEL_OPTIONS)
    assert parser.parse_args(["--device", "cpu"]).device == "cpu"
    with pytest.raises(SystemExit):
        parser.parse_args(["--port", "1"])


@pytest.mark.parametrize(
    ("host", "public", "allows"),
    [
        ("127.0.0.1", False, True),
        ("localhost", False, True),
        ("::1", False, True),
        ("127.0.0.1", True, False),
        ("0.0.0.0", False, False),
        ("studio.example", False, False),
    ],
)
def test_urls_are_fetched_for_oneself_only(host, public, allows):
    assert Settings(host=host, public=public).allows_urls is allows


def test_a_studio_that_faces_strangers_limits_each_of_them():
    assert (Settings().max_requests, Settings().max_audio_s_per_hour) == (0, 0)
    assert (read("--public").max_requests, read("--public").max_audio_s_per_hour) == (8, 3600)
    told = read("--public", "--max-requests-per-owner", "0", "--minutes-per-owner", "5")
    assert (told.max_requests, told.max_audio_s_per_hour) == (0, 300)


def test_on_a_space_strangers_are_expected_unless_it_is_said_otherwise():
    space = read(SPACE_ID="somebody/studio")
    assert space.public and space.trusted_proxy == ("10.0.0.0/8",)
    own = read(SPACE_ID="somebody/studio", STUDIO_PUBLIC="false", STUDIO_TRUSTED_PROXY="::1/128")
    assert not own.public and own.trusted_proxy == ("::1/128",)


@pytest.mark.parametrize(
    ("changes", "is_personal", "is_exposed"),
    [
        ({}, True, False),
        ({"trusted_proxy": ("127.0.0.1/32",)}, False, False),
        ({"api_key": ("a-key-of-16-chars",)}, False, False),
        ({"host": "0.0.0.0"}, False, True),
        ({"host": "0.0.0.0", "public": True}, False, False),
        ({"host": "0.0.0.0", "api_key": ("a-key-of-16-chars",)}, False, False),
    ],
)
def test_who_is_its_user_and_whether_a_warning_is_due(changes, is_personal, is_exposed):
    settings = replace(Settings(), **changes)
    assert (settings.is_personal, settings.is_exposed) == (is_personal, is_exposed)


def test_what_is_printed_holds_no_path_of_the_machine():
    settings = replace(Settings(), port=1, media_root=Path("/home/somebody"))
    assert str(settings) == "port=1, media_root=set"
    assert str(Settings()) == "defaults"
