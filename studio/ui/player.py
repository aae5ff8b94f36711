"""The player of the Speak tab as HTML; assets/ui/player.js makes it play."""

from __future__ import annotations

from studio.ui import strings

_PLAY = '<path class="play" d="M7 5v14l12-7z"/>'
_PAUSE = '<path class="pause" d="M7 5h4v14H7zM13 5h4v14h-4z"/>'


def player_html() -> str:
    """Waveform, playhead, time, volume and spectrogram; hidden until there is a sound."""
    return (
        '<figure id="player" hidden>'
        f'<div id="wave" role="slider" tabindex="0" aria-label="{strings.POSITION}"'
        ' aria-valuemin="0" aria-valuemax="0" aria-valuenow="0"><canvas></canvas></div>'
        '<canvas id="spectrum" role="img" hidden'
        f' aria-label="{strings.SPECTRUM_INFO}"></canvas>'
        '<div class="transport">'
        f'<button type="button" id="play" aria-label="{strings.PLAY}" aria-pressed="false">'
        f'<svg viewBox="0 0 24 24" aria-hidden="true">{_PLAY}{_PAUSE}</svg></button>'
        '<span id="clock">0:00 / 0:00</span>'
        f'<span id="first-sound" data-words="{strings.HEARD_AFTER}"></span>'
        f'<button type="button" id="spectrum-switch" aria-pressed="false">{strings.SPECTRUM}'
        "</button>"
        f'<label id="volume">{strings.VOLUME}'
        ' <input type="range" min="0" max="1" step="0.05" value="0.8"></label>'
        "</div></figure>"
    )
