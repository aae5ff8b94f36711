"""The engine speaks with torch, numpy and safetensors alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

SPEAK_WITH_THE_REST_BLOCKED = r"""
import importlib.metadata, re, sys, sysconfig

def plain(name):
    return re.match(r"[\w.-]+", name)[0].lower().replace("-", "_")

# What the three packages themselves are made of, and what they ask for.
wanted, seen = ["torch", "numpy", "safetensors"], set()
while wanted:
    name = wanted.pop()
    if plain(name) in seen:
        continue
    seen.add(plain(name))
    try:
        needs = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        continue
    wanted += [plain(need) for need in needs if "extra ==" not in need]
owners = importlib.metadata.packages_distributions()
allowed = {"engine", sysconfig._get_sysconfigdata_name(), *sys.stdlib_module_names}
allowed |= {module for module, names in owners.items() if {plain(n) for n in names} & seen}

class Wall:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Wall())
for name in ("gradio", "fastapi", "torchaudio", "speechbrain", "soundfile", "scipy"):
    assert name not in allowed, name

from engine import Engine
with Engine.open("assets/nano", device="cpu") as engine:
    samples, rate = engine.speak("Hello.", seed=1).read()
assert len(samples) > 0.2 * rate and abs(samples).max() > 0.05
print("spoken")
"""


def test_one_request_needs_no_other_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPEAK_WITH_THE_REST_BLOCKED],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.strip() == "spoken", done.stderr[-2000:]
