"""A sound that is kept as a take on its way out, without ever standing in its way.

    keeping = Keeping(history, owner, making_of(engine, ask.body, speaker, stream, tags), rate_hz)
    async for chunk in keeping.kept(chunks):
        ...
    headers |= keeping.headers()

- The chunks pass unchanged. What the disk refuses becomes a sentence in ``note``, and the speech
  goes on.
- A speech that fails or is left half-way leaves no take.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import numpy as np
from anyio.to_thread import run_sync

from engine import Engine, SpeechStream, StudioError
from studio.api.schemas import SpeechBody
from studio.api.speakers import Speaker
from studio.history import History, Recorder
from studio.media.pcm import to_int16
from studio.owner import Owner
from studio.takes import Making, Take

log = logging.getLogger(__name__)

# Recordings and numbers of a voice are no settings; the rest says how a reply was sent.
NO_SETTINGS = frozenset(
    {
        *("references", "ref_audio", "speaker_embedding", "speaker_embedding_base64", "consent"),
        *("stream", "stream_format", "timestamps", "store", "strict"),
    }
)


def making_of(
    engine: Engine,
    body: SpeechBody,
    speaker: Speaker,
    stream: SpeechStream,
    tags: Mapping[str, str],
) -> Making:
    """What is known of a request that the engine has taken, as it can be asked for again.

    ``tags`` are the words for its file, as ``Marker.tags`` gives them.
    """
    settings = body.model_dump(exclude_none=True, exclude=set(NO_SETTINGS))
    # The values in force: the defaults of another version may differ.
    settings = {**engine.family.sampling_defaults, **settings, "seed": stream.seed}
    embedding = speaker.embedding
    return Making(
        text=body.input,
        settings=settings,
        seed=stream.seed,
        voice=speaker.voice_name,
        voice_id=speaker.voice_id,
        model=engine.name,
        speaker=None if embedding is None else embedding.detach().float().cpu().numpy(),
        comment=tags.get("comment", ""),
    )


class Keeping:
    """One request's sound on its way into the history; ``take`` is there when it has arrived.

    ``repairs`` tells at the end what had to be made again.
    """

    def __init__(
        self,
        history: History,
        owner: Owner,
        making: Making,
        sample_rate_hz: int,
        repairs: Callable[[], Sequence[Mapping[str, object]]] = list,
    ) -> None:
        self.take: Take | None = None
        self.note = ""  # why there is no take, in a sentence
        self._history = history
        self._owner = owner
        self._making = making
        self._repairs = repairs
        self._sample_rate_hz = sample_rate_hz
        self._recorder: Recorder | None = None

    async def kept(self, chunks: AsyncIterator[np.ndarray]) -> AsyncIterator[np.ndarray]:
        """``chunks`` of float32 samples as they come; after the last one the take is kept."""
        try:
            async for chunk in chunks:
                if not self.note:
                    await run_sync(self._try, self._write, chunk)
                yield chunk
            if self._recorder is not None and not self.note:
                await run_sync(self._try, self._keep)
        finally:
            if self._recorder is not None:
                self._recorder.discard()

    def headers(self) -> dict[str, str]:
        """The id under which the take is found, or will be when the sound has ended."""
        if self._recorder is None or self.note:
            return {}
        return {"X-Take": self._recorder.take_id}

    def _write(self, chunk: np.ndarray) -> None:
        if self._recorder is None:
            self._recorder = self._history.record(self._owner, self._making, self._sample_rate_hz)
        self._recorder.write(to_int16(chunk))

    def _keep(self) -> None:
        assert self._recorder is not None
        take = self.take = self._recorder.keep(self._repairs())
        log.info("take %s: %.2f s, %d bytes", take.id, take.duration_s, take.size_bytes)

    def _try(self, act: Callable[..., None], *values: np.ndarray) -> None:
        try:
            act(*values)
        except StudioError as error:
            self.note = error.message
        except Exception:  # whatever it is, the speech is worth more than its copy
            log.exception("a take could not be kept")
            self.note = "takes: this one could not be kept; the log of the studio has more."
