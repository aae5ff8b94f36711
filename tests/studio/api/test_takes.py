"""Takes over HTTP: listed, heard, exported and deleted by their owner alone."""

import io
import json
import threading
import zipfile

import numpy as np
import pytest
from starlette.testclient import TestClient

from studio.owner import LOCAL
from studio.server import create_api
from studio.settings import Settings
from tests.studio.takes_kit import BOB, MAKING, error_of, heard, keep

TEXT = "The small boat is tied to the pier."
SHORT = {"input": TEXT, "seed": 7, "max_new_tokens": 14}


@pytest.fixture(scope="module")
def app(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    api = create_api(engine, Settings(no_watermark=True, data=folder, max_takes=50))
    yield api
    api.state.stores.close()


@pytest.fixture
def history(app):
    yield app.state.stores.history
    app.state.stores.history.delete_all(LOCAL, starred=True)


@pytest.fixture
def client(app):
    return TestClient(app, raise_server_exceptions=False)


# Listed and changed ---------------------------------------------------------------------------


def test_takes_are_listed_page_by_page_and_by_words(client, history):
    ids = [
        keep(history, LOCAL, text=text).id for text in ("One.", "Two.", "Three, Ärger.", "Four.")
    ]
    client.patch(f"/v1/audio/takes/{ids[1]}", json={"starred": True, "title": "Best  one"})
    first = client.get("/v1/audio/takes?limit=3").json()
    assert [take["id"] for take in first["data"]] == ids[:0:-1] and first["has_more"]
    rest = client.get("/v1/audio/takes", params={"after": first["next"]}).json()
    assert [take["id"] for take in rest["data"]] == ids[:1]
    assert (rest["has_more"], rest["next"]) == (False, None)
    about = first["data"][2]
    assert (about["text"], about["title"], about["starred"]) == ("Two.", "Best one", True)
    assert about == client.get(f"/v1/audio/takes/{ids[1]}").json()
    for query, found in (
        ("q=ärger", [ids[2]]),
        ("q=ONE", [ids[1], ids[0]]),
        ("starred=true", [ids[1]]),
        ("starred=False&q=o", [ids[3], ids[0]]),
    ):
        listed = client.get(f"/v1/audio/takes?{query}").json()["data"]
        assert [take["id"] for take in listed] == found, query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=many", "limit"),
        ("limit=٣", "limit"),
        ("after=take_x", "after"),
        ("after=" + "9" * 19, "after"),
        ("after=" + "9" * 5000, "after"),
        ("starred=maybe", "starred"),
    ],
)
def test_a_query_that_cannot_be_used_is_told(client, query, field):
    response = client.get(f"/v1/audio/takes?{query}")
    assert error_of(response, 400, "invalid_value").startswith(f"{field}: ")


def test_stars_and_titles_change_and_what_changes_nothing_is_told(client, history):
    path = f"/v1/audio/takes/{keep(history, LOCAL).id}"
    response = client.patch(path, json={"title": "e\u0301", "colour": "red"})
    assert response.json()["title"] == "\xe9" and response.headers["X-Ignored-Fields"] == "colour"
    assert client.patch(path, json={"title": None, "starred": None}).json()["title"] == ""
    for body in ({}, {"star": True}):
        error_of(client.patch(path, json=body), 400, "missing_required_parameter")
    for body in ({"starred": "yes"}, {"starred": 1}, {"title": 7}, {"title": "x" * 201}):
        error_of(client.patch(path, json=body), 400, "invalid_value")
    error_of(client.patch(path, content=b"[]"), 400, "invalid_json")
    assert client.patch(path, content=b'{"title": "\\ud800 x"}').json()["title"] == "x"


def test_one_and_all_are_deleted(client, history):
    takes = [keep(history, LOCAL) for _ in range(3)]
    path = f"/v1/audio/takes/{takes[0].id}"
    client.patch(path, json={"starred": True})
    assert client.delete("/v1/audio/takes").json()["deleted"] == 2
    assert client.get(path).is_success
    assert client.delete(path).json() == {
        "id": takes[0].id,
        "object": "take.deleted",
        "deleted": True,
    }
    error_of(client.get(path), 404, "take_not_found")
    error_of(client.delete(path), 404, "take_not_found")
    (
        keep(history, LOCAL),
        client.patch(f"/v1/audio/takes/{keep(history, LOCAL).id}", json={"starred": True}),
    )
    assert client.delete("/v1/audio/takes?starred=true").json()["deleted"] == 2
    assert list(history._folder.glob("*")) == []


REQUESTS = [
    ("GET", "", None),
    ("PATCH", "", {"starred": True}),
    ("DELETE", "", None),
    ("GET", "/audio", None),
    ("GET", "/audio?format=wav", None),
    ("POST", "/again", None),
]


@pytest.mark.parametrize(("method", "rest", "body"), REQUESTS)
def test_another_owners_take_is_answered_like_one_that_does_not_exist(
    client, history, method, rest, body
):
    take = keep(history, BOB)
    answers = []
    for take_id in (take.id, take.id[::-1], "..%2f..%2fstudio.sqlite3", take.file, "%00", "'--"):
        response = client.request(method, f"/v1/audio/takes/{take_id}{rest}", json=body)
        assert response.status_code == 404, take_id
        if "%2f" not in take_id:  # a slash leads to another path
            error_of(response, 404, "take_not_found")
            answers.append(response.text.replace(take_id, "ID"))
    assert answers[0] == answers[1]
    assert history.find(BOB, take.id) == take
    assert client.get("/v1/audio/takes").json()["data"] == []


def test_two_visitors_see_their_own(app, history):
    one, two = (TestClient(app), TestClient(app))
    for visitor in (one, two):
        visitor.headers["X-Studio-Owner"] = app.state.stores.identity.new_visitor()
    owner = app.state.stores.identity.visitor(one.headers["X-Studio-Owner"])
    take = keep(history, owner)
    assert [t["id"] for t in one.get("/v1/audio/takes").json()["data"]] == [take.id]
    assert two.get("/v1/audio/takes").json()["data"] == []
    assert two.delete("/v1/audio/takes?starred=true").json()["deleted"] == 0
    assert zipfile.ZipFile(io.BytesIO(two.get("/v1/audio/takes/export").content)).namelist() == [
        "takes.json"
    ]
    assert one.delete("/v1/audio/takes").json()["deleted"] == 1


# Heard and exported ---------------------------------------------------------------------------


def test_the_flac_file_comes_whole_or_in_parts_under_a_good_name(client, history):
    take = keep(history, LOCAL, text='../../"Grüße,\n you" CON: <b>')
    path = f"/v1/audio/takes/{take.id}/audio"
    whole = client.get(path)
    assert whole.content == history.path(take).read_bytes()
    assert whole.headers["Content-Type"] == "audio/flac"
    assert whole.headers["Cache-Control"] == "no-store"
    assert whole.headers["Content-Disposition"] == (
        f"attachment; filename*=utf-8''Gr%C3%BC%C3%9Fe-you-CON-b-{take.id[5:13]}.flac"
    )
    part = client.get(path, headers={"Range": "bytes=100-199"})
    assert part.status_code == 206 and part.content == whole.content[100:200]
    assert part.headers["Content-Range"] == f"bytes 100-199/{len(whole.content)}"
    assert client.get(path, headers={"Range": "bytes=999999-"}).status_code == 416


@pytest.mark.parametrize("name", ["wav", "WAV", "pcm", "pcm_f32", "mp3", "opus", "aac"])
def test_other_formats_are_made_from_it(client, history, name):
    samples = (np.sin(np.arange(44_100) / 20) * 20_000).astype(np.int16)
    take = keep(history, LOCAL, samples=samples, text="...")
    response = client.get(f"/v1/audio/takes/{take.id}/audio", params={"format": name})
    assert response.status_code == 200 and f"take-{take.id[5:13]}." in str(response.headers)
    if name.lower() == "wav":
        np.testing.assert_array_equal(heard(response), samples)
    elif name == "pcm":
        assert response.content == samples.tobytes()
    else:
        assert len(response.content) > 4000


def test_an_unknown_format_and_a_lost_file_are_told(client, history):
    take = keep(history, LOCAL)
    path = f"/v1/audio/takes/{take.id}/audio"
    error_of(client.get(f"{path}?format=midi"), 400, "unsupported_format")
    history.path(take).unlink()
    for format in ("flac", "wav"):
        error_of(client.get(f"{path}?format={format}"), 404, "take_not_found")


def test_the_export_holds_every_take_and_its_settings(client, history):
    texts = ["Same words.", "Same words.", "Grüße & more / words", "…"]
    takes = [
        keep(history, LOCAL, text=text, samples=np.full(1000 + at, at, np.int16))
        for at, text in enumerate(texts)
    ]
    client.patch(f"/v1/audio/takes/{takes[0].id}", json={"starred": True})
    keep(history, BOB, text="Not yours.")
    response = client.get("/v1/audio/takes/export")
    assert response.headers["Content-Type"] == "application/zip"
    assert response.headers["Content-Disposition"] == 'attachment; filename="takes.zip"'
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    assert archive.testzip() is None
    manifest = json.loads(archive.read("takes.json"))
    assert [about["id"] for about in manifest] == [take.id for take in takes[::-1]]
    assert sorted([*(about["file"] for about in manifest), "takes.json"]) == sorted(
        archive.namelist()
    )
    for about, take in zip(manifest, takes[::-1], strict=True):
        assert archive.read(about["file"]) == history.path(take).read_bytes()
        assert about["settings"] == MAKING.settings and about["text"] == take.text
        assert "/" not in about["file"] and take.owner not in json.dumps(about)
    assert len(set(archive.namelist())) == 5


def test_a_take_that_goes_during_the_export_is_left_out(app, history):
    from studio.take_export import zipped

    takes = [keep(history, LOCAL, samples=np.full(1000, at, np.int16)) for at in range(3)]
    pieces = zipped(history, LOCAL)
    data = next(pieces)  # of the newest
    history.delete(LOCAL, takes[0].id)
    archive = zipfile.ZipFile(io.BytesIO(data + b"".join(pieces)))
    assert archive.testzip() is None
    ids = [about["id"] for about in json.loads(archive.read("takes.json"))]
    assert ids == [takes[2].id, takes[1].id] and len(archive.namelist()) == 3


# Off, and gone in time ------------------------------------------------------------------------


def test_a_studio_that_keeps_none_says_so(engine, tmp_path):
    app = create_api(engine, Settings(no_watermark=True, data=tmp_path, max_takes=0))
    client = TestClient(app)
    listed = client.get("/v1/audio/takes").json()
    assert listed["data"] == [] and "--max-takes 0" in listed["note"]
    spoken = client.post("/v1/audio/speech", json=SHORT | {"store": True})
    assert spoken.headers["X-Warnings"] == listed["note"] and len(heard(spoken)) > 1000
    assert "X-Take" not in spoken.headers
    assert not (tmp_path / "takes").exists()
    app.state.stores.close()


def test_a_public_studio_keeps_takes_for_the_visit_only(engine, tmp_path, monkeypatch):
    app = create_api(engine, Settings(no_watermark=True, data=tmp_path, public=True))
    monkeypatch.setattr(engine, "close", lambda: None)  # it is everybody's
    with TestClient(app) as visitor:
        visitor.headers["X-Studio-Owner"] = app.state.stores.identity.new_visitor()
        owner = app.state.stores.identity.visitor(visitor.headers["X-Studio-Owner"])
        canary = "a canary that nobody else sings"
        take = keep(app.state.stores.history, owner, text=canary)
        assert visitor.get(f"/v1/audio/takes/{take.id}").json()["text"] == canary
        assert not (tmp_path / "takes").exists()
    left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert canary.encode() not in left and list((tmp_path / "visits").iterdir()) == []


def test_takes_go_in_time_while_the_studio_runs(engine, tmp_path, monkeypatch):
    app = create_api(engine, Settings(no_watermark=True, data=tmp_path, takes_days=1))
    monkeypatch.setattr(engine, "close", lambda: None)
    history = app.state.stores.history
    asked = threading.Event()
    expire = history.expire
    monkeypatch.setattr(history, "_clock", lambda: 1e9)
    take = keep(history, LOCAL)
    monkeypatch.undo()
    monkeypatch.setattr(engine, "close", lambda: None)
    monkeypatch.setattr(history, "expire", lambda: [expire(), asked.set()][0])
    with TestClient(app) as client:
        assert asked.wait(60)
        assert client.get(f"/v1/audio/takes/{take.id}").status_code == 404


def test_every_route_of_takes_is_documented(client):
    page = client.get("/openapi.json").json()
    paths = {path: list(operations) for path, operations in page["paths"].items()}
    assert paths["/v1/audio/takes"] == ["get", "delete"]
    assert paths["/v1/audio/takes/{take_id}"] == ["get", "patch", "delete"]
    listing = page["paths"]["/v1/audio/takes"]["get"]
    assert [field["name"] for field in listing["parameters"]] == ["limit", "after", "q", "starred"]
    for path, operations in page["paths"].items():
        for operation in operations.values() if "takes" in path else ():
            assert operation["summary"] and "507" in operation["responses"]
            assert ("404" in operation["responses"]) == ("{take_id}" in path)
    text = json.dumps(page)
    for name in ("TakeReply", "TakesReply", "DeletedTake"):
        assert f'"#/components/schemas/{name}"' in text and name in page["components"]["schemas"]
