"""What a request's text becomes, shown by the route and asked of the engine by every door."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from engine import Cleaning, Engine, Normaliser, Pause, SpeechRequest, Spoken
from engine.text import grammar_store
from studio import server
from studio.api.texts import RULES, TextWish, rules_of, text_wish
from studio.settings import Settings

FAKE = Path(__file__).parents[2] / "engine" / "text" / "fake_grammar.py"
SHORT = {"seed": 1, "max_new_tokens": 12}


@pytest.fixture(scope="module")
def grammars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """English is there, and puts what it reads in capitals; German is being built, for ever."""
    folder = tmp_path_factory.mktemp("grammars")
    (folder / "en-1").mkdir()
    (folder / "de.plan").write_text("wait")
    return folder


@pytest.fixture(scope="module")
def app(engine: Engine, grammars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar_store, "installed_version", lambda: "1")
        patch.setattr(server, "Normaliser", lambda folder: Normaliser(folder, child=FAKE))
        settings = Settings(
            data=tmp_path_factory.mktemp("data"),
            grammars=grammars,
            no_watermark=True,
            no_metadata=True,
            max_input_chars=2000,
        )
        made = server.create_api(engine, settings)
    yield made
    made.state.normaliser.close()


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def normalized(client: TestClient):
    def ask(text: str, **fields: object) -> dict:
        answer = client.post("/v1/audio/normalize", json={"input": text, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


@pytest.fixture
def asked(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[SpeechRequest]:
    wishes: list[SpeechRequest] = []
    submit = engine.submit
    monkeypatch.setattr(engine, "submit", lambda wish, *_: wishes.append(wish) or submit(wish))
    return wishes


# What is wished -------------------------------------------------------------------------------


def test_without_a_language_the_words_stay_and_with_one_all_is_on() -> None:
    as_written = replace(Cleaning.off(), pauses_at_paragraphs=True)
    assert text_wish(None) == TextWish(None, as_written, False)
    assert text_wish("de", text_normalization=False) == TextWish("de", as_written, False)
    for language in ("de", "detect"):
        assert text_wish(language) == TextWish(language, Cleaning(), True)


def test_each_switch_turns_its_own_rules_alone() -> None:
    assert rules_of(text_wish("de", cleaning=False).cleaning) == rules_of(TextWish().cleaning)
    assert text_wish("de", cleaning=False).cleaning.reads_markup
    assert not text_wish("de", markup=False).cleaning.reads_markup
    assert text_wish(None, markup=True).cleaning.reads_markup
    assert rules_of(text_wish(None, cleaning=True).cleaning) == dict.fromkeys(RULES, True)
    for rule in RULES:
        wished = rules_of(text_wish("de", cleaning={rule: False}).cleaning)
        assert [name for name, is_on in wished.items() if not is_on] == [rule]
    assert {*RULES.values(), "reads_markup"} == set(vars(Cleaning()))


# The route ------------------------------------------------------------------------------------


def test_every_change_is_shown(normalized) -> None:
    text = "## Soup\n\nIt was at 5. [pause 2s] See **SQL** at a.com"
    shown = normalized(text, language="en", pronunciations={"SQL": "sequel"})
    said = "Soup.\n\nIt WAS AT five.\n\nSee sequel at a dot com"
    assert shown["normalized"] == said
    assert (shown["language"], shown["languages"], shown["notes"]) == ("en_us", ["en_us"], [])
    applied, at = "", 0
    for span in shown["spans"]:
        assert text[span["from"] : span["to"]] == span["before"] != span["after"]
        applied += text[at : span["from"]] + span["after"]
        at = span["to"]
    assert applied + text[at:] == said
    assert shown["chunks"] == ["Soup.", "It WAS AT five.", "See sequel at a dot com"]
    assert shown["bytes"] == len(said)
    assert 4 < shown["estimated_seconds"] < 8
    assert normalized(text, language="en", speed=4)["estimated_seconds"] < 5


def test_a_text_without_a_language_or_with_no_switch_on_stays(normalized) -> None:
    text = "It costs **$5** at a.com :) [pause 1s]"
    for fields in (
        {},
        {"language": None},
        {"language": "Auto"},
        {"language": "en", "text_normalization": False},
        {"language": "en", "normalize": False},
    ):
        shown = normalized(text, **fields)
        assert (shown["normalized"], shown["spans"], shown["notes"]) == (text, [], [])
    assert "no language was named" in normalized("5", text_normalization=True)["notes"][0]


def test_characters_that_nobody_sees_are_gone_in_any_case(normalized) -> None:
    both = [normalized(text)["normalized"] for text in ("e\u0301 café", "é cafe\u0301")]
    assert both == ["é café"] * 2
    assert normalized("\u202eHi\u0000 \u200bthere\ufeff\u0007")["normalized"] == "Hi there"


def test_the_owners_words_count_and_those_of_the_request_win(client, normalized) -> None:
    stored = client.post("/v1/audio/pronunciations", json={"written": "GIF", "spoken": "jif"})
    assert stored.status_code == 200
    try:
        assert normalized("a GIF")["normalized"] == "a jif"
        entry = {"written": "GIF", "spoken": "giff", "case_sensitive": True}
        own = normalized("a GIF, a gif", pronunciations=[entry])
        assert own["normalized"] == "a giff, a jif"
        assert normalized("a GIF")["normalized"] == "a jif"
    finally:
        client.delete(f"/v1/audio/pronunciations/{stored.json()['id']}")
    assert normalized("a GIF")["normalized"] == "a GIF"


def test_a_form_may_send_it_too(client) -> None:
    fields = {"input": "a *b* 5", "language": "en", "cleaning": '{"markdown": false}'}
    answer = client.post("/v1/audio/normalize", files={k: (None, v) for k, v in fields.items()})
    assert answer.json()["normalized"] == "A *B* five"
    fields |= {"cleaning": "false", "text_normalization": "false"}
    answer = client.post("/v1/audio/normalize", files={k: (None, v) for k, v in fields.items()})
    assert answer.json()["normalized"] == "a *b* 5"


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"language": "xx"}, "language", "pt_br"),
        ({"cleaning": {"emojis": True}}, "cleaning", "markdown"),
        ({"cleaning": {"emoji": 1}}, "cleaning.emoji", "true or false"),
        ({"markup": "yes"}, "markup", "true or false"),
        ({"text_normalization": 1}, "text_normalization", "true or false"),
        ({"pronunciations": {"SQL": ""}}, "pronunciations[0].spoken", "1 to 200"),
        ({"pronunciations": [{"written": "a"}]}, "pronunciations[0].spoken", "missing"),
        (
            {"pronunciations": [{"written": "a", "spoken": "b", "language": "xx"}]},
            "pronunciations[0].language",
            "German",
        ),
        ({"pronunciations": {f"w{i}": "x" for i in range(501)}}, "pronunciations", "500"),
        ({"input": "x" * 2001}, "input", "2000"),
    ],
)
def test_a_mistake_is_one_clear_sentence(client, fields, param, says) -> None:
    answer = client.post("/v1/audio/normalize", json={"input": "Hi."} | fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert says in error["message"] and len(error["message"]) < 400


def test_zyphras_route_reads_english_unless_told_otherwise(client) -> None:
    def shown(**fields: object) -> str:
        answer = client.post("/tts/normalize", json=fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["normalized"]

    assert shown(text="at 5") == "AT five"
    assert shown(input="at 5", text_normalization=True) == "AT five"
    assert shown(text="at 5", text_normalization=False) == "at 5"
    assert shown(text="at 5", language=None) == "at 5"
    assert shown(text="Мне 5", language="ru") == "Мне пять"
    assert client.post("/tts/normalize", json={}).status_code == 422
    refused = client.post("/tts/normalize", json={"text": "a", "language": "tlh"})
    assert refused.status_code == 400 and refused.json()["detail"].startswith("language")


# Every door -----------------------------------------------------------------------------------


def test_every_door_prepares_its_text(client, asked) -> None:
    text = "at 5 [pause 300ms] end"
    said = (Spoken("AT five"), Pause(300), Spoken("end"))
    fields = {"input": text, "language": "en", **SHORT}
    assert client.post("/v1/audio/speech", json=fields).status_code == 200
    assert client.post("/openai/v1/audio/speech", json=fields).status_code == 200
    zyphra = {"text": text, "seed": 1, "max_tokens": 12}
    assert client.post("/tts/generate", json=zyphra).status_code == 200
    batch = {"items": [{"input": text}], "language": "en", **SHORT}
    assert client.post("/v1/audio/speech/batch", json=batch).json()["succeeded"] == 1
    with client.websocket_connect("/v1/audio/speech/stream") as socket:
        socket.send_json({"type": "session.config", "language": "en", **SHORT})
        socket.send_json({"type": "input.text", "text": text})
        socket.send_json({"type": "input.done"})
        while "session.done" not in (socket.receive().get("text") or ""):
            pass
    assert [wish.pieces for wish in asked] == [said] * 5
    assert {wish.language for wish in asked} == {"en_us"}
    assert {wish.text for wish in asked} == {text}
    # Nothing of it stays for the next request.
    assert client.post("/v1/audio/speech", json={"input": text, **SHORT}).status_code == 200
    assert asked[-1].pieces == (Spoken(text),) and asked[-1].language is None


@pytest.mark.parametrize("text", ["", " ", "...", "***", "\u200b", "<!-- a -->", "[pause 2s]"])
def test_a_text_with_nothing_to_say_is_refused(client, text) -> None:
    for fields in ({}, {"language": "en"}):
        if fields or text not in ("<!-- a -->", "[pause 2s]"):
            answer = client.post("/v1/audio/speech", json={"input": text, **fields})
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == "input"


def test_notes_are_told_in_ascii(client) -> None:
    fields = {"input": 'Hi. [pause lang€\x07] <say-as interpret-as="ü">x</say-as>', **SHORT}
    answer = client.post("/v1/audio/speech", json=fields | {"language": "en"})
    assert answer.status_code == 200
    assert "[pause lang\\u20ac" in answer.headers["X-Warnings"]
    result = client.post("/v1/audio/speech/batch", json={"items": [fields | {"language": "en"}]})
    assert "lang€" in result.json()["results"][0]["warnings"]


def test_a_take_says_its_words_again_as_it_did(client, app, asked) -> None:
    word = client.post("/v1/audio/pronunciations", json={"written": "GIF", "spoken": "jif"}).json()
    client.post("/v1/audio/pronunciations", json={"written": "other", "spoken": "x"})
    fields = {"input": "A GIF at 5", "language": "en", "store": True, **SHORT}
    answer = client.post("/v1/audio/speech", json=fields)
    take = client.get(f"/v1/audio/takes/{answer.headers['X-Take']}").json()
    assert take["text"] == "A GIF at 5"
    assert [item["written"] for item in take["settings"]["pronunciations"]] == ["GIF"]
    client.delete(f"/v1/audio/pronunciations/{word['id']}")
    again = client.post(f"/v1/audio/takes/{take['id']}/again")
    assert again.status_code == 200 and again.content == answer.content
    assert asked[0].pieces == asked[1].pieces == (Spoken("A JIF AT five"),)
    client.put("/v1/audio/pronunciations", json={"pronunciations": []})


# Grammars that come late ----------------------------------------------------------------------


def test_nobody_waits_for_a_grammar_that_is_being_built(client, app, asked) -> None:
    app.state.normaliser.warm(["de", "en_us"])
    assert client.get("/ready").status_code == 200
    fields = {"input": "Es sind 5.", "language": "de", **SHORT}
    answer = client.post("/v1/audio/speech", json=fields)
    assert answer.status_code == 200
    assert "de: num2words read some numbers" in answer.headers["X-Warnings"]
    assert "still being built" in answer.headers["X-Warnings"]
    english = client.post("/v1/audio/speech", json={"input": "at 5", "language": "en", **SHORT})
    assert "X-Warnings" not in english.headers
    assert [wish.pieces[0].text for wish in asked] == ["Es sind fünf.", "AT five"]


def test_the_fields_are_documented(client) -> None:
    page = client.get("/openapi.json").json()
    fields = page["components"]["schemas"]["SpeechBody"]["properties"]
    assert {"text_normalization", "cleaning", "markup", "pronunciations"} <= set(fields)
    assert set(RULES) <= set(json.dumps(fields["cleaning"]).replace('"', " ").split())
    assert "WordItem" in page["components"]["schemas"]
    answer = page["paths"]["/v1/audio/normalize"]["post"]["responses"]["200"]
    shown = answer["content"]["application/json"]["schema"]["properties"]
    assert {"normalized", "spans", "chunks", "notes", "estimated_seconds"} <= set(shown)
    assert "/tts/normalize" in page["paths"]


def test_capabilities_say_which_languages_are_read(client) -> None:
    shown = client.get("/tts/capabilities").json()
    assert shown["text_normalization_enabled"]
    assert len(shown["text_norm_languages"]) == 35
    readers = shown["text_norm_readers"]
    assert (readers["en_us"], readers["ru"]) == ("grammar", "num2words")


def test_an_unknown_language_is_refused_at_every_door(client) -> None:
    for path, field in (("/v1/audio/speech", "input"), ("/tts/generate", "text")):
        for language in ("xx", "klingon"):
            answer = client.post(path, json={field: "Hi.", "language": language})
            assert answer.status_code == 400 and "lv" in answer.json()["detail"]
