"""The image can be built: its Dockerfile is read, and its steps run for another user."""

import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
PORT = 7860


def read_instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, its arguments on one line)."""
    lines = [
        line
        for line in (REPOSITORY / "Dockerfile").read_text().splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        (name, rest.strip())
        for name, _, rest in (line.partition(" ") for line in whole.splitlines())
    ]


INSTRUCTIONS = read_instructions()


def arguments(instruction: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == instruction]


def copies() -> Iterator[tuple[list[str], str]]:
    """Every COPY as (sources, destination)."""
    for rest in arguments("COPY"):
        *sources, destination = [word for word in rest.split() if not word.startswith("--")]
        yield sources, destination


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for rest in arguments("ENV") for pair in rest.split())


def health_url() -> str:
    (healthcheck,) = arguments("HEALTHCHECK")
    (url,) = re.findall(r"http://[\w.:/]+", healthcheck)
    return url


def is_kept_out(name: str) -> bool:
    """What .dockerignore says of a path at the top of the tree: its last matching line decides."""
    kept_out = False
    for line in (REPOSITORY / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatch(name, line.removeprefix("!")):
            kept_out = not line.startswith("!")
    return kept_out


def front_matter() -> dict[str, object]:
    _, block, _ = (REPOSITORY / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(block)


def test_what_is_copied_is_there_and_reaches_the_builder() -> None:
    names = [name for sources, _ in copies() for name in sources]
    assert {"app.py", "engine", "studio", "assets"} <= set(names)
    for name in names:
        assert (REPOSITORY / name).exists(), name
        assert not is_kept_out(name), f".dockerignore keeps out {name}"


def test_what_is_private_or_large_stays_out() -> None:
    for name in (".git", ".venv", ".env", "tests", "training", "data"):
        assert is_kept_out(name), name


def test_make_installs_and_nothing_else_does() -> None:
    prepared, as_user = [], []
    is_root = True
    for name, rest in INSTRUCTIONS:
        if name == "USER":
            is_root = rest == "root"
        if name == "RUN":
            (prepared if is_root else as_user).append(rest)
    assert as_user == ["make install", ".venv/bin/python -m engine.text.grammars"]
    assert not re.search(r"\b(pip|curl|wget|git)\b", " ".join(prepared))
    assert re.search(r"^install:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)


def test_it_runs_as_user_1000() -> None:
    *_, user = arguments("USER")
    assert any(f"--uid 1000 {user}" in rest for rest in arguments("RUN"))
    assert all(f"--chown={user}" in rest for rest in arguments("COPY"))


def test_port_and_health_are_the_same_everywhere() -> None:
    assert arguments("EXPOSE") == [str(PORT)]
    assert environment()["STUDIO_PORT"] == str(PORT)
    assert environment()["STUDIO_HOST"] == "0.0.0.0"
    assert health_url() == f"http://127.0.0.1:{PORT}/health"
    assert front_matter()["app_port"] == PORT


def test_the_interpreter_is_process_one() -> None:
    (command,) = arguments("CMD")
    assert json.loads(command) == [".venv/bin/python", "app.py"]


def test_no_secret_is_baked_in() -> None:
    assert not arguments("ARG")
    assert not [name for name in environment() if re.search("TOKEN|KEY|SECRET|PASSWORD", name)]


def test_caches_lie_in_the_users_own_home() -> None:
    home = environment()["HOME"]
    for name in ("XDG_CACHE_HOME", "HF_HOME"):
        assert environment()[name].startswith(f"{home}/"), name


def test_the_space_is_described() -> None:
    space = front_matter()
    assert space["sdk"] == "docker"
    assert space["license"] == "apache-2.0"
    assert space["models"] == ["Zyphra/ZONOS2"]
    assert space["title"] and space["emoji"] and space["tags"]
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {space["colorFrom"], space["colorTo"]} <= colours
    assert len(str(space["short_description"])) < 60


# What python:3.11-slim with make has and a recipe or pip may call; above all no compiler.
TOOLS = ("make", "sh", "env", "touch", "grep", "sed", "uname", "cat", "id")


def python_for(user: int) -> str:
    """A Python 3.11 that this user may run and make a virtual environment with."""
    for program in ("/usr/local/bin/python3.11", "/usr/bin/python3.11"):
        probe = [program, "-c", "import ensurepip, venv"]
        if Path(program).exists() and not subprocess.run(probe, user=user, check=False).returncode:
            return program
    pytest.skip("no Python 3.11 with venv that an unprivileged user may run")


@pytest.fixture
def image_root() -> Iterator[Path]:
    """A folder that every user can reach (pytest's own are root's alone)."""
    folder = Path(tempfile.mkdtemp(prefix="studio-image-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(url: str, process: subprocess.Popen[bytes], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the command ended by itself with {process.returncode}"
        try:
            with urllib.request.urlopen(url, timeout=4) as reply:
                assert reply.status == 200
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise AssertionError(f"{url} gave no answer within {limit_s:.0f} s")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to become another user")
def test_its_steps_run_for_another_user_without_a_compiler(image_root: Path) -> None:
    user, group = 65534, 65534  # nobody: it has an entry, as the image's user has, and owns nothing
    home, app, tools = (image_root / name for name in ("home", "home/app", "tools"))
    for folder in (home, app, tools):
        folder.mkdir()
    for name in TOOLS:
        program = shutil.which(name)
        assert program, name
        (tools / name).symlink_to(program)

    from_here = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_")) or name.lower().endswith("_proxy")
    }
    image = {
        name: value.replace(environment()["HOME"], str(home))
        for name, value in environment().items()
    }
    settings = from_here | image | {"PATH": str(tools)}
    settings["PIP_NO_COMPILE"] = "1"  # a third of the files less to write and to remove
    settings["PYTHON"] = python_for(user)
    as_user = {"user": user, "group": group, "extra_groups": [], "cwd": app, "env": settings}

    def own(folder: Path) -> None:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, user, group)

    own(home)
    for name, rest in INSTRUCTIONS:
        if name == "COPY":
            *sources, destination = [word for word in rest.split() if not word.startswith("--")]
            for source in sources:
                copy_tracked(source, app / destination)
            own(app)
        if name == "RUN" and rest.startswith("make "):
            done = subprocess.run(
                rest.split(), **as_user, capture_output=True, text=True, timeout=1200
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    log = image_root / "log"
    port = free_port()  # not before: minutes of downloads take many
    settings["STUDIO_PORT"] = str(port)
    with log.open("wb") as output:
        process = subprocess.Popen(
            json.loads(arguments("CMD")[0]), **as_user, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until_healthy(health_url().replace(str(PORT), str(port)), process, limit_s=240)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
    except BaseException:
        print(log.read_text(errors="replace")[-5000:])
        raise
    finally:
        process.kill()
        process.wait()


def copy_tracked(source: str, destination: Path) -> None:
    """Copy a file or folder as a fresh clone has it: without caches and what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", source],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.split("\0") if name]
    assert names, source
    for name in names:
        inside = Path(name).relative_to(source) if (REPOSITORY / source).is_dir() else Path(name)
        target = destination / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, target)
