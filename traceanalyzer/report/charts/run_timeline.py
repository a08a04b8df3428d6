"""A whole run over time: a lane for each device, in columns by what it was spent on, with its steps as marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceanalyzer.report.charts.ledger_charts import axis_words
from traceanalyzer.report.charts.svg import FILLS, WIDE, Svg, drawing, fitted, line, round_scale, words, words_px

RULER_PX = 20
GAP_PX = 6
MARKS_PX = 14
# Of so many lanes each is tall and has its steps above it.
FEW_LANES = 8
TALL_PX = 34
LOW_PX = 12
# All lanes together have so many columns, in a wide drawing and in a narrow one.
MOST_COLUMNS = {True: 1840, False: 640}
_GUTTER_PX = {True: 152, False: 80}
_COLUMN_PX = {True: (2, 4, 8, 10, 20), False: (2, 4, 8, 10, 16)}


@dataclass(frozen=True)
class Stretch:
    """A step in a lane: where it begins and ends, what it is called, and whether it counts."""

    start: int
    end: int
    name: str
    kept: bool


@dataclass(frozen=True)
class RunLane:
    """A device or thread: the time by token in each cell, that in the analyzed time and that outside it."""

    label: str
    steps: Sequence[Stretch]
    kept: Mapping[int, Mapping[str, int]]
    outside: Mapping[int, Mapping[str, int]]


def run_timeline(lanes: Sequence[RunLane], cell_count: int, cell_ns: int, says: str, *, width: int = WIDE) -> Svg:
    """Return the lanes below each other; what lies outside the analyzed time is pale."""
    wide = width == WIDE
    left, plot = _GUTTER_PX[wide], width - _GUTTER_PX[wide]
    enough = [px for px in _COLUMN_PX[wide] if plot // px * len(lanes) <= MOST_COLUMNS[wide]]
    px = enough[0] if enough else _COLUMN_PX[wide][-1]
    length_ns = cell_count * cell_ns
    few = len(lanes) <= FEW_LANES
    height = TALL_PX if few else LOW_PX
    shapes, y = [], float(RULER_PX)
    for lane in lanes:
        if few and lane.steps:
            shapes += _marks(lane.steps, left, y, plot / length_ns)
            y += MARKS_PX
        label = fitted(lane.label, left - 8, 12)
        shapes.append(words(0, y + height / 2 + 4, label, size=12 if few else 11))
        columns = min(plot // px, cell_count)
        for cells, opacity in ((lane.kept, ""), (lane.outside, ' opacity=".4"')):
            paths = _paths(cells, cell_count, cell_ns, columns, (left, y + height, plot / columns, height))
            shapes += [
                f'<path class="f-{token}" fill="{FILLS[token][0]}" style="stroke:none"{opacity} d="{path}"/>'
                for token, path in paths.items()
            ]
        y += height + (GAP_PX if few else 2)
    ruler = []
    for value in round_scale(length_ns, lines=6 if wide else 3):
        x = left + value / length_ns * plot
        ruler.append(line(x, RULER_PX - 6, x, y))
        if x + words_px(axis_words(value), 11) < width:
            ruler.append(words(x + 3, 11, axis_words(value), tone="dim", size=11))
    return drawing(width, y, says, [*ruler, *shapes])


def _marks(steps: Sequence[Stretch], left: float, y: float, px_per_ns: float) -> list[str]:
    """Draw where steps begin, and their names where there is room."""
    shapes, free = [], left
    for step in steps:
        x, end = left + step.start * px_per_ns, left + step.end * px_per_ns
        if x < free:
            continue
        shapes.append(line(x, y + 1, x, y + MARKS_PX, tone="dim"))
        free = x + 4
        room = words_px(step.name, 10) + 8
        if room <= end - x:
            shapes.append(words(x + 3, y + 10, step.name, tone="dim", size=10))
            free = x + room
    return shapes


def _paths(
    cells: Mapping[int, Mapping[str, int]], cell_count: int, cell_ns: int, columns: int, box: tuple[float, ...]
) -> dict[str, str]:
    """Return a path for each token: in every column the share of its time, one on the other, compute at the bottom."""
    sums: list[dict[str, int]] = [{} for _ in range(columns)]
    lengths = [0] * columns
    for cell in range(cell_count):
        column = cell * columns // cell_count
        lengths[column] += cell_ns
        for token, dur_ns in cells.get(cell, {}).items():
            sums[column][token] = sums[column].get(token, 0) + dur_ns
    left, bottom, px, height = box
    paths: dict[str, str] = {}
    runs: dict[str, tuple[int, int, int, int]] = {}  # token: first column, columns, bottom and top of the open piece

    def close(token: str) -> None:
        first, count, low, high = runs.pop(token)
        x, wide = left + first * px, count * px
        paths[token] = paths.get(token, "") + f"M{x:g} {bottom - low:g}h{wide:g}v-{high - low}h-{wide:g}z"

    for at in range(columns):
        base_ns, pieces = 0, {}
        for token, dur_ns in sorted(sums[at].items(), key=lambda item: (item[0] != "compute", -item[1], item[0])):
            low = round(base_ns / lengths[at] * height)
            base_ns += dur_ns
            high = round(base_ns / lengths[at] * height)
            if high > low:
                pieces[token] = (low, high)
        for token in list(runs):
            if pieces.get(token) != runs[token][2:]:
                close(token)
        for token, (low, high) in pieces.items():
            first, count, *_ = runs.get(token, (at, 0, 0, 0))
            runs[token] = (first, count + 1, low, high)
    for token in list(runs):
        close(token)
    return paths
