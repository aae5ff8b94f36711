"""Experts of one byte: what they cost in precision and memory, and who chooses them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import engine.zonos2.family
from engine.family import Prompt
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.family import Zonos2Family, Zonos2Runner, _precision
from engine.zonos2.footprint import footprint
from engine.zonos2.narrow import NARROW_MAX, narrowed
from tests.shadow.release import RELEASE_PARAMS

CPU = torch.device("cpu")
NANO = Path(__file__).parents[3] / "assets" / "nano"
NARROW = [torch.int8, torch.float8_e4m3fn]


@pytest.mark.parametrize("dtype", NARROW)
def test_a_number_is_off_by_half_a_step(dtype: torch.dtype) -> None:
    matrix = torch.randn(3, 8, 64, generator=torch.Generator().manual_seed(0))
    narrow, scale = narrowed(matrix, dtype)
    assert narrow.dtype is dtype and scale.shape == (3, 8)
    error = (narrow.float() * scale[..., None] - matrix).abs()
    largest = matrix.abs().amax(-1, keepdim=True)
    step = largest / 254 if dtype is torch.int8 else matrix.abs() / 16 + largest / 448 / 512
    assert (error <= step * 1.001).all()


# Root of the mean square on the golden checkpoint, logits up to 15: 0.11 and 0.32; bfloat16 0.09.
@pytest.mark.parametrize(("dtype", "limit"), [(torch.int8, 0.2), (torch.float8_e4m3fn, 0.6)])
def test_golden_logits_with_narrow_experts(
    tiny_folder: Path,
    tiny_config: Zonos2Config,
    golden_forward: dict[str, Tensor],
    dtype: torch.dtype,
    limit: float,
) -> None:
    model = load_backbone(tiny_folder, tiny_config, CPU, torch.float32, dtype)
    with torch.inference_mode():
        speaker_row = model.project_speaker(golden_forward["speaker_embeddings"][0])
        squares = []
        for compiles in (True, False):
            runner = Zonos2Runner(model, 4, CPU, compiles=compiles)
            runner.prefill(1, Prompt(golden_forward["a_input_ids"].long(), speaker_row))
            for frame, expected in zip(
                golden_forward["b_frames"], golden_forward["b_logits"], strict=True
            ):
                found = runner.decode([1], frame[None, :9].long())[0]
                squares.append((found - expected).square().mean())
    assert 0 < float(torch.stack(squares).mean().sqrt()) < limit


def test_int8_experts_under_a_bfloat16_spine_do_not_feel_their_neighbours(
    tiny_folder: Path, tiny_config: Zonos2Config, golden_forward: dict[str, Tensor]
) -> None:
    model = load_backbone(tiny_folder, tiny_config, CPU, torch.bfloat16, torch.int8)
    codes = golden_forward["b_frames"][:5, :9].long()
    prompt = golden_forward["d_input_ids"].long()

    def run(slots: list[int]) -> Tensor:
        runner = Zonos2Runner(model, 5, CPU)
        for slot in slots:
            runner.prefill(slot, Prompt(prompt[: 9 + slot], None))
        return runner.decode(slots, codes[slots])

    with torch.inference_mode():
        full = run([0, 1, 2, 3, 4])
        assert all(torch.equal(run([slot])[0], full[slot]) for slot in range(5))


def test_the_embedded_experts_lose_nothing(tiny_config: Zonos2Config) -> None:
    """They are stored as int8 rows, so int8 gives them back and words stay as they were."""
    family = Zonos2Family.open(NANO, CPU, None)
    for name, tensor in family.model.state_dict().items():
        if name.endswith(("experts.w13", "experts.w2")):
            narrow, scale = narrowed(tensor, torch.int8)
            torch.testing.assert_close(narrow * scale[..., None], tensor, atol=1e-6, rtol=1e-6)


def test_the_release_in_memory() -> None:
    """The table of bench/README.md: weights of the release in GB."""
    config = Zonos2Config.from_dict(RELEASE_PARAMS)
    gigabytes = {
        (torch.bfloat16, None): 15.3,
        (torch.bfloat16, torch.int8): 8.1,
        (torch.float32, None): 30.7,
    }
    for (dtype, experts), size in gigabytes.items():
        assert footprint(config, dtype, experts).weights / 1e9 == pytest.approx(size, abs=0.1)


def test_auto_takes_narrow_experts_only_where_nothing_else_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Zonos2Config.from_dict(RELEASE_PARAMS)
    free = footprint(config, torch.bfloat16).total(1)
    monkeypatch.setattr(engine.zonos2.family, "available_bytes", lambda _device: free)
    assert _precision(config, CPU, None) == (torch.bfloat16, None)
    assert _precision(config, CPU, torch.int8) == (torch.bfloat16, torch.int8)
    monkeypatch.setattr(engine.zonos2.family, "available_bytes", lambda _device: free - 1)
    assert _precision(config, CPU, None) == (torch.bfloat16, torch.int8)
    assert _precision(config, CPU, torch.bfloat16) == (torch.bfloat16, None)
    assert set(NARROW) == set(NARROW_MAX)
