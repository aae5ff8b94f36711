"""What was declared about a voice: its words, its transaction, its end."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from engine import Forbidden
from studio import consent
from studio.catalogue import FILE, Catalogue
from studio.consent import STATEMENT, VERSION, Consents

# Who changes shown words must give them a new number; then the new ones are added here.
SHOWN = {1: "0cb0"}
CLIP = "ab" * 32


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    opened = Catalogue(tmp_path / "data", consent.SCHEMA)
    yield opened
    opened.close()


def test_words_that_were_shown_stay_as_they_were() -> None:
    hashes = {
        version: hashlib.sha256(words.encode()).hexdigest()[:4]
        for version, words in consent.STATEMENTS.items()
    }
    assert hashes == SHOWN
    assert consent.STATEMENTS[VERSION] == STATEMENT


def test_a_record_says_which_words_when_and_about_which_clip(catalogue: Catalogue) -> None:
    consents = Consents(catalogue)
    with catalogue.writing() as db:
        consents.record(db, "local", "voice_a", CLIP)
        consents.record(db, "local", "voice_a", "cd" * 32)
        consents.record(db, "local", "voice_b", CLIP)
    first, second = consents.of("voice_a")
    assert (first.version, first.clip_hash, first.statement) == (VERSION, CLIP, STATEMENT)
    assert 1.7e9 < first.given_s <= second.given_s
    assert consents.of("voice_c") == ()


def test_the_same_clip_again_renews_its_record(catalogue: Catalogue) -> None:
    consents = Consents(catalogue)
    with catalogue.writing() as db:
        before = consents.record(db, "local", "voice_a", CLIP)
        after = consents.record(db, "local", "voice_a", CLIP)
    assert consents.of("voice_a") == (after,)
    assert before.given_s <= after.given_s


def test_a_record_lives_and_ends_with_the_callers_transaction(catalogue: Catalogue) -> None:
    consents = Consents(catalogue)
    with (
        pytest.raises(RuntimeError, match="the voice could not be written"),
        catalogue.writing() as db,
    ):
        consents.record(db, "local", "voice_a", CLIP)
        raise RuntimeError("the voice could not be written")
    assert consents.of("voice_a") == ()


def test_what_is_forgotten_is_gone_from_the_file(catalogue: Catalogue) -> None:
    consents = Consents(catalogue)
    with catalogue.writing() as db:
        consents.record(db, "local", "voice_canary", CLIP)
    with catalogue.writing() as db:
        consents.forget(db, "voice_canary")
    catalogue.erase_traces()
    assert consents.of("voice_canary") == ()
    for path in catalogue.folder.glob(f"{FILE}*"):
        assert b"voice_canary" not in path.read_bytes(), path.name


@pytest.mark.parametrize("given", [False, None, 1, "true", "yes"])
def test_only_true_itself_is_consent(given: object) -> None:
    with pytest.raises(Forbidden, match=r"^consent: .*I have the right") as refused:
        consent.require(given)
    assert (refused.value.code, refused.value.field) == ("consent_required", "consent")
    consent.require(True)


def test_neither_torch_nor_a_web_framework_is_loaded() -> None:
    code = (
        "import sys, studio.consent;"
        "print({'torch', 'gradio', 'starlette', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
