"""A speaker that is used for several speeches: the recording that it came in is read only once."""

from __future__ import annotations

from dataclasses import replace

from studio.api.asks import Embedding, SpeakerAsk
from studio.api.parse import SpeechAsk
from studio.api.speakers import Speaker, Speakers
from studio.media.base64_text import is_data_uri
from studio.media.fetch import is_url
from studio.owner import Owner


def recording_of(ask: SpeakerAsk) -> str | bytes | None:
    """What holds or names the recording of ``ask``, or None where it brings none."""
    if ask.sound is not None:
        return ask.sound.text if ask.sound.data is None else ask.sound.data
    voice = (ask.voice or "").strip()
    return voice if is_url(voice) or is_data_uri(voice) else None


async def prepared(speakers: Speakers, ask: SpeechAsk, owner: Owner) -> tuple[SpeechAsk, Speaker]:
    """Who speaks, and ``ask`` with the embedding in the place of a recording, which is let go.

    Raises what ``Speakers.resolve`` does.
    """
    wish = ask.speaker
    speaker = await speakers.resolve(wish, owner)
    if recording_of(wish) is None or speaker.embedding is None:
        return ask, speaker
    field = wish.field if wish.sound is None else wish.sound.field
    brought = Embedding(field, speaker.embedding.cpu().numpy())
    body = ask.body.model_copy(update={"ref_audio": None, "references": None, "voice": None})
    known = SpeakerAsk(embedding=brought, has_consent=wish.has_consent)
    return replace(ask, speaker=known, body=body), speaker
