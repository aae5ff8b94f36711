"""The lists of voices and takes as HTML: rows with buttons, and what a row asks in its own place.

- The script (assets/ui/studio.js) opens what a row asks and reports presses; see ``studio.list``.
- Names and texts are people's own: escaped, and each in a ``bdi``, so that no character in them
  turns what stands beside it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from studio.api.languages import LANGUAGES
from studio.dictionary import Word
from studio.takes import MAX_TITLE_CHARS, Take
from studio.ui import strings
from studio.ui.markup import note_html
from studio.voice_card import MAX_NAME_CHARS
from studio.voices import Voice

# Enough for the lines that are shown; a text may have 50,000 characters.
_MAX_SHOWN_CHARS = 300
_ICONS = {
    "play": '<path d="M7 5v14l12-7z"/>',
    "pause": '<path d="M7 5h4v14H7zM13 5h4v14h-4z"/>',
    "star": '<path d="m12 3.6 2.6 5.3 5.8.8-4.2 4.1 1 5.8-5.2-2.7-5.2 2.7 1-5.8L3.6 9.7l5.8-.8z"/>',
}


@dataclass(frozen=True)
class Fault:
    """What could not be done with a row: which, what it was asked, why, and what was typed."""

    id: str
    mode: str
    sentence: str
    typed: str = ""


@dataclass(frozen=True)
class VoiceRow:
    """A voice, whether it is one's own, whether the open model can speak with it, its addresses."""

    voice: Voice
    is_own: bool
    fits: bool
    sound: str
    export: str


@dataclass(frozen=True)
class TakeRow:
    """A take and the addresses of its sound, to play and to keep."""

    take: Take
    sound: str
    download: str


def voices_html(rows: Sequence[VoiceRow], fault: Fault | None = None) -> str:
    """The library as a list."""
    return entries_html(strings.NO_VOICES, [_voice(row, _of(fault, row.voice.id)) for row in rows])


def takes_html(
    rows: Sequence[TakeRow], has_more: bool, export: str, fault: Fault | None = None
) -> str:
    """The takes as a list, the newest first, below what concerns all of them."""
    more = f'<button type="button" class="more" data-do="more">{strings.SHOW_MORE}</button>'
    listed = entries_html(strings.NO_TAKES, [_take(row, _of(fault, row.take.id)) for row in rows])
    return _of_all(export) * bool(rows) + listed + more * has_more


def words_html(words: Sequence[Word], owner_id: str) -> str:
    """The dictionary as a list: what is written, what is said."""
    rows = []
    for word in words:
        written, said = word.entry.written, word.entry.spoken
        about = f'<p class="said">{_bdi(written)} → {_bdi(said)}</p>'
        acts = ""
        if word.owner == owner_id:
            acts = _button("do", "delete", strings.DELETE, _escaped(written))
        rows.append(row_html(word.id, "", about, acts, ""))
    return entries_html(strings.NO_WORDS, rows)


def player_html() -> str:
    """Where a chosen sound plays: the browser's own player, until then hidden."""
    return (
        f'<figure class="player" hidden data-gone="{_escaped(strings.SOUND_GONE)}"><figcaption'
        ' aria-live="polite"></figcaption><audio controls preload="none"></audio></figure>'
    )


def compare_html() -> str:
    """Two takes side by side, once they are chosen."""
    sides = "".join(
        f'<button type="button" data-hear="{side}" aria-pressed="false" disabled>'
        f"<strong>{side.upper()}</strong> <bdi>–</bdi></button>"
        for side in "ab"
    )
    return (
        f'<div id="compare" role="group" aria-label="{strings.COMPARE_TAKES}" hidden>'
        f'<button type="button" data-compare="play" aria-label="{strings.PLAY}"'
        f' aria-pressed="false" disabled>{_icon("play")}{_icon("pause")}</button>{sides}'
        f'<progress max="1" value="0" aria-label="{strings.POSITION}"></progress></div>'
    )


def entries_html(empty: str, rows: Sequence[str]) -> str:
    """Rows as a list, or what is said where there are none."""
    if not rows:
        return f'<p class="empty">{empty}</p>'
    return f'<ol class="entries" role="list">{"".join(rows)}</ol>'


def _voice(row: VoiceRow, fault: Fault | None) -> str:
    voice = row.voice
    name = _escaped(voice.name)
    facts = [LANGUAGES.get(voice.card.language or "", voice.card.language or "")]
    facts += [strings.VOICE_SOURCES[voice.source], strings.CLIP_KEPT if voice.has_clip else ""]
    facts += [] if row.is_own else [strings.OF_THE_SCRIPTS]
    facts += [f"#{tag}" for tag in voice.card.tags]
    shown = [_bdi(fact) for fact in facts if fact] + [_time(voice.created_s)]
    about = f'<p class="name">{_bdi(voice.name)}</p><p class="facts">{" · ".join(shown)}</p>'
    if not row.fits:
        made_with = ", ".join(sorted(set(voice.models.values())))
        about += note_html("warn", strings.other_model(made_with))
    acts = _button("do", "speak", strings.SPEAK_WITH, name) if row.fits else ""
    acts += _link(row.export, strings.EXPORT, name)
    asks = ""
    if row.is_own:
        acts += _button("mode", "rename", strings.RENAME, name)
        acts += _button("mode", "delete", strings.DELETE, name)
        typed = fault.typed if fault is not None and fault.mode == "rename" else voice.name
        acts += _button("mode", "tag", strings.TAGS, name)
        tags = ", ".join(voice.card.tags)
        if fault is not None and fault.mode == "tag":
            tags = fault.typed
        asks = _rename(typed) + _sure(strings.delete_voice(voice.name))
        asks += _rename(tags, strings.TAGS_INFO, 400, mode="tag", is_needed=False)
    play = play_html(row.sound, voice.name, voice.name) if row.fits else ""
    return row_html(voice.id, play, about, acts, asks, fault)


def _take(row: TakeRow, fault: Fault | None) -> str:
    take = row.take
    text = " ".join(take.text.split())[:_MAX_SHOWN_CHARS]
    short = text[:40]
    voice = strings.speaker_name(take.voice)
    facts = [_bdi(voice), strings.seconds(take.duration_s), _time(take.created_s)]
    facts.append(strings.seed(take.seed))
    title = f'<p class="name">{_bdi(take.title)}</p>' if take.title else ""
    about = f'{title}<p class="said">{_bdi(text)}</p><p class="facts">{" · ".join(facts)}</p>'
    named = _escaped(short)
    acts = (
        '<button type="button" class="icon star" data-do="star"'
        f' aria-label="{strings.STAR}: {named}" title="{strings.STAR_INFO}"'
        f' aria-pressed="{str(take.is_starred).lower()}">'
        f"{_icon('star')}</button>"
        + _button("do", "again", strings.AGAIN, named, strings.AGAIN_INFO)
        + _button("do", "use", strings.USE_SETTINGS, named)
        + _link(row.download, strings.DOWNLOAD_SHORT, named)
        + _compare("a", row.sound, named)
        + _compare("b", row.sound, named)
        + _button("mode", "rename", strings.TITLE_TAKE, named)
        + _button("mode", "delete", strings.DELETE, named)
    )
    typed = fault.typed if fault is not None and fault.mode == "rename" else take.title
    return row_html(
        take.id,
        play_html(row.sound, f"{voice}: {text}", short),
        about,
        acts,
        _rename(typed, strings.TAKE_TITLE, MAX_TITLE_CHARS, is_needed=False)
        + _sure(strings.DELETE_TAKE),
        fault,
    )


def _of_all(export: str) -> str:
    acts = {"delete_all": strings.DELETE_UNSTARRED, "delete_starred": strings.DELETE_STARRED}
    return (
        '<div class="entry of-all" data-id="*"><div class="acts">'
        f"{_link(export, strings.EXPORT_ALL)}{_button('mode', 'delete', strings.DELETE_ALL)}</div>"
        f"{_sure(strings.DELETE_ALL_TAKES, **acts)}</div>"
    )


def row_html(
    row_id: str, play: str, about: str, acts: str, asks: str = "", fault: Fault | None = None
) -> str:
    """A row: what plays it, what it is, its buttons, what they ask, and what could not be done."""
    mode = "" if fault is None else fault.mode
    note = "" if fault is None else note_html("bad", fault.sentence)
    return (
        f'<li class="entry" data-id="{_escaped(row_id)}" data-mode="{mode}">{play}'
        f'<div class="about">{about}</div><div class="acts">{acts}</div>{asks}{note}</li>'
    )


def _rename(
    typed: str,
    label: str = strings.NEW_NAME,
    max_chars: int = MAX_NAME_CHARS,
    *,
    mode: str = "rename",
    is_needed: bool = True,
) -> str:
    return (
        f'<form class="ask" data-mode="{mode}" data-do="{mode}"><label>{label}'
        f' <input name="text" dir="auto" maxlength="{max_chars}"{" required" * is_needed}'
        f' value="{_escaped(typed)}"></label>'
        f'<button type="submit" class="go">{strings.SAVE}</button>'
        f'<button type="button" data-mode="">{strings.CANCEL}</button></form>'
    )


def _sure(question: str, **acts: str) -> str:
    """The question before something goes, and a button for each of ``acts``: words by name."""
    buttons = "".join(
        f'<button type="button" class="bad" data-do="{act.replace("_", "-")}">{words}</button>'
        for act, words in (acts or {"delete": strings.DELETE}).items()
    )
    return (
        f'<div class="ask" data-mode="delete" role="group" aria-label="{_escaped(question)}">'
        f"<p>{_bdi(question)}</p>{buttons}"
        f'<button type="button" data-mode="">{strings.KEEP}</button></div>'
    )


def play_html(address: str, caption: str, what: str) -> str:
    """The button that plays the sound of a row."""
    label = strings.play(what)
    return (
        f'<button type="button" class="icon play" data-play="{_escaped(address)}"'
        f' data-caption="{_escaped(caption)}" aria-label="{_escaped(label)}">'
        f"{_icon('play')}</button>"
    )


def _compare(side: str, address: str, named: str) -> str:
    """Chooses a take as one side of the comparison; the script does the rest."""
    return (
        f'<button type="button" class="side" data-side="{side}" aria-pressed="false"'
        f' data-sound="{_escaped(address)}" aria-label="{strings.compare(side.upper())}: {named}"'
        f' title="{strings.COMPARE_INFO}">{side.upper()}</button>'
    )


def _button(kind: str, value: str, words: str, named: str = "", info: str = "") -> str:
    """A button; a reader of the screen hears which row it belongs to (``named`` is escaped)."""
    label = f' aria-label="{words}: {named}"' if named else ""
    title = f' title="{info}"' if info else ""
    return f'<button type="button" data-{kind}="{value}"{label}{title}>{words}</button>'


def link_html(address: str, name: str, words: str) -> str:
    """A link that keeps a file under a ``name``."""
    return f'<a class="button" href="{_escaped(address)}" download="{_escaped(name)}">{words}</a>'


def _link(address: str, words: str, named: str = "") -> str:
    label = f' aria-label="{words}: {named}"' if named else ""
    return f'<a href="{_escaped(address)}" download{label}>{words}</a>'


def _icon(name: str) -> str:
    return f'<svg class="icon-{name}" viewBox="0 0 24 24" aria-hidden="true">{_ICONS[name]}</svg>'


def _time(time_s: float) -> str:
    """A moment, which the script words for the place of the reader."""
    moment = datetime.fromtimestamp(time_s, UTC)
    return f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}">{moment:%Y-%m-%d %H:%M} UTC</time>'


def _of(fault: Fault | None, row_id: str) -> Fault | None:
    return fault if fault is not None and fault.id == row_id else None


def _bdi(text: str) -> str:
    return f"<bdi>{html.escape(text)}</bdi>"


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
