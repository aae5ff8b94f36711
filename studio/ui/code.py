"""Use from code: a request of the page as an example for curl, Python and JavaScript.

The script puts the studio's own address in the place of ``BASE``, because only the browser knows it
behind a proxy.
"""

from __future__ import annotations

import html
import json
import pprint
import shlex
from collections.abc import Mapping
from typing import Any

from studio.ui import strings

BASE = "STUDIO_ADDRESS"
# What OpenAI's client has parameters for; the rest goes into its extra_body.
_OPENAI = ("model", "voice", "input", "response_format")


def examples_html(fields: Mapping[str, Any], *, has_keys: bool) -> str:
    """The request with ``fields`` in three languages, each with a button that copies it."""
    examples = (
        ("curl", curl(fields, has_keys=has_keys)),
        ("Python", python(fields, has_keys=has_keys)),
        ("JavaScript", javascript(fields, has_keys=has_keys)),
    )
    return "".join(
        f'<section class="example"><div><h3>{name}</h3>'
        f'<button type="button" data-copy aria-label="{strings.COPY}: {name}">{strings.COPY}'
        f'</button></div><pre tabindex="0" aria-label="{name}"><code>{html.escape(code)}</code>'
        "</pre></section>"
        for name, code in examples
    )


def curl(fields: Mapping[str, Any], *, has_keys: bool = False) -> str:
    """The request as one command of a shell."""
    body = json.dumps(dict(fields), ensure_ascii=False)
    key = "  -H 'Authorization: Bearer KEY' \\\n" if has_keys else ""
    return (
        f"curl {BASE}/v1/audio/speech \\\n  -H 'Content-Type: application/json' \\\n{key}"
        f"  -d {shlex.quote(body)} \\\n  -o speech.wav"
    )


def python(fields: Mapping[str, Any], *, has_keys: bool = False) -> str:
    """The request with OpenAI's Python library."""
    plain = {"voice": "default"} | {name: fields[name] for name in _OPENAI if name in fields}
    extra = {name: value for name, value in fields.items() if name not in _OPENAI}
    lines = [f"    {name}={_literal(value, 4)}," for name, value in plain.items()]
    lines += ['    response_format="wav",']
    lines += [f"    extra_body={_literal(extra, 4)},"] if extra else []
    key = '"KEY"' if has_keys else '"none"'
    return (
        "from openai import OpenAI\n\n"
        f'client = OpenAI(base_url="{BASE}/v1", api_key={key})\n'
        "with client.audio.speech.with_streaming_response.create(\n"
        + "\n".join(lines)
        + '\n) as response:\n    response.stream_to_file("speech.wav")'
    )


def javascript(fields: Mapping[str, Any], *, has_keys: bool = False) -> str:
    """The request with fetch."""
    body = json.dumps(dict(fields), ensure_ascii=False, indent=2).replace("\n", "\n  ")
    key = ' "Authorization": "Bearer KEY",' if has_keys else ""
    return (
        f'const response = await fetch("{BASE}/v1/audio/speech", {{\n'
        '  method: "POST",\n'
        f'  headers: {{{key} "Content-Type": "application/json" }},\n'
        f"  body: JSON.stringify({body}),\n"
        "});\nconst sound = await response.blob();"
    )


def _literal(value: object, indent: int) -> str:
    """A Python literal; a long text stays on one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return pprint.pformat(value, width=72, sort_dicts=False).replace(
        "\n", "\n" + " " * (indent + 11)
    )
