"""The whole run over time: what every device was spent on, its steps, and where kernels, ranges and operators run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.diagnosis.verdict import is_recorded_again
from traceanalyzer.report.charts.ledger_charts import axis_words
from traceanalyzer.report.charts.svg import (
    FILLS,
    NARROW,
    TOKENS,
    WIDE,
    Svg,
    drawing,
    fitted,
    line,
    round_scale,
    token_of,
    words,
    words_px,
)
from traceanalyzer.report.html.document import Part, filled, shown_name
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, counted, duration

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


MOST_LANES = 64
# Cells of all lanes together; a single lane has no more than the most, and none has fewer than the least.
CELLS, MOST_CELLS, LEAST_CELLS = 4_800, 1_200, 96
# Names of a kind, in how many cells of the timeline one of theirs is seen, and the room for all of them.
MOST_NAMES = 160
CELLS_EACH = 4
PLACES_LETTERS = 200_000
NAME_LETTERS = 240
MOST_STEPS = 400
LEVELS = 9

Row = dict[str, Any]
LaneKey = tuple[int, int | None]  # trace and device; None: the host


@dataclass(frozen=True)
class TimeFrame:
    """Where time begins in each trace, and how it is cut into cells."""

    zeros: Mapping[int, int]
    cell_ns: int
    cell_count: int

    def parameters(self, each: int = 1) -> list[Any]:
        """Return what queries need to place rows in cells that are `each` times as long."""
        return [self.cell_ns * each, list(self.zeros), list(self.zeros.values())]


def section(source: PageSource) -> Part | None:
    """Return the timeline; none of a run without a ledger."""
    rows = source.rows("timeline_lanes")
    if not rows:
        return None
    shown = rows[:MOST_LANES]
    clocks = {row["trace_id"]: row["ahead_ns"] for row in source.rows("timeline_clocks")} if len(shown) > 1 else {}
    frame = frame_of(shown, clocks)
    cells = source.rows("timeline_cells", frame.parameters())
    steps = source.rows("timeline_steps", frame.parameters()[1:])
    lanes = _lanes(source, shown, cells, steps)
    named = {row["bucket"]: bucket_words(row["bucket"], source.model) for row in cells}
    words = [lane.label for lane in lanes.values()]
    says = (
        f"Timeline of {counted(len(lanes), 'lane')}: {', '.join(words[:FEW_LANES])}. Search and tables name the times."
    )
    drawings = [
        run_timeline(list(lanes.values()), frame.cell_count, frame.cell_ns, says, width=width)
        for width in (WIDE, NARROW)
    ]
    sizes: dict[str, int] = {}
    for row in cells:
        sizes[row["bucket"]] = sizes.get(row["bucket"], 0) + row["dur_ns"]
    buckets = sorted(sizes, key=lambda bucket: (bucket != "compute", -sizes[bucket], bucket))
    values = {
        "wide": drawings[0],
        "narrow": drawings[1],
        "says": says,
        "lanes": len(lanes),
        "keys": [(token_of(bucket), named[bucket]) for bucket in buckets],
        "more": len(rows) - len(shown),
    }
    data = {
        "length": frame.cell_ns * frame.cell_count,
        "cell": frame.cell_ns,
        "each": CELLS_EACH,
        "at": _start(source, frame),
        "buckets": [[TOKENS.index(token_of(bucket)), named[bucket]] for bucket in buckets],
        "lanes": [_plain(source, key, lane, cells, buckets) for key, lane in lanes.items()],
        "index": _index(source, frame, list(lanes)),
    }
    note = _note(source, shown, frame, clocks)
    return Part("timeline", "Timeline", filled("run_timeline.html", values), "Timeline", note, {"timeline": data})


def frame_of(lanes: Sequence[Row], clocks: Mapping[int, int]) -> TimeFrame:
    """Return a frame on one clock where all traces have one (by how much each is ahead).

    Else the analyzed time of every trace begins at one place.
    """
    begins: dict[int, int] = {}
    for lane in lanes:
        begins[lane["trace_id"]] = min(begins.get(lane["trace_id"], lane["begin_ns"]), lane["begin_ns"])
    if begins.keys() <= clocks.keys():
        begins = {trace: clocks[trace] for trace in begins}
    ahead = max(begins[lane["trace_id"]] - lane["first_ns"] for lane in lanes)
    zeros = {trace: begin - ahead for trace, begin in begins.items()}
    length_ns = max(lane["last_ns"] - zeros[lane["trace_id"]] for lane in lanes)
    count = min(max(CELLS // len(lanes), LEAST_CELLS), MOST_CELLS)
    cell_ns = max(-(-length_ns // count), 1)
    return TimeFrame(zeros, cell_ns, -(-length_ns // cell_ns))


def _lanes(
    source: PageSource, shown: Sequence[Row], cells: Iterable[Row], steps: Iterable[Row]
) -> dict[LaneKey, RunLane]:
    keys = [(row["trace_id"], row["device"]) for row in shown]
    traces = {row["trace_id"]: row for row in source.rows("run_traces")}
    kept: dict[LaneKey, dict[int, dict[str, int]]] = {key: {} for key in keys}
    outside: dict[LaneKey, dict[int, dict[str, int]]] = {key: {} for key in keys}
    for row in cells:
        lane = (kept if row["kept"] else outside).get((row["trace_id"], row["device"]))
        if lane is not None:
            cell, token = lane.setdefault(row["cell"], {}), token_of(row["bucket"])
            cell[token] = cell.get(token, 0) + row["dur_ns"]
    marks: dict[LaneKey, list[Row]] = {}
    for row in steps:
        marks.setdefault((row["trace_id"], row["device"]), []).append(row)
    return {
        key: RunLane(_label(source, key, keys, traces), stretches(marks.get(key, ())), kept[key], outside[key])
        for key in keys
    }


def _label(source: PageSource, key: LaneKey, keys: Sequence[LaneKey], traces: Mapping[int, Row]) -> str:
    trace, device = key
    rank = traces[trace]["rank"]
    several = len({trace for trace, _ in keys}) > 1
    ranks = [traces[other]["rank"] for other in {trace for trace, _ in keys}]
    name = f"rank {rank}" if rank is not None and ranks.count(rank) == 1 else str(traces[trace]["trace"])
    alone = sum(other == trace for other, _ in keys) == 1
    where = "host" if device is None else source.noun if alone and several else f"{source.noun} {device}"
    return f"{shown_name(name, 48)} {where}" if several else where


def stretches(steps: Sequence[Row]) -> list[Stretch]:
    """Return steps as marks; neighbours share one where there are many."""
    each = max(-(-len(steps) // MOST_STEPS), 1)
    groups = [steps[at : at + each] for at in range(0, len(steps), each)]
    return [
        Stretch(
            max(group[0]["start_ns"], 0),
            group[-1]["end_ns"],
            group[0]["step"] if len(group) == 1 else f"{group[0]['step']} to {group[-1]['step']}",
            all(row["drop_reason"] is None for row in group),
        )
        for group in groups
    ]


def _plain(
    source: PageSource, key: LaneKey, lane: RunLane, cells: Iterable[Row], buckets: Sequence[str]
) -> dict[str, Any]:
    """Return a lane as the script draws it: cells are cell, bucket, time, cell, bucket, time …"""
    number = {bucket: at for at, bucket in enumerate(buckets)}
    kept: list[int] = []
    outside: list[int] = []
    for row in cells:
        if (row["trace_id"], row["device"]) == key:
            (kept if row["kept"] else outside).extend((row["cell"], number[row["bucket"]], row["dur_ns"]))
    boxes: list[int] = []
    for step in lane.steps:
        name = f"step {step.name}" + ("" if step.kept else ", not counted")
        token = TOKENS.index("slice-other" if step.kept else "slice-os")
        boxes += [0, step.start, step.end - step.start, source.names.number(name), token, 0]
    return {
        "label": shown_name(lane.label, 64),
        "note": "",
        "rows": 1 if boxes else 0,
        "boxes": boxes,
        "trace": key[0],
        "cells": kept,
        "outside": outside,
    }


def _index(source: PageSource, frame: TimeFrame, lanes: Sequence[LaneKey]) -> list[dict[str, Any]]:
    """Return names with what they take, those with most time with where they run as long as there is room.

    Work on a device is `on` its lane, what the host does on those of its trace. A place is the number of a
    lane or trace, its first cell, and a digit for each cell from there on: 9 is all of it, 0 nothing.
    """
    names = source.rows("timeline_names", [min(MOST_NAMES, source.limits.rows)])
    kinds_and_names = [[row["kind"] for row in names], [row["name"] for row in names]]
    levels: dict[tuple[str, str], dict[LaneKey, dict[int, int]]] = {}
    each_ns = frame.cell_ns * CELLS_EACH
    count = -(-frame.cell_count // CELLS_EACH)
    for row in source.rows("timeline_places", [*frame.parameters(CELLS_EACH), *kinds_and_names]):
        if row["cell"] < count:
            lane = levels.setdefault((row["kind"], row["name"]), {}).setdefault((row["trace_id"], row["device"]), {})
            lane[row["cell"]] = min(max(-(-LEVELS * row["dur_ns"] // each_ns), 1), LEVELS)
    index: list[dict[str, Any]] = []
    room = PLACES_LETTERS
    for row in names:
        on_device = row["kind"] in ("kernel", "GPU work")
        places: list[tuple[int, int, str]] = [
            (
                lanes.index(key) if on_device else key[0],
                min(cells),
                "".join(str(cells.get(cell, 0)) for cell in range(min(cells), max(cells) + 1)),
            )
            for key, cells in levels.get((row["kind"], row["name"]), {}).items()
            if not on_device or key in lanes
        ]
        letters = sum(len(digits) for _, _, digits in places)
        room -= letters
        index.append(
            {
                "name": source.names.number(shown_name(row["name"], NAME_LETTERS)),
                "kind": row["kind"],
                "count": row["call_count"],
                "ns": row["sum_ns"],
                "on": "lane" if on_device else "trace",
                "places": places if room >= 0 else [],
            }
        )
    return index


def _start(source: PageSource, frame: TimeFrame) -> int | None:
    """Return where the timeline begins in the trace; None: it has several."""
    if len(frame.zeros) > 1:
        return None
    ((trace, zero),) = frame.zeros.items()
    first_ns = next(row["first_ns"] for row in source.rows("run_traces") if row["trace_id"] == trace)
    return None if first_ns is None else zero - int(first_ns)


def _note(source: PageSource, lanes: Sequence[Row], frame: TimeFrame, clocks: Mapping[int, int]) -> str:
    on_host = lanes[0]["device"] is None
    what = "the thread that runs the steps" if on_host else f"from the first to the last {source.noun} work"
    note = f"{what}; a column is {duration(frame.cell_ns)}; what lies outside the analyzed time is pale"
    if len(frame.zeros) > 1 and frame.zeros.keys() <= clocks.keys():
        note += "; all ranks are on one clock, by the ends of their collectives"
    elif len(frame.zeros) > 1:
        again = is_recorded_again(source.diagnosis)
        all_, why = ("all recordings", "for comparison") if again else ("all ranks", "as their clocks differ")
        note += f"; the analyzed time of {all_} begins at one place, {why}"
    return note
