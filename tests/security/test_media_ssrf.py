"""No URL makes the server talk to its own network, and no reply tells why one was refused."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpcore
import pytest

from engine import InvalidReference
from studio.media.addresses import is_public
from studio.media.fetch import FetchPolicy, fetch_url

PUBLIC = FetchPolicy(allows_public=True, connect_s=60, total_s=60)

ADDRESSES_REFUSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "not an address",
    "",
]
ADDRESSES_PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.32.0.1",
    "192.0.1.1",
    "2606:4700:4700::1111",
    "2a00:1450:4001:800::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]

URLS = [
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1/",
    "http://127.1:{port}/",
    "http://127.1/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://0/",
    "http://0.0.0.0:{port}/",
    "http://[::]/",
    "http://[::1]/",
    "http://[::1]:{port}/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "http://[fe80::1%25lo]/",
    "http://localhost/",
    "http://localhost:{port}/",
    "http://localhost./",
    "http://LOCALHOST/",
    "http://ⓛocalhost/",
    "http://127。0。0。1/",
    "http://１２７.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "http://192.168.0.1/",
    "http://a@127.0.0.1/",
    "http://127.0.0.1@ok.example/",
    "http://ok.example@127.0.0.1/",
    "http://user:password@ok.example/",
    "http://ok.example\\@127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http://ok.example#@127.0.0.1/",
    "http://127.0.0.1#@ok.example/",
    "http://ok.example:80@127.0.0.1/",
    "http://ok.example:{port}/",
    "http://ok.example:22/",
    "http://ok.example:0/",
    "http://ok.example:99999/",
    "https://127.0.0.1/",
    "https://127.0.0.1:{port}/",
    "http:///127.0.0.1/",
    "http:127.0.0.1",
    "http://",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%00.ok.example/",
    "http://127.0.0.1%0d%0aX:/",
    "http://127.0.0.1\r\n/",
    "http://127.0.0.1\t/",
    "http:// 127.0.0.1/",
    "http://ok.example/\r\nHost: 127.0.0.1",
    "http://[127.0.0.1]/",
    "http://[::1/",
    "http://" + "a" * 5000 + "/",
    "http://" + "a." * 200 + "example/",
    "http://xn--/",
    "http://\ud800/",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "ftp://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/_GET",
    "dict://127.0.0.1:{port}/",
    "data:audio/wav;base64,AAAA",
    "//127.0.0.1:{port}/",
    "127.0.0.1:{port}",
    "",
]


def loopback_names(host: str, port: int) -> list[str]:
    """The system's own reading of numbers and localhost; every other name is nobody."""
    if host == "ok.example":
        return ["127.0.0.1"]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(address[0]) for *_, address in found]


def refusal(url: str, policy: FetchPolicy = PUBLIC, resolve=loopback_names) -> str:
    with pytest.raises(InvalidReference) as refused:
        list(fetch_url(url, policy, resolve=resolve))
    assert refused.value.code == "invalid_reference_audio"
    return refused.value.message


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every address that is dialled, and dial none of them."""
    addresses: list[str] = []

    def record(self: object, host: str, *_: object) -> None:
        addresses.append(host)
        raise httpcore.ConnectError

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", record)
    return addresses


@pytest.mark.parametrize("address", ADDRESSES_REFUSED)
def test_an_address_that_is_not_for_everybody_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ADDRESSES_PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("url", URLS, ids=lambda url: ascii(url)[:60])
def test_no_spelling_of_an_inner_address_is_visited(url: str, canary_server) -> None:
    message = refusal(url.format(port=canary_server.port))
    assert message == refusal("http://10.0.0.1/")
    assert canary_server.visits == []


@pytest.mark.parametrize("url", URLS, ids=lambda url: ascii(url)[:60])
def test_with_urls_off_nothing_is_even_looked_up(url: str, canary_server) -> None:
    looked_up = []
    off = FetchPolicy(allows_public=False)
    refusal(url.format(port=canary_server.port), off, lambda *name: looked_up.append(name) or [])
    assert looked_up == []


def test_a_public_address_would_be_dialled(dialled: list[str]) -> None:
    refusal("https://ok.example/voice.wav", resolve=lambda *_: ["93.184.216.34"])
    refusal("http://93.184.216.35/")
    assert dialled == ["93.184.216.34", "93.184.216.35"]


@pytest.mark.parametrize("private", ["127.0.0.1", "10.0.0.1", "::1", "fe80::1", "169.254.169.254"])
@pytest.mark.parametrize("is_first", [True, False])
def test_one_private_address_among_public_ones_refuses_the_name(
    private: str, is_first: bool, dialled: list[str]
) -> None:
    answer = [private, "93.184.216.34"] if is_first else ["93.184.216.34", private]
    refusal("http://mixed.example/", resolve=lambda *_: answer)
    assert dialled == []


def test_a_name_without_addresses_is_refused(dialled: list[str]) -> None:
    refusal("http://nobody.example/", resolve=lambda *_: [])
    assert dialled == []


def test_a_rebinding_name_is_looked_up_once_and_its_checked_address_dialled(
    dialled: list[str],
) -> None:
    answers = iter([["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]])
    refusal("http://rebinding.example/", resolve=lambda *_: next(answers))
    assert dialled == ["93.184.216.34"]
    assert next(answers) == ["127.0.0.1"]  # the second answer was never asked for


@contextmanager
def redirecting_server(location: str) -> Iterator[int]:
    """Answer one request on loopback with a redirect."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
                connection.sendall(head.encode())

        worker = threading.Thread(target=answer, daemon=True)
        worker.start()
        yield listener.getsockname()[1]
        worker.join(timeout=60)


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "//127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://2130706433:{port}/",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "http://a@127.0.0.1:{port}/",
        "http://ok.example\\@127.0.0.1:{port}/",
    ],
)
def test_a_redirect_to_an_inner_address_is_not_followed(location: str, canary_server) -> None:
    with redirecting_server(location.format(port=canary_server.port)) as port:
        policy = FetchPolicy(
            allows_public=True, allowed_hosts=frozenset({f"127.0.0.1:{port}"}), total_s=60
        )
        refusal(f"http://127.0.0.1:{port}/", policy)
    assert canary_server.visits == []


def test_an_allowed_address_is_that_address_and_no_other(canary_server) -> None:
    allowed_hosts = frozenset({f"127.0.0.1:{canary_server.port}"})
    allowed = FetchPolicy(False, allowed_hosts, connect_s=60, total_s=60)
    for other in ("localhost", "127.0.0.2", "127.1", "[::1]", "0.0.0.0"):
        refusal(f"http://{other}:{canary_server.port}/", allowed)
    refusal("http://127.0.0.1/", allowed)
    assert canary_server.visits == []
    pieces = fetch_url(f"http://127.0.0.1:{canary_server.port}/", allowed)
    assert b"".join(pieces) == b"canary"
    assert len(canary_server.visits) == 1
