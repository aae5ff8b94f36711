"""Who is who, and that nobody can pass for somebody else."""

from __future__ import annotations

import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import StorageFailed
from studio.owner import KEY_FILE, Identity, Owner, signing_key

KEYS = ("first-key-of-the-studio", "second-key-of-the-studio")


def identity(key: bytes = b"k" * 32, *, is_personal: bool = True) -> Identity:
    return Identity(key, KEYS, is_personal=is_personal)


def test_a_visitor_is_known_again_by_the_signed_text_alone():
    signed = identity().new_visitor()
    owner = identity().visitor(signed)
    assert owner == identity().visitor(signed)
    assert owner.id.startswith("visitor:") and owner.id != identity().visitor(
        identity().new_visitor()
    )


@given(st.text(max_size=60))
def test_a_text_that_was_not_signed_here_is_nobody(text):
    assert identity().visitor(text) is None


def test_neither_another_key_nor_another_name_keeps_the_signature():
    signed = identity().new_visitor()
    assert identity(b"x" * 32).visitor(signed) is None
    name, _, signature = signed.rpartition(".")
    assert identity().visitor(f"{name}x.{signature}") is None


def test_a_key_owns_by_its_hash_and_an_unknown_one_owns_nothing():
    owners = [identity().key_holder(key) for key in KEYS]
    assert owners[0] != owners[1]
    assert all(
        owner.id.startswith("key:") and key not in owner.id
        for owner, key in zip(owners, KEYS, strict=True)
    )
    for unknown in ("", KEYS[0][:-1], KEYS[0] + "x", "\udc80"):
        assert identity().key_holder(unknown) is None


def test_only_a_personal_studio_shares_the_voices_of_its_scripts():
    signed = identity().new_visitor()
    assert identity().visitor(signed).voices_of == (identity().visitor(signed).id, "local")
    assert identity(is_personal=False).visitor(signed).reads == ()
    assert Owner("local", ("local",)).voices_of == ("local",)


def test_the_secret_is_made_once_and_only_its_user_reads_it(tmp_path):
    keys: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: keys.append(signing_key(tmp_path / "data")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8 and len(set(keys)) == 1 and len(keys[0]) == 32
    assert [path.name for path in (tmp_path / "data").iterdir()] == [KEY_FILE]
    assert stat.S_IMODE((tmp_path / "data" / KEY_FILE).stat().st_mode) == 0o600


def test_a_damaged_secret_is_told(tmp_path):
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(StorageFailed, match="damaged"):
        signing_key(tmp_path)
