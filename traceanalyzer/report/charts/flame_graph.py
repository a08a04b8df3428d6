"""A flame graph: frames from the outermost at the top to the innermost, each as wide as what it costs."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from traceanalyzer.answers.flame import Frame
from traceanalyzer.report.charts.palette import SLICES, words_on
from traceanalyzer.report.charts.svg import WIDE, Svg, drawing, escaped, fitted
from traceanalyzer.text.words import name_words, percent

ROW_PX = 18
# Narrower frames are left out, with what is inside them.
LEAST_PX = 0.5
LEAST_WORDS_PX = 30
MOST_ROWS = 200
_HUES = 4


def flame_graph(root: Frame, says: str, words: Callable[[int], str], *, width: int = WIDE, alone: bool = True) -> Svg:
    """Return the frames inside `root`; `words` says a value in its unit."""
    whole = max(root.value, 1)
    shapes: list[str] = []
    rows = 0
    waiting = [(root, 0.0, -1)]
    while waiting:
        frame, x, row = waiting.pop()
        span = frame.value / whole * width
        if row >= 0:
            rows = max(rows, row + 1)
            tooltip = f"{name_words(frame.name)}: {words(frame.value)}, {percent(frame.value / whole)}"
            shapes.append(_box(frame.name, tooltip, x, row * ROW_PX, span))
        if row + 1 == MOST_ROWS:
            continue
        for inner in frame.largest_first():
            room = inner.value / whole * width
            if room >= LEAST_PX:
                waiting.append((inner, x, row + 1))
            x += room
    return drawing(width, max(rows, 1) * ROW_PX, says, shapes, alone=alone)


def _box(name: str, tooltip: str, x: float, y: float, span: float) -> str:
    token = f"frame-{zlib.crc32(name.encode(errors='replace')) % _HUES}"
    fill = SLICES[token][0]
    label = ""
    if span > LEAST_WORDS_PX:
        text = escaped(fitted(name_words(name), span - 8, 11))
        label = f'<text x="{x + 4:.1f}" y="{y + 13:.1f}" font-size="11" fill="{words_on(fill)}">{text}</text>'
    box = f'x="{x:.2f}" y="{y}" width="{max(span - 0.5, 0.3):.2f}" height="{ROW_PX - 1}"'
    return f'<g><title>{escaped(tooltip)}</title><rect {box} fill="{fill}"/>{label}</g>'
