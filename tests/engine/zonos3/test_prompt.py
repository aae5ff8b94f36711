"""Rows of a prompt, and the family's plan of them: voice, controls, text, and the twin."""

from __future__ import annotations

import pytest
import torch

from engine.errors import InvalidRequest
from engine.request import Delivery, Emotion, Guidance, SpeechRequest
from engine.zonos3.config import Zonos3Config
from engine.zonos3.family import Zonos3Family
from engine.zonos3.prompt import clip_rows, content_rows, speaker_slot

TEXT = "the sea"
SPEAKER = torch.linspace(-1, 1, 192)


def test_controls_come_before_the_text_each_with_a_table_of_its_own(config: Zonos3Config) -> None:
    indices = {"lufs": 3, "bandwidth_hz": 10, "speaking_rate": 30}
    rows = content_rows(config, indices, [7, 8])
    first = config.tokenizer_size
    expected = [first + 3, first + 11 + 10, first + 22 + 30, config.bos_id, 7, 8, config.eos_id]
    assert rows[:, -1].tolist() == expected
    assert set(rows[:, :-1].flatten().tolist()) == {config.audio_pad_id}
    # The largest control id is the last one before pad.
    assert first + 22 + 30 == config.text_vocab - 1


def test_a_clip_keeps_every_code_at_its_delay(config: Zonos3Config) -> None:
    clip = torch.arange(30).view(3, 10)
    rows = clip_rows(config, clip)
    assert rows.shape == (3 + 9, 11)
    for frame in range(3):
        for codebook in range(10):
            assert rows[frame + codebook, codebook] == clip[frame, codebook]
    assert (rows[:, :-1] == config.audio_pad_id).sum() == 9 * 10
    assert set(rows[:, -1].tolist()) == {config.text_vocab}


def test_a_voice_is_one_row_or_the_codes_of_its_clip(family: Zonos3Family) -> None:
    config = family.config
    plain = family.plan(TEXT, SpeechRequest(TEXT)).main
    assert plain.speaker_row is None
    spoken = family.plan(TEXT, SpeechRequest(TEXT, SPEAKER, voice_id="ann")).main
    assert torch.equal(spoken.rows, torch.cat([speaker_slot(config), plain.rows]))
    assert spoken.speaker_row is not None
    assert torch.equal(spoken.speaker_row, family.model.project_speaker(SPEAKER))
    from_clip = family.plan(TEXT, SpeechRequest(TEXT, SPEAKER, voice_id="ben")).main
    assert from_clip.speaker_row is None
    assert torch.equal(from_clip.rows[30 + 9 :], plain.rows)
    assert from_clip.rows[0, 0] == family._clips["ben"][0, 0]


@torch.inference_mode()
def test_both_forms_of_a_voice_and_the_controls_are_heard(family: Zonos3Family) -> None:
    runner = family.open_runner(1)

    def logits(request: SpeechRequest) -> torch.Tensor:
        return runner.prefill(0, family.plan(TEXT, request).main)

    requests = [
        SpeechRequest(TEXT),
        SpeechRequest(TEXT, SPEAKER),
        SpeechRequest(TEXT, -SPEAKER),
        SpeechRequest(TEXT, SPEAKER, voice_id="ben"),
        SpeechRequest(TEXT, delivery=Delivery(quality_buckets={"lufs": 0})),
        SpeechRequest(TEXT, delivery=Delivery(speaking_rate_bucket=0)),
    ]
    seen = [logits(request) for request in requests]
    for index, one in enumerate(seen):
        assert all((one - other).abs().max() > 1e-3 for other in seen[:index])


def test_guidance_by_the_voice_is_the_same_prompt_without_it(family: Zonos3Family) -> None:
    plain = family.plan(TEXT, SpeechRequest(TEXT)).main
    for voice_id in ("ann", "ben"):
        request = SpeechRequest(TEXT, SPEAKER, voice_id=voice_id, guidance=Guidance(speaker=2.0))
        plan = family.plan(TEXT, request)
        (twin,) = plan.twins
        assert twin.scale == 2.0 and twin.prompt.speaker_row is None
        assert torch.equal(twin.prompt.rows, plain.rows)
        assert len(plan.main.rows) == len(plain.rows) + (1 if voice_id == "ann" else 39)
    assert family.plan(TEXT, SpeechRequest(TEXT, SPEAKER)).twins == ()


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (SpeechRequest(TEXT, guidance=Guidance(speaker=2.0)), "cfg_scale"),
        (SpeechRequest(TEXT, SPEAKER, emotion=Emotion({"happy": 1.0})), "emotion_sliders"),
        (SpeechRequest(TEXT, SPEAKER, emotion=Emotion(valence=0.5)), "emotion_sliders"),
    ],
)
def test_what_the_family_cannot_do_is_refused(
    family: Zonos3Family, request_: SpeechRequest, field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        family.plan(TEXT, request_)
    assert caught.value.field == field


def test_an_emotion_of_nothing_is_no_emotion(family: Zonos3Family) -> None:
    assert family.plan(TEXT, SpeechRequest(TEXT, emotion=Emotion({"happy": 0.0}))).twins == ()


def test_tokens_may_span_words_and_every_text_has_some(family: Zonos3Family) -> None:
    encode = family._tokenizer.encode
    assert len(encode("the sea")) == 1
    assert encode("a the sea") == [*encode("a "), *encode("the sea")]
    for text in ("Grüße", "海は静か", "🌊\n", ""):
        ids = encode(text)
        assert len(ids) == len(text.encode())
        assert all(0 <= one < family.config.tokenizer_size for one in ids)
    with pytest.raises(InvalidRequest, match="half of a surrogate pair") as caught:
        encode("a\ud83d")
    assert caught.value.field == "input"
