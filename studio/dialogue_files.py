"""What is written of a dialogue: the mix, a file for each line, subtitles, and the script.

``script.json`` is a request for /v1/audio/dialogue that gives the same lines again: each turn has
the seed it was spoken with. Recordings that were sent with it are not in there.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import Cue, Turn, write_srt, write_vtt
from studio.api.keeping import NO_SETTINGS
from studio.api.layers import field_of
from studio.dialogue import Dialogue, Line
from studio.media.encode import Encoder, known_format
from studio.media.pcm import FULL_SCALE
from studio.mix import Mix
from studio.provenance import Marker

_BLOCK_SAMPLES = 1 << 18
_MAX_NAME_CHARS = 40


@dataclass(frozen=True)
class FileKind:
    """How sound is written: its format, its rate and bitrate (None: the usual ones)."""

    format: str
    sample_rate_hz: int | None = None
    bitrate: int | str | None = None

    def encoder(self, rate_hz: int, tags: Mapping[str, str]) -> Encoder:
        """An encoder for one whole file; raises ``InvalidRequest``."""
        return Encoder(self.format, rate_hz, self.sample_rate_hz, self.bitrate, tags, is_live=False)


class DialogueFiles:
    """The files of ``lines`` and their ``mix``. Blocking: for worker threads."""

    def __init__(
        self,
        dialogue: Dialogue,
        lines: Sequence[Line],
        mix: Mix,
        kind: FileKind,
        marker: Marker,
        model: str,
        request_id: str,
    ) -> None:
        self._dialogue = dialogue
        self._lines = lines
        self._mix = mix
        self._kind = kind
        self._marker = marker
        self._model = model
        self._request_id = request_id
        self.suffix = known_format(kind.format).suffix

    def mix(self) -> bytes:
        """The whole dialogue as one file of sound."""
        return self._sound(self._mix.samples, self._dialogue.seed, self._request_id)

    def line(self, index: int) -> bytes:
        """One line as a file of sound."""
        line = self._lines[index]
        return self._sound(line.samples, line.seed, f"{self._request_id}-{index}")

    def line_name(self, index: int) -> str:
        """What the file of a line is called, such as ``003-Anna.wav``."""
        line = self._lines[index]
        who = re.sub(r"[^\w-]+", "-", line.name or line.voice).strip("-")[:_MAX_NAME_CHARS]
        return f"{index + 1:03}{'-' if who else ''}{who}.{self.suffix}"

    def srt(self) -> str:
        """What is said when, as SubRip."""
        return write_srt(self._mix.all_cues)

    def vtt(self) -> str:
        """What is said when, as WebVTT."""
        return write_vtt(self._mix.all_cues)

    def about_lines(self) -> list[dict[str, Any]]:
        """Each line: who speaks it, when, with which seed, and how that went."""
        return [
            {
                "turn": line.index,
                "name": line.name,
                "voice": line.voice,
                "seed": line.seed,
                "start": round(cues[0].start_s, 3) if cues else None,
                "end": round(cues[-1].end_s, 3) if cues else None,
                "finish_reason": None if line.finish_reason is None else line.finish_reason.value,
                "fit": round(line.fit, 3),
                "repairs": list(line.repairs),
                "cues": [_cue(cue) for cue in cues],
                "warnings": " ".join(line.warnings) or None,
            }
            for line, cues in zip(self._lines, self._mix.cues, strict=True)
        ]

    def script(self) -> dict[str, Any]:
        """The request that gives these lines again, and under ``lines`` what became of them."""
        dialogue = self._dialogue
        cast = {
            name: _without_recordings(member) if isinstance(member, Mapping) else member
            for name, member in dialogue.cast.items()
        }
        turns = [
            _resendable(line, turn) for line, turn in zip(self._lines, dialogue.turns, strict=True)
        ]
        files = (f"lines/{self.line_name(index)}" for index in range(len(self._lines)))
        lines = [
            {"file": file, **about} for file, about in zip(files, self.about_lines(), strict=True)
        ]
        return {
            **_without_recordings(dialogue.settings),
            "seed": dialogue.seed,
            "pause_ms": dialogue.pause_ms,
            "cast": cast,
            "turns": turns,
            "lines": lines,
            "notes": list(self._mix.notes),
        }

    def zipped(self) -> bytes:
        """All files in one archive; sound as it is, since deflating would save nothing."""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr(f"mix.{self.suffix}", self.mix())
            for index in range(len(self._lines)):
                archive.writestr(f"lines/{self.line_name(index)}", self.line(index))
            for name, text in self.texts():
                archive.writestr(name, text, zipfile.ZIP_DEFLATED)
        return data.getvalue()

    def texts(self) -> Iterator[tuple[str, str]]:
        """The files of text: name and content."""
        yield "mix.srt", self.srt()
        yield "mix.vtt", self.vtt()
        yield "script.json", json.dumps(self.script(), ensure_ascii=False, indent=1) + "\n"

    def _sound(self, samples: np.ndarray, seed: int, request_id: str) -> bytes:
        marker, rate_hz = self._marker, self._mix.sample_rate_hz
        tags = marker.tags(model=self._model, request_id=request_id, seed=seed)
        encoder = self._kind.encoder(rate_hz, tags)
        pieces = [
            encoder.feed(samples[at : at + _BLOCK_SAMPLES].astype(np.float32) / FULL_SCALE)
            for at in range(0, len(samples), _BLOCK_SAMPLES)
        ]
        return marker.signed(b"".join((*pieces, encoder.finish())), self._kind.format, tags)


def _cue(cue: Cue) -> dict[str, Any]:
    return {"text": cue.text, "start": round(cue.start_s, 3), "end": round(cue.end_s, 3)}


def _resendable(line: Line, turn: Turn) -> dict[str, Any]:
    """The turn as JSON that gives this very line again."""
    fields = {"voice": turn.voice, "text": turn.text, **_without_recordings(turn.settings)}
    fields |= {"pause_ms": turn.pause_ms, "start_s": turn.start_s, "end_s": turn.end_s}
    fields["seed"] = line.seed
    return {name: value for name, value in fields.items() if value is not None}


def _without_recordings(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if field_of(name) not in NO_SETTINGS}
