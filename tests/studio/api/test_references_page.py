"""Recordings from the field, uploaded to the page over HTTP, and what else is tried at its door."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from gradio import processing_utils

from engine import Engine
from studio.api.speakers import default_id
from studio.media import uploads
from studio.media.limits import DEFAULT_LIMITS
from studio.server import create_app
from studio.settings import Settings
from tests.studio.media.memory import memory_growth

REPOSITORY = Path(__file__).resolve().parents[3]
AUDIO = REPOSITORY / "tests" / "fixtures" / "audio"
MANIFEST = json.loads((AUDIO / "manifest.json").read_text())["files"]
CONTROL = (AUDIO / "ref_control_16k_mono.wav").read_bytes()
UPLOAD = "/gradio_api/upload"


@dataclass
class Visitor:
    """Somebody with the page open, without a browser."""

    http: httpx.Client
    folder: Path
    event: int
    voice_note: int

    def upload(self, data: bytes, name: str) -> str:
        response = self.http.post(UPLOAD, files={"files": (name, data)})
        assert response.status_code == 200, response.text
        return response.json()[0]

    def judge(self, path: str, **fields: object) -> str:
        """What the page says about the file at ``path``: the HTML beside the recording."""
        file = {"path": path, "meta": {"_type": "gradio.FileData"}} | fields
        session = uuid.uuid4().hex
        body = {
            "data": ["", None, file, default_id("heart")],
            "fn_index": self.event,
            "session_hash": session,
        }
        self.http.post("/gradio_api/queue/join", json=body).raise_for_status()
        query = {"session_hash": session}
        with self.http.stream("GET", "/gradio_api/queue/data", params=query) as stream:
            for line in stream.iter_lines():
                if "process_completed" in line:
                    output = json.loads(line.removeprefix("data: "))["output"]
                    if "data" not in output:
                        return f"error: {output.get('error')}"
                    return str(output["data"][self.voice_note])
        raise AssertionError("the page said nothing")

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def visitor(engine: Engine, serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    folder = tmp_path_factory.mktemp("gradio")
    engine.encoder.warm()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder))
        app = create_app(engine, Settings())
        with serving(app) as address, httpx.Client(base_url=address, timeout=120) as http:
            http.get("/gradio_api/startup-events").raise_for_status()
            config = http.get("/config").json()
            number = {part["props"].get("elem_id"): part["id"] for part in config["components"]}
            for event in config["dependencies"]:
                if [number["recording"], "change"] in event["targets"]:
                    note = event["outputs"].index(number["voice-note"])
                    yield Visitor(http, folder, event["id"], note)


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["file"])
def test_every_uploaded_recording_gets_the_answer_of_the_manifest(
    entry: dict, visitor: Visitor
) -> None:
    path = visitor.upload((AUDIO / entry["file"]).read_bytes(), entry["file"])
    with memory_growth() as growth:
        words = visitor.judge(path)
    assert growth.peak_bytes < 100e6
    if entry["http"] == 200:
        assert "This is the voice now." in words
    elif entry["http"] == 413:
        assert "reference is longer than 600 s" in words
    else:
        assert '"note bad">reference cannot be used' in words
    assert str(visitor.folder) not in words


@pytest.mark.parametrize(
    "name", ["../../canary.wav", "..\\..\\canary.wav", "/canary.wav", "ü\u202e.wav", "a" * 300]
)
def test_a_files_name_is_only_a_name(name: str, visitor: Visitor) -> None:
    def outside() -> set[Path]:
        return set(visitor.folder.parent.rglob("*canary*")) - set(visitor.files())

    before = outside()
    path = visitor.upload(CONTROL, name)
    assert Path(path).resolve().is_relative_to(visitor.folder)
    assert "This is the voice now." in visitor.judge(path)
    assert outside() == before


def test_a_file_that_nobody_uploaded_is_not_told_from_one_that_is_not_there(
    visitor: Visitor,
) -> None:
    (visitor.folder.parent / "secret.wav").write_bytes(CONTROL)
    (visitor.folder / "link.wav").symlink_to(visitor.folder.parent / "secret.wav")
    answers = {
        path: visitor.judge(path.format(folder=visitor.folder), **fields)
        for path, fields in (
            ("/nothing/here.wav", {}),
            ("/etc/passwd", {}),
            ("/etc/passwd", {"is_stream": True}),
            ("{folder}/../secret.wav", {}),
            ("{folder}/../nothing.wav", {}),
            ("{folder}/link.wav", {}),
            (str(AUDIO / "ref_control_16k_mono.wav"), {}),
            ("file:///etc/passwd", {}),
            ("../../secret.wav", {}),
        )
    }
    assert set(answers.values()) == {"error: None"}, answers


@pytest.mark.parametrize("fields", [{}, {"is_stream": True}, {"url": "http://127.0.0.1/x.wav"}])
def test_an_address_in_the_place_of_an_upload_is_not_fetched(
    fields: dict, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []

    async def fetch(url: str, *_: object, **__: object) -> None:
        fetched.append(url)
        raise OSError("no network here")

    monkeypatch.setattr(processing_utils, "async_ssrf_protected_get", fetch)
    words = visitor.judge("http://voices.example/voice.wav", **fields)
    assert "voice now" not in words
    assert fetched == []


HEAD = (
    "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n"
    "Content-Type: multipart/form-data; boundary=cut\r\n\r\n"
)
PART = '--cut\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'


def send_part_of_an_upload(visitor: Visitor, *, num_bytes: int, query: str = "") -> socket.socket:
    """Begin to upload, send so many bytes of the file, and stay connected."""
    begin = PART.format(name="cut.wav").encode() + CONTROL[:num_bytes]
    head = HEAD.format(path=UPLOAD + query, length=len(CONTROL) + 1000)
    address = visitor.http.base_url
    connection = socket.create_connection((address.host, address.port), timeout=120)
    connection.sendall(head.encode() + begin)
    return connection


def until(condition) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come about"
        time.sleep(0.005)


@pytest.mark.parametrize("num_bytes", [0, 1, 60_000, len(CONTROL)])
@pytest.mark.parametrize("query", ["", "?upload_id=cut"], ids=["plain", "with progress"])
def test_an_upload_that_is_broken_off_leaves_no_file(
    num_bytes: int, query: str, visitor: Visitor
) -> None:
    before = set(visitor.files())
    connection = send_part_of_an_upload(visitor, num_bytes=num_bytes, query=query)
    until(lambda: set(visitor.files()) != before)  # it is being written
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()  # a reset, as of a phone that lost its network
    until(lambda: set(visitor.files()) == before)


def test_an_upload_that_stalls_is_given_up(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "STALL_S", 0.2)
    before = set(visitor.files())
    with send_part_of_an_upload(visitor, num_bytes=1000) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 4")
    until(lambda: set(visitor.files()) == before)


def test_an_upload_over_twenty_megabytes_is_refused_and_gone(visitor: Visitor) -> None:
    before = set(visitor.files())
    big = bytes(DEFAULT_LIMITS.size_bytes + 1)
    assert visitor.http.post(UPLOAD, files={"files": ("big.wav", big)}).status_code == 413
    half = bytes(DEFAULT_LIMITS.size_bytes * 2 // 3)
    several = [("files", (f"{number}.wav", half)) for number in range(2)]
    assert visitor.http.post(UPLOAD, files=several).status_code in (400, 413)
    until(lambda: set(visitor.files()) == before)


def test_whole_uploads_pass_untouched(visitor: Visitor) -> None:
    path = visitor.upload(CONTROL, "whole.wav")
    assert Path(path).read_bytes() == CONTROL
    for content, kind in ((b"", "multipart/form-data"), (b"{}", "application/json")):
        answer = visitor.http.post(UPLOAD, content=content, headers={"Content-Type": kind})
        assert answer.status_code in (400, 500), answer.text


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="modes and signals are POSIX")
def test_uploads_lie_in_a_private_folder_that_goes_with_the_studio(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment.pop("GRADIO_TEMP_DIR", None)
    with subprocess.Popen(
        [sys.executable, "app.py", "--port", "0"],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as studio:
        try:
            printed = studio.stdout.readline() + studio.stdout.readline()
            address = re.search(r"http://\S+", printed)[0]
            files = {"files": ("voice.wav", CONTROL)}
            (path,) = httpx.post(address + UPLOAD, files=files, timeout=60).json()
            (folder,) = tmp_path.iterdir()
            assert Path(path).read_bytes() == CONTROL
            assert Path(path).is_relative_to(folder)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            studio.send_signal(signal.SIGTERM)
            assert studio.wait(120) == 0
        finally:
            studio.kill()
    assert list(tmp_path.iterdir()) == []
