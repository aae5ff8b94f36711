"""What a sound file carries that says how it was made, and how sure that is.

    with open(path, "rb", buffering=0) as file:
        inspection = inspect(file)

The file may come from anybody: everything that parses it runs in limited children. Blocking.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from engine import InvalidRequest, TooLarge
from studio.media import signal
from studio.media.containers import ACCEPTED, demuxer_of
from studio.media.decode import DecodeError, TooLong, decode
from studio.media.limits import Limits
from studio.media.reading import Statement, read_statement, read_tags
from studio.watermark import RATE_HZ
from studio.watermark_search import FOUND, MIN_S, STRETCH_S, Search, search

# As much of a sound is looked at for the watermark, from where it is first heard.
MAX_CHECKED_S = 60.0
LIMITS = Limits(max_used_s=MAX_CHECKED_S)
_SOUND_BELOW = 1e10  # full scale is 1.0, or 2**31 where integers were written as floats
_BY_AI = "trainedalgorithmicmedia"  # compositeWithTrainedAlgorithmicMedia ends so, too


@dataclass(frozen=True)
class Inspection:
    """What was found in one file; ``seconds_checked`` is without silence at both ends."""

    duration_s: float
    seconds_checked: float
    watermark: Search
    tags: dict[str, str]
    statement: Statement | None

    @property
    def tags_say_ai(self) -> bool:
        """Whether the words of the file name a machine as its maker, in IPTC's term or ours."""
        told = " ".join(self.tags.values()).lower()
        return _BY_AI in told or self.tags.get("ai_generated", "").lower() == "true"

    @property
    def statement_says_ai(self) -> bool:
        """Whether a signed statement that still holds names a machine as the maker."""
        statement = self.statement
        return statement is not None and statement.is_intact and _names_ai(statement)

    @property
    def watermark_sentence(self) -> str:
        """What was heard, and how sure that is."""
        found, short = self.watermark, self.seconds_checked < MIN_S
        if found.is_found:
            where = "The sound bears the watermark"
            if found.num_stretches > 1:
                where += (
                    f" in {found.num_marked} of {found.num_stretches} stretches of about"
                    f" {STRETCH_S:.0f} s"
                )
            if found.speed != 1:
                where += f", played at about {found.speed:.2f} times its speed"
            sure = f"the detector says {found.confidence:.2f}, and unmarked speech stays below"
            sure = f"{where}: {sure} {FOUND}."
            return f"{sure} {self._too_short} to be very sure." if short else sure
        if not short and not found.num_stretches:
            return "It does not sound like speech, and only in speech can the watermark be told."
        if short:
            return f"No watermark was found, but {self._too_short} to be sure; {MIN_S:.0f} s are."
        return (
            "No watermark was found. That does not prove that a person spoke: others do not mark"
            " what they make, and whoever tries can remove a mark."
        )

    @property
    def tags_sentence(self) -> str:
        """What the words of the file say."""
        if self.tags_say_ai:
            model = self.tags.get("model")
            by = f" ({model})" if model else ""
            return f"Its metadata say that AI made it{by}; anybody can write or remove such words."
        if self.tags:
            return (
                "Its metadata do not say that AI made it; anybody can write or remove such words."
            )
        return "It holds no metadata."

    @property
    def statement_sentence(self) -> str:
        """What the signed statement says."""
        statement = self.statement
        if statement is None:
            return "It holds no signed statement (C2PA)."
        if not statement.is_intact:
            return "It holds a signed statement (C2PA) that does not hold: the file was changed."
        said = "AI made it" if _names_ai(statement) else "something else about its making"
        return (
            f"A signed statement (C2PA) says {said}, and the file is unchanged since; the signer"
            f" calls itself {statement.signer!r}, which this studio cannot confirm."
        )

    @property
    def summary(self) -> str:
        """One sentence for somebody who asks whether a machine spoke."""
        if self.watermark.is_found:
            is_sure = self.seconds_checked >= MIN_S
            return (
                f"{'A' if is_sure else 'Probably a'} machine spoke here: the sound bears the"
                " watermark that this studio, and others with Perth, put into speech they make."
            )
        if self.statement_says_ai:
            return "A machine spoke here, says a signed statement in the file."
        if self.tags_say_ai:
            return "Its metadata say that a machine spoke here; nothing else confirms it."
        return "Nothing in this file says that a machine spoke here, which does not prove a person."

    @property
    def _too_short(self) -> str:
        return f"{self.seconds_checked:.1f} s of sound are too short"


def inspect_bytes(chunks: Iterable[bytes], field: str = "file") -> Inspection:
    """Inspect a file that is in memory or arrives in pieces; nothing of it is left behind."""
    size_bytes = 0
    with tempfile.TemporaryFile(buffering=0) as file:  # children share its position
        for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > LIMITS.size_bytes:
                raise _too_big(field)
            file.write(chunk)
        return inspect(file, field)


def inspect(file: BinaryIO, field: str = "file") -> Inspection:
    """Inspect an open, unbuffered file; its position moves.

    Raises ``TooLarge`` and ``InvalidRequest`` naming ``field`` for what is no sound file.
    """
    size_bytes = os.fstat(file.fileno()).st_size
    if size_bytes > LIMITS.size_bytes:
        raise _too_big(field)
    if not size_bytes:
        raise _no_sound_file(field, "it is empty")
    if (demuxer := demuxer_of(file)) is None:
        raise _no_sound_file(field, "it is not in an accepted format")
    try:
        decoded = decode(file, demuxer, RATE_HZ, LIMITS)
    except TooLong as error:
        raise TooLarge(
            f"{field} is longer than {LIMITS.max_duration_s:.0f} s; send a part of it.", field=field
        ) from error
    except DecodeError as error:
        raise _no_sound_file(field, error.reason) from error
    if not (np.abs(decoded.samples) < _SOUND_BELOW).all():  # false for NaN too
        raise _no_sound_file(field, "it holds values that are not sound (NaN, infinite or huge)")
    sound = decoded.samples[:, 0]
    if len(sound):
        mono = signal.one_channel(decoded.samples).samples
        begin, end = signal.sound_range(mono, RATE_HZ)
        sound = mono[begin:end]
    return Inspection(
        decoded.duration_s,
        len(sound) / RATE_HZ,
        search(sound),
        read_tags(file, demuxer, LIMITS),
        read_statement(file, demuxer, LIMITS),
    )


def _names_ai(statement: Statement) -> bool:
    return any(kind.lower().endswith(_BY_AI) for kind in statement.source_types)


def _no_sound_file(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field} cannot be checked: {reason}. Send a sound file as {ACCEPTED}.",
        field=field,
        code="invalid_audio",
    )


def _too_big(field: str) -> TooLarge:
    return TooLarge(
        f"{field} is larger than {LIMITS.size_bytes / 1e6:.0f} MB; send a part of it, or the same"
        " as FLAC.",
        field=field,
    )
