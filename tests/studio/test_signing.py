"""C2PA: finished files are signed and found to be, and a bad certificate is told at the start."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from cryptography.x509.oid import ExtendedKeyUsageOID

from engine import GenerationFailed, InvalidRequest
from studio.media.encode import Encoder
from studio.media.limits import DEFAULT_LIMITS
from studio.media.reading import Statement, read_statement
from studio.provenance import Marker
from studio.settings import Settings
from studio.signing import SIGNED_TYPES, Signer
from tests.studio.signing_kit import KEYS, NAME, write_chain

RATE_HZ = 44_100
TAGS = {"model": "nano", "request_id": "ask-1"}


def settings_of(chain: Path | None, key: Path | None) -> Settings:
    return Settings(no_watermark=True, c2pa_certificate=chain, c2pa_key=key)


def body_of(format: str) -> bytes:
    encoder = Encoder(format, RATE_HZ, is_live=False)
    return encoder.feed(np.full(RATE_HZ, 0.1, np.float32)) + encoder.finish()


def statement_in(body: bytes, format: str) -> Statement | None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(body)
        return read_statement(file, format, DEFAULT_LIMITS)


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> tuple[Path, Path]:
    return write_chain(tmp_path_factory.mktemp("chain"))


@pytest.fixture(scope="module")
def marker(chain: tuple[Path, Path]) -> Marker:
    return Marker(settings_of(*chain))


@pytest.mark.parametrize("format", SIGNED_TYPES)
def test_a_finished_file_is_signed_and_plays_as_before(marker: Marker, format: str) -> None:
    body = body_of(format)
    signed = marker.signed(body, format, TAGS)
    before, after = (soundfile.read(io.BytesIO(data))[0] for data in (body, signed))
    assert np.array_equal(before, after)
    assert statement_in(signed, format) == Statement(
        True, NAME, "ZONOS2 Studio", ("trainedAlgorithmicMedia",)
    )
    assert statement_in(body, format) is None


def test_a_changed_file_is_found_out(marker: Marker) -> None:
    signed = bytearray(marker.signed(body_of("wav"), "wav", TAGS))
    signed[signed.index(b"data") + 5_000] ^= 0x10
    statement = statement_in(bytes(signed), "wav")
    assert statement is not None
    assert not statement.is_intact


def test_only_finished_files_of_some_formats_are_signed(marker: Marker) -> None:
    assert marker.headers("mp3", is_live=False)["X-Marked"] == "metadata, c2pa"
    assert marker.headers("mp3", is_live=True)["X-Marked"] == "metadata"
    assert not marker.signs("opus", is_live=False)
    assert marker.signed(b"anything", "opus", TAGS) == b"anything"
    assert not Marker(Settings()).signs("wav", is_live=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEYS)
def test_every_kind_of_key_signs(kind: str, tmp_path: Path) -> None:
    signed = Signer(*write_chain(tmp_path, kind)).signed(body_of("wav"), "wav", TAGS)
    statement = statement_in(signed, "wav")
    assert statement is not None
    assert statement.is_intact


def test_half_of_a_signer_is_refused(chain: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidRequest, match=r"^--c2pa-certificate: it needs --c2pa-key beside it"):
        Marker(settings_of(chain[0], None))
    with pytest.raises(InvalidRequest, match=r"^--c2pa-key: it needs --c2pa-certificate beside it"):
        Marker(settings_of(None, chain[1]))


def test_what_cannot_sign_is_refused_at_the_start(chain: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_chain(tmp_path / "other")
    late = write_chain(tmp_path / "late", days=(-9, -1))
    bare = write_chain(tmp_path / "bare", purposes=())
    web = write_chain(tmp_path / "web", purposes=(ExtendedKeyUsageOID.SERVER_AUTH,))
    for certificate, key in ((chain[0], other[1]), late, bare, web, (chain[1], chain[1])):
        with pytest.raises(InvalidRequest, match=r"^--c2pa-certificate: it cannot sign \(.+\)"):
            Signer(certificate, key)
    with pytest.raises(InvalidRequest, match=r"^--c2pa-key: it is no private key"):
        Signer(chain[0], chain[0])
    with pytest.raises(InvalidRequest, match=r"^--c2pa-certificate: it cannot be read") as refused:
        Signer(tmp_path / "missing.pem", chain[1])
    assert str(tmp_path) not in refused.value.message


def test_what_cannot_be_signed_is_not_given_out(chain: tuple[Path, Path]) -> None:
    with pytest.raises(GenerationFailed, match=r"^c2pa: the file could not be signed"):
        Signer(*chain).signed(b"RIFF", "wav", TAGS)
