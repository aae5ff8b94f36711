"""The tree keeps its shape: who imports whom, how long a file grows, what is never called."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = ("engine", "studio", "app.py", "training", "bench")
MAX_LINES = 400
MAX_TREE_BYTES = 40 * 2**20

# What engine/ may not import at any depth, and all it may import while it is imported itself.
WEB = {"app", "studio", "gradio", "fastapi", "pydantic", "starlette", "uvicorn"}
ENGINE_AT_IMPORT = {"engine", "torch", "numpy", "safetensors"}
# Kernels may need what not every machine has; who calls them imports them then.
KERNELS = {"_triton": {"triton"}, "_numba": {"numba", "llvmlite"}}

PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {
    "eval", "exec", "os.system", "os.popen", "tempfile.mktemp", "yaml.load", "yaml.unsafe_load",
}  # fmt: skip

TEXT_SUFFIXES = {
    ".cfg", ".css", ".html", ".ini", ".js", ".json", ".md", ".mjs", ".py", ".sh", ".svg",
    ".toml", ".txt", ".yaml", ".yml", "",
}  # fmt: skip


@cache
def tracked_files() -> tuple[Path, ...]:
    """What git tracks or would track; without git, everything but hidden folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        paths = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [
            path
            for path in REPOSITORY.rglob("*")
            if not any(part[0] == "." for part in path.relative_to(REPOSITORY).parts)
        ]
    return tuple(sorted(path for path in set(paths) if path.is_file()))


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def source_files(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> list[Path]:
    return [
        path
        for path in tracked_files()
        if path.suffix in suffixes and path.relative_to(REPOSITORY).parts[0] in folders
    ]


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(tree: ast.AST, path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every import below `tree` as (absolute module, names taken from it; none for `import m`)."""
    package = path.relative_to(REPOSITORY).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, node.module) if node.module else base)
            yield module, tuple(alias.name for alias in node.names)


def run_at_import(tree: ast.Module) -> ast.Module:
    """What the import of a module executes: no function bodies, no TYPE_CHECKING blocks."""

    class Prune(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    return Prune().visit(ast.parse(ast.unparse(tree)))


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain or name, else ''."""
    return ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""


def engine_surface() -> set[str]:
    for node in parse(REPOSITORY / "engine" / "__init__.py").body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if [dotted(target) for target in targets] == ["__all__"]:
            return set(ast.literal_eval(node.value))
    raise AssertionError("engine/__init__.py has no __all__")


# The rules: each names what breaks it in one file.


def web_in_engine(path: Path) -> Iterator[str]:
    tree = parse(path)
    for module, names in imports(tree, path):
        if module.split(".")[0] in WEB:
            yield f"imports {module}"
        if module == "os" and {"environ", "getenv", "putenv"} & set(names):
            yield "reads the environment"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and dotted(node) in {"os.environ", "os.getenv"}:
            yield f"line {node.lineno}: reads the environment"


def heavy_import_in_engine(path: Path) -> Iterator[str]:
    allowed = ENGINE_AT_IMPORT | sys.stdlib_module_names
    own = next((end for end in KERNELS if path.stem.endswith(end)), None)
    allowed = allowed | KERNELS.get(own, set())
    others = tuple(KERNELS.keys() - {own})  # a kernel may be made of others of its kind
    for module, names in imports(run_at_import(parse(path)), path):
        if module.split(".")[0] not in allowed:
            yield f"imports {module} while it is imported"
        yield from (f"imports {name} at once" for name in (module, *names) if name.endswith(others))


def way_round_the_surface(path: Path) -> Iterator[str]:
    for module, names in imports(parse(path), path):
        if module.startswith("engine."):
            yield f"imports {module}, which is not the surface of engine"
        if module == "engine":
            yield from (f"takes {name} from engine" for name in set(names) - engine_surface())


def app_from_below(path: Path) -> Iterator[str]:
    yield from (f"imports {module}" for module, _ in imports(parse(path), path) if module == "app")


def excess_lines(path: Path) -> Iterator[str]:
    num_lines = len(path.read_text().splitlines())
    if num_lines > MAX_LINES:
        yield f"{num_lines} lines: it holds more than one idea, split it"


def dangerous_calls(path: Path) -> Iterator[str]:
    for module, _ in imports(parse(path), path):
        if module.split(".")[0] in PICKLES:
            yield f"imports {module}"
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if (
            name in FORBIDDEN_CALLS
            or name.endswith(".from_hparams")
            or "trust_remote_code" in keywords
            or keywords.get("shell", "False") != "False"
            or keywords.get("allow_pickle", "False") != "False"
            or (name == "torch.load" and keywords.get("weights_only") != "True")
        ):
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize(
    ("rule", "folders", "suffixes"),
    [
        (web_in_engine, ("engine",), (".py",)),
        (heavy_import_in_engine, ("engine",), (".py",)),
        (way_round_the_surface, ("studio", "app.py"), (".py",)),
        (app_from_below, ("engine", "studio", "training", "bench"), (".py",)),
        (excess_lines, SOURCE, (".py", ".js", ".mjs", ".css")),
        (dangerous_calls, SOURCE, (".py",)),
    ],
)
def test_no_source_breaks(
    rule: Callable[[Path], Iterator[str]], folders: tuple[str, ...], suffixes: tuple[str, ...]
) -> None:
    paths = source_files(*folders, suffixes=suffixes)
    assert paths, "no source found: the rule would hold of nothing"
    assert not [f"{name_of(path)}: {fault}" for path in paths for fault in rule(path)]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (web_in_engine, "def f():\n    import gradio"),
        (web_in_engine, "from os import environ"),
        (web_in_engine, "import os\nos.environ['A']"),
        (web_in_engine, "from studio.settings import Settings"),
        (heavy_import_in_engine, "import torchaudio"),
        (heavy_import_in_engine, "class C:\n    import scipy"),
        (heavy_import_in_engine, "import triton"),
        (heavy_import_in_engine, "import numba"),
        (heavy_import_in_engine, "from engine.kernels import experts_triton"),
        (heavy_import_in_engine, "from engine.kernels import step_numba"),
        (way_round_the_surface, "from engine.queue import Queue"),
        (way_round_the_surface, "from engine import no_such_name"),
        (app_from_below, "import app"),
        (excess_lines, "pass\n" * (MAX_LINES + 1)),
        (dangerous_calls, "import pickle"),
        (dangerous_calls, "eval('1')"),
        (dangerous_calls, "subprocess.run('ls', shell=True)"),
        (dangerous_calls, "torch.load('m.pth')"),
        (dangerous_calls, "torch.load('m.pth', weights_only=False)"),
        (dangerous_calls, "numpy.load('a.npy', allow_pickle=True)"),
        (dangerous_calls, "yaml.load(text)"),
        (dangerous_calls, "EncoderClassifier.from_hparams('x')"),
    ],
)
def test_the_rule_sees(
    rule: Callable[[Path], Iterator[str]],
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    surface = (REPOSITORY / "engine" / "__init__.py").read_text()
    for folder in ("engine", "studio"):
        (tmp_path / folder).mkdir()
    (tmp_path / "engine" / "__init__.py").write_text(surface)
    sample = tmp_path / "engine" / "sample.py"
    sample.write_text(code)
    monkeypatch.setitem(globals(), "REPOSITORY", tmp_path)
    assert list(rule(sample))


def test_lazy_and_typing_imports_are_no_fault_of_engine() -> None:
    path = REPOSITORY / "engine" / "zonos2" / "sample.py"
    tree = ast.parse(
        "from .moe import Moe\nfrom .. import errors\nimport torch\n"
        "if TYPE_CHECKING:\n    import gradio\n"
        "def f():\n    import dac\n"
    )
    everything = {"engine.zonos2.moe", "engine", "torch", "gradio", "dac"}
    assert {module for module, _ in imports(tree, path)} == everything
    at_import = {module for module, _ in imports(run_at_import(tree), path)}
    assert at_import == {"engine.zonos2.moe", "engine", "torch"}


# A bracket round one letter keeps this file from holding what it looks for.
UNFINISHED = re.compile(r"T[O]DO|F[I]XME|X[X]X|NotImplement[e]dError")
MACHINE = re.compile(
    r"(?<![\w.-])/(w[o]rk|r[o]ot|tmp/[w]|opt/wheel[s]|opt/py[p]i)/"
    r"|py[p]i\.org|pythonhoste[d]\.org|registry\.np[m]js|de[b]\.debian\.org"
)


@pytest.mark.parametrize("pattern", [UNFINISHED, MACHINE], ids=["unfinished", "machine"])
def test_no_text_holds(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name_of(path)}:{number}: {match[0]}"
        for path in tracked_files()
        if path.suffix in TEXT_SUFFIXES
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        for match in pattern.finditer(line)
    ]
    assert not found


def test_the_tree_stays_small() -> None:
    assert sum(path.stat().st_size for path in tracked_files()) < MAX_TREE_BYTES
    assert not [name_of(path) for path in tracked_files() if path.is_symlink()]
