"""A reference recording in numbers and in words that say what to do.

A warning is advice, never a refusal: what cannot be used at all is refused by intake.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from studio.media.signal import ChannelChoice

_QUIET_DBFS = -40.0
_NOISY_DB = 18.0
_CLIPPED_SHARE = 0.005
_NARROW_BAND_DB = -36.0
_VOICE_CHANGE = 1.5
_SHORT_S = 3.0
_LONG_SILENCE_S = 0.5
_OFFSET = 0.02


@dataclass(frozen=True)
class Note:
    """One finding: a stable ``code`` and an ASCII ``sentence`` that ends with the remedy."""

    code: str
    severity: Literal["info", "warning"]
    sentence: str


@dataclass(frozen=True)
class Report:
    """What was found in a recording; the words follow from the numbers.

    - ``duration_s`` is the whole recording, ``seconds_used`` what is left of it without silence at
      the ends and after the cut at the limit (``is_cut``);
    - ``level_dbfs`` is the RMS of its sound against full scale, ``peak`` its largest sample before
      it was scaled down to 1.0;
    - ``clipped_share`` (0 to 1), ``noise_below_voice_db``, ``high_band_db``: see signal.py;
    - ``voice_change``: see speakers.py;
    - ``channel`` counts from 0, -1 for the mean of two; ``offset`` is the removed constant.
    """

    duration_s: float
    seconds_used: float
    is_cut: bool
    leading_silence_s: float
    trailing_silence_s: float
    level_dbfs: float
    peak: float
    clipped_share: float
    noise_below_voice_db: float
    high_band_db: float
    voice_change: float
    num_channels: int
    channel: int
    channel_choice: ChannelChoice
    offset: float

    @property
    def notes(self) -> tuple[Note, ...]:
        """All findings in words, the length first."""
        return (*self._length_notes(), *self._channel_notes(), *self._quality_notes())

    def warnings(self) -> str:
        """Return the warnings as one line of ASCII that is safe in an HTTP header."""
        return " ".join(note.sentence for note in self.notes if note.severity == "warning")

    def _length_notes(self) -> Iterator[Note]:
        if self.is_cut:
            yield _warning(
                "only_beginning_used",
                f"Of {self.duration_s:.1f} s only the first {self.seconds_used:.1f} s of sound were"
                " used: cut out the best part to choose it yourself.",
            )
        if self.seconds_used < _SHORT_S:
            yield _warning(
                "short",
                f"The recording is short ({self.seconds_used:.1f} s): 5 to 20 s give a closer"
                " voice.",
            )
        if max(self.leading_silence_s, self.trailing_silence_s) > _LONG_SILENCE_S:
            yield _info(
                "silence_trimmed",
                f"Silence was left out ({self.leading_silence_s:.1f} s at the start,"
                f" {self.trailing_silence_s:.1f} s at the end): nothing to do.",
            )

    def _channel_notes(self) -> Iterator[Note]:
        name = ("left", "right")[self.channel] if self.channel in (0, 1) else ""
        if self.channel_choice == "other_is_dead":
            yield _info(
                "one_channel_silent",
                f"Only the {name} channel holds sound and was used: nothing to do.",
            )
        elif self.channel_choice == "they_cancel":
            yield _warning(
                "channels_cancel",
                f"The two channels cancel each other and only the {name} one was used: record in"
                " mono or check the polarity of the cables.",
            )
        elif self.channel_choice == "loudest_of_many":
            yield _warning(
                "loudest_channel_used",
                f"Of {self.num_channels} channels only the loudest (number {self.channel + 1}) was"
                " used: send mono to choose yourself.",
            )
        if abs(self.offset) > _OFFSET:
            yield _warning(
                "constant_offset",
                f"A constant offset of {self.offset:.2f} was removed: check the microphone or the"
                " sound card.",
            )

    def _quality_notes(self) -> Iterator[Note]:
        if self.level_dbfs < _QUIET_DBFS:
            yield _warning(
                "too_quiet",
                f"The recording is very quiet ({self.level_dbfs:.0f} dBFS): move closer to the"
                " microphone or raise the gain.",
            )
        if self.clipped_share > _CLIPPED_SHARE:
            yield _warning(
                "clipped",
                f"The recording is clipped ({100 * self.clipped_share:.1f} % of it): lower the gain"
                " and record again.",
            )
        elif self.peak > 1.0:
            yield _info(
                "above_full_scale",
                f"Peaks reached {self.peak:.2f} times full scale and all of it was scaled down:"
                " nothing to do.",
            )
        if self.noise_below_voice_db < _NOISY_DB:
            yield _warning(
                "noisy",
                f"The background is only {self.noise_below_voice_db:.0f} dB quieter than the voice"
                " and would be cloned with it: record in a quiet room, without music.",
            )
        if self.high_band_db < _NARROW_BAND_DB:
            yield _warning(
                "narrow_band",
                "The recording has almost no sound above 4 kHz, as on a telephone, and the voice"
                " may be dull: record with 16 kHz or more.",
            )
        if self.voice_change > _VOICE_CHANGE:
            yield _warning(
                "several_speakers",
                "More than one person seems to speak, or the microphone changes: cut out a part"
                " with only the voice you want.",
            )


def _warning(code: str, sentence: str) -> Note:
    return Note(code, "warning", sentence)


def _info(code: str, sentence: str) -> Note:
    return Note(code, "info", sentence)
