"""The memory of the device that uses most of it: over time, its peak, and what lived then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.report.blocks import Block, Table
from traceanalyzer.report.charts.svg import NARROW, WIDE, Svg, drawing, line, words
from traceanalyzer.report.html.document import Part, blocks_markup, filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, duration, size

HEIGHT = 200
FOOT_PX = 22
LEFT_PX = 72
# A limit this much higher than what is held would flatten the curve.
FAR_LIMIT = 3.0
_Scale = Callable[[float], float]


@dataclass(frozen=True)
class MemoryPoint:
    """A stretch of time: where it begins, the least and most in use in it, and the most held (None: not recorded)."""

    at_ns: int
    least_bytes: int
    most_bytes: int
    reserved_bytes: int | None


def memory_curve(
    points: Sequence[MemoryPoint], length_ns: int, limit_bytes: int | None, says: str, *, width: int = WIDE
) -> Svg:
    """Return the curve over `length_ns`; a limit far above what is held is left out."""
    left = LEFT_PX if width == WIDE else 58
    plot = HEIGHT - FOOT_PX - 22
    held = max([point.most_bytes for point in points] + [point.reserved_bytes or 0 for point in points])
    near = limit_bytes is not None and limit_bytes <= FAR_LIMIT * held
    top = max(held, limit_bytes or 0) if near else held
    top = top or 1

    def x(at_ns: float) -> float:
        return left + at_ns / max(length_ns, 1) * (width - left)

    def y(value: float) -> float:
        return 22 + plot * (1 - value / top)

    shapes: list[str] = []
    for value in _round_sizes(top):
        shapes += [
            line(left, y(value), width, y(value)),
            words(left - 8, y(value) + 4, size(value).replace(".0 ", " "), tone="dim", anchor="end", size=12),
        ]
    upper, lower, held_line = _outline(points, length_ns, x, y)
    shapes.append(
        f'<polygon class="f-compute" points="{upper} {x(length_ns):.1f},{y(0):.1f} {x(0):.1f},{y(0):.1f}" '
        'fill="#2f6fb7" fill-opacity=".35" stroke="none" style="stroke:none"/>'
    )
    shapes.append(f'<polyline class="l-accent" points="{upper}" fill="none" stroke="#1f4f86" stroke-width="1.3"/>')
    shapes.append(f'<polyline class="l-frame" points="{lower}" fill="none" stroke="#7d8694" stroke-opacity=".6"/>')
    if held_line:
        shapes.append(
            f'<polyline class="l-text" points="{held_line}" fill="none" stroke="#14171c" stroke-dasharray="5 3"/>'
        )
    shapes += _labels(points, limit_bytes if near else None, x, y, left, width)
    shapes += [words(left, HEIGHT - 6, "0", tone="dim", size=11)]
    shapes += [words(width, HEIGHT - 6, duration(length_ns), tone="dim", anchor="end", size=11)]
    return drawing(width, HEIGHT, says, shapes)


def _outline(points: Sequence[MemoryPoint], length_ns: int, x: _Scale, y: _Scale) -> tuple[str, str, str]:
    upper, lower, held = [], [], []
    ends = [point.at_ns for point in points[1:]] + [length_ns]
    for point, end in zip(points, ends, strict=True):
        for at in (point.at_ns, end):
            upper.append(f"{x(at):.1f},{y(point.most_bytes):.1f}")
            lower.append(f"{x(at):.1f},{y(point.least_bytes):.1f}")
            if point.reserved_bytes is not None:
                held.append(f"{x(at):.1f},{y(point.reserved_bytes):.1f}")
    return " ".join(upper), " ".join(lower), " ".join(held)


def _labels(points: Sequence[MemoryPoint], limit: int | None, x: _Scale, y: _Scale, left: int, width: int) -> list[str]:
    """Name the curves at the left, centre and right, each above its line and never on another's words."""
    peak = max(points, key=lambda point: (point.most_bytes, -point.at_ns))
    reserved = max((point.reserved_bytes or 0 for point in points), default=0)
    wanted = [(f"peak in use {size(peak.most_bytes)}", y(peak.most_bytes), "accent")]
    wanted += [(f"reserved {size(reserved)}", y(reserved), "text")] if reserved else []
    wanted += [(f"all of the device {size(limit)}", y(limit), "bad")] if limit else []
    shapes = [line(left, y(limit), width, y(limit), tone="bad")] if limit else []
    room = (width - left) / len(wanted)
    for at, (name, height, tone) in enumerate(wanted):
        under = any(0 <= height - other < 16 for _, other, _ in wanted[at + 1 :])
        shapes.append(
            words(left + at * room + 8, height + 14 if under else max(height - 5, 11), name, tone=tone, size=12)
        )
    return shapes


def _round_sizes(top: float) -> list[float]:
    """Return three or so round sizes in binary units."""
    step = 1.0
    while step * 4 < top:
        step *= 2
    return [step * at for at in range(5) if step * at <= top * 1.001]


STRETCHES = 600


def section(source: PageSource) -> Part | None:
    """Return the curve; none where the allocator's events were not recorded."""
    devices = source.rows("memory_devices")
    if not devices:
        return None
    most = devices[0]
    length_ns = max(most["end_ns"] - most["start_ns"], 1)
    stretch_ns = -(-length_ns // STRETCHES)
    keys = [most["trace_id"], most["device"], most["start_ns"], stretch_ns]
    points = [
        MemoryPoint(row["stretch"] * stretch_ns, row["least_bytes"], row["most_bytes"], row["reserved_bytes"])
        for row in source.rows("memory_curve", keys)
    ]
    says = (
        f"Memory over {counted(most['event_count'], 'event')} of the allocator: peak {size(most['peak_bytes'])} in use"
    )
    says += f", {size(most['reserved_bytes'])} reserved" if most["reserved_bytes"] else ""
    says += f", of {size(most['memory_bytes'])}" if most["memory_bytes"] else ""
    limit = most["memory_bytes"]
    drawn = [memory_curve(points, length_ns, limit, says, width=width) for width in (WIDE, NARROW)]
    where = f"rank {most['rank']}, device {most['device']}" if most["rank"] is not None else f"device {most['device']}"
    at_ms = (most["peak_ns"] - most["first_ns"]) / 1e6
    note = f"{where}; peak at {at_ms:,.3f} ms; the lines are the most and the least in use at each point"
    note += f"; {counted(len(devices) - 1, 'other device')} used less" if len(devices) > 1 else ""
    live = source.rows("live_allocations", [most["trace_id"], most["device"], most["peak_ns"]])
    values = {"wide": drawn[0], "narrow": drawn[1], "slowest": blocks_markup(_live(live))}
    return Part("memory", "Device memory", filled("drawings.html", values), "Memory", note)


def _live(rows: list[dict[str, Any]]) -> list[Block]:
    if not rows:
        return []
    cells = tuple(
        (f"{row['live_count']:,} × {size(row['size_bytes'])}", size(row["sum_bytes"]), row["operator"] or "–")
        for row in rows
    )
    title = "Largest allocations that live at the peak, of those made since the trace began"
    return [Table(("blocks", "together", "first made in"), cells, right=frozenset({0, 1}), title=title)]
