"""The library over HTTP: voices are made, found, moved and deleted by their owner alone."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from urllib.parse import quote

import httpx
import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F
from starlette.testclient import TestClient

from engine import average, slerp
from studio import vectors
from studio.api import voices as routes
from studio.api.asks import Sound
from studio.consent import STATEMENT
from studio.owner import LOCAL
from studio.server import create_api
from studio.settings import Settings
from studio.voice_card import Card
from studio.voices import Draft, VoiceEmbedding

PATH = "/v1/audio/voices"
RELEASE = "f" * 16


def studio(engine, folder, **more) -> TestClient:
    settings = Settings(data=folder, **more)
    return TestClient(create_api(engine, settings), raise_server_exceptions=False)


@pytest.fixture
def api(engine, tmp_path):
    return studio(engine, tmp_path / "data")


@pytest.fixture(scope="module")
def another(recording) -> bytes:
    """A recording of somebody else: the same words, lower and slower."""
    samples, rate_hz = soundfile.read(io.BytesIO(recording), dtype="int16")
    file = io.BytesIO()
    soundfile.write(file, samples, int(rate_hz * 0.8), format="FLAC")
    return file.getvalue()


def send(api, *recordings: bytes, path: str = PATH, headers=None, **fields):
    """A form as curl -F sends it; every voice has a name and a declaration."""
    files = [("audio_sample", (f"../../clip{n}.wav", r)) for n, r in enumerate(recordings)]
    data = {"name": "Anna", "consent": "true"} | fields
    data = {name: value for name, value in data.items() if value is not None}
    return api.post(path, files=files or {"x": b""}, data=data, headers=headers)


def mix(api, name: str = "Anna", headers=None, **more):
    """A voice that nobody has to decode."""
    body = {"name": name, "blend": {"a": "heart", "b": "deep"}} | more
    return api.post(PATH, json=body, headers=headers)


def made(response) -> dict:
    assert response.status_code == 200, response.text
    return response.json()["voice"]


def error(response) -> tuple[int, str, str]:
    body = response.json()["error"]
    return response.status_code, body["code"], body["message"]


def embedding(api, which: str) -> np.ndarray:
    response = api.get(f"{PATH}/{which}/embedding")
    assert response.status_code == 200, response.text
    return np.load(io.BytesIO(response.content), allow_pickle=False)


def embedded(api, recording: bytes) -> torch.Tensor:
    """What the studio's own way to an embedding makes of a recording that is sent once."""
    speakers = api.app.state.speaking.speakers
    return speakers.hear(Sound("reference", data=recording)).embedding


def test_a_voice_is_used_by_name_after_a_restart(engine, tmp_path, serving, recording, data_uri):
    ask = {"input": "Hello.", "seed": 1, "max_new_tokens": 12, "response_format": "pcm"}
    with (
        serving(create_api(engine, Settings(data=tmp_path))) as address,
        httpx.Client(base_url=address, timeout=120) as api,
    ):
        made(send(api, recording))
        expected = api.post("/v1/audio/speech", json=ask | {"ref_audio": data_uri}).content
    with (
        serving(create_api(engine, Settings(data=tmp_path))) as address,
        httpx.Client(base_url=address, timeout=120) as api,
    ):
        spoken = api.post("/v1/audio/speech", json=ask | {"voice": "anna"})
        assert spoken.status_code == 200 and spoken.headers["X-Voice"] == "Anna"
        assert spoken.content == expected


def test_the_list_has_the_shapes_of_all_clients(engine, api, recording):
    anna = made(send(api, recording, speaker_description="calm", ref_text="The boat", tags="a,b"))
    listed = api.get(PATH, params={"model": "tts-1"}).json()
    assert listed["object"] == "list" and listed["data"] == listed["voices"]
    assert [voice["name"] for voice in listed["voices"]] == ["Anna", *engine.voices]
    assert listed["uploaded_voices"] == [anna]
    assert {voice["scope"] for voice in listed["data"]} == {"library", "default"}
    (heart,) = (voice for voice in listed["data"] if voice["is_default"])
    assert heart["name"] == "heart"
    assert anna["voice_id"] == anna["id"] and anna["preview_url"].endswith("/preview")
    assert (anna["speaker_description"], anna["ref_text"]) == ("calm", "The boat")
    assert anna["tags"] == ["a", "b"] and anna["consent"] == "statement 1"
    assert anna["file_size"] > 512 and anna["is_usable"] and not anna["has_clip"]
    assert api.get(f"{PATH}?names_only=true").json() == {"voices": ["Anna", *engine.voices]}
    one = api.get(f"{PATH}/anna").json()
    (declared,) = one.pop("consents")
    assert one == anna and declared["statement"] == STATEMENT and len(declared["clip_hash"]) == 64
    assert api.get(f"{PATH}/{heart['id']}").json() == api.get(f"{PATH}/Heart").json() == heart


def test_several_recordings_are_averaged_and_kept_only_if_asked(engine, api, recording, another):
    both = send(api, recording, another, keep_clip="true")
    assert made(both)["has_clip"] and "Recording 1: " in both.headers["X-Warnings"]
    heard = [embedded(api, sound) for sound in (recording, another)]
    np.testing.assert_array_equal(embedding(api, "Anna"), average(heard).numpy())
    assert not made(send(api, recording, name="One", keep_clip="off"))["has_clip"]


def test_json_brings_a_recording_an_embedding_or_a_blend(engine, api, recording, data_uri):
    heard = embedded(api, recording)
    plain = data_uri.partition(",")[2]
    for number, sound in enumerate((data_uri, [plain, data_uri])):
        body = {"name": f"n{number}", "ref_audio": sound, "consent": True, "notes": None}
        made(api.post(PATH, json=body))
        np.testing.assert_allclose(embedding(api, f"n{number}"), heard.numpy(), rtol=1e-6)
    numbers = [float(number) for number in heard]
    file = io.BytesIO()
    np.save(file, np.asarray(numbers, np.float32))
    for field, sent in (
        ("speaker_embedding", numbers),
        ("speaker_embedding_base64", base64.b64encode(file.getvalue()).decode()),
    ):
        body = {"name": field, field: sent, "consent": "cons_1234", "type": "audio_sample"}
        assert made(api.post(PATH, json=body))["source"] == "embedding"
        assert embedding(api, field).tobytes() == heard.numpy().tobytes()
    blend = {"a": "N0", "b": "deep", "t": 0.25}
    reply = api.post(PATH, json={"name": "Mix", "blend": blend, "what": 1})
    assert made(reply)["consent"] == "statement 1"  # that of n0
    assert reply.headers["X-Ignored-Fields"] == "what"
    expected = slerp(heard, engine.voices["deep"], 0.25).numpy()
    np.testing.assert_array_equal(embedding(api, "mix"), expected)
    assert made(mix(api, "Ours"))["consent"] is None


NO_SOUND = "invalid_reference_audio"
BAD_VOICES = [
    ({"consent": None}, 403, "consent_required", STATEMENT),
    ({"consent": "false"}, 403, "consent_required", STATEMENT),
    ({"consent": 1}, 400, "invalid_value", "true or false"),
    ({"name": None}, 400, "missing_required_parameter", "name"),
    ({"name": ""}, 400, "invalid_value", "1 to 64 characters"),
    ({"name": "a\0b"}, 400, "invalid_value", "U+0000"),
    ({"name": "x" * 4000}, 400, "invalid_value", "limit is 64"),
    ({"name": "alloy"}, 400, "invalid_value", "meaning of its own"),
    ({"name": 7}, 400, "invalid_value", "give a text"),
    ({"name": "taken"}, 409, "voice_exists", "exists already"),
    ({"language": "Klingon"}, 400, "invalid_value", "German"),
    ({"language": 3}, 400, "invalid_value", "language"),
    ({"tags": {"a": 1}}, 400, "invalid_value", "tags"),
    ({"ref_audio": None}, 400, "missing_required_parameter", "recording"),
    ({"ref_audio": []}, 400, "invalid_value", "1 to 8"),
    ({"ref_audio": ["AAAA"] * 9}, 400, "invalid_value", "1 to 8"),
    ({"ref_audio": [1]}, 400, "invalid_value", "URL"),
    ({"ref_audio": "AAAA"}, 400, NO_SOUND, "WAV"),
    ({"ref_audio": "../../etc/passwd.wav"}, 400, NO_SOUND, "--media-root"),
    ({"ref_audio": "http://127.0.0.1:9/a.wav"}, 400, NO_SOUND, "public"),
    ({"ref_audio": "AAAA", "audio_sample": "BBBB"}, 400, NO_SOUND, "WAV"),
    ({"ref_audio": "AAAA", "blend": {"a": "heart", "b": "deep"}}, 400, "conflicting_fields", "one"),
    ({"ref_audio": None, "blend": {"a": "heart", "b": "no"}}, 404, "voice_not_found", "no voice"),
    ({"ref_audio": None, "blend": {"a": "heart"}}, 400, "invalid_value", "two voices"),
    ({"ref_audio": None, "blend": {"a": "x", "b": "y", "t": 1.5}}, 400, "invalid_value", "share"),
    ({"ref_audio": None, "speaker_embedding": [1.0, 2.0]}, 400, "invalid_embedding", "takes 128"),
    ({"ref_audio": None, "speaker_embedding": [[0]]}, 400, "invalid_embedding", "shape"),
    ({"ref_audio": None, "speaker_embedding": ["a"]}, 400, "invalid_embedding", "numbers"),
    ({"ref_audio": None, "speaker_embedding": {}}, 400, "invalid_embedding", "numbers"),
]  # fmt: skip


def test_a_users_mistake_is_one_clear_sentence_and_stores_nothing(engine, api):
    made(mix(api, "Taken"))
    vector = {"ref_audio": None, "speaker_embedding": [1.0] * 128}
    for fields, status, code, says in BAD_VOICES:
        body = {"name": "Anna", "consent": True, "ref_audio": "AAAA"}
        body |= (vector if status == 409 else {}) | fields
        told = error(api.post(PATH, json=body))
        assert told[:2] == (status, code) and says in told[2] and len(told[2]) < 400, (fields, told)
    assert api.get(f"{PATH}?names_only=true").json()["voices"] == ["Taken", *engine.voices]


def test_a_form_can_be_wrong_too(api, recording):
    assert error(send(api, consent="true"))[1] == "missing_required_parameter"
    assert error(send(api, recording, consent=None))[:2] == (403, "consent_required")
    assert error(send(api, b"no sound at all"))[:2] == (400, NO_SOUND)
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(48_000), 24_000, format="WAV")
    assert "it is silent" in error(send(api, recording, silence.getvalue()))[2]
    assert (
        error(api.post(PATH, content=b"name=x", headers={"content-type": "text/plain"}))[0] == 415
    )
    assert api.get(PATH).json()["uploaded_voices"] == []


def test_names_can_be_taken_over_on_purpose_only(api):
    first = made(mix(api))
    assert error(mix(api, "ANNA"))[:2] == (409, "voice_exists")
    second = made(mix(api, "ANNA", overwrite=True))
    assert (second["id"], second["name"]) == (first["id"], "ANNA")
    assert len(api.get(PATH).json()["uploaded_voices"]) == 1


def test_an_owner_has_room_for_a_bounded_number(engine, tmp_path):
    api = studio(engine, tmp_path, max_voices=1)
    made(mix(api, "one"))
    status, code, told = error(mix(api, "two"))
    assert (status, code) == (400, "too_many_voices") and "limit is 1" in told


def test_a_voice_can_be_renamed_and_described_anew(api):
    anna = made(mix(api, language="German", tags=["x", "y"], notes="old"))
    change = {"name": "  Zoe\u0308 ", "tags": ["warm"], "notes": None, "language": None, "foo": 1}
    changed = api.patch(f"{PATH}/anna", json=change)
    assert changed.headers["X-Ignored-Fields"] == "foo"
    zoe = changed.json()
    assert (anna["language"], zoe["language"], zoe["name"]) == ("de", None, "Zoë")
    assert (zoe["id"], zoe["tags"], zoe["notes"]) == (anna["id"], ["warm"], "")
    assert error(api.get(f"{PATH}/Anna"))[0] == 404
    assert api.get(f"{PATH}/ZOË").json()["id"] == anna["id"]
    assert error(api.patch(f"{PATH}/zoë", json={"name": "default"}))[0] == 400
    assert error(api.patch(f"{PATH}/zoë", json={"tags": 3}))[:2] == (400, "invalid_value")


def test_the_voices_of_the_model_are_read_only(api):
    heart = next(v for v in api.get(PATH).json()["data"] if v["name"] == "heart")
    for which in ("heart", "default", "alloy", heart["id"]):
        for response in (
            api.delete(f"{PATH}/{which}"),
            api.patch(f"{PATH}/{which}", json={"name": "x"}),
            api.get(f"{PATH}/{which}/export"),
        ):
            assert error(response)[:2] == (403, "forbidden")
            assert "'heart' came with the model" in error(response)[2]
        assert embedding(api, which).shape == (128,)


def test_what_is_deleted_is_gone_from_disk_and_memory(engine, api, recording, tmp_path):
    anna = made(send(api, recording, name="Kanarienvogel", keep_clip="yes"))
    vector = embedding(api, anna["id"]).tobytes()
    embedded(api, recording)  # the same recording is sent once more, for one request
    take = {"input": "Hi.", "voice": anna["id"], "max_new_tokens": 12, "store": True}
    assert api.post("/v1/audio/speech", json=take).status_code == 200
    (declared,) = api.get(f"{PATH}/{anna['id']}").json()["consents"]
    cached = engine._embeddings._entries
    assert any(key.startswith(declared["clip_hash"]) for key in cached)
    assert canaries(tmp_path, b"Kanarienvogel", vector) == [b"Kanarienvogel", vector]
    gone = api.delete(f"{PATH}/kanarienvogel").json()
    assert gone == {
        "success": True,
        "message": "The voice 'Kanarienvogel' was deleted.",
        "id": anna["id"],
        "object": "audio.voice.deleted",
        "deleted": True,
    }
    assert canaries(tmp_path, vector, declared["clip_hash"].encode()) == []
    # A take still says whom it was spoken by.
    assert api.delete("/v1/audio/takes").status_code == 200
    assert canaries(tmp_path, b"Kanarienvogel", b"kanarienvogel", anna["id"].encode()) == []
    assert not any(key.startswith(declared["clip_hash"]) for key in cached)
    again = api.delete(f"{PATH}/kanarienvogel")
    assert again.status_code == 404 and again.json()["success"] is False
    assert again.json()["error"]["code"] == "voice_not_found"


def canaries(folder, *needles: bytes) -> list[bytes]:
    found = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return [needle for needle in needles if needle in found]


# Files -------------------------------------------------------------------------------------------


def imported(api, data: bytes, **fields):
    fields = {"consent": "true"} | fields
    data_fields = {name: value for name, value in fields.items() if value is not None}
    return api.post(f"{PATH}/import", files={"file": ("a.zip", data)}, data=data_fields)


def test_an_export_comes_back_bit_for_bit_in_another_studio(engine, api, tmp_path, recording):
    anna = made(send(api, recording, name="Zoë/王", keep_clip="true", tags="warm", notes="n"))
    before = embedding(api, anna["id"])
    exported = api.get(f"{PATH}/{anna['id']}/export")
    assert exported.headers["content-type"] == "application/zip"
    assert "filename*=UTF-8''Zo%C3%AB%2F%E7%8E%8B.zip" in exported.headers["content-disposition"]
    other = studio(engine, tmp_path / "other")
    assert error(imported(other, exported.content, consent=None))[:2] == (403, "consent_required")
    there = made(imported(other, exported.content))
    assert embedding(other, "zoë/王").tobytes() == before.tobytes()
    assert (there["name"], there["tags"], there["notes"]) == ("Zoë/王", ["warm"], "n")
    assert there["has_clip"] and there["source"] == "import" and there["id"] != anna["id"]
    assert error(imported(other, exported.content))[:2] == (409, "voice_exists")
    assert made(imported(other, exported.content, name="Other"))["name"] == "Other"
    assert made(imported(other, exported.content, overwrite="true"))["id"] == there["id"]
    again = other.get(f"{PATH}/Other/export").content
    clips = [zipfile.ZipFile(io.BytesIO(d)).read("clip-1.flac") for d in (exported.content, again)]
    sounds = [soundfile.read(io.BytesIO(clip), dtype="int16")[0] for clip in clips]
    np.testing.assert_allclose(*sounds, atol=2)  # written anew, from what was decoded


def test_an_imported_clip_is_nobodys_word(api, recording):
    made(send(api, recording, keep_clip="true"))
    good = api.get(f"{PATH}/anna/export").content
    api.delete(f"{PATH}/anna")
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in parts if name.startswith("embedding"))
    for part, content, code in (
        ("clip-1.flac", b"fLaC" + b"\0" * 500, NO_SOUND),
        ("clip-1.flac", b"#EXTM3U\n/etc/passwd", NO_SOUND),
        (name, vectors.to_bytes(np.ones(7)), "invalid_embedding"),
        ("../../canary.wav", b"x", "invalid_voice_file"),
    ):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name_of, data in (parts | {part: content}).items():
                archive.writestr(name_of, data)
        assert error(imported(api, file.getvalue()))[:2] == (400, code)
    assert error(imported(api, b"PK"))[:2] == (400, "invalid_voice_file")
    assert error(api.post(f"{PATH}/import", data={"file": "x"}, files={"y": b""}))[0] == 400
    assert api.get(PATH).json()["uploaded_voices"] == []


@pytest.mark.parametrize("which", ["mix", pytest.param("heart", marks=pytest.mark.slow)])
def test_a_preview_is_spoken_once(engine, api, monkeypatch, which):
    monkeypatch.setattr(routes, "PREVIEW_TEXT", "Hi.")
    made(mix(api, "Mix"))
    first = api.get(f"{PATH}/{which}/preview")
    assert first.headers["content-type"] == "audio/flac"
    info = soundfile.info(io.BytesIO(first.content))
    assert info.format == "FLAC" and 0.2 < info.duration < 3
    with monkeypatch.context() as patch:
        patch.setattr(engine, "submit", None)  # it is not spoken again
        assert api.get(f"{PATH}/{which}/preview").content == first.content
    if which == "mix":
        assert exported_parts(api)["preview.flac"] == first.content
        made(mix(api, "mix", overwrite=True))
        assert "preview.flac" not in exported_parts(api)


def exported_parts(api) -> dict[str, bytes]:
    exported = api.get(f"{PATH}/mix/export").content
    with zipfile.ZipFile(io.BytesIO(exported)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_another_encoders_voice_is_heard_anew_or_refused(engine, api, recording):
    anna = made(send(api, recording, keep_clip="true"))
    library = api.app.state.stores.voices
    (clip,) = library.clips(library.own(LOCAL, anna["id"]))
    foreign = (VoiceEmbedding(RELEASE, "Zyphra/ZONOS2", np.ones(2048, np.float32)),)
    library.add(LOCAL, Draft(Card("Kept"), "recording", foreign, (clip,)))
    library.add(LOCAL, Draft(Card("Bare"), "recording", foreign))
    usable = {voice["name"]: voice["is_usable"] for voice in api.get(PATH).json()["voices"]}
    assert usable == {"Anna": True, "Bare": False, "Kept": True} | dict.fromkeys(
        engine.voices, True
    )
    for response in (
        api.get(f"{PATH}/bare/embedding"),
        api.post("/v1/audio/speech", json={"input": "Hi.", "voice": "Bare"}),
        api.post(PATH, json={"name": "x", "blend": {"a": "heart", "b": "Bare"}}),
    ):
        status, code, told = error(response)
        assert (status, code) == (400, "voice_of_another_model")
        assert "'Bare' was made with Zyphra/ZONOS2" in told and "record it again, or open" in told
    anew = embedding(api, "kept")
    cosine = F.cosine_similarity(torch.from_numpy(anew), embedded(api, recording), dim=0)
    assert cosine > 0.99
    assert set(library.own(LOCAL, "kept").models) == {RELEASE, engine.encoder.identity}
    assert embedding(api, "kept").tobytes() == anew.tobytes()


# Owners ------------------------------------------------------------------------------------------

TRAVERSALS = [
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "C:\\x",
    "a\0.wav",
    "....//",
    "．．／canary",
    "x" * 4000,
]


def touches(api, which: str, headers: dict[str, str]) -> list:
    """Every route and field that takes a voice's id or name."""
    one = f"{PATH}/{quote(which, safe='')}"
    speech, mix = {"input": "Hi.", "voice": which}, {"a": "heart", "b": which}
    return [
        *(api.get(f"{one}{end}", headers=headers) for end in ("", "/preview", "/embedding")),
        api.get(f"{one}/export", headers=headers),
        api.patch(one, json={"name": "mine"}, headers=headers),
        api.delete(one, headers=headers),
        api.post("/v1/audio/speech", json=speech, headers=headers),
        api.post(PATH, json={"name": "mix", "blend": mix}, headers=headers),
    ]


@pytest.mark.parametrize("public", [True, False])
def test_another_owners_voice_does_not_exist(engine, tmp_path, public):
    api = studio(engine, tmp_path, public=public)
    identity = api.app.state.stores.identity
    anna, ben = ({"X-Studio-Owner": identity.new_visitor()} for _ in range(2))
    voice = made(mix(api, headers=anna))
    unknown = touches(api, "voice_" + "A" * 22, ben)
    for theirs, nobodys in zip(touches(api, voice["id"], ben), unknown, strict=True):
        assert theirs.status_code == nobodys.status_code == 404
        told = (r.text.replace("deep, heart", "heart, deep") for r in (theirs, nobodys))
        assert next(told).replace(voice["id"], "voice_" + "A" * 22) == next(told)
    assert [r.status_code for r in touches(api, "Anna", ben)] == [404] * 8
    assert api.get(PATH, headers=ben).json()["uploaded_voices"] == []
    assert made(mix(api, headers=ben))["id"] != voice["id"]  # the name is free
    assert api.get(f"{PATH}/anna", headers=anna).json()["id"] == voice["id"]
    # Only on a personal studio do the voices of its scripts serve the page.
    api.cookies.clear()
    script = made(mix(api, "Ours"))
    api.cookies.clear()
    seen = api.get(f"{PATH}/{script['id']}", headers=ben)
    assert (seen.status_code, seen.json().get("scope")) == (
        (404, None) if public else (200, "shared")
    )
    refused = api.delete(f"{PATH}/{script['id']}", headers=ben)
    assert refused.status_code == (404 if public else 403)


def test_an_api_key_is_an_owner(engine, tmp_path):
    keys = ("k" * 16, "l" * 16)
    api = studio(engine, tmp_path, api_key=keys)
    first, second = ({"Authorization": f"Bearer {key}"} for key in keys)
    voice = made(mix(api, headers=first))
    assert api.get(f"{PATH}/anna", headers=first).status_code == 200
    assert api.get(f"{PATH}/{voice['id']}", headers=second).status_code == 404
    assert api.get(PATH).status_code == 401


def test_no_name_reaches_the_file_system(api, tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("secret")
    before = sorted(path for path in tmp_path.rglob("*"))
    for which in (*TRAVERSALS, str(canary), f"../{canary.name}"):
        for response in touches(api, which, {}):
            assert response.status_code == 404, (which, response.text[:200])
            told = response.json()["error"]
            assert told["code"] == "voice_not_found" and len(told["message"]) < 400
            assert "secret" not in response.text
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_public_studio_keeps_no_recordings(engine, tmp_path, recording):
    api = studio(engine, tmp_path, public=True)
    status, code, told = error(send(api, recording, keep_clip="true"))
    assert (status, code) == (400, "invalid_value") and "keeps no recordings" in told
    assert not made(send(api, recording))["has_clip"]


def test_one_off_references_need_consent_where_the_studio_says_so(engine, tmp_path, data_uri):
    api = studio(engine, tmp_path, require_consent=True)
    asked = {"input": "Hi.", "ref_audio": data_uri, "max_new_tokens": 12}
    assert error(api.post("/v1/audio/speech", json=asked))[:2] == (403, "consent_required")
    assert api.post("/v1/audio/speech", json=asked | {"consent": True}).status_code == 200
    named = {"input": "Hi.", "voice": "deep", "max_new_tokens": 12}
    assert api.post("/v1/audio/speech", json=named).status_code == 200


def test_the_routes_stand_in_the_description(api):
    paths = api.get("/openapi.json").json()["paths"]
    described = {(path, method) for path in paths for method in paths[path] if PATH in path}
    one = f"{PATH}/{{voice}}"
    assert described == {
        *((PATH, "get"), (PATH, "post"), (f"{PATH}/import", "post")),
        *((one, method) for method in ("get", "patch", "delete")),
        *((f"{one}/{end}", "get") for end in ("preview", "embedding", "export")),
    }
    body = paths[PATH]["post"]["requestBody"]["content"]
    assert set(body) == {"multipart/form-data", "application/json"}
    assert STATEMENT in json.dumps(body)


@pytest.mark.slow
def test_each_human_voice_is_nearest_to_its_own_reference(engine, tmp_path, shared_folder):
    files = sorted((shared_folder / "voices").glob("*.mp3"))
    assert len(files) == 3
    for path in files:
        made(send(studio(engine, tmp_path), path.read_bytes(), name=path.stem))
    api = studio(engine, tmp_path)  # as after a restart
    references = torch.stack([torch.from_numpy(embedding(api, path.stem)) for path in files])
    text = "The train to the coast leaves at nine, and we are all still at the table."
    for number, path in enumerate(files):
        body = {"input": text, "voice": path.stem, "seed": 2}
        spoken = api.post("/v1/audio/speech", json=body)
        samples, rate_hz = soundfile.read(io.BytesIO(spoken.content), dtype="float32")
        heard = engine.embed(samples, rate_hz)
        assert int(F.cosine_similarity(references, heard[None]).argmax()) == number
