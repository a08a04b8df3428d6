"""Charts of a ledger: its buckets as one bar, its steps as columns, and what is left of the time fix by fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.report.blocks import Bar
from traceanalyzer.report.charts import svg
from traceanalyzer.text.words import bucket_words, duration

if TYPE_CHECKING:
    from traceanalyzer.report.diagnosis_blocks import PlanRow

BAR_HEIGHT = 44
THIN_HEIGHT = 14
PART_GAP_PX = 1.5


def ledger_bar(bar: Bar, *, width: int = svg.WIDE, thin: bool = False, alone: bool = False, fill: float = 1) -> svg.Svg:
    """Return the parts as one bar over the `fill` of the width; parts too narrow for a pixel share the last ones."""
    height = THIN_HEIGHT if thin else BAR_HEIGHT
    whole = sum(item.size for item in bar.parts) or 1
    shapes, x = [], 0.0
    for item in bar.parts:
        span = item.size / whole * width * fill
        token = svg.token_of(item.key)
        title = f"{item.words} {', '.join(item.cells)}"
        shapes.append(svg.part(token, x, 0.5, span - min(PART_GAP_PX, span / 4), height - 1, title=title))
        short = item.cells[-1]
        label = f"{item.words} {short}"
        if not thin and svg.words_px(label, 13, bold=True) + 24 <= span:
            shapes.append(svg.label_on(token, x + 12, height / 2 + 5, label))
        elif not thin and svg.words_px(short, 13, bold=True) + 14 <= span:
            shapes.append(svg.label_on(token, x + 8, height / 2 + 5, short))
        x += span
    says = "; ".join(f"{item.words} {item.cells[-1]}" for item in bar.parts)
    return svg.drawing(width, height, says, shapes, alone=alone)


COLUMNS_HEIGHT = 190
FOOT_PX = 22
LEFT_PX = 64
MOST_COLUMNS = 150
WIDEST_PX = 152
# A step this much longer than the median is named.
SLOW_SHARE = 0.1
MOST_NAMED = 5
# Names of steps that lie closer would run into each other.
NAME_PX = 48


@dataclass(frozen=True)
class StepTime:
    """A step with its time by bucket; `dropped` says why it does not count, empty: it does."""

    step: int
    dur_ns: int
    buckets: Mapping[str, int]
    dropped: str = ""


def step_columns(
    steps: Sequence[StepTime], says: str, *, width: int = svg.WIDE, alone: bool = False, model: str | None = None
) -> svg.Svg:
    """Return the steps in their order: compute at the bottom, those that do not count pale and with a star."""
    longest = max((step.dur_ns for step in steps), default=0) or 1
    left = LEFT_PX if width == svg.WIDE else 52
    plot = COLUMNS_HEIGHT - FOOT_PX - 8
    shapes = _grid(longest, left, width, plot)
    if len(steps) > MOST_COLUMNS:
        shapes += _curve(steps, longest, left, width, plot)
    else:
        shapes += _columns(steps, longest, left, width, plot, model)
    return svg.drawing(width, COLUMNS_HEIGHT, says, shapes, alone=alone)


def _grid(longest: int, left: int, width: int, plot: int) -> list[str]:
    shapes = []
    for value in svg.round_scale(longest):
        y = 8 + plot * (1 - value / longest)
        shapes += [
            svg.line(left, y, width, y),
            svg.words(left - 8, y + 4, axis_words(value), tone="dim", anchor="end", size=12),
        ]
    return shapes


def axis_words(dur_ns: float) -> str:
    """Say a round time on an axis: `40 ms`."""
    return "0" if not dur_ns else duration(dur_ns).replace(".00 ", " ").replace(".0 ", " ")


def _columns(steps: Sequence[StepTime], longest: int, left: int, width: int, plot: int, model: str | None) -> list[str]:
    slot = min((width - left) / len(steps), WIDEST_PX)
    gap = min(10.0, slot / 6)
    every = max(1, -(-len(steps) * 30 // (width - left)))
    shapes = []
    for at, step in enumerate(steps):
        x, y = left + at * slot + gap / 2, 8.0 + plot
        faint = bool(step.dropped)
        known = sum(step.buckets.values())
        rest = {"dev.unresolved": step.dur_ns - known} if step.dur_ns > known else {}
        for bucket, dur_ns in sorted(
            {**step.buckets, **rest}.items(), key=lambda item: (item[0] != "compute", -item[1], item[0])
        ):
            height = dur_ns / longest * plot
            if height < 0.2:
                continue
            y -= height
            title = f"step {step.step}: {bucket_words(bucket, model)} {duration(dur_ns)} of {duration(step.dur_ns)}"
            title += f", not counted: {step.dropped}" if faint else ""
            shapes.append(svg.part(svg.token_of(bucket), x, y, slot - gap, height, title=title, faint=faint))
        if at % every == 0:
            name = f"{step.step}{'*' if faint else ''}"
            middle = min(x + (slot - gap) / 2, width - svg.words_px(name, 12) / 2)
            shapes.append(svg.words(middle, COLUMNS_HEIGHT - 5, name, tone="dim", anchor="middle", size=12))
    return shapes


def _curve(steps: Sequence[StepTime], longest: int, left: int, width: int, plot: int) -> list[str]:
    """Draw least and most of the steps of each pixel as a band, and name the slowest steps."""
    pixels = min(width - left, len(steps))
    bands: list[tuple[float, float, float]] = []
    for at in range(pixels):
        inside = steps[at * len(steps) // pixels : max((at + 1) * len(steps) // pixels, at * len(steps) // pixels + 1)]
        times = [step.dur_ns for step in inside]
        x = left + (at + 0.5) * (width - left) / pixels
        bands.append((x, 8 + plot * (1 - min(times) / longest), 8 + plot * (1 - max(times) / longest)))
    upper = " ".join(f"{x:.1f},{top:.1f}" for x, _, top in bands)
    lower = " ".join(f"{x:.1f},{bottom:.1f}" for x, bottom, _ in reversed(bands))
    shapes = [
        f'<polygon class="f-compute" points="{upper} {lower}" fill="#2f6fb7" fill-opacity=".45"/>',
        f'<polyline class="l-frame" points="{upper}" fill="none" stroke="#1f4f86"/>',
    ]
    median = sorted(step.dur_ns for step in steps)[len(steps) // 2]
    slow = sorted(range(len(steps)), key=lambda at: (-steps[at].dur_ns, at))[:MOST_NAMED]
    named: list[float] = []
    for at in slow:
        x = left + (at + 0.5) * (width - left) / len(steps)
        if steps[at].dur_ns > (1 + SLOW_SHARE) * median and all(abs(x - other) >= NAME_PX for other in named):
            named.append(x)
            y = 8 + plot * (1 - steps[at].dur_ns / longest)
            shapes.append(svg.words(min(x + 3, width - 40), max(y - 2, 11), str(steps[at].step), tone="bad", size=11))
    shapes += [svg.words(left, COLUMNS_HEIGHT - 5, str(steps[0].step), tone="dim", size=12)]
    shapes += [svg.words(width, COLUMNS_HEIGHT - 5, str(steps[-1].step), tone="dim", anchor="end", size=12)]
    return shapes


ROW_PX = 34
BAR_PX = 24
MOST_NAMES_PX = 236
MOST_REMARK_PX = 320
REMARK_SIZE = 12
# Between a bar and its time, and between columns.
WORDS_GAP_PX = 12


def waterfall(
    now: PlanRow, drops: Sequence[PlanRow], says: str, *, width: int = svg.WIDE, alone: bool = False
) -> svg.Svg:
    """Return a row for today and one a fix: what is left, what this fix saves, the time after it."""
    narrow = width < svg.WIDE
    row = ROW_PX + 22 if narrow else ROW_PX
    left, columns = (0.0, [0.0]) if narrow else _margins((now, *drops))
    longest = max([now.left_ns, *(drop.left_ns + max(drop.saving_ns, 0) for drop in drops), 1])
    scale = (width - left - sum(columns) - (0 if narrow else WORDS_GAP_PX)) / longest
    shapes: list[str] = []
    for at, drop in enumerate((now, *drops)):
        y = at * row
        top = y + 22 if narrow else y + (row - BAR_PX) / 2
        kept = min(drop.left_ns, drop.left_ns + drop.saving_ns) if at else drop.left_ns
        data = f'data-rule="{drop.name}" data-ns="{drop.saving_ns}" data-left-ns="{drop.left_ns}"' if at else ""
        title = f"{drop.name}: {drop.time} left, {drop.saves} {drop.remark}".strip()
        shapes.append(svg.part("left", left, top, max(kept * scale, 1), BAR_PX, title=title, data=data))
        if at and drop.saving_ns:
            token = "saved" if drop.saving_ns > 0 else "slower"
            span = max(abs(drop.saving_ns) * scale, 1.5)
            shapes.append(svg.part(token, left + kept * scale, top, span, BAR_PX, title=title))
        if at < len(drops):
            x = left + drop.left_ns * scale
            shapes.append(svg.line(x, top + BAR_PX, x, top + row, tone="dim", dashed=True))
        shapes += _narrow_words(drop, y, width) if narrow else _wide_words(drop, left, columns, y + row / 2 + 5, width)
    return svg.drawing(width, row * (len(drops) + 1), says, shapes, alone=alone)


def _margins(drops: Sequence[PlanRow]) -> tuple[float, list[float]]:
    """Return the room for the names at the left, and for times, savings and remarks at the right."""
    left = max(svg.words_px(drop.name, 13) for drop in drops) + 18
    times = max(svg.words_px(drop.time, 13) for drop in drops) + WORDS_GAP_PX
    savings = max(svg.words_px(drop.saves, 13, bold=True) for drop in drops) + WORDS_GAP_PX
    remarks = max(svg.words_px(drop.remark, REMARK_SIZE) for drop in drops)
    return min(left, MOST_NAMES_PX), [times, savings, min(remarks, MOST_REMARK_PX)]


def _wide_words(drop: PlanRow, left: float, columns: Sequence[float], y: float, width: int) -> list[str]:
    times, _, remarks = columns
    return [
        svg.words(left - WORDS_GAP_PX, y, svg.fitted(drop.name, left - WORDS_GAP_PX), anchor="end"),
        svg.words(width - sum(columns) + times - WORDS_GAP_PX, y, drop.time, anchor="end"),
        svg.words(width - remarks - WORDS_GAP_PX, y, drop.saves, bold=True, anchor="end"),
        svg.words(width - remarks, y, svg.fitted(drop.remark, remarks, REMARK_SIZE), tone="dim", size=REMARK_SIZE),
    ]


def _narrow_words(drop: PlanRow, y: float, width: int) -> list[str]:
    return [
        svg.words(0, y + 16, svg.fitted(drop.name, width - 170)),
        svg.words(width - 70, y + 16, drop.time, anchor="end"),
        svg.words(width, y + 16, drop.saves, bold=True, anchor="end"),
    ]
