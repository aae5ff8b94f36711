"""The files of NeMo's text grammars: made once per language and version, in a folder of the caller.

- A grammar is built by a child process, one at a time on the whole machine (French takes 2.7 GB),
  beside its place, and renamed when it is whole: whoever finds one may use it.
- Languages never share a folder (two of them use the same file names), nor do versions.
- Who needs a grammar that is not there asks for it and goes on without: it comes in the background.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

# The code of a language -> the name of its grammar (spec/zonos2.md 9.1).
GRAMMARS = {
    "en_us": "en", "en_gb": "en", "cmn": "zh", "ja": "ja", "ko": "ko", "de": "de", "fr_fr": "fr",
    "pt_br": "pt", "es": "es", "it": "it",
}  # fmt: skip
CHILD = Path(__file__).with_name("grammar_child.py")
_BUILD_LIMIT_S = 3600.0  # the slowest took 7 minutes on a machine with six builds at once


def default_grammar_folder() -> Path:
    """Where grammars are kept if nobody says otherwise: they outlive the studio's own data."""
    return Path.home() / ".cache" / "zonos2-studio" / "grammars"


def installed_version() -> str | None:
    """The version of the grammars that can be built and used here, None without pynini or NeMo."""
    try:
        names = ("nemo_text_processing", "pynini")
        return "-".join(importlib.metadata.version(name) for name in names)
    except importlib.metadata.PackageNotFoundError:
        return None


class GrammarStore:
    """The grammars in ``folder``, and the one builder of this process."""

    def __init__(self, folder: Path, child: Path = CHILD) -> None:
        self.version = installed_version()
        self.folder = folder
        self._child = child
        self._builder = ThreadPoolExecutor(1, thread_name_prefix="grammar-builder")
        self._coming: dict[str, Future[Path]] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()

    def find(self, grammar: str) -> Path | None:
        """The folder of ``grammar``'s files, None while there are none."""
        path = self._place(grammar)
        return path if path.is_dir() else None

    def ask_for(self, grammar: str) -> Future[Path]:
        """Build ``grammar`` in the background; one that failed is not tried again."""
        with self._lock:
            if grammar not in self._coming:
                self._coming[grammar] = self._builder.submit(self.build, grammar)
            return self._coming[grammar]

    def build(self, grammar: str) -> Path:
        """Make ``grammar``'s files if there are none, and give their folder.

        Raises ``OSError`` or ``subprocess.SubprocessError`` where that fails.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._only_builder():
            place = self._place(grammar)
            if place.is_dir():
                return place
            aside = Path(tempfile.mkdtemp(prefix=f".{grammar}-", dir=self.folder))
            try:
                self._run([sys.executable, "-P", str(self._child), "build", grammar, str(aside)])
                aside.rename(place)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
            return place

    def close(self) -> None:
        """End a build that is running; nothing half-made is left."""
        self._closing.set()
        self._builder.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._builder.shutdown(wait=True)

    def _place(self, grammar: str) -> Path:
        return self.folder / f"{grammar}-{self.version}"

    def _run(self, command: Sequence[str]) -> None:
        # NeMo's messages quote nothing private while it builds, but nobody reads them either.
        quiet = subprocess.DEVNULL
        with self._lock:
            if self._closing.is_set():
                raise subprocess.SubprocessError("the studio is closing")
            self._process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
        try:
            code = self._process.wait(_BUILD_LIMIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None
        if code != 0:
            raise subprocess.CalledProcessError(code, command)

    @contextmanager
    def _only_builder(self) -> Iterator[None]:
        import fcntl  # grammars exist on Linux only

        with (self.folder / ".building").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:  # another process is building
                    if self._closing.wait(0.5):
                        raise subprocess.SubprocessError("the studio is closing") from None
            for left in self.folder.glob(".*-*/"):  # by a builder that was killed
                shutil.rmtree(left, ignore_errors=True)
            yield
