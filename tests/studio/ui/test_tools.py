"""Beside the text: as it is spoken, the dictionary, presets, the request as code."""

from __future__ import annotations

import json
import shlex
from typing import Any

import gradio as gr
import pytest

from engine import Engine
from studio.ui import strings
from studio.ui.code import curl, examples_html, javascript, python
from studio.ui.code_handlers import CodeHandlers
from studio.ui.desk import Update, default_choice
from studio.ui.recording import RECORDING
from studio.ui.remembered import restored, restored_choices
from studio.ui.text_tools import TextHandlers
from tests.studio.ui.conftest import Page

FIELDS: dict[str, Any] = {
    "model": "nano",
    "input": 'It\'s "here" — 5 €.\nTwo lines.',
    "voice": "heart",
    "language": "de",
    "seed": 7,
    "quality_buckets": {"trailing_silence_s": None},
}


@pytest.fixture
def text(page: Page) -> TextHandlers:
    return TextHandlers(page.desk, page.view.tools)


def shown(page: Page, awaitable: Any) -> Update:
    (update,) = page.run(awaitable)
    return update


def test_what_is_said_otherwise_is_marked_and_escaped(page: Page, text: TextHandlers):
    written = "# Title\n\nSee https://a.example and <b>bold</b> & more."
    update = shown(page, text.opened(page.request, "", written, "sv"))
    markup = update[page.view.tools.spoken]
    assert update[page.view.tools.is_open] is True
    assert 'class="changed"' in markup and "<b>" not in markup
    assert strings.CHANGED_INFO in markup
    as_written = shown(page, text.opened(page.request, "", "Hello.", strings.AS_WRITTEN))
    assert strings.NOTHING_CHANGED in as_written[page.view.tools.spoken]


def test_nothing_is_prepared_while_nobody_looks(page: Page, text: TextHandlers):
    assert shown(page, text.changed(page.request, "", "5", "en_us", False)) == {}
    assert text.closed() == {page.view.tools.is_open: False}


def test_a_word_is_added_said_and_deleted(page: Page, text: TextHandlers):
    tools = page.view.tools
    now = (page.request, "", "NYC is big.", strings.AS_WRITTEN, True)
    update = shown(page, text.add(*now, "NYC", "New York"))
    assert strings.word_added("NYC", "New York") in update[tools.note]
    assert ">New York</button> is big." in update[tools.spoken]
    assert "<bdi>NYC</bdi> → <bdi>New York</bdi>" in update[tools.words]
    assert "word" in shown(page, text.add(*now, "?", "x"))[tools.note]
    (word,) = page.desk.stores.words.list(page.owner)
    event = gr.EventData(None, {"act": "delete", "id": word.id})
    update = shown(page, text.acted(*now, event))
    assert strings.NO_WORDS in update[tools.words]
    assert strings.NOTHING_CHANGED in update[tools.spoken]
    assert "there is no word" in shown(page, text.acted(*now, event))[tools.note]


def test_what_the_browser_remembers_is_looked_at(page: Page, engine: Engine):
    view = page.view
    temperature = next(setting for setting in view.settings if setting.name == "temperature")
    kept = {"temperature": 0.5, "top_k": 10**9, "min_p": "evil", "nothing": 1}
    update = restored(view, json.dumps(kept))
    assert update == {temperature.field: 0.5}
    for broken in ("", "[1]", "{", "null", "[" * 30_000, '{"temperature": NaN}'):
        assert restored(view, broken) == {}
    voices = [("heart", "default:heart")]
    told = json.dumps({"voice": "default:heart", "language": "de"})
    assert restored_choices(view, told, voices) == ("default:heart", "de")
    assert restored_choices(view, '{"voice": ["x"], "language": 5}', voices) == (None, None)


def test_a_visit_begins_with_the_settings_of_the_last_one(page: Page):
    view = page.view
    memory = json.dumps({"language": "de", "voice": default_choice(page.desk.engine), "top_k": 50})
    update = shown(page, page.handlers.arrived(page.request, "", memory))
    (top_k,) = [setting.field for setting in view.settings if setting.name == "top_k"]
    assert update[view.language] == "de" and update[top_k] == 50
    event = gr.EventData(None, {"text": '{"top_k": 60}'})
    assert page.handlers.preset(event) == {top_k: 60}


def test_the_examples_are_the_request():
    words = shlex.split(curl(FIELDS).replace("\\\n", " "))
    assert json.loads(words[words.index("-d") + 1]) == FIELDS
    asked: dict[str, Any] = {}

    class Client:
        def __init__(self, **_: Any) -> None:
            self.audio = self.speech = self.with_streaming_response = self

        def create(self, **fields: Any) -> Any:
            asked.update(fields)
            return self

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None: ...

        def stream_to_file(self, name: str) -> None:
            asked["file"] = name

    code = python(FIELDS).removeprefix("from openai import OpenAI\n")
    compile(python(FIELDS), "example", "exec")
    exec(code, {"OpenAI": Client})
    assert asked.pop("file") == "speech.wav" and asked.pop("response_format") == "wav"
    assert asked.pop("extra_body") | asked == FIELDS
    script = javascript(FIELDS)
    begin = script.index("JSON.stringify(") + len("JSON.stringify(")
    assert json.JSONDecoder().raw_decode(script[begin:])[0] == FIELDS
    assert "Bearer KEY" in curl(FIELDS, has_keys=True) + javascript(FIELDS, has_keys=True)
    evil = examples_html({"input": "</code><script>alert(1)</script>"}, has_keys=False)
    assert "<script>" not in evil


def test_code_leaves_defaults_out_and_names_voices(page: Page):
    view = page.view
    handlers = CodeHandlers(page.desk, view.code, view.settings)
    defaults = [setting.default for setting in view.settings]
    voice = default_choice(page.desk.engine)
    ask = (page.request, "", "Hello.", strings.AS_WRITTEN)
    markup = shown(page, handlers.opened(*ask, voice, None, False, *defaults))[view.code.examples]
    assert "&quot;voice&quot;: &quot;heart&quot;" in markup and "temperature" not in markup
    changed = [
        0.5 if setting.name == "temperature" else setting.default for setting in view.settings
    ]
    markup = shown(page, handlers.opened(*ask, RECORDING, 7, True, *changed))[view.code.examples]
    assert "&quot;temperature&quot;: 0.5" in markup and "&quot;seed&quot;: 7" in markup
    assert strings.CODE_RECORDING in markup
