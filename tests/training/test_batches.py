"""Training rows are the rows that the engine asks with."""

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.codec.delay import unshear
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import ResolvedControls
from engine.zonos2.prompt import build_rows
from training.batches import IGNORED, TRIMMED_ROWS, BatchMaker, Dropout
from training.shards import Utterance

NANO = Path(__file__).parents[2] / "assets" / "nano"


@pytest.fixture(scope="module")
def config() -> Zonos2Config:
    return Zonos2Config.load(NANO)


def utterance(text: str, num_frames: int, seed: int) -> Utterance:
    rng = np.random.default_rng(seed)
    return Utterance(
        text=text,
        speaker=5,
        speech_s=len(text) / 15,
        trailing_silence_s=0.3,
        codes=rng.integers(0, 1024, (num_frames, 9)).astype(np.uint16),
        byte_index=np.linspace(0, len(text), num_frames).astype(np.uint16),
        phoneme_id=np.full(num_frames, 7, np.uint8),
        embedding=rng.standard_normal(128).astype(np.float16),
    )


def maker(config: Zonos2Config, utterances: list[Utterance], **shares: float) -> BatchMaker:
    return BatchMaker(config, utterances, Dropout(**{"speaker": 0, "control": 0, **shares}))


def test_the_prompt_is_the_engines_and_the_audio_follows_it(config: Zonos2Config) -> None:
    spoken = utterance("Hello there.", 30, 1)
    example = maker(config, [spoken]).example(spoken, True, np.random.default_rng(0))
    controls = ResolvedControls(
        rate_bucket=3, quality={"trailing_silence_s": 3}, background=None, accurate=False
    )
    prompt = build_rows(config, spoken.text, controls, has_speaker=True).numpy()
    assert np.array_equal(example.rows[: len(prompt)], prompt)
    asked = example.targets[len(prompt) - 1 :]
    assert (example.targets[: len(prompt) - 1] == IGNORED).all()
    codes = unshear(torch.from_numpy(asked), config.audio_pad_id)[: spoken.num_frames]
    assert np.array_equal(codes.numpy(), spoken.codes)
    for j in range(config.num_codebooks):
        assert asked[spoken.num_frames + j, j] == config.eoa_id
        assert (asked[spoken.num_frames + j + 1 :, j] == config.audio_pad_id).all()


def test_each_asked_row_knows_the_text_row_being_spoken(config: Zonos2Config) -> None:
    spoken = utterance("Abc", 8, 2)
    example = maker(config, [spoken]).example(spoken, True, np.random.default_rng(0))
    rows = example.text_row[example.text_row != IGNORED]
    heard = "".join(chr(i - 192) if i >= 192 else "$" for i in example.rows[rows, -1])
    assert heard == "AAAbbcc$"


def test_a_continuation_has_no_silence_rows_and_asks_only_for_what_follows(
    config: Zonos2Config,
) -> None:
    first, second = utterance("One.", 20, 3), utterance("Two.", 12, 4)
    example = maker(config, [first, second]).example(
        second, True, np.random.default_rng(0), before=first
    )
    text = bytes(int(i) - 192 for i in example.rows[:, -1] if 192 <= i < 448).decode()
    assert text == "One. Two."
    start = int((example.targets[:, 0] != IGNORED).argmax())
    given = example.rows[: start + 1]
    audio = given[given[:, 0] != config.audio_pad_id]
    kept = first.num_frames - TRIMMED_ROWS
    assert len(audio) == kept
    assert np.array_equal(audio[:, 0], first.codes[:kept, 0])
    assert np.array_equal(example.targets[start : start + 12, 0], second.codes[:, 0])


def test_dropout_leaves_out_speaker_and_controls(config: Zonos2Config) -> None:
    spoken = [utterance(f"Number {i}.", 10, i) for i in range(40)]
    batches = maker(config, spoken, speaker=0.5, control=0.5).epoch(
        np.random.default_rng(2), 10_000
    )
    has_speaker = torch.cat([batch.has_speaker for batch in batches])
    assert 8 <= int(has_speaker.sum()) <= 32


def test_an_epoch_shows_every_utterance_once(config: Zonos2Config) -> None:
    spoken = [utterance("x" * (5 + i), 10 + i, i) for i in range(25)]
    batches = list(maker(config, spoken, continuation=0).epoch(np.random.default_rng(0), 400))
    assert sum(len(batch.rows) for batch in batches) == 25
    assert all(batch.rows.shape[0] * batch.rows.shape[1] <= 400 for batch in batches)
    assert max(len(batch.rows) for batch in batches) > 1
