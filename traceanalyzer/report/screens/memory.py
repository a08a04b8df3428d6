"""The memory of a run, as blocks or as JSON: its peaks, what held it then, and what was left by each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

import duckdb

from traceanalyzer.process import dicts_of
from traceanalyzer.report.blocks import Code, Heading, Paragraph, Section, Table, Text
from traceanalyzer.text import visible
from traceanalyzer.text.words import counted, name_words, percent, size

MOST_HOLDERS = 15
MOST_GROWING = 10
_PEAKS = """
SELECT trace, rank, device, step, peak_bytes, peak_reserved_bytes, before_bytes, after_bytes, peak_change_bytes
FROM memory_peaks
WHERE place = 'device'
ORDER BY trace_id, device, step NULLS FIRST
"""
_HOLDERS = f"""
SELECT live_bytes, live_share, alloc_count, category, operator, module
FROM memory_at_peak
WHERE trace = $trace
  AND device = $device
ORDER BY live_bytes DESC, category, operator, module
LIMIT {MOST_HOLDERS}
"""
_GROWING = f"""
SELECT
    trace, rank, device, operator, module,
    sum(left_bytes) AS left_bytes,
    max(steps_in_row) AS steps_in_row
FROM memory_growth
WHERE place = 'device'
  AND is_suspected
GROUP BY ALL
ORDER BY left_bytes DESC, trace, device, operator, module
LIMIT {MOST_GROWING}
"""
Row = dict[str, Any]


@dataclass(frozen=True)
class MemoryOfRun:
    """Rows of the memory metrics, in bytes; empty where no allocations on devices were recorded."""

    peaks: tuple[Row, ...]  # one a device, over all events, the largest first
    steps: tuple[Row, ...]  # one a step, of the first of these devices
    holders: tuple[Row, ...]  # what was alive at that device's peak
    growing: tuple[Row, ...]  # what several steps in a row left behind, on any device


def memory_of_run(connection: duckdb.DuckDBPyConnection) -> MemoryOfRun:
    """Return what the metrics memory_peaks, memory_at_peak and memory_growth say of a run."""
    rows = dicts_of(connection.execute(_PEAKS))
    peaks = [row for row in rows if row["step"] is None]
    peaks.sort(key=lambda row: row["peak_bytes"] or row["peak_change_bytes"] or 0, reverse=True)
    if not peaks:
        return MemoryOfRun((), (), (), ())
    place = {"trace": peaks[0]["trace"], "device": peaks[0]["device"]}
    steps = [row for row in rows if row["step"] is not None and place.items() <= row.items()]
    holders, growing = (dicts_of(connection.execute(*query)) for query in ((_HOLDERS, place), (_GROWING,)))
    return MemoryOfRun(tuple(peaks), tuple(steps), tuple(holders), tuple(growing))


SCHEMA_VERSION = 1
MOST_DEVICES = 8
MOST_STEPS = 10
STEPS_OF_A_LEAK = 3  # as in memory_growth

# Columns of the metrics → their words on a screen, and how a value is written.
_Columns = dict[str, tuple[str, Callable[[Any], str]]]
_PLACE: _Columns = {
    "trace": ("trace", name_words),
    "rank": ("rank", str),
    "device": ("device", lambda device: "unknown" if device is None else str(device)),
}
_PEAK: _Columns = {
    "peak_bytes": ("in use at most", size),
    "peak_reserved_bytes": ("reserved", size),
    "before_bytes": ("at the start", size),
    "peak_change_bytes": ("added at most", size),
    "after_bytes": ("at the end", size),
}
_STEP: _Columns = {"step": ("step", str)}
_MAKER: _Columns = {"operator": ("operator", name_words), "module": ("module", name_words)}
_HELD: _Columns = {
    "live_bytes": ("memory", size),
    "live_share": ("share", percent),
    "alloc_count": ("allocations", str),
    "category": ("kind", str),
}
_LEFT: _Columns = {"left_bytes": ("left", size), "steps_in_row": ("steps in a row", str)}


def sections(memory: MemoryOfRun, run: str) -> list[Section]:
    """Return the peaks, what was alive at the largest, and what grows."""
    head = Heading(run, (Text("memory of the devices"),))
    if not memory.peaks:
        nothing = "No allocations on devices were recorded. A profiler records them where it is asked to:"
        commands = ("nsys profile --cuda-memory-usage=true …", "rocprofv3 --memory-allocation-trace …")
        code = Code("\n".join(("torch.profiler.profile(profile_memory=True)", *commands)))
        return [Section((head, Paragraph(nothing, role="caution"), code))]
    opening = Section((head, Paragraph(_in_words(memory.peaks[0], several=len(memory.peaks) > 1))))
    tables = []
    if len(memory.peaks) > 1:
        tables.append(_table("Devices", _PLACE | _PEAK, memory.peaks, MOST_DEVICES))
    if len(memory.steps) > 1:
        tables.append(_table("Steps", _STEP | _PEAK, memory.steps, MOST_STEPS))
    if memory.holders:
        tables.append(_table("Alive at the peak", _HELD | _MAKER, memory.holders, len(memory.holders)))
    if memory.growing:
        tables.append(_table("Left behind in step after step", _LEFT | _PLACE | _MAKER, memory.growing, MOST_STEPS))
    note = "memory_peaks, memory_at_peak and memory_growth have these numbers: `traceanalyzer metrics show NAME`."
    closing = Section((Paragraph(_growth(memory)), Paragraph(note, role="dim")))
    return [opening, *(Section((table,)) for table in tables), closing]


def write_json(memory: MemoryOfRun, run: str, stream: TextIO) -> None:
    visible.write_json({"schema_version": SCHEMA_VERSION, "run": run, **asdict(memory)}, stream)


def _in_words(peak: dict[str, Any], *, several: bool) -> str:
    device = "A device that was not recorded" if peak["device"] is None else f"Device {peak['device']}"
    where = device + (f" of {visible.visible(peak['trace'])}" if several else "")
    if peak["peak_bytes"] is None:
        return (
            f"{where} took {size(peak['peak_change_bytes'])} more than was in use when the recording began; the trace "
            "has no totals."
        )
    reserved = peak["peak_reserved_bytes"]
    held = "" if reserved is None else f", with {size(reserved)} reserved"
    older = peak["before_bytes"]
    before = f" {size(older)} of it was there before the first event." if older else ""
    return f"{where} had {size(peak['peak_bytes'])} in use at most{held}.{before}"


def _growth(memory: MemoryOfRun) -> str:
    if memory.growing:
        return "What several steps in a row leave behind may be a leak: look at what keeps it."
    if len(memory.steps) < STEPS_OF_A_LEAK or not memory.holders:
        return "Whether memory grows takes three steps with the addresses of allocations; the trace has less."
    return "Nothing grows: no operator left memory behind in three steps in a row."


def _table(title: str, shown: _Columns, rows: Sequence[dict[str, Any]], most: int) -> Table:
    """Return the columns in which some row has a value; what is cut is said in the title."""
    names = [name for name in shown if any(row[name] is not None for row in rows)]
    cells = tuple(
        tuple("–" if row[name] is None else shown[name][1](row[name]) for name in names) for row in rows[:most]
    )
    cut = f" (the first {most} of {counted(len(rows), 'row')})" if len(rows) > most else ""
    right = frozenset(i for i, name in enumerate(names) if not any(isinstance(row[name], str) for row in rows))
    return Table(tuple(shown[name][0] for name in names), cells, right=right, title=title + cut)
