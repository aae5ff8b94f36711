"""One string, four meanings: URL, data: URI, base64 and path."""

import base64
import dataclasses
import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from engine import InvalidReference, TooLarge
from studio.media.fetch import FetchPolicy
from studio.media.intake import read_file
from studio.media.limits import Limits
from studio.media.sources import Sources, read_text

NAME = "ref_control_16k_mono.wav"


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    folder = Path(__file__).resolve().parents[2] / "fixtures" / "audio"

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture
def sources(server: str, audio: Path) -> Sources:
    policy = FetchPolicy(allows_public=False, allowed_hosts=frozenset({server}))
    return Sources(sample_rate_hz=24000, fetch=policy, media_root=audio)


@pytest.fixture
def spellings(server: str, audio: Path) -> dict[str, str]:
    encoded = base64.b64encode((audio / NAME).read_bytes()).decode()
    return {
        "url": f"http://{server}/{NAME}",
        "url in capitals": f"HTTP://{server}/{NAME}",
        "data": f"data:audio/wav;base64,{encoded}",
        "data without type": f"data:;base64,{encoded}",
        "base64": encoded,
        "path": NAME,
        "absolute path": str(audio / NAME),
        "file url": f"file://{audio}/{NAME}",
    }


def test_every_spelling_gives_the_same_reference(
    sources: Sources, spellings: dict[str, str], audio: Path
) -> None:
    expected = read_file(audio / NAME, sample_rate_hz=24000).content_hash
    for name, text in spellings.items():
        assert read_text(text, sources).content_hash == expected, name


def test_every_spelling_knows_the_limits_and_the_field(
    sources: Sources, spellings: dict[str, str]
) -> None:
    small = dataclasses.replace(sources, limits=Limits(size_bytes=1000))
    for name, text in spellings.items():
        with pytest.raises(TooLarge) as refused:
            read_text(text, small, field="references[0].audio_path")
        assert refused.value.field == "references[0].audio_path", name


@pytest.mark.parametrize("text", ["", " ", "!", "ftp://127.0.0.1/a.wav", "http:/a.wav", "gopher:"])
def test_anything_else_is_refused(text: str, sources: Sources) -> None:
    with pytest.raises(InvalidReference):
        read_text(text, sources)


def test_what_a_server_calls_itself_does_not_matter(sources: Sources, server: str) -> None:
    with pytest.raises(InvalidReference, match="accepted format"):
        read_text(f"http://{server}/ref_html_error_page.wav", sources)
    assert read_text(f"http://{server}/ref_no_extension", sources).report.seconds_used > 4
