"""Makes torchaudio importable beside a CPU build of torch.

- The trap: PyPI has one torchaudio per platform, for Linux x86_64 built against CUDA. Beside a CPU
  build of torch its compiled library finds no libtorch_cuda, and `import torchaudio` raises
  OSError, which `except ImportError` guards miss. descript-audio-codec, descript-audiotools,
  speechbrain and resemble-perth import torchaudio at their top, so they fail with it.
- The way out: torchaudio runs without that library, as when it was packed without one, and then
  takes its loops in Python (resampling, spectrograms and filters give the same numbers).
- The rule: call `ensure_torchaudio()` inside the function that imports one of those packages, just
  before the import. Reading and writing files through torchaudio needs TorchCodec and is not used.
"""

import sys
import threading
import types
from typing import Literal

_lock = threading.Lock()


def ensure_torchaudio() -> Literal["native", "python"]:
    """Import torchaudio, without its compiled library where that does not load.

    Returns "native" with the compiled library and "python" without it; calling again is free.
    Raises ImportError where torchaudio is not installed.
    """
    with _lock:
        try:
            import torchaudio
        except OSError:
            _forget_torchaudio()
            _stand_in_for_loader()
            import torchaudio
        return "native" if torchaudio._extension._IS_TORCHAUDIO_EXT_AVAILABLE else "python"


def _forget_torchaudio() -> None:
    """Drop what the failed import left behind, so that the next one starts over."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
        del sys.modules[name]


def _stand_in_for_loader() -> None:
    """Give torchaudio a loader that finds no library; the rest of it then adapts by itself.

    Source: torchaudio 2.11.1, `_extension/__init__.py`, which takes these three names from it.
    """
    loader = types.ModuleType("torchaudio._extension.utils")
    loader.__dict__.update(
        _load_lib=lambda name: False,
        _check_cuda_version=lambda: None,
        _init_dll_path=lambda: None,
    )
    sys.modules[loader.__name__] = loader
