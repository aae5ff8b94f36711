"""Signed statements inside finished files: C2PA, where the studio has a certificate.

- The statement says that the sound was made by a trained algorithm, by which program and model.
- Nothing here reaches for the network: no timestamps are fetched, no manifests, no revocations.
- A certificate that cannot sign is found out at the start, by signing a moment of silence.

Source: C2PA specification 2.2; c2pa-python 0.38.1.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine import GenerationFailed, InvalidRequest
from studio.media.pcm import wav_header
from studio.settings import Settings

TRAINED_MEDIA = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
GENERATOR = "ZONOS2 Studio"
# Formats of the studio that can carry a statement, and their media types in the library's words.
SIGNED_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac"}
OFFLINE = {"verify": {"remote_manifest_fetch": False, "ocsp_fetch": False}}
_OPTIONS = ("c2pa_certificate", "c2pa_key")


class Signer:
    """Signs finished files with the key of one certificate chain (both PEM).

    Raises ``InvalidRequest`` where they cannot be read, do not belong together, are out of date or
    are not meant for signing media.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._chain = _read(certificate, "c2pa_certificate")
        self._key = _read(key, "c2pa_key")
        self._algorithm = _algorithm(self._key)
        second = bytes(2 * 8_000)
        try:
            self._sign(wav_header(8_000, len(second)) + second, "wav", {})
        except _c2pa_error() as error:
            raise InvalidRequest(
                f"--c2pa-certificate: it cannot sign ({_reason(error)}); give the whole chain of a"
                " valid certificate for signing media (its usages are digital signature and e-mail"
                " protection, document signing or C2PA), the signer first.",
                field="c2pa_certificate",
            ) from error

    def signed(self, body: bytes, format: str, tags: Mapping[str, str]) -> bytes:
        """``body``, a finished file of ``format``, with a statement in it; blocking.

        Raises ``GenerationFailed`` when the certificate has run out meanwhile: what ought to be
        signed is never given out without it.
        """
        try:
            return self._sign(body, format, tags)
        except _c2pa_error() as error:
            raise GenerationFailed(
                f"c2pa: the file could not be signed ({_reason(error)}); whoever runs this studio"
                " should renew the certificate, or start it without one."
            ) from error

    def _sign(self, body: bytes, format: str, tags: Mapping[str, str]) -> bytes:
        import c2pa

        source, target = io.BytesIO(body), io.BytesIO()
        media_type = SIGNED_TYPES[format]
        info = c2pa.C2paSignerInfo(
            alg=self._algorithm, sign_cert=self._chain, private_key=self._key, ta_url=None
        )
        with (
            c2pa.Context(c2pa.Settings.from_dict(OFFLINE)) as context,
            c2pa.Signer.from_info(info) as signer,
            c2pa.Builder(_manifest(media_type, tags), context=context) as builder,
        ):
            builder.sign(signer, media_type, source, target)
        return target.getvalue()


def open_signer(settings: Settings) -> Signer | None:
    """The signer that ``settings`` ask for; raises ``InvalidRequest`` for half of one."""
    certificate, key = settings.c2pa_certificate, settings.c2pa_key
    if certificate is not None and key is not None:
        return Signer(certificate, key)
    if certificate is None and key is None:
        return None
    given, missing = _OPTIONS if key is None else reversed(_OPTIONS)
    raise InvalidRequest(
        f"{_flag(given)}: it needs {_flag(missing)} beside it; give both or neither.", field=given
    )


def _c2pa_error() -> type[Exception]:
    from c2pa import C2paError

    return C2paError


def _reason(error: Exception) -> str:
    return str(error)[:200].rstrip(".")


def _manifest(media_type: str, tags: Mapping[str, str]) -> dict[str, Any]:
    action: dict[str, Any] = {
        "action": "c2pa.created",
        "digitalSourceType": TRAINED_MEDIA,
        "softwareAgent": {"name": GENERATOR},
    }
    if facts := {name: tags[name] for name in ("model", "request_id") if name in tags}:
        action["parameters"] = facts
    return {
        "claim_generator_info": [{"name": GENERATOR}],
        "format": media_type,
        "title": "AI-generated speech",
        "assertions": [{"label": "c2pa.actions", "data": {"actions": [action]}}],
    }


def _algorithm(key: bytes) -> str:
    """C2PA's name of what a private key signs with."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:  # TypeError: it is encrypted
        raise _unusable("c2pa_key", "it is no private key in PEM without a password") from error
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return "ed25519"
    if isinstance(private, rsa.RSAPrivateKey):
        return "ps256"
    if isinstance(private, ec.EllipticCurvePrivateKey):
        sizes = {256: "es256", 384: "es384", 521: "es512"}
        if private.key_size in sizes:
            return sizes[private.key_size]
    raise _unusable("c2pa_key", "C2PA signs with NIST curves, Ed25519 and RSA only")


def _read(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(field, f"it cannot be read ({error.strerror})") from None


def _unusable(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{_flag(field)}: {reason}; choose another file.", field=field)


def _flag(field: str) -> str:
    return "--" + field.replace("_", "-")
