"""What operators reach against the data sheet: a roofline of the slowest device, and a table of what is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.report.charts import svg
from traceanalyzer.report.diagnosis_blocks.ledgers import alike, group_place
from traceanalyzer.report.html.document import Part, filled, shown_name
from traceanalyzer.report.html.sections.tables import PageColumn, table_markup
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, duration, limit_words, listed, percent

HEIGHT = 340
FOOT_PX = 40
TOP_PX = 20
RIGHT_PX = 4
MOST_NAMED = 8
LEAST_RADIUS, MOST_RADIUS = 3.0, 13.0
_NAME_SIZE = 12
_TICK_PX = 20
_LEAST_DECADES = 2
# Room behind the largest value of an axis.
_AROUND = 1.8
# Roof → token of the palette: what memory limits waits for bytes.
_TOKENS = {"compute": "compute", "memory": "dev-h2d"}
_Scale = Callable[[float], float]
_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class RooflinePoint:
    """An operator: operations for each byte, what it reaches, and its share of the time of all that are drawn."""

    name: str
    flops_per_byte: float
    tflops: float
    share: float
    roof: str  # compute or memory
    tooltip: str  # what shows where it is pointed at


@dataclass(frozen=True)
class Roof:
    """The most that a device computes in a precision."""

    name: str
    tflops: float


def roofline(
    points: Sequence[RooflinePoint], roofs: Sequence[Roof], memory_gb_per_s: float, says: str, *, width: int = svg.WIDE
) -> svg.Svg:
    """Return the operators under the roofs, both axes in powers of ten; the area of a mark is its share of the time.

    Circles are operators below the roof of compute, squares those below the roof of memory.
    """
    left = 76 if width == svg.WIDE else 56
    ridges = [roof.tflops * 1000 / memory_gb_per_s for roof in roofs]
    xs = [point.flops_per_byte for point in points] + ridges
    ys = [point.tflops for point in points] + [roof.tflops for roof in roofs]
    first_x, last_x = _range(xs)
    first_y, last_y = _range(ys)

    def x(value: float) -> float:
        return left + (math.log10(value) - first_x) / (last_x - first_x) * (width - RIGHT_PX - left)

    def y(value: float) -> float:
        return TOP_PX + (last_y - math.log10(value)) / (last_y - first_y) * (HEIGHT - TOP_PX - FOOT_PX)

    shapes = _axes(x, y, (first_x, last_x), (first_y, last_y), left, width)
    names: list[str] = []
    taken: list[_Box] = []
    for roof in sorted(roofs, key=lambda roof: roof.tflops):
        ridge = max(roof.tflops * 1000 / memory_gb_per_s, 10.0**first_x)
        height = y(roof.tflops)
        shapes.append(svg.line(x(ridge), height, width - RIGHT_PX, height, tone="bad"))
        label = f"{roof.name} {roof.tflops:,.0f} TFLOP/s"
        names.append(svg.words(width - RIGHT_PX - 4, height - 5, label, anchor="end", size=_NAME_SIZE))
        taken.append((width - RIGHT_PX - 4 - svg.words_px(label, _NAME_SIZE), height - 16, float(width), height))
    top = max((roof.tflops for roof in roofs), default=10.0**last_y)
    start = max(10.0**first_x, 10.0**first_y * 1000 / memory_gb_per_s)
    end = min(top * 1000 / memory_gb_per_s, 10.0**last_x)
    if start < end:
        low, high = y(start * memory_gb_per_s / 1000), y(end * memory_gb_per_s / 1000)
        shapes.append(svg.line(x(start), low, x(end), high, tone="text", dashed=True))
    shapes += [*_marks(points, x, y, width, taken), _halo(names)]
    return svg.drawing(width, HEIGHT, says, shapes)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the exponents of ten between which an axis shows these values."""
    first, last = math.floor(math.log10(min(values))), math.log10(max(values) * _AROUND)
    return first, max(last, first + _LEAST_DECADES)


def _axes(
    x: _Scale, y: _Scale, across: tuple[float, float], up: tuple[float, float], left: int, width: int
) -> list[str]:
    shapes = []
    for power in range(math.ceil(across[0]), math.floor(across[1]) + 1):
        at = x(10.0**power)
        shapes.append(svg.line(at, TOP_PX, at, HEIGHT - FOOT_PX))
        anchor = "end" if at > width - _TICK_PX else "middle"
        shapes.append(svg.words(at, HEIGHT - FOOT_PX + 15, f"{10.0**power:,g}", tone="dim", anchor=anchor, size=11))
    for power in range(math.ceil(up[0]), math.floor(up[1]) + 1):
        at = y(10.0**power)
        shapes.append(svg.line(left, at, width - RIGHT_PX, at))
        shapes.append(svg.words(left - 6, at + 4, f"{10.0**power:,g}", tone="dim", anchor="end", size=11))
    middle = (left + width - RIGHT_PX) / 2
    shapes.append(
        svg.words(
            middle, HEIGHT - 6, "operations for each byte that has to be moved", tone="dim", anchor="middle", size=12
        )
    )
    return [*shapes, svg.words(0, 10, "TFLOP/s", tone="dim", size=11)]


def _marks(points: Sequence[RooflinePoint], x: _Scale, y: _Scale, width: int, taken: Sequence[_Box]) -> list[str]:
    """Draw the marks, small ones above large ones, and name the largest of each operator where there is room."""
    boxes: list[_Box] = []
    shapes, names = [], []
    for point in points:
        at_x, at_y = x(point.flops_per_byte), y(point.tflops)
        radius = LEAST_RADIUS + (MOST_RADIUS - LEAST_RADIUS) * math.sqrt(point.share)
        shapes.append(_mark(point, at_x, at_y, radius))
        boxes.append((at_x - radius, at_y - radius, at_x + radius, at_y + radius))
    named: set[str] = set()
    marks = tuple(boxes)
    boxes += taken
    for point, (x1, y1, x2, y2) in zip(points, marks, strict=True):
        if point.name in named or len(named) == MOST_NAMED:
            continue
        room, middle = svg.words_px(point.name, _NAME_SIZE), (y1 + y2) / 2
        for start, foot in ((x2 + 4, middle + 4), (x1 - 4 - room, middle + 4), (x1, y1 - 4), (x1, y2 + 13)):
            box = (start, foot - 10, start + room, foot + 2)
            inside = start > 0 and start + room < width and foot - 10 > TOP_PX and foot < HEIGHT - FOOT_PX
            if inside and not any(_meet(box, other) for other in boxes):
                boxes.append(box)
                named.add(point.name)
                names.append(svg.words(start, foot, point.name, size=_NAME_SIZE))
                break
    return [*shapes, _halo(names)]


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _halo(names: Sequence[str]) -> str:
    """Put words on a rim of the ground, so that lines and marks do not run through them."""
    return (
        f'<g class="halo" stroke="{svg.GROUND["ground"][0]}" stroke-width="3" paint-order="stroke">{"".join(names)}</g>'
    )


def _mark(point: RooflinePoint, x: float, y: float, radius: float) -> str:
    token = _TOKENS[point.roof]
    look = (
        f'class="f-{token}" fill="{svg.FILLS[token][0]}" fill-opacity=".75" '
        f'stroke="{svg.OUTLINES[svg.family_of(token)][0]}" stroke-width=".8"'
    )
    title = f"<title>{svg.escaped(point.tooltip)}</title>"
    if point.roof == "compute":
        return f'<circle {look} cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{title}</circle>'
    side = radius * math.sqrt(math.pi)
    box = f'x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}"'
    return f"<rect {look} {box}>{title}</rect>"


MOST_POINTS = 80
# Fewer are no picture.
LEAST_POINTS = 3
# An operator with less of the time of all of them is not drawn.
LEAST_SHARE = 0.001
_COLUMNS = (
    PageColumn("operator", "operator", "name", letters=29),
    PageColumn("input shapes", "input_shapes", "name"),
    PageColumn("calls", "call_count", "count"),
    PageColumn("total", "dur_ns", "time"),
    PageColumn("headroom", "headroom_ns", "time"),
    PageColumn("of the roof", "floor_share", "share"),
    PageColumn("limited by", "limit", "text"),
    PageColumn("TFLOP/s", "tflops", "number"),
    PageColumn("bytes, at least", "bytes_per_s", "rate"),
    PageColumn("note", "note", "text"),
)
_OVER = "over the roof"
_NOTES = {"cache": "in cache", "suspect": _OVER}
_PRECISIONS = {"fp64": "FP64", "fp32": "FP32", "tf32": "TF32", "half": "FP16 or BF16", "fp8": "FP8", "int8": "INT8"}


def section(source: PageSource) -> Part | None:
    """Return the modelled operators of the slowest device; none where shapes or the device's peaks are unknown."""
    if not source.diagnosis.ledgers:
        return None
    group = alike(source.diagnosis.ledgers)[0]
    trace = next((row for row in source.rows("run_traces") if row["trace"] == group.worst.trace), None)
    if trace is None:
        return None
    keys = [trace["trace_id"], group.worst.device]
    roofs = source.rows("roofs", keys)
    rows = [row for row in source.rows("roofline", keys) if row["floor_share"] is not None]
    if not roofs or not rows:
        return None
    known_share = source.rows("modelled_share", keys)[0]["share"]
    memory = roofs[0]["memory_gb_per_s"]
    note = f"of the whole trace; operators of known operations and bytes take {percent(known_share)} of the GPU time"
    note += f"; by the data sheet of {roofs[0]['name']}: {memory:,.0f} GB/s"
    if len(source.diagnosis.ledgers) > 1:
        note = f"{group_place(group, source.diagnosis.ledgers)}: {note}"
    values = {**_drawings(rows, roofs, memory), "table": _table(source, rows)}
    return Part("roofline", "Roofline", filled("roofline.html", values), "Roofline", note)


def _table(source: PageSource, rows: list[dict[str, Any]]) -> str:
    """Return the operators by the time above their roof."""
    ordered = sorted(rows, key=lambda row: -row["headroom_ns"])
    shown = [
        {**row, **_roof_words(row), "limit": limit_words(row["limited_by"]) if row["limited_by"] else None}
        for row in ordered[: source.limits.rows]
    ]
    rest = len(rows) - len(shown)
    more = f"{counted(rest, 'more row')}, each with less headroom" if rest else ""
    columns = [column for column in _COLUMNS if any(row[column.key] is not None for row in shown)]
    longest = min(source.limits.name_letters, 512)
    return table_markup("t-roofline", "Operators against the roof", columns, shown, more=more, longest=longest)


def _roof_words(row: dict[str, Any]) -> dict[str, Any]:
    """Say of an operator that some or all of its calls took less time than the data sheet allows.

    Of one above its roof, the note stands instead of a headroom below nothing and of more than all of the roof.
    """
    note = _NOTES.get(row["status"])
    if row["floor_share"] <= 1:
        return {"note": f"some {note}" if note else None}
    return {"note": note or _OVER, "floor_share": None, "headroom_ns": None}


def _drawings(rows: list[dict[str, Any]], roofs: list[dict[str, Any]], memory: float) -> dict[str, Any]:
    placed = [row for row in rows if row["tflops"] and row["flops_per_byte"]]
    least_ns = LEAST_SHARE * sum(row["dur_ns"] for row in placed)
    drawn = [row for row in placed if row["dur_ns"] >= least_ns][:MOST_POINTS]
    if len(drawn) < LEAST_POINTS:
        return {"wide": "", "narrow": "", "caption": ""}
    whole = sum(row["dur_ns"] for row in drawn)
    points = [_point(row, whole) for row in drawn]
    lines = [
        Roof(_PRECISIONS.get(roof["precision"], roof["precision"]), roof["peak_tflops"])
        for roof in roofs
        if roof["peak_tflops"]
    ]
    named = listed([f"{point.name} {point.tooltip.partition(': ')[2]}" for point in points[:3]])
    says = f"Roofline of {counted(len(points), 'operator')}. Most time: {named}."
    caption = (
        "Each mark is an operator with its input shapes; its area is its time. The roof of circles is compute (red "
    )
    caption += "lines), that of squares is memory (dotted line)."
    if len(rows) > len(placed):
        caption += f" Not drawn: {counted(len(rows) - len(placed), 'operator')} that only move data."
    return {
        "wide": roofline(points, lines, memory, says, width=svg.WIDE),
        "narrow": roofline(points, lines, memory, says, width=svg.NARROW),
        "caption": caption,
    }


def _point(row: dict[str, Any], whole_ns: int) -> RooflinePoint:
    name = shown_name(row["operator"], 40)
    share = f"{percent(row['floor_share'])} of the roof" if row["floor_share"] <= 1 else _roof_words(row)["note"]
    tooltip = f"{name}: {row['tflops']:,.1f} TFLOP/s, {share}, {duration(row['dur_ns'])}"
    roof = row["roof"] or "memory"
    return RooflinePoint(name, row["flops_per_byte"], row["tflops"], row["dur_ns"] / whole_ns, roof, tooltip)
