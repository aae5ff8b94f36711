"""torchaudio and what stands on it can be imported beside any build of torch."""

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from engine.compat import ensure_torchaudio

REPOSITORY = Path(__file__).resolve().parents[2]


def run_python(code: str, *, path: Path | None = None) -> str:
    """Run code in an interpreter of its own, with `path` searched first; return what it printed."""
    searched = [str(folder) for folder in (path, REPOSITORY) if folder]
    prelude = f"import sys; sys.path[:0] = {searched!r}\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", prelude + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write_fake_torchaudio(folder: Path, loader: str) -> None:
    """A package with torchaudio's import chain, whose loader is `loader`."""
    extension = folder / "torchaudio" / "_extension"
    extension.mkdir(parents=True)
    (folder / "torchaudio" / "__init__.py").write_text("from . import _left_over, _extension\n")
    (folder / "torchaudio" / "_left_over.py").write_text("")
    (extension / "__init__.py").write_text(
        "from .utils import _check_cuda_version, _init_dll_path, _load_lib\n"
        "_IS_TORCHAUDIO_EXT_AVAILABLE = _load_lib('_torchaudio')\n"
    )
    (extension / "utils.py").write_text(
        f"def _load_lib(name):\n    {loader}\n_check_cuda_version = _init_dll_path = print\n"
    )


# Where torchaudio is a fake, the module is loaded alone: `import engine` would bring real torch.
LOAD_COMPAT = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("compat", {str(REPOSITORY / "engine/compat.py")!r})
compat = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compat)
"""


def test_a_library_that_loads_is_used(tmp_path: Path) -> None:
    write_fake_torchaudio(tmp_path, "return True")
    assert run_python(LOAD_COMPAT + "print(compat.ensure_torchaudio())", path=tmp_path) == "native"


def test_a_library_that_does_not_load_is_left_out(tmp_path: Path) -> None:
    write_fake_torchaudio(tmp_path, "raise OSError('libtorch_cuda.so: cannot open')")
    code = "print(compat.ensure_torchaudio(), compat.ensure_torchaudio())"
    assert run_python(LOAD_COMPAT + code, path=tmp_path) == "python python"


def test_an_earlier_failed_import_does_no_harm(tmp_path: Path) -> None:
    write_fake_torchaudio(tmp_path, "raise OSError('libtorch_cuda.so: cannot open')")
    code = """
try:
    import torchaudio
except OSError:
    assert "torchaudio._left_over" in sys.modules
print(compat.ensure_torchaudio())
import torchaudio
print(torchaudio._extension._IS_TORCHAUDIO_EXT_AVAILABLE)
"""
    assert run_python(LOAD_COMPAT + code, path=tmp_path).split() == ["python", "False"]


def test_an_absent_torchaudio_stays_an_import_error() -> None:
    code = """
sys.modules["torchaudio"] = None
try:
    compat.ensure_torchaudio()
except ImportError as error:
    print(type(error).__name__)
"""
    assert run_python(LOAD_COMPAT + code) == "ModuleNotFoundError"


def test_it_is_lazy() -> None:
    code = "print([name for name in sys.modules if name.startswith('torch')])"
    assert run_python(LOAD_COMPAT + code) == "[]"


needs_torchaudio = pytest.mark.skipif(
    importlib.util.find_spec("torchaudio") is None, reason="torchaudio is not installed"
)


@needs_torchaudio
def test_resampling_keeps_a_tone() -> None:
    ensure_torchaudio()
    from torchaudio.functional import resample

    def tone(sample_rate_hz: int) -> torch.Tensor:
        return torch.sin(2 * torch.pi * 440 * torch.arange(sample_rate_hz) / sample_rate_hz)

    resampled = resample(tone(44_100), 44_100, 16_000)
    inner = slice(200, -200)
    assert torch.allclose(resampled[inner], tone(16_000)[inner], atol=2e-3)


@needs_torchaudio
def test_a_filter_gives_its_difference_equation() -> None:
    ensure_torchaudio()
    from torchaudio.functional import lfilter

    signal = torch.tensor([1.0, 0.0, 0.0, 2.0])
    filtered = lfilter(signal, torch.tensor([1.0, -0.5]), torch.tensor([1.0, 0.0]), clamp=False)
    assert torch.allclose(filtered, torch.tensor([1.0, 0.5, 0.25, 2.125]))


@needs_torchaudio
@pytest.mark.skipif(importlib.util.find_spec("dac") is None, reason="dac is not installed")
def test_the_packages_that_import_it_run() -> None:
    printed = run_python(
        """
        from engine.compat import ensure_torchaudio
        ensure_torchaudio()
        import torch
        torch.set_num_threads(1)
        import dac
        from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
        codec = dac.DAC(encoder_dim=8, encoder_rates=[2, 4], decoder_dim=32, decoder_rates=[4, 2],
                        n_codebooks=2, sample_rate=16_000).eval()
        encoder = ECAPA_TDNN(80, channels=[16] * 4 + [48], lin_neurons=12).eval()
        with torch.inference_mode():
            spoken = codec(torch.zeros(1, 1, 800), 16_000)
            embedding = encoder(torch.zeros(1, 50, 80))
            print(*spoken["audio"].shape, *spoken["codes"].shape, *embedding.shape)
        """
    )
    assert printed.splitlines()[-1] == "1 1 800 1 2 100 1 1 12"
