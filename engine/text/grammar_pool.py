"""Texts read by grammars: one child process per language, a bounded number of them.

- A language's texts queue for its process and wait for no other language.
- A text that takes too long costs its process: it is killed, and the next text starts a new one.
- Whoever asks gets an answer or a ``GrammarFault`` by its own deadline, whatever the process does.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from collections import OrderedDict
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from engine.text.grammar_store import CHILD

# A child ends by itself at a text that takes 5 s of a core; this is for one that hangs.
TEXT_LIMIT_S = 30.0
LOAD_LIMIT_S = 60.0
MAX_PROCESSES = 4


class GrammarFault(Exception):
    """Why a grammar did not read a text, as the end of a sentence."""


class GrammarProcess:
    """The child process of one grammar, started when it is first asked and after each failure."""

    def __init__(
        self,
        grammar: str,
        folder: Path,
        child: Path = CHILD,
        text_limit_s: float = TEXT_LIMIT_S,
        load_limit_s: float = LOAD_LIMIT_S,
    ) -> None:
        self._command = [sys.executable, "-P", str(child), "serve", grammar, str(folder)]
        self._text_limit_s = text_limit_s
        self._load_limit_s = load_limit_s
        # The one thread that talks with the process; its queue is first come, first served.
        self._talker = ThreadPoolExecutor(1, thread_name_prefix=f"grammar-{grammar}")
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self.num_users = 0  # kept by the pool, under its lock

    def read(self, text: str, until: float) -> str:
        """``text`` as the grammar says it, by the time ``until`` on the monotonic clock."""
        try:
            answer = self._talker.submit(self._ask, text, until)
        except RuntimeError:
            raise GrammarFault("was closed") from None
        try:
            return answer.result(max(0.0, until - monotonic()))
        except TimeoutError:
            answer.cancel()
            raise GrammarFault("was still busy") from None
        except CancelledError:
            raise GrammarFault("was closed") from None

    def load(self) -> None:
        """Have the process ready for the first text; does not wait for it."""
        with suppress(RuntimeError):
            self._talker.submit(self._running)

    def close(self) -> None:
        """End the process and give up the texts that wait for it."""
        self._talker.shutdown(wait=False, cancel_futures=True)
        if (process := self._process) is not None:
            process.kill()
        self._talker.shutdown(wait=True)
        self._end()

    def _ask(self, text: str, until: float) -> str:
        process = self._running()
        if monotonic() > until:
            raise GrammarFault("was still busy")
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"text": text}).encode("ascii") + b"\n")
        except OSError:
            self._end()
            raise GrammarFault("had ended") from None
        answer = self._answer(process, self._text_limit_s)
        if "text" not in answer:
            raise GrammarFault("has no reading for them")
        return str(answer["text"])

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        # Its stderr quotes texts, so nobody keeps it.
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._answer(self._process, self._load_limit_s)
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], limit_s: float) -> dict[str, Any]:
        """The next line of the process; without one in time the process is ended."""
        assert process.stdout is not None
        until = monotonic() + limit_s
        arrived = select.poll()
        arrived.register(process.stdout, select.POLLIN)
        while b"\n" not in self._unread:
            if not arrived.poll(max(0.0, until - monotonic()) * 1000):
                self._end()
                raise GrammarFault("took too long")
            piece = process.stdout.read(65536)
            if not piece:
                self._end()
                raise GrammarFault("gave up")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:  # whatever comes next could answer another text
            self._end()
            raise GrammarFault("gave up") from None
        return answer

    def _end(self) -> None:
        process, self._process, self._unread = self._process, None, b""
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


class GrammarPool:
    """At most ``max_processes`` grammars at once; an idle one makes room for another language."""

    def __init__(self, max_processes: int = MAX_PROCESSES, child: Path = CHILD) -> None:
        self._max_processes = max_processes
        self._child = child
        self._processes: OrderedDict[str, GrammarProcess] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False

    def read(self, grammar: str, folder: Path, text: str, until: float) -> str:
        """``text`` as ``grammar`` says it; raises ``GrammarFault``."""
        process = self._taken(grammar, folder)
        try:
            return process.read(text, until)
        finally:
            with self._lock:
                process.num_users -= 1

    def load(self, grammar: str, folder: Path) -> None:
        """Start the process of ``grammar`` if there is room for it; does not wait."""
        with suppress(GrammarFault):
            process = self._taken(grammar, folder)
            process.load()
            with self._lock:
                process.num_users -= 1

    def close(self) -> None:
        """End every process."""
        with self._lock:
            self._is_closed = True
            processes = list(self._processes.values())
        for process in processes:
            process.close()

    def _taken(self, grammar: str, folder: Path) -> GrammarProcess:
        leaving = None
        with self._lock:
            if self._is_closed:
                raise GrammarFault("was closed")
            process = self._processes.get(grammar)
            if process is None:
                if len(self._processes) >= self._max_processes:
                    idle = [name for name, p in self._processes.items() if p.num_users == 0]
                    if not idle:
                        raise GrammarFault("had to wait for those of other languages")
                    leaving = self._processes.pop(idle[0])
                process = self._processes[grammar] = GrammarProcess(grammar, folder, self._child)
            self._processes.move_to_end(grammar)
            process.num_users += 1
        if leaving is not None:
            leaving.close()
        return process
