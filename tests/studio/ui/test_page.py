"""The page is wired as it should be, and leaves the routes alone."""

import pytest
from starlette.testclient import TestClient

from engine import Engine
from studio.server import create_api
from studio.settings import Settings
from studio.ui.page import build_page, mount_page
from tests.studio.ui.conftest import open_desk


@pytest.fixture(scope="module")
def blocks(engine: Engine, tmp_path_factory: pytest.TempPathFactory):
    settings = Settings(slots=8, max_waiting=64, data=tmp_path_factory.mktemp("data"))
    return build_page(open_desk(engine, settings))


def test_speech_waits_in_the_engines_queue_alone(blocks):
    speaking = [fn for fn in blocks.fns.values() if fn.name in ("speak", "again")]
    assert len(speaking) == 4  # a text and a script, each also once more
    assert {fn.concurrency_limit for fn in speaking} == {None}
    assert blocks._queue.max_thread_count > 8 + 64


def test_no_handler_is_an_endpoint(blocks):
    assert {fn.api_visibility for fn in blocks.fns.values()} == {"private"}
    assert blocks.api_open is False


def test_files_of_a_session_are_swept(blocks):
    assert blocks.delete_cache == (600, 3600)


@pytest.fixture(scope="module")
def client(engine: Engine) -> TestClient:
    app = mount_page(create_api(engine, Settings()), engine, Settings())
    return TestClient(app)


def test_page_and_routes_live_side_by_side(client: TestClient):
    page = client.get("/")
    assert page.status_code == 200
    assert "ZONOS2 Studio" in page.text
    assert client.get("/health").headers["content-type"] == "application/json"
    assert client.get("/v1/nothing").status_code == 404
    assert client.get("/favicon.ico").headers["content-type"].startswith("image/svg")


def test_the_words_of_a_language_are_served_and_nothing_beside_them(client: TestClient):
    assert client.get("/page/words/de").json()["Voice"] == "Stimme"
    assert client.get("/page/words/en").status_code == 404
    assert client.get("/page/words/..%2Fui%2Fstudio").status_code == 404


def test_an_upload_over_the_limit_is_refused(client: TestClient):
    files = {"files": ("big.wav", b"\0" * 20_000_001)}
    assert client.post("/gradio_api/upload", files=files).status_code == 413


@pytest.mark.parametrize("path", ["/etc/passwd", "app.py", "studio/server.py"])
def test_files_of_the_machine_are_not_served(client: TestClient, path: str):
    assert client.get(f"/gradio_api/file={path}").status_code in (403, 404)


def test_behind_a_proxy_of_ours_the_page_knows_where_it_is_shown(engine: Engine, tmp_path):
    settings = Settings(data=tmp_path, trusted_proxy=("10.0.0.0/8",))
    app = mount_page(create_api(engine, settings), engine, settings)
    told = {"Host": "app.example", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/studio"}
    for peer, root in (
        ("10.0.0.1", "https://app.example/studio"),
        ("192.0.2.1", "http://app.example"),
    ):
        client = TestClient(app, client=(peer, 1))
        assert client.get("/config", headers=told).json()["root"] == root
        page = client.get("/", headers=told)
        assert page.status_code == 200 and root in page.text
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]
