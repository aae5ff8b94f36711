"""The compiled decode step: the plain backbone's numbers, and the same bits beside any others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.family import Prompt
from engine.kernels import step_numba
from engine.zonos2.attention import SlotKv
from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.compiled import CompiledStep
from engine.zonos2.family import Zonos2Runner
from engine.zonos2.step import SlotStep

REPOSITORY = Path(__file__).parents[3]
NUM_SLOTS = 6
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def plain_runner(model: Backbone) -> Zonos2Runner:
    """A runner that decodes as on a GPU, without its graph: through the backbone itself."""
    return Zonos2Runner(model, NUM_SLOTS, CPU, compiles=False)


def test_a_step_gives_what_the_plain_backbone_gives(
    tiny: Backbone, tiny_folder: Path, golden_forward: dict[str, Tensor]
) -> None:
    narrow = load_backbone(tiny_folder, tiny.config, "cpu", torch.bfloat16)
    exact, ours = plain_runner(tiny), Zonos2Runner(tiny, NUM_SLOTS, CPU)
    narrow_plain, narrow_ours = plain_runner(narrow), Zonos2Runner(narrow, NUM_SLOTS, CPU)
    prompt = golden_forward["d_input_ids"].long()
    for runner in (exact, ours, narrow_plain, narrow_ours):
        runner.prefill(1, Prompt(prompt, None))
        runner.prefill(4, Prompt(prompt[:9], None))
    generator = torch.Generator().manual_seed(0)
    plain_noise, our_noise = 0.0, 0.0
    for _ in range(12):
        codes = torch.randint(0, 1024, (2, 9), generator=generator)
        expected = exact.decode([4, 1], codes)
        torch.testing.assert_close(ours.decode([4, 1], codes), expected, atol=1e-4, rtol=0)
        plain_noise += float((narrow_plain.decode([4, 1], codes) - expected).square().mean())
        our_noise += float((narrow_ours.decode([4, 1], codes) - expected).square().mean())
    assert 0 < our_noise < plain_noise  # only weights, keys and values are rounded


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("experts_dtype", [None, torch.int8, torch.float8_e4m3fn])
def test_a_row_has_the_same_bits_beside_any_others_and_with_any_threads(
    tiny_folder: Path,
    tiny: Backbone,
    golden_forward: dict[str, Tensor],
    dtype: torch.dtype,
    experts_dtype: torch.dtype | None,
) -> None:
    model = load_backbone(tiny_folder, tiny.config, "cpu", dtype, experts_dtype)
    kv = SlotKv(model.config, NUM_SLOTS, 64, "cpu", dtype)
    codes = golden_forward["b_frames"][:NUM_SLOTS, :9].long()
    places = [0, 3, 9, 20, 4, 11]
    kv.keys.normal_(generator=torch.Generator().manual_seed(1))
    kv.values.normal_(generator=torch.Generator().manual_seed(2))
    full = CompiledStep(model, kv, NUM_SLOTS, num_threads=1)(codes, range(NUM_SLOTS), places)
    assert len({tuple(row.flatten().tolist()) for row in full}) == NUM_SLOTS
    for num_threads in (1, 2, 3):
        step = CompiledStep(model, kv, NUM_SLOTS, num_threads)
        for chosen in ([2], [5, 0], [0, 1, 2], [4, 3, 2, 1], [1, 2, 3, 4, 5]):
            found = step(codes[chosen], chosen, [places[slot] for slot in chosen])
            assert torch.equal(found, full[chosen])


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
@pytest.mark.parametrize("part", ["keys", "values"])
def test_numbers_of_no_use_stay_in_their_row_and_can_be_seen(
    tiny: Backbone, golden_forward: dict[str, Tensor], broken: float, part: str
) -> None:
    kv = SlotKv(tiny.config, 3, 64, "cpu", torch.float32)
    getattr(kv, part)[2, 1, :, 3] = broken
    codes = golden_forward["b_frames"][:3, :9].long()
    logits = CompiledStep(tiny, kv, 3)(codes, [0, 1, 2], [5, 5, 5])
    assert logits.isfinite().flatten(1).all(dim=1).tolist() == [True, False, True]


def test_threads_that_wait_for_a_core_still_meet(
    tiny: Backbone, golden_forward: dict[str, Tensor]
) -> None:
    """More threads than any machine of ours has cores: they offer theirs while they wait."""
    kv = SlotKv(tiny.config, 2, 64, "cpu", torch.float32)
    codes = golden_forward["b_frames"][:2, :9].long()
    alone = CompiledStep(tiny, kv, 2, num_threads=1)(codes, [0, 1], [0, 5])
    many = CompiledStep(tiny, kv, 2, num_threads=24)
    for _ in range(5):
        assert torch.equal(many(codes, [0, 1], [0, 5]), alone)


def test_without_numba_or_in_half_precision_the_plain_step_speaks(
    tiny: Backbone, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = load_backbone(tiny_folder, tiny.config, "cpu", torch.float16)
    assert isinstance(Zonos2Runner(half, 2, CPU)._step, SlotStep)
    assert isinstance(Zonos2Runner(tiny, 2, CPU)._step, CompiledStep)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert isinstance(Zonos2Runner(tiny, 2, CPU)._step, SlotStep)


def test_where_nothing_can_be_written_it_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(function: object = None, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function 'run': no locator available")
        return function

    kept = step_numba._keeping(1)
    assert kept._cache.cache_path  # beside the source, or in the user's cache
    monkeypatch.setattr(step_numba, "njit", njit)
    assert step_numba._keeping(1)._cache is not kept._cache


def test_a_full_disk_or_a_damaged_file_of_what_was_kept_stops_nobody(
    tiny: Backbone, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = step_numba.run

    def fails(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(step_numba, "run", fails)
    monkeypatch.setattr(step_numba, "unkept", run)
    step = CompiledStep(tiny, SlotKv(tiny.config, 1, 8, "cpu", torch.float32), 1)
    assert "cannot be kept" in caplog.text
    assert torch.isfinite(step(torch.zeros(1, 9, dtype=torch.int64), [0], [0])).all()


@pytest.mark.parametrize("byte", [0x5A, 0xA5])
def test_memory_that_was_freed_or_never_written_is_not_read(
    byte: int, spoilt: Callable[[int], dict[str, str]]
) -> None:
    subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "-k", "plain_backbone or same_bits"],
        env=spoilt(byte),
        cwd=REPOSITORY,
        check=True,
    )
