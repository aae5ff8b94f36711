"""Whose request it is: an API key, a signed visitor, or the one user of a personal studio.

- A key's owner is a hash of the key. A visitor is a random id, signed so that nobody can make one.
- Whoever shows neither is ``local`` on a personal studio, and a new visitor on any other.
- What an owner makes, nobody else can read; only voices of ``local`` serve a whole personal studio.
- Who signs in at the page with a key has a signed text, too, good for a month and as long as the
  key is.
- How they travel in HTTP is in ``studio/api/owners.py``.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from itsdangerous import BadSignature, Signer, TimestampSigner

from engine import StorageFailed

KEY_FILE = "owner.key"
_KEY_BYTES = 32
SIGNED_IN_S = 30 * 24 * 3600


@dataclass(frozen=True)
class Owner:
    """``id`` owns what is made; voices of the owners in ``reads`` may be used as well."""

    id: str
    reads: tuple[str, ...] = ()

    @property
    def voices_of(self) -> tuple[str, ...]:
        """Every owner whose voices may be used, this one first."""
        return tuple(dict.fromkeys((self.id, *self.reads)))

    @property
    def holds_key(self) -> bool:
        """Whether it has shown an API key, now or when it signed in."""
        return self.id.startswith("key:")


LOCAL = Owner("local")


def signing_key(folder: Path) -> bytes:
    """The secret of this data folder, made on first use; raises ``StorageFailed``."""
    path = folder / KEY_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Written aside and linked: of two studios that start at once, both read the same key.
        fresh = folder / f".{KEY_FILE}.{secrets.token_hex(8)}"
        if not path.exists():
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
                f.write(secrets.token_bytes(_KEY_BYTES))
            try:
                os.link(fresh, path)
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        key = path.read_bytes()
    except OSError as error:
        raise StorageFailed(
            f"--data: {KEY_FILE} cannot be used ({error.strerror}); choose another folder.",
            field="data",
        ) from None
    if len(key) != _KEY_BYTES:
        raise StorageFailed(
            f"--data: {KEY_FILE} is damaged; delete it (visitors then lose their voices).",
            field="data",
        )
    return key


class Identity:
    """Tells owners apart by what they show: an API key or the signed text of a visitor."""

    def __init__(self, key: bytes, api_keys: Iterable[str], *, is_personal: bool) -> None:
        self._signer = Signer(key, salt="owner", digest_method=hashlib.sha256)
        self._key_signer = TimestampSigner(key, salt="key", digest_method=hashlib.sha256)
        self._key_hashes = [hashlib.sha256(text.encode()).digest() for text in api_keys]
        self.is_personal = is_personal

    @property
    def has_keys(self) -> bool:
        """Whether the routes ask for an API key."""
        return bool(self._key_hashes)

    def new_visitor(self) -> str:
        """The signed text of a visitor who was never here."""
        return self._signer.sign(secrets.token_urlsafe(16)).decode()

    def visitor(self, signed: str) -> Owner | None:
        """The visitor whose signed text this is, or None."""
        try:
            name = self._signer.unsign(signed[:200]).decode()
        except (BadSignature, UnicodeError):
            return None
        return Owner(f"visitor:{name}", (LOCAL.id,) if self.is_personal else ())

    def key_holder(self, key: str) -> Owner | None:
        """The owner who holds this API key, or None for an unknown one."""
        digest = hashlib.sha256(key.encode(errors="replace")).digest()
        # All are compared, so that the time tells nothing.
        is_known = sum([hmac.compare_digest(digest, known) for known in self._key_hashes])
        return Owner(_key_id(digest)) if is_known else None

    def signed_in(self, owner: Owner) -> str:
        """The signed text of a key's holder, for a browser that cannot send the key each time."""
        return self._key_signer.sign(owner.id).decode()

    def who_signed_in(self, signed: str) -> Owner | None:
        """The key's holder whose signed text this is; None when it is old or the key is gone."""
        try:
            name = self._key_signer.unsign(signed[:200], max_age=SIGNED_IN_S).decode()
        except (BadSignature, UnicodeError):
            return None
        return Owner(name) if name in map(_key_id, self._key_hashes) else None


def _key_id(digest: bytes) -> str:
    return f"key:{digest.hex()[:16]}"
