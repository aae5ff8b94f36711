"""WS /v1/audio/speech/stream: text comes in while it is written, sentences go out as sound.

    -> session.config  {voice, response_format, stream_audio, split_granularity, ...}
    <- session.configured
    -> input.text      {text}; as often as one likes
    <- audio.start     {sentence_text, format, sample_rate, ...}, binary frames, audio.done
    -> input.done      the end of an utterance; input.cancel drops what is not spoken yet
    <- session.done    the utterance has ended; another one may follow
    -> session.close   the end, once every utterance that was ended is spoken

- Sentences are spoken one after another. What arrives meanwhile is read at once, so that a
  cancellation or a client that leaves frees the slot within two steps.
- Bounded: a message, the text and the utterances that wait, the silence of a client.
- A page of another origin may open a socket without asking anybody: its origin is looked at here.
- Source: spec/api.md A3, A4, F14.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect

from engine import Conflict, InvalidRequest, StudioError, TooLarge
from studio.api.doors import SGLANG
from studio.api.owners import owner_of, share_of
from studio.api.parse import SpeechAsk
from studio.api.prepared import prepared
from studio.api.schemas import refused
from studio.api.sentences import BORDERS, Sentences
from studio.api.speaking import Speaking, Spoken
from studio.api.speech_socket_wire import Left, Silence, Wire

CONFIG_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 30.0
MAX_WAITING_CHARS = 256 << 10
MAX_WAITING_UTTERANCES = 64
# RFC 6455's reasons to close.
_DONE, _POLICY, _TOO_BIG = 1000, 1008, 1009
_TYPES = ("session.config", "input.text", "input.done", "input.cancel", "session.close")
# Fields of a speech request that the socket settles itself.
_SETTLED = ("input", "text", "stream", "stream_format")
_OWN_FIELDS = ("type", "stream_audio", "split_granularity")


def speech_socket_router(speaking: Speaking) -> APIRouter:
    """The web socket."""
    router = APIRouter()

    @router.websocket("/v1/audio/speech/stream")
    async def speech_socket(socket: WebSocket) -> None:
        if _is_foreign(socket, speaking.settings.cors_origin):
            await socket.close(_POLICY)
            return
        await socket.accept()
        await _Session(socket, speaking).run()

    return router


def _is_foreign(socket: WebSocket, allowed: tuple[str, ...]) -> bool:
    """Whether a page opened the socket that is not ours and not allowed to speak here."""
    origin = socket.headers.get("origin")
    if origin is None or "*" in allowed or origin.lower() in allowed:
        return False
    try:
        return urlsplit(origin).netloc.lower() != socket.headers.get("host", "").lower()
    except ValueError:
        return True


@dataclass(eq=False)
class _Utterance:
    """The text between two ends: the sentences that wait, and how many were begun."""

    index: int
    sentences: deque[str] = field(default_factory=deque)
    num_begun: int = 0
    is_ended: bool = False
    is_cancelled: bool = False


class _Session:
    """One connection."""

    def __init__(self, socket: WebSocket, speaking: Speaking) -> None:
        self._wire = Wire(socket)
        self._speaking = speaking
        self._owner = owner_of(socket)
        self._share = share_of(socket, self._owner)
        self._id = f"ws_{secrets.token_hex(8)}"
        self._ask: SpeechAsk | None = None
        self._is_streamed = False
        self._text = Sentences()
        # The last one takes the text that arrives, the first one is being spoken.
        self._utterances = deque([_Utterance(0)])
        self._num_queued_chars = 0
        self._has_work = asyncio.Event()
        self._speech: anyio.CancelScope | None = None
        self._is_closing = False
        self._close_code: int | None = None  # None: nobody is there any more

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        try:
            async with anyio.create_task_group() as group:
                with suppress(Left):
                    self._close_code = await self._serve(group)
                group.cancel_scope.cancel()
        except* (WebSocketDisconnect, TimeoutError):
            self._close_code = None
        if self._close_code is not None:
            with suppress(WebSocketDisconnect):
                await self._wire.close(self._close_code)

    async def _serve(self, group: TaskGroup) -> int:
        """Read to the end -> why the socket is closed."""
        try:
            message = await self._wire.message(CONFIG_TIMEOUT_S)
            if message.get("type") != "session.config":
                raise refused("type", message.get("type"), "begin with session.config")
            await self._configure(message)
        except StudioError as error:
            await self._wire.tell_error(error)
            return _POLICY
        except Silence:
            await self._tell_silence("session.config", CONFIG_TIMEOUT_S)
            return _POLICY
        group.start_soon(self._speak, group)
        while True:
            try:
                message = await self._wire.message(IDLE_TIMEOUT_S, lambda: self._is_busy)
                await self._handle(message)
            except StudioError as error:
                await self._wire.tell_error(error)
                if self._is_full:
                    return _TOO_BIG
            except Silence:
                await self._tell_silence("session", IDLE_TIMEOUT_S)
                return _DONE

    async def _handle(self, message: Mapping[str, Any]) -> None:
        match message.get("type"):
            case "input.text":
                self._take(message.get("text"))
            case "input.done":
                self._end_utterance()
            case "input.cancel":
                self._cancel()
            case "session.config":
                await self._configure(message)
            case "session.close":
                self._text.flush()
                self._is_closing = True
            case other:
                raise refused("type", other, f"send one of {', '.join(_TYPES)}")
        self._has_work.set()

    async def _configure(self, message: Mapping[str, Any]) -> None:
        if self._is_busy or len(self._text):
            raise Conflict(
                "session.config: text is waiting to be spoken; send it after session.done.",
                field="type",
            )
        given = message.get("session")
        given = message if given is None else given
        if not isinstance(given, dict):
            raise refused("session", given, "give an object of fields")
        is_streamed, granularity = _own_fields(given)
        fields = {n: v for n, v in given.items() if n not in (*_SETTLED, *_OWN_FIELDS)}
        fields |= {"input": "text", "stream": is_streamed}
        ask = await run_sync(self._speaking.check, fields, SGLANG)
        ask, speaker = await prepared(self._speaking.speakers, ask, self._owner)
        self._ask, self._is_streamed, self._text = ask, is_streamed, Sentences(granularity)
        settled = [name for name in _SETTLED if given.get(name) is not None]
        await self._wire.tell(
            "session.configured",
            session_id=self._id,
            response_format=ask.format,
            stream_audio=is_streamed,
            split_granularity=granularity,
            voice=speaker.voice_name,
            ignored_fields=[*settled, *ask.ignored],
            warnings=speaker.warnings or None,
        )

    async def _tell_silence(self, what: str, timeout_s: float) -> None:
        sentence = f"{what}: nothing came for {timeout_s:.0f} s; connect again."
        await self._wire.tell_error(InvalidRequest(sentence, code="timeout"))

    # The text that waits ---------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        """Whether something is being spoken or waits for it."""
        first = self._utterances[0]
        return self._speech is not None or bool(first.sentences) or first.is_ended

    @property
    def _is_full(self) -> bool:
        num_chars = self._num_queued_chars + len(self._text)
        return num_chars > MAX_WAITING_CHARS or len(self._utterances) > MAX_WAITING_UTTERANCES

    def _take(self, text: object) -> None:
        if not isinstance(text, str):
            raise refused("text", text, "give a text")
        if not self._is_closing:
            self._queue(self._text.feed(text))

    def _end_utterance(self) -> None:
        if not self._is_closing:
            self._queue(self._text.flush())
            self._begin_another()

    def _cancel(self) -> None:
        self._text.flush()
        self._num_queued_chars = 0
        for utterance in self._utterances:
            utterance.sentences.clear()
            utterance.is_cancelled = True
        if self._speech is not None:
            self._speech.cancel()
        self._begin_another()

    def _begin_another(self) -> None:
        last = self._utterances[-1]
        last.is_ended = True
        self._utterances.append(_Utterance(last.index + 1))
        self._check_room()

    def _queue(self, sentences: list[str]) -> None:
        self._utterances[-1].sentences.extend(sentences)
        self._num_queued_chars += sum(map(len, sentences))
        self._check_room()

    def _check_room(self) -> None:
        if self._is_full:
            raise TooLarge(
                f"input.text: more than {MAX_WAITING_CHARS} characters or"
                f" {MAX_WAITING_UTTERANCES} utterances wait to be spoken; send less at a time.",
                field="text",
            )

    # Speaking --------------------------------------------------------------------------------

    async def _speak(self, group: TaskGroup) -> None:
        while True:
            utterance = self._utterances[0]
            if utterance.sentences:
                sentence = utterance.sentences.popleft()
                self._num_queued_chars -= len(sentence)
                await self._say(utterance, sentence)
            elif utterance.is_ended:
                self._utterances.popleft()
                await self._wire.tell(
                    "session.done",
                    session_id=self._id,
                    utterance_index=utterance.index,
                    total_sentences=utterance.num_begun,
                    cancelled=utterance.is_cancelled,
                )
            elif self._is_closing:
                self._close_code = _DONE
                group.cancel_scope.cancel()
                return
            else:
                self._has_work.clear()
                await self._has_work.wait()

    async def _say(self, utterance: _Utterance, sentence: str) -> None:
        about: dict[str, Any] = {
            "id": f"{self._id}-{utterance.index}-{utterance.num_begun}",
            "utterance_index": utterance.index,
            "sentence_index": utterance.num_begun,
        }
        utterance.num_begun += 1
        size_bytes, fault = 0, None
        with anyio.CancelScope() as self._speech:
            try:
                async with await self._begun(sentence, about["id"]) as spoken:
                    async for piece in self._pieces(spoken):
                        if not size_bytes:
                            known = spoken.encoder.format
                            await self._wire.tell(
                                "audio.start",
                                **about,
                                sentence_text=sentence,
                                format=known.name,
                                media_type=known.media_type,
                                sample_rate=spoken.encoder.sample_rate_hz,
                                seed=spoken.stream.seed,
                                take=spoken.headers().get("X-Take"),
                                warnings=" ".join(spoken.warnings) or None,
                            )
                        size_bytes += len(piece)
                        await self._wire.sound(piece)
            except StudioError as error:
                fault = error
        is_cancelled = self._speech.cancelled_caught
        self._speech = None
        if fault is not None:
            await self._wire.tell_error(fault, **about)
        await self._wire.tell(
            "audio.done",
            **about,
            total_bytes=size_bytes,
            error=fault is not None,
            cancelled=is_cancelled,
        )

    async def _begun(self, sentence: str, request_id: str) -> Spoken:
        assert self._ask is not None
        max_chars = self._speaking.settings.max_input_chars
        if len(sentence) > max_chars:
            raise InvalidRequest(
                f"text: a sentence has {len(sentence)} characters and the limit is {max_chars};"
                " end it sooner.",
                field="text",
                code="string_above_max_length",
            )
        body = self._ask.body.model_copy(update={"input": sentence})
        ask = replace(self._ask, body=body)
        return await self._speaking.begin(ask, self._owner, request_id, self._share)

    async def _pieces(self, spoken: Spoken) -> AsyncIterator[bytes]:
        if not self._is_streamed:
            yield await spoken.body()
            return
        async for piece in spoken.live():
            yield piece


def _own_fields(given: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the sound of a sentence is sent while it is made, and where the text is cut."""
    is_streamed, granularity = given.get("stream_audio"), given.get("split_granularity")
    if not isinstance(is_streamed, bool | None):
        raise refused("stream_audio", is_streamed, "give true or false")
    if granularity is None:
        return bool(is_streamed), "sentence"
    if not isinstance(granularity, str) or granularity not in BORDERS:
        raise refused("split_granularity", granularity, f"choose {' or '.join(BORDERS)}")
    return bool(is_streamed), granularity
