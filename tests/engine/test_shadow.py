"""The release's path from end to end, on a shadow of it: the engine opens it and does all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Delivery, Engine, FinishReason, InvalidRequest, SpeechRequest
from engine.family import Prompt
from engine.hub import CODEC_REPOSITORY, ENCODER_REPOSITORY, PINNED
from engine.zonos2.family import Zonos2Family
from tests.shadow.hub import fake_hub
from tests.shadow.release import (
    QUALITY_BUCKETS,
    RELEASE_PARAMS,
    SHADOW_SIZES,
    make_codec,
    make_encoder,
    make_release,
    random_weights,
    release_shapes,
)

CPU = torch.device("cpu")
TEXT = "Hello."
# Text-column ids of the release (spec 3.1).
PAD, BOS, EOS, CLEAN, NOISY, ACCURATE = 519, 2, 3, 516, 517, 518
BYTES = [192 + byte for byte in TEXT.encode()]
TRAILING_3 = 511  # the release's own default: bucket 3 of trailing_silence_s


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_release(tmp_path_factory.mktemp("release"), ends=False)


@pytest.fixture(scope="module")
def shadow(release: Path) -> Iterator[Engine]:
    with Engine.open(release, device="cpu", num_slots=2) as engine:
        yield engine


@pytest.fixture(scope="module")
def recording() -> tuple[np.ndarray, int]:
    """Two seconds of a buzzing voice at 24 kHz, loud and soft in turn."""
    times_s = np.arange(48_000) / 24_000
    tones = sum(np.sin(2 * np.pi * 120 * k * times_s) / k for k in range(1, 20))
    return (0.2 * tones * (1.2 + np.sin(9 * times_s))).astype(np.float32), 24_000


@pytest.fixture(scope="module")
def speaker(shadow: Engine, recording: tuple[np.ndarray, int]) -> Tensor:
    return shadow.embed(*recording)


def text_ids(engine: Engine, **asked: object) -> list[int]:
    """The text column of the prompt that is planned for ``asked``."""
    plan = engine.family.plan(TEXT, SpeechRequest(text=TEXT, **asked))
    return plan.main.rows[:, -1].tolist()


def test_the_shadow_has_the_releases_names_and_count() -> None:
    shapes = release_shapes(RELEASE_PARAMS)
    assert len(shapes) == 507
    assert sum(torch.Size(shape).numel() for shape in shapes.values()) == 7_668_118_208


def test_it_opens_with_both_companions(shadow: Engine) -> None:
    config = shadow.family.config
    assert [layer for layer in range(28) if config.is_moe(layer)] == list(range(3, 27))
    assert [layer for layer in range(28) if config.moe_topk[layer] == 2] == [26]
    assert (config.max_rows, config.num_rate_buckets) == (6144, 8)
    assert (shadow.codec.sample_rate_hz, shadow.codec.hop) == (44_100, 512)
    assert shadow.encoder is not None
    assert shadow.encoder.dim == 2048
    names = {control.name for control in shadow.family.controls}
    assert names == {
        "speaking_rate", *QUALITY_BUCKETS, "clean_speaker_background", "accurate_mode",
    }  # fmt: skip


def test_it_speaks_and_streams_the_same(shadow: Engine) -> None:
    stream = shadow.speak(TEXT, seed=3, max_new_frames=40)
    other = shadow.speak(TEXT, seed=4, max_new_frames=40)
    chunks = list(stream)
    again, rate_hz = shadow.speak(TEXT, seed=3, max_new_frames=40).read()
    assert rate_hz == 44_100
    assert len(chunks) > 1
    np.testing.assert_array_equal(np.concatenate(chunks), again)
    assert len(again) == stream.timings.num_frames * 512 == (40 - 8) * 512
    assert np.sqrt(np.mean(again**2)) > 0.05
    assert np.abs(again).max() < 1
    assert not np.array_equal(other.read()[0], again)


def test_it_ends_by_itself(tmp_path: Path) -> None:
    make_release(tmp_path, has_encoder=False, n_layers=6)
    with Engine.open(tmp_path, device="cpu", num_slots=1) as engine:
        stream = engine.speak("A rather long sentence, so that it may take its time.", seed=1)
        samples, _ = stream.read()
    assert stream.finish_reason is FinishReason.STOP
    assert len(samples) % 512 == 0


def test_without_a_voice_the_prompt_is_text_and_default_only(shadow: Engine) -> None:
    ids = text_ids(shadow, delivery=Delivery(clean_speaker_background=True))
    assert ids == [TRAILING_3, BOS, *BYTES, EOS, *[PAD] * 17]


def test_with_a_voice_its_slot_and_markers_stand_first(shadow: Engine, speaker: Tensor) -> None:
    ids = text_ids(shadow, speaker=speaker)
    assert ids == [PAD, NOISY, ACCURATE, TRAILING_3, BOS, *BYTES, EOS, *[PAD] * 17]


@pytest.mark.parametrize(
    ("delivery", "markers"),
    [
        ({"speaking_rate_bucket": 6}, [NOISY, ACCURATE, 448 + 6, TRAILING_3]),
        ({"speaking_rate": 15.0}, [NOISY, ACCURATE, 448 + 3, TRAILING_3]),
        ({"speed": 1.0}, [NOISY, ACCURATE, 448 + 4, TRAILING_3]),
        ({"speed": 2.5}, [NOISY, ACCURATE, 448 + 7, TRAILING_3]),
        ({"clean_speaker_background": True}, [CLEAN, ACCURATE, TRAILING_3]),
        ({"accurate_mode": False}, [NOISY, TRAILING_3]),
        ({"quality_buckets": {"trailing_silence_s": None}}, [NOISY, ACCURATE]),
        ({"quality_buckets": {"lufs": 11}}, [NOISY, ACCURATE, 456 + 11, TRAILING_3]),
        ({"quality_buckets": {"estimated_snr": 10}}, [NOISY, ACCURATE, 468 + 10, TRAILING_3]),
        ({"quality_buckets": {"max_pause": 9}}, [NOISY, ACCURATE, 480 + 9, TRAILING_3]),
        ({"quality_buckets": {"estimated_bandlimit_hz": 7}}, [NOISY, ACCURATE, 499, TRAILING_3]),
        ({"quality_buckets": {"leading_silence_s": 0}}, [NOISY, ACCURATE, 500, TRAILING_3]),
        ({"quality_buckets": {"trailing_silence_s": 0}}, [NOISY, ACCURATE, 508]),
        ({"quality_values": {"lufs": -20.0}}, [NOISY, ACCURATE, 456 + 7, TRAILING_3]),
        ({"quality_values": {"estimated_snr": 33.0}}, [NOISY, ACCURATE, 468 + 6, TRAILING_3]),
        ({"quality_values": {"max_pause": 0.7}}, [NOISY, ACCURATE, 480 + 1, TRAILING_3]),
        ({"quality_values": {"estimated_bandlimit_hz": 15e3}}, [NOISY, ACCURATE, 496, TRAILING_3]),
        ({"quality_values": {"leading_silence_s": 0.3}}, [NOISY, ACCURATE, 503, TRAILING_3]),
        ({"quality_values": {"trailing_silence_s": 5.0}}, [NOISY, ACCURATE, 508 + 7]),
    ],
)
def test_every_control_is_its_row(
    shadow: Engine, speaker: Tensor, delivery: dict[str, object], markers: list[int]
) -> None:
    ids = text_ids(shadow, speaker=speaker, delivery=Delivery(**delivery))
    assert ids == [PAD, *markers, BOS, *BYTES, EOS, *[PAD] * 17]


def test_every_control_and_the_voice_change_the_logits(shadow: Engine, speaker: Tensor) -> None:
    runner = shadow.family.open_runner(1)

    @torch.inference_mode()
    def logits(**asked: object) -> Tensor:
        return runner.prefill(0, shadow.family.plan(TEXT, SpeechRequest(text=TEXT, **asked)).main)

    plain = logits(speaker=speaker)
    assert plain.std() > 1, "the logits are lively"
    asked: list[dict[str, object]] = [
        {"delivery": Delivery(speaking_rate_bucket=0)},
        {"delivery": Delivery(clean_speaker_background=True)},
        {"delivery": Delivery(accurate_mode=False)},
        {"speaker": None},
        {"speaker": speaker.roll(1)},
        *({"delivery": Delivery(quality_buckets={name: 1})} for name in QUALITY_BUCKETS),
    ]
    for change in asked:
        assert (logits(**{"speaker": speaker, **change}) - plain).abs().max() > 0.1, change


def test_a_voice_becomes_row_0_through_lda_and_projection(shadow: Engine, speaker: Tensor) -> None:
    weights = random_weights(RELEASE_PARAMS | SHADOW_SIZES)
    row = speaker
    for layer in ("speaker_lda_projection", "speaker_projection"):
        weight, bias = (weights[f"{layer}.{part}"].float() for part in ("weight", "bias"))
        row = weight @ row + bias
    planned = shadow.family.plan(TEXT, SpeechRequest(text=TEXT, speaker=speaker)).main.speaker_row
    assert planned is not None
    torch.testing.assert_close(planned, row, atol=1e-3, rtol=1e-4)


def test_what_nano_does_not_declare_is_refused_there(shadow: Engine) -> None:
    nano = Path(__file__).parents[2] / "assets" / "nano"
    family = Zonos2Family.open(nano, CPU, None)
    for delivery, field in (
        (Delivery(accurate_mode=False), "accurate_mode"),
        (Delivery(clean_speaker_background=True), "clean_speaker_background"),
        (Delivery(quality_buckets={"lufs": 1}), "quality_buckets"),
        (Delivery(quality_values={"max_pause": 1.0}), "quality_values"),
    ):
        shadow.family.plan(TEXT, SpeechRequest(text=TEXT, delivery=delivery))
        with pytest.raises(InvalidRequest) as caught:
            family.plan(TEXT, SpeechRequest(text=TEXT, delivery=delivery))
        assert caught.value.field == field


# Long context -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Six of the layers, all 6,144 rows, and no cutting of the text."""
    folder = tmp_path_factory.mktemp("long")
    make_release(folder, has_encoder=False, ends=False, n_layers=6, long_form_chunk_chars=9_000)
    with Engine.open(folder, device="cpu", num_slots=1) as engine:
        yield engine


def test_a_prompt_of_6000_bytes_fills_the_context_to_its_end(long: Engine) -> None:
    # 6,144 rows: 1 marker, BOS, the bytes, EOS, 17 rows of silence, and 25 rows to speak.
    text = "tick tock " * 609 + "tick tock"
    stream = long.speak(text, seed=1)
    samples, _ = stream.read()
    assert stream.timings.num_prompt_rows == 20 + len(text) == 6144 - 25
    assert stream.finish_reason is FinishReason.LENGTH
    # Nine rows stay free for an end; of those drawn, the last 8 only complete the delayed codes.
    assert len(samples) == (25 - 9 - 8) * 512
    with pytest.raises(InvalidRequest, match=r"6136 rows and the model's context is 6144"):
        long.speak(text + " tick tock tick t")


def test_far_out_a_prefill_is_as_good_as_its_steps(long: Engine) -> None:
    text = "tick tock " * 400
    prompt = long.family.plan(text, SpeechRequest(text=text)).main
    runner = long.family.open_runner(1)
    with torch.inference_mode():
        whole = runner.prefill(0, prompt)
        runner.prefill(0, Prompt(prompt.rows[:-2], None))
        for row in prompt.rows[-2:]:
            stepped = runner.decode([0], row[None, :-1])
    torch.testing.assert_close(stepped, whole, atol=1e-3, rtol=0)


# From a hub ---------------------------------------------------------------------------------


def test_from_a_hub_it_is_the_same(
    release: Path,
    shadow: Engine,
    recording: tuple[np.ndarray, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    constants = huggingface_hub.constants
    with fake_hub() as hub:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        bare = tmp_path / "bare"
        bare.mkdir()
        for name in ("params.json", "model.pth"):
            (bare / name).symlink_to(release / name)
        hub.add("Zyphra/ZONOS2", bare, PINNED["Zyphra/ZONOS2"])
        hub.add(CODEC_REPOSITORY, make_codec(tmp_path / "codec"))
        hub.add(ENCODER_REPOSITORY, make_encoder(tmp_path / "encoder"))
        told: list[str] = []
        with Engine.open(
            "Zyphra/zonos2", device="cpu", num_slots=1, progress=told.append
        ) as fetched:
            asked = {"reference": recording, "seed": 5, "max_new_frames": 12}
            from_hub, _ = fetched.speak(TEXT, **asked).read()
            from_folder, _ = shadow.speak(TEXT, **asked).read()
            assert fetched.name == "Zyphra/ZONOS2"
    np.testing.assert_allclose(from_hub, from_folder, atol=1e-5)
    assert sum("as the hub promises" in line for line in told) == 3
