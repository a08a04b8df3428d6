"""The memory of the device that uses most of it: over time, its peak, and what lived then."""

from __future__ import annotations

from typing import Any

from traceanalyzer.report.blocks import Block, Table
from traceanalyzer.report.charts.memory_curve import MemoryPoint, memory_curve
from traceanalyzer.report.charts.svg import NARROW, WIDE
from traceanalyzer.report.html.document import Part, blocks_markup, filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, size

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
