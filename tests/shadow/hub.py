"""A hub on loopback that serves folders as repositories, and can fail on purpose.

It answers what huggingface_hub asks while it downloads a model: the listing with checksums, and
each file with its commit, ETag, size and ranges. Large files are answered with a redirect to
another address, as the real hub does.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LARGE_SUFFIXES = (".safetensors", ".pth", ".pt")


@dataclass
class Repository:
    """A folder under a name, at one commit that ``main`` points to."""

    folder: Path
    commit: str

    def files(self) -> dict[str, Path]:
        return {
            path.relative_to(self.folder).as_posix(): path
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


@dataclass
class FakeHub:
    """The server's content and faults; change them while it runs.

    ``dies_after``: bytes of a file's body after which the connection breaks, once; if not
    ``comes_back``, the hub then ``is_dead`` and closes every connection unanswered. ``spoilt``:
    files whose bytes are wrong at the right length. ``status``: the answer to everything, instead
    of content. ``is_silent``: no answer comes, until the hub is stopped.
    """

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    dies_after: dict[str, int] = field(default_factory=dict)
    comes_back: bool = False
    is_dead: bool = False
    spoilt: set[str] = field(default_factory=set)
    status: int | None = None
    is_silent: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)

    def add(self, name: str, folder: Path, commit: str = "0" * 40) -> None:
        """Serve ``folder`` as ``name``, at ``commit``."""
        self.repositories[name] = Repository(folder, commit)

    def fetched(self, file: str) -> list[str | None]:
        """The ranges of every request for the bytes of ``file`` (None: all of them)."""
        return [
            asked
            for method, path, asked in self.requests
            if method == "GET" and path.endswith(file)
        ]


@contextlib.contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A running hub; stopped at the end."""
    hub = FakeHub()

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self.hub.requests.append((self.command, url.path, self.headers.get("Range")))
        if self.hub.is_silent:
            self.hub.stopped.wait()
        if self.hub.is_dead or self.hub.is_silent:
            self.close_connection = True
            return None
        if self.hub.status is not None:
            return self._send(self.hub.status, b"no")
        parts = unquote(url.path).strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return self._listing("/".join(parts[2:4]), parts[5:], "blobs" in parse_qs(url.query))
        if parts[0] == "storage":
            return self._file(Path("/", *parts[1:]))
        name, kind, revision, file = "/".join(parts[:2]), parts[2], parts[3], "/".join(parts[4:])
        assert kind == "resolve"
        repository = self.hub.repositories.get(name)
        if repository is None:
            return self._refuse(404, "RepoNotFound")
        if revision not in ("main", repository.commit):
            return self._refuse(404, "RevisionNotFound")
        path = repository.files().get(file)
        if path is None:
            return self._refuse(404, "EntryNotFound", {"X-Repo-Commit": repository.commit})
        self._resolve(repository, path)

    def _listing(self, name: str, revision: list[str], with_blobs: bool) -> None:
        repository = self.hub.repositories.get(name)
        if repository is None:
            return self._refuse(404, "RepoNotFound")
        if revision and revision[0] not in ("main", repository.commit):
            return self._refuse(404, "RevisionNotFound")
        siblings: list[dict[str, object]] = []
        for file, path in repository.files().items():
            sibling: dict[str, object] = {"rfilename": file}
            if with_blobs:
                sibling |= {"size": path.stat().st_size, "blobId": _git_sha1(path)}
                if path.suffix in LARGE_SUFFIXES:
                    sibling["lfs"] = {
                        "sha256": _sha256(path),
                        "size": path.stat().st_size,
                        "pointerSize": 135,
                    }
            siblings.append(sibling)
        listing = {"id": name, "modelId": name, "sha": repository.commit, "siblings": siblings}
        self._send(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})

    def _resolve(self, repository: Repository, path: Path) -> None:
        headers = {"X-Repo-Commit": repository.commit}
        if path.suffix in LARGE_SUFFIXES:
            storage = self.hub.url.replace("127.0.0.1", "localhost")
            headers |= {
                "X-Linked-Etag": f'"{_sha256(path)}"',
                "X-Linked-Size": str(path.stat().st_size),
                "Location": f"{storage}/storage{path}",
            }
            return self._send(302, b"", headers)
        self._send(200, path.read_bytes(), headers | {"ETag": f'"{_git_sha1(path)}"'})

    def _file(self, path: Path) -> None:
        body = path.read_bytes()
        if path.name in self.hub.spoilt:
            body = bytes(byte ^ 255 for byte in body)
        asked, whole = self.headers.get("Range"), len(body)
        headers = {"Accept-Ranges": "bytes"}
        if asked is not None:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            body = body[start:]
            headers["Content-Range"] = f"bytes {start}-{whole - 1}/{whole}"
        limit = self.hub.dies_after.pop(path.name, None)
        if limit is not None:
            self.hub.is_dead = not self.hub.comes_back
            self.close_connection = True
        self._send(200 if asked is None else 206, body, headers, limit)

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self._send(status, b"", {"X-Error-Code": code, **(headers or {})})

    def _send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        limit: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(body[:limit])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _git_sha1(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
