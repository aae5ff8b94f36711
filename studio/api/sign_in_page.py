"""The way in where keys are asked for: one field, no script, nothing from elsewhere."""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ZONOS2 Studio: sign in</title>
<style>
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }}
main {{ max-width: 24rem; margin: 20vh auto 0; padding: 0 1rem; }}
label, input, button {{ display: block; width: 100%; box-sizing: border-box; font: inherit; }}
input, button {{ margin-top: .5rem; padding: .6rem; }}
p {{ font-weight: 600; }}
</style>
</head>
<body>
<main>
<h1>ZONOS2 Studio</h1>
<form method="post" action="sign-in" enctype="multipart/form-data">
<label for="key">API key of this studio</label>
<input id="key" name="key" type="password" required autofocus autocomplete="current-password">
<button>Sign in</button>
</form>
<p role="alert">{note}</p>
</main>
</body>
</html>
"""


def sign_in_page(note: str = "") -> HTMLResponse:
    """The page with its field, and what was wrong with the last try."""
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"}
    return HTMLResponse(_PAGE.format(note=escape(note)), 401, headers=headers)
