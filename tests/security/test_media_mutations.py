"""Damaged headers, thousands of them, end in a reference or in a refusal, and in nothing else."""

import json
import random
import resource
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.security.mutants import CONTAINERS, mutant, outcome, recordings_in

RESULTS = Path(__file__).resolve().parents[1] / "load" / "results" / "media_mutations.json"
NUM_WORKERS = 2


@pytest.fixture(scope="module", params=CONTAINERS)
def container(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def recordings(
    container: str, audio: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[bytes]:
    folder = tmp_path_factory.mktemp("containers")
    return recordings_in(container, audio / "ref_control_16k_mono.wav", folder)


def outcomes(container: str, recordings: list[bytes], numbers: range) -> Counter[int]:
    with ThreadPoolExecutor(NUM_WORKERS) as workers:
        return Counter(
            workers.map(lambda number: outcome(mutant(container, recordings, number)), numbers)
        )


def test_damaged_headers_are_used_or_refused(
    container: str, recordings: list[bytes], temporary: Path
) -> None:
    assert [outcome(data) for data in recordings] == [200] * len(recordings)
    found = outcomes(container, recordings, range(36))
    assert set(found) <= {200, 400, 413}
    assert found[200] and found[400]  # the damage is real, and not all of it is fatal
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_more_damaged_headers_are_used_or_refused(
    container: str, recordings: list[bytes], temporary: Path
) -> None:
    found = outcomes(container, recordings, range(36, 636))
    assert set(found) <= {200, 400, 413}
    assert list(temporary.iterdir()) == []


@pytest.mark.load
@pytest.mark.timeout(3600)
def test_five_thousand_damaged_headers_per_container(
    container: str, recordings: list[bytes], temporary: Path
) -> None:
    outcomes(container, recordings, range(36))  # what is loaded once, at the first recording
    peak_before = peak_memory_bytes()
    begin_s, used_s = time.monotonic(), processor_time_s()
    found = outcomes(container, recordings, range(5000))
    rise_bytes = peak_memory_bytes() - peak_before
    record(
        container,
        {
            "mutants": found.total(),
            "variants": len(recordings),
            "answers": {str(status): count for status, count in sorted(found.items())},
            "peak_memory_rise_mb": round(rise_bytes / 1e6, 1),
            "processor_s": round(processor_time_s() - used_s, 1),
            "wall_s": round(time.monotonic() - begin_s, 1),
        },
    )
    assert set(found) <= {200, 400, 413}
    assert rise_bytes < 100e6
    assert list(temporary.iterdir()) == []


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processor_time_s() -> float:
    """Of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def record(container: str, figures: dict[str, object]) -> None:
    """Keep the figures of a container beside those of the others."""
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(known | {container: figures}, indent=1) + "\n")


@pytest.mark.parametrize("seed", range(80))
def test_noise_behind_every_magic_number_is_refused(seed: int) -> None:
    random_source = random.Random(seed)
    magic = random_source.choice(
        [
            b"RIFF\0\0\0\0WAVE",
            b"RF64\xff\xff\xff\xffWAVE",
            b"FORM\0\0\0\0AIFF",
            b"fLaC",
            b"OggS",
            b"ID3\x04\0\0\0\0\0\0",
            b"\xff\xfb\x90\x64",
            b"\xff\xf1\x50\x80",
            b"\0\0\0\x20ftypM4A ",
            b"\0\0\0\x08moov",
            b"\x1a\x45\xdf\xa3",
        ]
    )
    noise = random_source.randbytes(random_source.randrange(5000))
    assert outcome(magic + noise) == 400
