"""What the difference of two times is made of, row by row, and the steps of each capture behind both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.report.charts.ledger_charts import axis_words
from traceanalyzer.report.charts.svg import (
    FILLS,
    WIDE,
    Svg,
    drawing,
    escaped,
    family_of,
    fitted,
    line,
    part,
    round_scale,
    token_of,
    words,
    words_px,
)
from traceanalyzer.text.words import duration, told_apart

ROW_PX = 30
BAR_PX = 22
MOST_NAMES_PX = 236
GAP_PX = 14
DOT_PX = 4.5
HEAD_PX = 24


@dataclass(frozen=True)
class DifferenceRow:
    """A row of a difference: its times on both sides, and how people read them."""

    bucket: str  # empty: rows that are put together
    name: str
    delta_ns: int
    base: str
    new: str
    difference: str


@dataclass(frozen=True)
class CaptureSteps:
    """The steps of one capture and their mean."""

    name: str
    is_base: bool
    steps_ns: tuple[int, ...]
    mean_ns: float


def difference_waterfall(
    base: DifferenceRow,
    changes: Sequence[DifferenceRow],
    new: DifferenceRow,
    says: str,
    *,
    width: int = WIDE,
    alone: bool = False,
) -> Svg:
    """Return bars from the base's time to the new one's: each change begins where the one above ends."""
    narrow = width < WIDE
    rows = [base, *changes, new]
    ends = [base.delta_ns]
    for change in changes:
        ends.append(ends[-1] + change.delta_ns)
    left = 0.0 if narrow else min(max(words_px(row.name, 13) for row in rows) + GAP_PX, MOST_NAMES_PX)
    columns = [0.0, 0.0, 0.0] if narrow else _columns(rows)
    scale = (width - left - sum(columns)) / max([*ends, new.delta_ns, 1])
    row_px, head = (ROW_PX + 20, 0) if narrow else (ROW_PX, HEAD_PX)
    shapes = [] if narrow else _heads(columns, width)
    for at, row in enumerate(rows):
        y = head + at * row_px
        top = y + 20 if narrow else y + (row_px - BAR_PX) / 2
        title = f"{row.name}: {row.difference}"
        if row in (base, new):
            shapes.append(part("left", left, top, max(row.delta_ns * scale, 1), BAR_PX, title=title))
        else:
            low = min(ends[at - 1], ends[at])
            token = "saved" if row.delta_ns < 0 else "slower"
            data = f'data-bucket="{escaped(row.bucket)}" data-delta-ns="{row.delta_ns}"'
            family = family_of(token_of(row.bucket)) if row.bucket else ""
            span = max(abs(row.delta_ns) * scale, 1.5)
            shapes.append(part(token, left + low * scale, top, span, BAR_PX, title=title, data=data, hatch=family))
        shapes += _narrow_words(row, y, width) if narrow else _wide_words(row, left, columns, y + row_px / 2 + 5, width)
    return drawing(width, head + row_px * len(rows), says, shapes, alone=alone)


def _columns(rows: Sequence[DifferenceRow]) -> list[float]:
    """Return the room for the base's times, the new ones, and the differences."""
    times = [[row.base for row in rows], [row.new for row in rows], [row.difference for row in rows]]
    heads = ("base", "new", "difference")
    return [
        max(words_px(text, 13, bold=head == "difference") for text in (head, *texts)) + GAP_PX
        for head, texts in zip(heads, times, strict=True)
    ]


def _heads(columns: Sequence[float], width: int) -> list[str]:
    ends = (width - columns[1] - columns[2], width - columns[2], width)
    return [
        words(x, 14, text, tone="dim", anchor="end", size=12)
        for x, text in zip(ends, ("base", "new", "difference"), strict=True)
    ]


def _wide_words(row: DifferenceRow, left: float, columns: Sequence[float], y: float, width: int) -> list[str]:
    return [
        words(left - GAP_PX / 2, y, fitted(row.name, left - GAP_PX / 2), anchor="end"),
        words(width - columns[1] - columns[2], y, row.base, anchor="end"),
        words(width - columns[2], y, row.new, anchor="end"),
        words(width, y, row.difference, bold=True, anchor="end"),
    ]


def _narrow_words(row: DifferenceRow, y: float, width: int) -> list[str]:
    room = width - words_px(row.difference, 13, bold=True) - GAP_PX
    return [
        words(0, y + 15, fitted(row.name, room)),
        words(width, y + 15, row.difference, bold=True, anchor="end"),
    ]


def capture_dots(captures: Sequence[CaptureSteps], says: str, *, width: int = WIDE, alone: bool = False) -> Svg:
    """Return a row a capture: a dot for each step, and a mark at their mean."""
    row_px = 28
    left = min(max(words_px(item.name, 13) for item in captures) + GAP_PX, MOST_NAMES_PX, width * 0.42)
    times = [time for item in captures for time in (*item.steps_ns, item.mean_ns)]
    low, high, marks = _axis(min(times), max(times))
    scale = (width - left - 2 * GAP_PX - DOT_PX) / max(high - low, 1)
    height = row_px * len(captures)
    names = _fitted_apart([item.name for item in captures], left - GAP_PX / 2)
    shapes = []
    for mark in marks:
        x = left + GAP_PX + (mark - low) * scale
        room = words_px(axis_words(mark), 12) / 2
        shapes += [
            line(x, 0, x, height),
            words(min(x, width - room), height + 16, axis_words(mark), tone="dim", anchor="middle", size=12),
        ]
    for at, item in enumerate(captures):
        y = at * row_px + row_px / 2
        token = "dev-unknown" if item.is_base else "compute"
        shapes.append(words(left - GAP_PX / 2, y + 5, names[at], anchor="end"))
        for time in item.steps_ns:
            shapes.append(
                f'<circle class="f-{token}" cx="{left + GAP_PX + (time - low) * scale:.1f}" cy="{y:g}" r="{DOT_PX}" '
                f'fill="{FILLS[token][0]}" fill-opacity=".8"><title>{escaped(duration(time))}</title></circle>'
            )
        x = left + GAP_PX + (item.mean_ns - low) * scale
        shapes.append(line(x, y - 11, x, y + 11, tone="text"))
    return drawing(width, height + 22, says, shapes, alone=alone)


def _fitted_apart(names: Sequence[str], room_px: float) -> list[str]:
    """Return names cut to their room, those that begin alike where they begin to differ."""
    letters = max(map(len, names))
    while letters > 1 and any(words_px(name, 13) > room_px for name in told_apart(names, letters)):
        letters -= 1
    return told_apart(names, letters)


def _axis(least: float, most: float) -> tuple[float, float, list[float]]:
    """Return the ends of an axis around these times, and round times on it."""
    span = max(most - least, 0.05 * most, 1.0)
    low, high = max(least - 0.08 * span, 0.0), most + 0.08 * span
    scale = round_scale(high - low, 4)
    step = scale[1] if len(scale) > 1 else span
    first = math.ceil(low / step)
    return low, high, [step * at for at in range(first, math.floor(high / step) + 1)]
