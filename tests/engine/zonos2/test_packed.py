"""The packed decode step: the plain backbone's numbers, and the same bits beside any others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.family import Prompt
from engine.zonos2 import packed
from engine.zonos2.attention import SlotKv
from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.family import Zonos2Runner
from engine.zonos2.packed import Norm, PackedStep, least_rows, product

NUM_SLOTS = 6
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def plain_runner(model: Backbone) -> Zonos2Runner:
    """A runner that decodes as on a GPU, without its graph: through the backbone itself."""
    return Zonos2Runner(model, NUM_SLOTS, CPU, packs=False)


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
    assert 0 < our_noise < 1.3 * plain_noise  # bfloat16 is as near to float32 packed as plain


@pytest.mark.parametrize("min_rows", [None, NUM_SLOTS])
def test_a_row_has_the_same_bits_beside_any_others(
    tiny: Backbone, golden_forward: dict[str, Tensor], min_rows: int | None
) -> None:
    """Also where a machine allows one shape of product only."""
    kv = SlotKv(tiny.config, NUM_SLOTS, 64, "cpu", torch.float32)
    step = PackedStep(tiny, kv, NUM_SLOTS)
    step.min_rows = min_rows or step.min_rows
    codes = golden_forward["b_frames"][:NUM_SLOTS, :9].long()
    places = [0, 3, 9, 20, 4, 11]
    kv.keys.normal_(generator=torch.Generator().manual_seed(1))
    full = step(codes, range(NUM_SLOTS), places)
    for chosen in ([2], [5, 0], [0, 1, 2], [4, 3, 2, 1], [1, 2, 3, 4, 5]):
        found = step(codes[chosen], chosen, [places[slot] for slot in chosen])
        assert torch.equal(found, full[chosen])


def test_the_least_rows_are_those_from_which_on_bits_are_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed._least_rows.cache_clear()

    def uneven(weight: Tensor, bias: Tensor | None = None) -> packed.Product:
        return lambda rows: rows @ weight.T + (1e-6 if len(rows) < 3 else 0.0)

    shape = torch.Size([8, 4])
    assert 1 <= least_rows([shape], 5, torch.float32) <= 5
    packed._least_rows.cache_clear()
    monkeypatch.setattr(packed, "product", uneven)
    assert least_rows([shape], 5, torch.float32) >= 3
    packed._least_rows.cache_clear()


def test_without_onednn_products_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, rows = torch.randn(300, 200), torch.randn(4, 200)
    with_it = product(weight)(rows)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    without = product(weight)(rows)
    assert torch.equal(without, torch.nn.functional.linear(rows, weight))
    torch.testing.assert_close(with_it, without, atol=1e-4, rtol=0)


@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_the_norm_is_the_module_with_its_epsilon(scale: float) -> None:
    weight, x = torch.rand(96), torch.randn(3, 96) * scale
    expected = torch.nn.functional.rms_norm(x, (96,), weight, 1e-5)
    torch.testing.assert_close(Norm(weight, 96, 1e-5)(x), expected)
