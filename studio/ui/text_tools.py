"""Below the editor: the text as it is spoken, and the words that are said otherwise.

- "As it is spoken" is made by the one way that every door's text takes (studio/api/texts.py), and
  only while it is open.
- A changed stretch is a button: the script (assets/ui/text.js) writes it into the form below, so
  that its word can be said otherwise from then on.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

import gradio as gr
from anyio.to_thread import run_sync

from engine import Prepared, Pronunciation, StudioError
from studio.api.languages import language_code
from studio.api.texts import text_wish
from studio.owner import Owner
from studio.ui import strings
from studio.ui.desk import Desk, Update
from studio.ui.lists import words_html
from studio.ui.markup import note_html

# A long text is shown so far; it is spoken as a whole.
MAX_SHOWN_CHARS = 4000
MAX_WORD_CHARS = 200


@dataclass(frozen=True)
class TextTools:
    """Every component below the editor that a handler reads or writes."""

    box: gr.Accordion
    is_open: gr.State
    spoken: gr.HTML
    words_box: gr.Accordion
    words: gr.HTML
    written: gr.Textbox
    said: gr.Textbox
    add: gr.Button
    note: gr.HTML


def build_text_tools() -> TextTools:
    """Lay out both parts, folded away."""
    with gr.Accordion(strings.AS_SPOKEN, open=False, elem_id="spoken-box") as box:
        spoken = gr.HTML(elem_id="spoken")
    with gr.Accordion(strings.WORDS, open=False, elem_id="words-box") as words_box:
        gr.HTML(f'<p class="info">{strings.WORDS_INFO}</p>')
        words = gr.HTML(elem_id="words", js_on_load="studio.list(element, trigger)")
        with gr.Row(elem_id="word-form"):
            written = gr.Textbox(
                label=strings.WORD_WRITTEN,
                max_length=MAX_WORD_CHARS,
                elem_id="word-written",
                min_width=0,
            )
            said = gr.Textbox(
                label=strings.WORD_SAID,
                max_length=MAX_WORD_CHARS,
                elem_id="word-said",
                min_width=0,
            )
            add = gr.Button(strings.ADD_WORD, size="md", elem_id="add-word", min_width=0)
        note = gr.HTML(elem_id="word-note")
    return TextTools(box, gr.State(False), spoken, words_box, words, written, said, add, note)


class TextHandlers:
    """The events below the editor."""

    def __init__(self, desk: Desk, tools: TextTools) -> None:
        self._desk = desk
        self._tools = tools

    async def opened(self, request: gr.Request, kept: str, text: str, language: str) -> Update:
        """Show the text as it is spoken."""
        owner = self._desk.owner(request, kept)
        return {
            self._tools.is_open: True,
            self._tools.spoken: await self._spoken(owner, text, language),
        }

    def closed(self) -> Update:
        """Nothing is prepared while nobody looks."""
        return {self._tools.is_open: False}

    async def changed(
        self, request: gr.Request, kept: str, text: str, language: str, is_open: bool
    ) -> Update:
        """The text or its language is another one."""
        if not is_open:
            return {}
        owner = self._desk.owner(request, kept)
        return {self._tools.spoken: await self._spoken(owner, text, language)}

    async def words(self, request: gr.Request, kept: str) -> Update:
        """The dictionary as it is now."""
        return await self._listed(self._desk.owner(request, kept))

    async def add(
        self,
        request: gr.Request,
        kept: str,
        text: str,
        language: str,
        is_open: bool,
        written: str,
        said: str,
    ) -> Update:
        """Say a word otherwise from now on."""
        tools, owner = self._tools, self._desk.owner(request, kept)
        try:
            entry = Pronunciation(written, said)
            word = await run_sync(self._desk.stores.words.put, owner, entry)
        except StudioError as error:
            return {tools.note: note_html("bad", error.message)}
        told = strings.word_added(word.entry.written, word.entry.spoken)
        update: Update = {tools.written: "", tools.said: "", tools.note: note_html("good", told)}
        update |= await self._listed(owner)
        return update | await self.changed(request, kept, text, language, is_open)

    async def acted(
        self,
        request: gr.Request,
        kept: str,
        text: str,
        language: str,
        is_open: bool,
        event: gr.EventData,
    ) -> Update:
        """A word is deleted."""
        tools, owner = self._tools, self._desk.owner(request, kept)
        update: Update = {tools.note: ""}
        try:
            which = str(event._data.get("id", ""))
            await run_sync(self._desk.stores.words.delete, owner, which)
        except StudioError as error:
            update = {tools.note: note_html("bad", error.message)}
        update |= await self._listed(owner)
        return update | await self.changed(request, kept, text, language, is_open)

    async def _spoken(self, owner: Owner, text: str, language: str) -> str:
        if len(text) > self._desk.settings.max_input_chars:
            return note_html("bad", strings.too_long(len(text), self._desk.settings))
        wish = text_wish(None if language == strings.AS_WRITTEN else language_code(language))
        return spoken_html(await self._desk.speaking.texts.ready(text, wish, owner))

    async def _listed(self, owner: Owner) -> Update:
        words = await run_sync(self._desk.stores.words.list, owner)
        return {self._tools.words: words_html(words, owner.id)}


def spoken_html(prepared: Prepared) -> str:
    """What is spoken, each changed stretch a button that tells what was written."""
    notes = "".join(note_html("info", note) for note in prepared.notes)
    written, parts, at = prepared.written, [], 0
    for span in prepared.spans:
        parts.append(html.escape(written[at : span.start]))
        at = span.end
        before, after = html.escape(span.before), html.escape(span.after)
        if not span.before.strip() and not span.after.strip():
            parts.append(after)
        elif not span.after.strip():
            parts.append(f'<del title="{strings.NOT_SPOKEN}">{before}</del>')
        else:
            label = html.escape(strings.spoken_as(span.before, span.after))
            parts.append(
                f'<button type="button" class="changed" data-written="{before}"'
                f' data-said="{after}" title="{before}" aria-label="{label}">{after}</button>'
            )
        if sum(map(len, parts)) > 40 * MAX_SHOWN_CHARS or at > MAX_SHOWN_CHARS:
            break
    else:
        parts.append(html.escape(written[at : max(at, MAX_SHOWN_CHARS)]))
    more = " …" if at < len(written) and len(written) > MAX_SHOWN_CHARS else ""
    told = strings.NOTHING_CHANGED if not prepared.spans else strings.CHANGED_INFO
    return (
        f'<p class="info">{told}</p><p class="spoken" dir="auto">{"".join(parts)}{more}</p>{notes}'
    )
