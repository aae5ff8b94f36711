"""The delay pattern and the end-of-audio rule against the golden data and as properties."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.codec.delay import DelayBuffer, EndOfAudio, shear, unshear

GOLDEN = Path(__file__).parents[2] / "golden"
CODEBOOKS, SIZE, EOA, PAD = 9, 1024, 1024, 1025
golden = np.load(GOLDEN / "delay.npz")
outcomes = json.loads((GOLDEN / "delay.json").read_text())
EOS_CASES = [name for name in outcomes if not name.startswith("stream_")]
STREAM_CASES = [name for name in outcomes if name.startswith("stream_")]
SHEAR_HEIGHTS = (1, 2, 8, 9, 10, 40)

small_rows = st.integers(2, 5).flatmap(
    lambda width: st.lists(
        # 0..3 are codes, 4 is end of audio and 5 pad of a codebook of four codes.
        st.lists(st.integers(0, 5), min_size=width, max_size=width),
        min_size=0,
        max_size=30,
    ).map(lambda rows: (width, rows))
)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.int64))


def frames_of(rows: list[list[int]], width: int, cuts: set[int]) -> list[list[int]]:
    """Push ``rows`` until finished, taking frames after the rows numbered in ``cuts``."""
    buffer, taken = DelayBuffer(width, 4, 4), list[list[int]]()
    for number, row in enumerate(rows):
        buffer.push(row)
        if number in cuts:
            taken += buffer.take_ready().tolist()
        if buffer.finished:
            break
    return taken + buffer.take_ready().tolist()


@pytest.mark.parametrize("height", SHEAR_HEIGHTS)
def test_shear_and_unshear_equal_the_golden_matrices(height: int) -> None:
    aligned = as_tensor(golden[f"shear_in_T{height}"])
    sheared = as_tensor(golden[f"shear_out_T{height}"])
    assert torch.equal(shear(aligned, PAD), sheared)
    assert torch.equal(unshear(sheared, PAD), as_tensor(golden[f"shear_up_of_sheared_T{height}"]))
    assert torch.equal(unshear(aligned, PAD), as_tensor(golden[f"shear_up_raw_T{height}"]))


def test_unshear_works_on_batches() -> None:
    batch = as_tensor(golden["shear_up_batched_in"])
    assert torch.equal(unshear(batch, PAD), as_tensor(golden["shear_up_batched_out"]))


def test_the_golden_stream_is_undelayed_to_its_clean_frames() -> None:
    buffer = DelayBuffer(CODEBOOKS, SIZE, EOA)
    for row in golden["stream_delayed"].tolist():
        buffer.push(row)
    assert buffer.end_frame == len(golden["stream_clean"])
    assert buffer.take_ready().tolist() == golden["stream_clean"].tolist()


@pytest.mark.parametrize("case", EOS_CASES)
def test_end_of_audio_follows_the_exact_rule_step_by_step(case: str) -> None:
    end = EndOfAudio(CODEBOOKS, EOA)
    rows = golden[f"eos_{case}_frames"].tolist()
    end_frames = golden[f"eos_{case}_eos_frame_per_step"].tolist()
    finished = golden[f"eos_{case}_finished_per_step"].tolist()
    budget = outcomes[case]["max_tokens"]
    for step, row in enumerate(rows[: len(end_frames)]):
        end.step(row)
        assert (-1 if end.end_frame is None else end.end_frame) == end_frames[step]
        # The recorded flag also covers the row budget, which is the loop's, and ignore_eos,
        # which this engine does not offer.
        if not outcomes[case]["ignore_eos"]:
            assert (end.finished or step + 1 == budget) == bool(finished[step])


@pytest.mark.parametrize("case", [c for c in EOS_CASES if not outcomes[c]["ignore_eos"]])
def test_our_rule_is_the_synchronous_one_not_the_overlapped_one(case: str) -> None:
    end, num_rows = EndOfAudio(CODEBOOKS, EOA), 0
    for row in golden[f"eos_{case}_frames"].tolist()[: outcomes[case]["max_tokens"]]:
        end.step(row)
        num_rows += 1
        if end.finished:
            break
    ours = (num_rows, end.end_frame)
    exact, overlapped = (
        (outcomes[case][loop]["frames_emitted"], outcomes[case][loop]["eos_frame"])
        for loop in ("scheduler_sync", "scheduler_overlapped")
    )
    assert ours == exact
    # The reference's default loop looks one step late: one junk frame more at the end, or one row
    # fewer when the budget ends it. Only an end at frame 0, clamped, hides the difference.
    assert (ours == overlapped) == (case == "cb8_at_3_clamped_to_zero")


@pytest.mark.parametrize("case", STREAM_CASES)
def test_streams_give_exactly_the_kept_frames(case: str) -> None:
    rows = golden[f"{case}_in"].tolist()
    known_at, end_frame = outcomes[case]["eos_known_at_frame"], outcomes[case]["eos_frame"]
    buffer, num_taken = DelayBuffer(CODEBOOKS, SIZE, EOA), 0
    frames = []
    for number, row in enumerate(rows):
        if number == known_at:
            row = row.copy()
            row[number - end_frame] = EOA
        buffer.push(row)
        ready = buffer.take_ready().tolist()
        num_taken += len(ready)
        frames += ready
        complete = max(0, number + 1 - (CODEBOOKS - 1))
        assert num_taken == (complete if end_frame is None else min(complete, end_frame))
    kept = max(0, len(rows) - (CODEBOOKS - 1)) if end_frame is None else end_frame
    whole = unshear(as_tensor(golden[f"{case}_in"]), PAD).clamp(max=SIZE - 1)
    assert frames == whole[:kept].tolist()
    # The reference decodes every row as a frame when no end was seen, the last 8 incomplete.
    extra = CODEBOOKS - 1 if end_frame is None and len(rows) > CODEBOOKS else 0
    assert outcomes[case]["total_samples"] == 512 * (kept + extra)


def test_the_reference_decodes_the_same_frames_and_then_incomplete_ones() -> None:
    blocks = [golden[f"stream_overlap0_codec_codes_{call}"] for call in range(4)]
    buffer = DelayBuffer(CODEBOOKS, SIZE, EOA)
    for row in golden["stream_overlap0_in"].tolist():
        buffer.push(row)
    ours, theirs = buffer.take_ready(), as_tensor(np.concatenate(blocks))
    assert torch.equal(ours, theirs[: len(ours)])
    assert all(PAD in frame for frame in theirs[len(ours) :].tolist())


def test_incomplete_frames_are_dropped_when_the_budget_ends_the_countdown() -> None:
    buffer = DelayBuffer(CODEBOOKS, SIZE, EOA)
    for row in golden["eos_max_tokens_before_countdown_ends_frames"].tolist()[:15]:
        buffer.push(row)
    assert buffer.end_frame == 12
    assert len(buffer.take_ready()) == 15 - (CODEBOOKS - 1)


def test_stray_special_codes_in_kept_frames_become_the_largest_code() -> None:
    buffer = DelayBuffer(2, 4, 4)
    for row in ([5, 0], [1, 2], [0, 5]):
        buffer.push(row)
    assert buffer.take_ready().tolist() == [[3, 2], [1, 3]]


@given(
    st.integers(1, 5).flatmap(
        lambda width: st.lists(
            st.lists(st.integers(0, 3), min_size=width, max_size=width), min_size=1, max_size=20
        )
    )
)
def test_unshear_undoes_shear_on_all_complete_frames(codes: list[list[int]]) -> None:
    aligned = torch.tensor(codes)
    num_complete = max(0, len(codes) - aligned.shape[1] + 1)
    assert torch.equal(unshear(shear(aligned, 5), 5)[:num_complete], aligned[:num_complete])


@given(small_rows, st.sets(st.integers(0, 30)))
def test_frames_taken_in_any_pieces_equal_the_whole(
    case: tuple[int, list[list[int]]], cuts: set[int]
) -> None:
    width, rows = case
    pieces = frames_of(rows, width, cuts)
    assert pieces == frames_of(rows, width, set())
    if rows:
        whole = unshear(torch.tensor(rows), 5).clamp(max=3).tolist()
        assert pieces == whole[: len(pieces)]


@given(small_rows)
def test_no_frame_is_ever_taken_back(case: tuple[int, list[list[int]]]) -> None:
    width, rows = case
    buffer, num_taken = DelayBuffer(width, 4, 4), 0
    for row in rows:
        buffer.push(row)
        num_taken += len(buffer.take_ready())
        # Had a frame come out too early, a later end of audio would lie before it.
        assert buffer.end_frame is None or num_taken <= buffer.end_frame
    if buffer.finished:
        assert num_taken == buffer.end_frame


@given(small_rows)
def test_the_first_end_of_audio_decides_and_later_ones_are_ignored(
    case: tuple[int, list[list[int]]],
) -> None:
    width, rows = case
    end = EndOfAudio(width, 4)
    holders = [number for number, row in enumerate(rows) if 4 in row]
    for number, row in enumerate(rows):
        assert not end.finished or number > holders[0] + width
        end.step(row)
    if holders:
        first = rows[holders[0]]
        highest = max(j for j in range(width) if first[j] == 4)
        assert end.end_frame == max(0, holders[0] - highest)
        assert end.finished == (len(rows) > holders[0] + width)
    else:
        assert end.end_frame is None and not end.finished
