"""What every test shares: a quiet environment, the human recordings, a browser or a skip."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Set before anything imports gradio or huggingface_hub: no test may reach for the network.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# What a studio keeps: never in the home folder of whoever runs the tests, gone when they end.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="zonos2-studio-tests-")
# A studio that finds no grammars builds them beside whatever it does, for minutes of a core: those
# of tests find none and can build none. What was given is for the fixture `grammar_folder`; the
# processes of a parallel run inherit it.
os.environ.setdefault("TEST_GRAMMARS", os.environ.get("STUDIO_GRAMMARS", ""))
os.environ["STUDIO_GRAMMARS"] = "/dev/null/grammars"

import hypothesis
import pytest
import torch

from engine.text.grammar_store import default_grammar_folder, installed_version

atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)

REPOSITORY = Path(__file__).resolve().parents[1]

# How long one example takes says more about the machine than about what holds, and what passed once
# passes again: `make test ARGS=--hypothesis-profile=search` is for finding new examples.
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.register_profile("studio", deadline=None, derandomize=True)
hypothesis.settings.load_profile("studio")

# Two threads on busy cores are slower than one: they spin at barriers.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder with the human recordings: STUDIO_SHARED, or `shared` beside the repository."""
    folder = Path(os.environ.get("STUDIO_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no recordings: {folder} is missing (set STUDIO_SHARED)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_grammars_by_default() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        nowhere = Path(os.environ["STUDIO_GRAMMARS"])
        patch.setattr("studio.settings.default_grammar_folder", lambda: nowhere)
        yield


@pytest.fixture(scope="session")
def grammar_folder() -> Path:
    """Where real grammars are kept between runs: STUDIO_GRAMMARS, or the user's own cache."""
    if installed_version() is None:
        pytest.skip("no grammars: nemo_text_processing and pynini are not installed")
    return Path(os.environ["TEST_GRAMMARS"] or default_grammar_folder())


def pytest_runtest_call() -> None:
    """What draws without a seed of its own draws the same, whichever tests ran before."""
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the browser tests, by name of the reason, where Chromium is missing."""
    if shutil.which("chromium"):
        return
    missing = pytest.mark.skip(reason="Chromium is missing: `make chromium` as root installs it")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(missing)
