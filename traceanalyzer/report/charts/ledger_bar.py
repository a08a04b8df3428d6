"""The time ledger as one bar: compute first, then by size."""

from __future__ import annotations

from traceanalyzer.report.blocks import Bar
from traceanalyzer.report.charts.palette import token_of
from traceanalyzer.report.charts.svg import WIDE, Svg, drawing, label_on, part, words_px

HEIGHT = 44
THIN_HEIGHT = 14
GAP_PX = 1.5


def ledger_bar(
    bar: Bar,
    *,
    width: int = WIDE,
    thin: bool = False,
    alone: bool = False,
    fill: float = 1,
) -> Svg:
    """Return the parts as one bar over the `fill` of the width; parts too narrow for a pixel share the last ones."""
    height = THIN_HEIGHT if thin else HEIGHT
    whole = sum(item.size for item in bar.parts) or 1
    shapes, x = [], 0.0
    for item in bar.parts:
        span = item.size / whole * width * fill
        token = token_of(item.key)
        title = f"{item.words} {', '.join(item.cells)}"
        shapes.append(part(token, x, 0.5, span - min(GAP_PX, span / 4), height - 1, title=title))
        short = item.cells[-1]
        label = f"{item.words} {short}"
        if not thin and words_px(label, 13, bold=True) + 24 <= span:
            shapes.append(label_on(token, x + 12, height / 2 + 5, label))
        elif not thin and words_px(short, 13, bold=True) + 14 <= span:
            shapes.append(label_on(token, x + 8, height / 2 + 5, short))
        x += span
    says = "; ".join(f"{item.words} {item.cells[-1]}" for item in bar.parts)
    return drawing(width, height, says, shapes, alone=alone)
