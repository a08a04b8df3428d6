"""What fixes save one after the other: each bar goes on where the last one ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.report.charts.svg import WIDE, Svg, drawing, fitted, line, part, words, words_px

ROW_PX = 34
BAR_PX = 24
MOST_NAMES_PX = 236
MOST_REMARK_PX = 320
REMARK_SIZE = 12
# Between a bar and its time, and between columns.
GAP_PX = 12


@dataclass(frozen=True)
class Drop:
    """A fix: the time after it, what it saves, and how people read both; a negative saving makes it longer."""

    name: str
    left_ns: int
    saving_ns: int
    time: str
    saves: str
    remark: str


def waterfall(now: Drop, drops: Sequence[Drop], says: str, *, width: int = WIDE, alone: bool = False) -> Svg:
    """Return a row for today and one a fix: what is left, what this fix saves, the time after it."""
    narrow = width < WIDE
    row = ROW_PX + 22 if narrow else ROW_PX
    left, columns = (0.0, [0.0]) if narrow else _margins((now, *drops))
    longest = max([now.left_ns, *(drop.left_ns + max(drop.saving_ns, 0) for drop in drops), 1])
    scale = (width - left - sum(columns) - (0 if narrow else GAP_PX)) / longest
    shapes: list[str] = []
    for at, drop in enumerate((now, *drops)):
        y = at * row
        top = y + 22 if narrow else y + (row - BAR_PX) / 2
        kept = min(drop.left_ns, drop.left_ns + drop.saving_ns) if at else drop.left_ns
        data = f'data-rule="{drop.name}" data-ns="{drop.saving_ns}" data-left-ns="{drop.left_ns}"' if at else ""
        title = f"{drop.name}: {drop.time} left, {drop.saves} {drop.remark}".strip()
        shapes.append(part("left", left, top, max(kept * scale, 1), BAR_PX, title=title, data=data))
        if at and drop.saving_ns:
            token = "saved" if drop.saving_ns > 0 else "slower"
            span = max(abs(drop.saving_ns) * scale, 1.5)
            shapes.append(part(token, left + kept * scale, top, span, BAR_PX, title=title))
        if at < len(drops):
            x = left + drop.left_ns * scale
            shapes.append(line(x, top + BAR_PX, x, top + row, tone="dim", dashed=True))
        shapes += _narrow_words(drop, y, width) if narrow else _wide_words(drop, left, columns, y + row / 2 + 5, width)
    return drawing(width, row * (len(drops) + 1), says, shapes, alone=alone)


def _margins(drops: Sequence[Drop]) -> tuple[float, list[float]]:
    """Return the room for the names at the left, and for times, savings and remarks at the right."""
    left = max(words_px(drop.name, 13) for drop in drops) + 18
    times = max(words_px(drop.time, 13) for drop in drops) + GAP_PX
    savings = max(words_px(drop.saves, 13, bold=True) for drop in drops) + GAP_PX
    remarks = max(words_px(drop.remark, REMARK_SIZE) for drop in drops)
    return min(left, MOST_NAMES_PX), [times, savings, min(remarks, MOST_REMARK_PX)]


def _wide_words(drop: Drop, left: float, columns: Sequence[float], y: float, width: int) -> list[str]:
    times, _, remarks = columns
    return [
        words(left - GAP_PX, y, fitted(drop.name, left - GAP_PX), anchor="end"),
        words(width - sum(columns) + times - GAP_PX, y, drop.time, anchor="end"),
        words(width - remarks - GAP_PX, y, drop.saves, bold=True, anchor="end"),
        words(width - remarks, y, fitted(drop.remark, remarks, REMARK_SIZE), tone="dim", size=REMARK_SIZE),
    ]


def _narrow_words(drop: Drop, y: float, width: int) -> list[str]:
    return [
        words(0, y + 16, fitted(drop.name, width - 170)),
        words(width - 70, y + 16, drop.time, anchor="end"),
        words(width, y + 16, drop.saves, bold=True, anchor="end"),
    ]
