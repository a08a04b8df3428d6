"""The time ledger as one bar: compute first, then by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.report.charts.palette import token_of
from traceanalyzer.report.charts.svg import WIDE, Svg, drawing, label_on, part, words_px

HEIGHT = 44
THIN_HEIGHT = 14
GAP_PX = 1.5


@dataclass(frozen=True)
class LedgerPart:
    """A bucket of a ledger with what people read of it: `time` per step, `share` of the window."""

    bucket: str
    words: str
    dur_ns: int
    time: str
    share: str


def ledger_bar(
    parts: Sequence[LedgerPart],
    says: str,
    *,
    width: int = WIDE,
    thin: bool = False,
    alone: bool = False,
    fill: float = 1,
) -> Svg:
    """Return the parts as a bar over the `fill` of the width; parts too narrow for a pixel share the last ones."""
    height = THIN_HEIGHT if thin else HEIGHT
    whole = sum(item.dur_ns for item in parts) or 1
    shapes, x = [], 0.0
    for item in parts:
        span = item.dur_ns / whole * width * fill
        token = token_of(item.bucket)
        shapes.append(
            part(
                token, x, 0.5, span - min(GAP_PX, span / 4), height - 1, title=f"{item.words} {item.time}, {item.share}"
            )
        )
        label = f"{item.words} {item.share}"
        short = item.share
        if not thin and words_px(label, 13, bold=True) + 24 <= span:
            shapes.append(label_on(token, x + 12, height / 2 + 5, label))
        elif not thin and words_px(short, 13, bold=True) + 14 <= span:
            shapes.append(label_on(token, x + 8, height / 2 + 5, short))
        x += span
    return drawing(width, height, says, shapes, alone=alone)
