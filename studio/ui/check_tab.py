"""The tab that says what a sound file carries. What was sent is deleted as soon as it is read."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from anyio.to_thread import run_sync

from engine import InvalidRequest, StudioError
from studio.inspection import Inspection, inspect
from studio.ui import strings
from studio.ui.desk import Update
from studio.ui.markup import heading_html, note_html

# Files that are looked at at the same time: speech that is being made goes first.
MAX_CHECKING = 1


@dataclass(frozen=True)
class CheckView:
    """Every component of the tab that a handler reads or writes."""

    file: gr.File
    result: gr.HTML


def build_check() -> CheckView:
    """Lay out the tab."""
    with gr.Row(elem_classes="desk"):
        with gr.Column(elem_classes="card wide", min_width=0):
            gr.HTML(heading_html(strings.CHECK_FILE))
            gr.HTML(f'<p class="info">{strings.CHECK_INFO}</p>')
            file = gr.File(label=strings.SOUND_FILE, height=160, elem_id="check-file")
            result = gr.HTML(elem_id="check-result")
        with (
            gr.Column(elem_classes="aside", min_width=0),
            gr.Column(elem_classes="card", min_width=0),
        ):
            gr.HTML(heading_html(strings.CHECK_WHAT))
            gr.HTML(_explained())
    return CheckView(file, result)


class CheckHandlers:
    """The events of one Check tab."""

    def __init__(self, view: CheckView) -> None:
        self._view = view

    async def check(self, path: str) -> AsyncIterator[Update]:
        """Say what a file carries, or why it cannot be looked at; the field is free again."""
        view, file = self._view, Path(path)
        yield {view.result: note_html("info", strings.CHECKING)}
        try:
            told = inspection_html(file.name, await run_sync(_inspected, file))
        except StudioError as error:
            told = note_html("bad", error.message)
        yield {view.result: told, view.file: None}


def inspection_html(name: str, found: Inspection) -> str:
    """What was found in the file ``name``: the one sentence, then each of the three layers."""
    confidence = found.watermark.confidence
    meter = (
        f'<p class="sure"><span id="sure">{strings.CONFIDENCE}</span> <meter min="0" max="1"'
        f' value="{confidence:.3f}" aria-labelledby="sure"></meter> {confidence:.2f}</p>'
    )
    layers = (
        (strings.WATERMARK, found.watermark.is_found, found.watermark_sentence, meter),
        (strings.METADATA, found.tags_say_ai, found.tags_sentence, _tags_html(found.tags)),
        (strings.STATEMENT, found.statement_says_ai, found.statement_sentence, ""),
    )
    return (
        f'<p class="facts">{_bdi(name)}, {strings.seconds(found.duration_s)}</p>'
        f'<p class="verdict">{_bdi(found.summary)}</p>'
        + "".join(_layer(*layer) for layer in layers)
    )


def _layer(name: str, is_found: bool, sentence: str, more: str) -> str:
    state = strings.FOUND if is_found else strings.NOT_FOUND
    return (
        f'<section class="layer" data-found="{str(is_found).lower()}"><h3>{name}'
        f" <span>{state}</span></h3><p>{_bdi(sentence)}</p>{more}</section>"
    )


def _tags_html(tags: dict[str, str]) -> str:
    if not tags:
        return ""
    rows = "".join(
        f"<div><dt>{_bdi(name)}</dt><dd>{_bdi(value)}</dd></div>" for name, value in tags.items()
    )
    return f'<dl class="tags">{rows}</dl>'


def _explained() -> str:
    return "".join(
        f'<p class="info"><strong>{name}.</strong> {words}</p>'
        for name, words in (
            (strings.WATERMARK, strings.WATERMARK_IS),
            (strings.METADATA, strings.METADATA_IS),
            (strings.STATEMENT, strings.STATEMENT_IS),
        )
    )


def _inspected(path: Path) -> Inspection:
    """Look at an uploaded file, and delete it; blocking."""
    try:
        with path.open("rb", buffering=0) as file:
            return inspect(file)
    except OSError:
        raise InvalidRequest(
            "file: it is not here any more; choose it again.", field="file"
        ) from None
    finally:
        path.unlink(missing_ok=True)


def _bdi(text: str) -> str:
    return f"<bdi>{html.escape(text)}</bdi>"
