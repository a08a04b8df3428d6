"""The memory of a device over time: what is in use filled, what the allocator holds dashed, what there is red."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from traceanalyzer.report.charts.svg import WIDE, Svg, drawing, line, words
from traceanalyzer.text.words import duration, size

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
    points: Sequence[MemoryPoint],
    length_ns: int,
    limit_bytes: int | None,
    says: str,
    *,
    width: int = WIDE,
    alone: bool = False,
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
    return drawing(width, HEIGHT, says, shapes, alone=alone)


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
