"""Which speaker a request gets: the order in which a text is looked up, and what it may bring."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from engine import InvalidRequest, NotFound, slerp
from studio import consent, voices
from studio.api.asks import Blend, Embedding, Sound, SpeakerAsk
from studio.api.speakers import Speakers, default_id
from studio.catalogue import Catalogue
from studio.owner import LOCAL, Owner
from studio.session_voices import SessionVoices
from studio.settings import Settings
from studio.voice_card import Card
from studio.voices import Draft, VoiceEmbedding, VoiceLibrary

ANNA, BEN = Owner("visitor:anna", ("local",)), Owner("visitor:ben")


@pytest.fixture
def library(tmp_path):
    catalogue = Catalogue(tmp_path, consent.SCHEMA, voices.SCHEMA)
    yield VoiceLibrary(catalogue, 100)
    catalogue.close()


@pytest.fixture
def sessions():
    return SessionVoices()


@pytest.fixture
def speakers(engine, library, sessions):
    return Speakers(engine, Settings(stock_voice=(("alloy", "deep"),)), library, sessions)


@pytest.fixture
def store(engine, library):
    def add(owner: Owner, name: str, value: float):
        vector = np.full(128, value, np.float32)
        embedding = VoiceEmbedding(engine.encoder.identity, engine.name, vector)
        return library.add(owner, Draft(Card(name), "recording", (embedding,)))

    return add


def resolve(speakers: Speakers, owner: Owner = ANNA, **ask):
    return asyncio.run(speakers.resolve(SpeakerAsk(**ask), owner))


def test_an_id_wins_over_a_name_and_a_stored_name_over_the_models(engine, speakers, store):
    mine, shared = store(ANNA, "Heart", 1.0), store(LOCAL, "heart", 2.0)
    for text, value in (
        ("HEART", 1.0),
        (f" {mine.id} ", 1.0),
        (shared.id, 2.0),
    ):
        speaker = resolve(speakers, voice=text)
        assert speaker.embedding.unique().tolist() == [value]
        assert speaker.voice_id is None
    assert resolve(speakers, BEN, voice="heart").embedding is engine.voices["heart"]
    by_id = resolve(speakers, voice=default_id("heart"))
    assert (by_id.voice_id, by_id.voice_name) == ("heart", "heart")


@pytest.mark.parametrize(
    ("voice", "name"),
    [
        (None, "heart"),
        ("", "heart"),
        ("Default", "heart"),
        ("DEEP", "deep"),
        ("Alloy", "deep"),
        ("nova", "heart"),
    ],
)
def test_the_models_voices_have_more_names(engine, speakers, voice, name):
    speaker = resolve(speakers, voice=voice)
    assert (speaker.voice_id, speaker.voice_name) == (name, name)
    assert speaker.embedding is engine.voices[name]


def test_a_session_voice_is_found_by_its_owner_alone(speakers, sessions):
    words = {"label": "L", "original_name": "", "content_hash": "0" * 64}
    vector = np.ones(128, np.float32)
    kept = sessions.add(ANNA.id, "s", embedding=vector, preview=None, **words)
    assert resolve(speakers, voice=kept.id).voice_name == "L"
    with pytest.raises(NotFound):
        resolve(speakers, BEN, voice=kept.id)


def test_near_names_are_those_that_the_owner_may_see(speakers, store):
    for number in range(12):
        store(ANNA, f"Annabel {number}", 1.0)
    store(BEN, "Annabella", 1.0)
    with pytest.raises(NotFound) as caught:
        resolve(speakers, voice="annabella", field="speaker")
    told = caught.value
    assert told.message.startswith("speaker: there is no voice 'annabella'; choose one of Annabel")
    assert told.message.count(",") == 9 and "Annabella" not in told.message
    assert (told.field, told.code) == ("speaker", "voice_not_found")
    with pytest.raises(NotFound, match="choose one of"):
        resolve(speakers, voice="x" * 4000 + "\ud800\0")


def test_what_is_brought_is_used_or_refused(engine, speakers, store, data_uri):
    store(ANNA, "ones", 1.0)
    given = Embedding("speaker_embedding", np.arange(128.0))
    assert resolve(speakers, embedding=given).embedding.tolist() == list(range(128))
    between = resolve(speakers, voice="alloy", blend=Blend("ones", "deep", 0.3))
    assert between.embedding.equal(slerp(torch.ones(128), engine.voices["deep"], 0.3))
    as_sound = resolve(speakers, sound=Sound("ref_audio", data_uri))
    as_voice = resolve(speakers, voice=data_uri)
    assert as_voice.embedding.equal(as_sound.embedding) and "short" in as_voice.warnings
    for wish, says in (
        ({"voice": "deep", "embedding": given}, "voice and speaker_embedding both"),
        ({"sound": Sound("ref_audio", "x"), "embedding": given}, "ref_audio and speaker_emb"),
        ({"blend": Blend("a", "b", 0.5), "embedding": given}, "speaker_embedding and blend"),
        ({"voice": data_uri, "sound": Sound("ref_audio", "x")}, "voice and ref_audio both"),
        ({"embedding": Embedding("speaker_embedding", np.ones(127))}, "127 numbers .* takes 128"),
        ({"embedding": Embedding("e", np.full(128, np.inf))}, "e cannot be used: .* finite"),
    ):
        with pytest.raises(InvalidRequest, match=says):
            resolve(speakers, **wish)
    with pytest.raises(NotFound, match="blend: there is no voice 'nobody'"):
        resolve(speakers, blend=Blend("ones", "nobody", 0.5))
