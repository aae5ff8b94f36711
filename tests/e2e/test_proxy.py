"""Behind an https proxy that serves the studio below a path: every address holds (case C33)."""

from __future__ import annotations

import datetime
import http.client
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from playwright.sync_api import Browser, expect

from tests.e2e.conftest import PATIENCE_MS, REPOSITORY, Studio, open_studio, quiet
from tests.e2e.test_page import PLAYER, wait_status

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PREFIX = "/studio"
CLIP = REPOSITORY / "tests" / "fixtures" / "audio" / "ref_control_16k_mono.wav"
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    file = tmp_path_factory.mktemp("tls") / "proxy.pem"
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + built.public_bytes(encoding))
    return file


@pytest.fixture(scope="module")
def proxy(studio: Studio, certificate: Path) -> Iterator[str]:
    """The address of the studio below ``PREFIX``; what leaves it is a 404 of the proxy's own."""
    behind = urlsplit(studio.address).netloc

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def _pass(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            length = int(self.headers.get("Content-Length") or 0)
            sent = {name: value for name, value in self.headers.items() if name != "Connection"}
            sent |= {
                "X-Forwarded-Proto": "https",
                "X-Forwarded-Host": self.headers["Host"],
                "X-Forwarded-Prefix": PREFIX,
            }
            connection = http.client.HTTPConnection(behind)
            body = self.rfile.read(length) if length else None
            connection.request(self.command, self.path.removeprefix(PREFIX), body, sent)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.end_headers()
            try:
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
            except OSError:
                pass  # the browser has left
            connection.close()

        do_GET = do_POST = do_HEAD = do_DELETE = _pass

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}{PREFIX}/"
        server.shutdown()
        thread.join()


def test_behind_a_proxy_below_a_path_every_address_holds(
    chromium: Browser, studio: Studio, proxy: str, complaints: list[str]
):
    context = chromium.new_context(ignore_https_errors=True, accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    requested: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "response",
        lambda answer: failed.append(answer.url) if answer.status >= 400 else None,
    )
    open_studio(page, proxy)
    page.select_option("#interface-language", "de")
    expect(page.locator("#speak")).to_have_text("Sprechen")
    page.select_option("#interface-language", "en")
    page.click('#recording button[aria-label="Upload file"]')
    page.set_input_files("#recording input[type=file]", CLIP)
    expect(page.locator("#voice-note")).to_contain_text("This is the voice now.")
    quiet(page)
    page.fill("#text textarea", "The small boat is still tied to the pier. " * 10)
    page.click("#speak")
    page.wait_for_function(f"{PLAYER} && {PLAYER}.place_s > 0.2")
    assert studio.engine.stats.num_live == 1  # it plays before it is whole
    wait_status(page, "done")
    with page.expect_download() as downloading:
        page.click("#download-mp3")
    assert downloading.value.suggested_filename.endswith(".mp3")
    page.wait_for_function("document.querySelector('#take audio')?.duration > 1")
    page.get_by_role("tab", name="Code", exact=True).click()
    expect(page.locator("#code code").first).to_contain_text(f"{proxy}v1/audio/speech")
    strays = [url for url in requested if not url.startswith((proxy, "data:", "blob:"))]
    assert (strays, failed, complaints) == ([], [], [])
    context.close()
