"""Certificates that sign media, made on the spot."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PURPOSES = (ExtendedKeyUsageOID.EMAIL_PROTECTION,)
NAME = "A test studio"
KEYS = {
    "es256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "es384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ps256": lambda: rsa.generate_private_key(65_537, 2_048),
}


def write_chain(
    folder: Path,
    kind: str = "es256",
    *,
    purposes: tuple[x509.ObjectIdentifier, ...] = PURPOSES,
    days: tuple[int, int] = (-1, 30),
) -> tuple[Path, Path]:
    """A signer below a root of our own, valid from and to ``days`` from now: chain, key (PEM)."""
    root_key, key = KEYS["es256"](), KEYS[kind]()
    root = _certificate("A test root", root_key.public_key(), (-1, 60), is_root=True)
    root = root.sign(root_key, hashes.SHA256())
    signer = _certificate(NAME, key.public_key(), days, is_root=False)
    signer = signer.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), False
    )
    if purposes:
        signer = signer.add_extension(x509.ExtendedKeyUsage(purposes), False)
    chain = [signer.sign(root_key, hashes.SHA256()), root]
    folder.mkdir(parents=True, exist_ok=True)
    chain_file, key_file = folder / "chain.pem", folder / "key.pem"
    pem = serialization.Encoding.PEM
    chain_file.write_bytes(b"".join(part.public_bytes(pem) for part in chain))
    key_file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain_file, key_file


def _certificate(
    name: str, public_key: object, days: tuple[int, int], *, is_root: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    begin, end = (now + datetime.timedelta(days=number) for number in days)
    usage = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("encipher_only", "decipher_only"),
        ),
        False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named("A test root"))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(is_root, 1 if is_root else None), True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=is_root, crl_sign=is_root, **usage),
            True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
