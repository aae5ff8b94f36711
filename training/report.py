"""Stage ``report``: journals as curves (SVG) and tables (Markdown)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.work import Work, replacing

WIDTH, HEIGHT, MARGIN = 640, 300, 46
COLOURS = ("#1b6ca8", "#c8553d", "#4a7c59", "#7b4b94")
MAX_POINTS = 160
# Stage -> title, and the series drawn: label -> how to read it from a journal line.
CURVES: dict[str, tuple[str, dict[str, tuple[str, int | None]]]] = {
    "lm": (
        "language model: cross entropy (nats)",
        {"book 0": ("books", 0), "book 1": ("books", 1), "book 2": ("books", 2)},
    ),
    "decoder": (
        "codec decoder: spectral distance",
        {"mel": ("mel", None), "linear": ("linear", None)},
    ),
    "speaker": ("speaker encoder: loss", {"total": ("total", None)}),
}


def write_curves(work: Work, folder: Path) -> list[Path]:
    """Draw every stage that has a journal -> the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in sorted(work.folder("journal").glob("*.jsonl")):
        kind = path.stem.split("-")[0].rstrip("0123456789")  # lm, lm60, lm-short
        if kind not in CURVES:
            continue
        title, series = CURVES[kind]
        lines = work.journal(path.stem).read()
        drawn = {label: _points(lines, *where) for label, where in series.items()}
        if any(len(points) > 1 for points in drawn.values()):
            target = folder / f"{path.stem}.svg"
            with replacing(target) as temporary:
                temporary.write_text(svg(title, drawn), encoding="utf-8")
            written.append(target)
    return written


def _points(
    lines: Sequence[dict[str, Any]], key: str, place: int | None
) -> list[tuple[float, float]]:
    points = [
        (float(line["step"]), float(line[key] if place is None else line[key][place]))
        for line in lines
        if key in line and "step" in line
    ]
    stride = max(1, len(points) // MAX_POINTS)
    return points[::stride]


def svg(title: str, series: dict[str, list[tuple[float, float]]]) -> str:
    """Lines over steps, with the range written on both axes."""
    points = [point for line in series.values() for point in line]
    x_max = max(x for x, _ in points) or 1.0
    y_min, y_max = min(y for _, y in points), max(y for _, y in points)
    span = (y_max - y_min) or 1.0

    def place(x: float, y: float) -> str:
        across = MARGIN + x / x_max * (WIDTH - 2 * MARGIN)
        down = HEIGHT - MARGIN - (y - y_min) / span * (HEIGHT - 2 * MARGIN)
        return f"{across:.1f},{down:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="20" font-size="14">{title}</text>',
        f'<text x="4" y="{MARGIN + 4}">{y_max:.2f}</text>',
        f'<text x="4" y="{HEIGHT - MARGIN}">{y_min:.2f}</text>',
        f'<text x="{WIDTH - MARGIN - 60}" y="{HEIGHT - 12}">step {x_max:.0f}</text>',
        f'<path d="M{MARGIN},{MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" stroke="#888"'
        ' fill="none"/>',
    ]
    for number, (label, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(place(x, y) for x, y in line)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        x = MARGIN + 90 * number
        parts.append(f'<text x="{x}" y="{HEIGHT - 12}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>", ""])


def file_table(folder: Path) -> str:
    """Shipped files with sizes and SHA-256, as a Markdown table."""
    rows = ["| file | bytes | sha256 |", "| --- | --- | --- |"]
    for path in sorted(folder.iterdir()):
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            rows.append(f"| {path.name} | {path.stat().st_size:,} | `{digest}` |")
    return "\n".join(rows)
