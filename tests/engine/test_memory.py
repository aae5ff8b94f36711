"""The memory of a checkpoint is known before it is allocated, and a lack of it is told in full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import engine.memory
from engine.errors import CheckpointError
from engine.memory import Footprint, check_memory, in_units
from engine.zonos2.attention import SlotKv
from engine.zonos2.backbone import Backbone
from engine.zonos2.config import Zonos2Config
from engine.zonos2.footprint import footprint
from tests.shadow.release import RELEASE_PARAMS

CPU = torch.device("cpu")
MB = 1_000_000
SMALL = Footprint(weights=100 * MB, slot=10 * MB, working=50 * MB)
WIDE = Footprint(weights=200 * MB, slot=20 * MB, working=50 * MB)


def test_the_release_takes_what_its_shapes_say() -> None:
    release = footprint(Zonos2Config.from_dict(RELEASE_PARAMS), torch.bfloat16)
    # 7,668,118,208 parameters (spec 1.3), and the experts' biases that only choose.
    assert release.weights == 2 * 7_668_118_208
    # 28 layers x 4 heads x 128 numbers, keys and values, over 6,144 rows.
    assert release.slot == 2 * 28 * 4 * 128 * 6144 * 2
    assert release.total(8) - release.total(0) == 8 * release.slot


def test_a_slot_is_as_large_as_told(tiny_config: Zonos2Config) -> None:
    kv = SlotKv(tiny_config, 3, tiny_config.max_rows, CPU, torch.float32)
    told = footprint(tiny_config, torch.float32)
    assert kv.keys.nbytes + kv.values.nbytes == 3 * told.slot
    with torch.device("meta"):
        backbone = Backbone(tiny_config)
    assert sum(tensor.nbytes for tensor in backbone.state_dict().values()) == told.weights


def test_slots_fill_what_is_left() -> None:
    assert SMALL.slots_within(149 * MB) == 0
    assert SMALL.slots_within(159 * MB) == 0
    assert SMALL.slots_within(160 * MB) == 1
    assert SMALL.slots_within(234 * MB) == 8


@pytest.mark.parametrize(
    ("free", "told"),
    [
        (
            229,
            "1.0 MB of memory are missing on cpu: weights 100.0 MB, slots 8 x 10.0 MB, work 50.0",
        ),
        (229, "229.0 MB are free. Remedy: --slots 7 fits, or close other programs."),
        (155, "Remedy: close other programs or choose a smaller model."),
    ],
)
def test_too_little_memory_says_what_is_missing_and_what_helps(
    monkeypatch: pytest.MonkeyPatch, free: int, told: str
) -> None:
    monkeypatch.setattr(engine.memory, "available_bytes", lambda device: free * MB)
    with pytest.raises(CheckpointError) as caught:
        check_memory(SMALL, 8, CPU)
    assert told in caught.value.message


def test_a_narrower_dtype_is_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.memory, "available_bytes", lambda device: 240 * MB)
    with pytest.raises(CheckpointError, match="Remedy: --dtype bfloat16 --slots 8 fits, or close"):
        check_memory(WIDE, 8, CPU, SMALL)
    monkeypatch.setattr(engine.memory, "available_bytes", lambda device: 300 * MB)
    with pytest.raises(CheckpointError, match="--slots 2 fits, or --dtype bfloat16 --slots 8 fits"):
        check_memory(WIDE, 8, CPU, SMALL)


@pytest.mark.parametrize("free", [230 * MB, None])
def test_enough_or_untold_memory_is_no_matter(
    monkeypatch: pytest.MonkeyPatch, free: int | None
) -> None:
    monkeypatch.setattr(engine.memory, "available_bytes", lambda device: free)
    check_memory(SMALL, 8, CPU)


def test_a_container_has_no_more_than_its_limit(tmp_path: Path) -> None:
    def told(**files: str) -> int | None:
        for name, content in files.items():
            (tmp_path / f"memory.{name}").write_text(content)
        return engine.memory._container_bytes(tmp_path)

    assert told() is None
    assert told(max="max\n", current="5\n") is None
    assert told(max="1000\n", current="600\n") == 400
    assert told(max="1000\n", current="900\n", stat="anon 3\ninactive_file 500\n") == 600
    assert told(max="1000\n", current="1900\n", stat="") == 0


def test_this_machine_tells_its_memory() -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("only Linux tells its free memory in /proc/meminfo")
    available = engine.memory.available_bytes(CPU)
    assert available is not None
    assert 10 * MB < available < 10**14


def test_sizes_are_told_as_people_read_them() -> None:
    assert [in_units(size) for size in (0, 102_400, 352_321_536, 15_336_236_416)] == [
        "0.0 kB",
        "102.4 kB",
        "352.3 MB",
        "15.3 GB",
    ]


def test_release_params_are_the_published_ones() -> None:
    tiny = Path(__file__).parents[1] / "golden" / "tiny_checkpoint" / "params.json"
    assert json.loads(tiny.read_text()).keys() == RELEASE_PARAMS.keys()
