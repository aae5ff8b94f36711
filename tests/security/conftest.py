"""What attacks need: recordings, a canary server that counts its visitors, a temporary folder."""

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


class Canary:
    """A server on loopback that nobody may visit; ``visits`` holds what visitors sent."""

    def __init__(self) -> None:
        self.visits: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.visits.append(b"(came without a word)")
            with connection, suppress(OSError):
                connection.settimeout(60)
                self.visits[-1] = connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ncanary")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def canary_server() -> Iterator[Canary]:
    canary = Canary()
    yield canary
    canary.close()


@pytest.fixture(scope="session")
def audio() -> Path:
    """The folder of recordings from the field."""
    return Path(__file__).resolve().parents[1] / "fixtures" / "audio"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that takes the place of the system's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
