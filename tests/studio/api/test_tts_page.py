"""A client that behaves as Zyphra's page does: from the first look to a stop."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from uuid import uuid4

import httpx
import numpy as np
import pytest
import soundfile

from tests.studio.api.test_live import LONG, SOON_S, is_idle, until
from tests.studio.api.test_tts import UNTOUCHED_PAGE


@pytest.fixture
def page(server):
    """The page's requests: its origin, its session, JSON bodies; it follows redirects, as fetch."""
    headers = {"X-TTS-Session-ID": str(uuid4()), "Origin": "http://127.0.0.1:1919"}
    with httpx.Client(
        base_url=server, headers=headers, timeout=60, follow_redirects=True
    ) as client:
        yield client


def generate(page: httpx.Client, **fields: object):
    """Press GENERATE."""
    return page.stream("POST", "/tts/generate", json=UNTOUCHED_PAGE | {"max_tokens": 30} | fields)


def test_the_page_works_from_the_first_look_to_a_stop(page, engine, recording):
    shown = page.get("/tts/capabilities").json()
    assert shown["speaker_enabled"] and shown["n_codebooks"] == 9
    speakers = page.get("/tts/speakers").json()["speakers"]
    assert speakers and all(speaker["is_default"] for speaker in speakers)

    # Two recordings are uploaded; the page shows them at once and after a reload.
    uri = "data:audio/wav;base64," + base64.b64encode(recording).decode()
    body = {"label": "Ann", "speaker_audio_base64": uri, "speaker_audio_name": "Ann.wav"}
    ann = page.post("/tts/speakers", json=body).json()
    file = io.BytesIO()
    vector = engine.voices["heart"].numpy()
    np.savez(file, emb=vector)
    body = {
        "label": "Ben",
        "speaker_embedding_base64": "data:;base64," + base64.b64encode(file.getvalue()).decode(),
        "speaker_embedding_name": "Ben.npz",
    }
    ben = page.post("/tts/speakers", json=body).json()
    reloaded = page.get("/tts/speakers").json()["speakers"]
    assert [speaker["id"] for speaker in reloaded[-2:]] == [ben["id"], ann["id"]]

    # The preview of an upload; test_tts_speakers has that of a voice of the model.
    heard = page.get(f"/tts/speakers/{ann['id']}/preview")
    assert heard.headers["Content-Type"] == "audio/wav"
    assert soundfile.info(io.BytesIO(heard.content)).samplerate == 24_000

    # One speaker, then a blend of both, played while it arrives.
    sounds = []
    for voice in (
        {"speaker_embedding_id": ann["id"]},
        {
            "speaker_blend_embedding_id_a": ann["id"],
            "speaker_blend_embedding_id_b": ben["id"],
            "speaker_blend_t": 0.3,
        },
    ):
        with generate(page, seed=11, **voice) as answer:
            assert answer.status_code == 200
            assert answer.headers["X-Audio-Format"] == "float32"
            pieces = list(answer.iter_raw())
        sounds.append(np.frombuffer(b"".join(pieces), "<f4"))
        assert len(pieces) > 1
        assert len(sounds[-1]) > 10_000 and 0.02 < np.abs(sounds[-1]).max() <= 1
    assert not np.array_equal(*(sound[:10_000] for sound in sounds))

    # STOP: the page aborts its request, and the slot is free at once.
    with generate(page, text=LONG, max_tokens=2048, speaker_embedding_id=ann["id"]) as answer:
        next(answer.iter_raw())
        until(lambda: engine.stats.num_live == 1)
    assert until(lambda: is_idle(engine)) < SOON_S


def test_a_page_is_told_what_is_wrong_in_words(page):
    with generate(page, speaker_embedding_id="spk_gone") as answer:
        assert answer.status_code == 404
        told = json.loads(answer.read())
    assert told["detail"].startswith("speaker_embedding_id: there is no voice 'spk_gone'")


def test_a_page_that_leaves_before_the_first_sound_frees_its_slot(server, engine):
    with contextlib.suppress(httpx.ReadTimeout):
        httpx.post(
            f"{server}/tts/generate", json={"text": LONG}, timeout=httpx.Timeout(10, read=0.03)
        )
    assert until(lambda: is_idle(engine)) < SOON_S
