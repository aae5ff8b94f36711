"""What the README shows is run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_python_example_gives_the_samples_of_the_route(client, wav, tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    kept = tmp_path / "samples.npy"
    code = f"{example}\nimport numpy\nnumpy.save({str(kept)!r}, samples)\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.fullmatch(r"(\d+ samples\n){2,}", done.stdout)
    answer = client.post(
        "/v1/audio/speech", json={"input": "Hello there.", "voice": "heart", "seed": 7}
    )
    heard, rate = wav(answer.content)
    expected = np.round(np.clip(np.load(kept), -1, 1) * 32767).astype(np.int16)
    assert rate == 44_100 and np.array_equal(heard, expected)
