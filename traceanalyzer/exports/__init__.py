"""A run as a file for other programs: one module a format, each with a function that writes to an open file.

Here is which part of a run an export holds: its traces, and a window of their time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import Run
from traceanalyzer.store.inputs import StoredTrace

# Times before 2001 count from the start of a machine or a recording.
_SINCE_EPOCH_NS = 10**18
_SINCE_BOOT = "rocprof"
_WINDOW = re.compile(r"(\d+(?:\.\d{1,6})?)-(\d+(?:\.\d{1,6})?)")


@dataclass(frozen=True)
class TracePart:
    """A trace of a run, its id in the tables, and the times between which its events are wanted; None: all of them."""

    trace: StoredTrace
    trace_id: int
    first_ns: int  # when the trace begins: viewers count from here
    base_ns: int  # added to every time of the file
    window_ns: tuple[int, int] | None = None
    host: str | None = None
    recorder: str | None = None

    def shares_clock_with(self, other: TracePart) -> bool:
        """Return whether times of two traces may be compared: those since the Unix epoch, or of one machine's clock."""
        if min(self.first_ns, other.first_ns) > _SINCE_EPOCH_NS:
            return True
        is_since_boot = max(self.first_ns, other.first_ns) <= _SINCE_EPOCH_NS
        if self.host and other.host:
            return is_since_boot and self.host == other.host
        # AMD's recorders count from the start of the machine, and most of their files do not name it.
        of_amd = _SINCE_BOOT in (self.recorder, other.recorder)
        return is_since_boot and (not of_amd or self.trace.path == other.trace.path)


def rows_of(run: Run, query: str, values: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query as they come, beside what else the connection is asked."""
    with run.connection.cursor() as own:
        result = own.execute(query, values or {})
        while rows := result.fetchmany(10_000):
            yield from rows


def known(**values: Any) -> dict[str, Any]:
    """Return the values that are known, by name."""
    return {name: value for name, value in values.items() if value is not None}


def parts_of(
    run: Run, ranks: Sequence[int] = (), window: str | None = None, step: int | None = None
) -> list[TracePart]:
    """Return the traces of some ranks (all where none is named), with the part of each that is asked for.

    `window` is `A-B`, milliseconds since the trace's start. Raises TraceAnalyzerError for what the run does not hold.
    """
    facts = run.connection.sql("SELECT trace_id, first_ns, base_ns, host, recorder FROM canonical.traces").fetchall()
    starts = {
        trace_id: (first_ns or 0, base_ns or 0, None, host, recorder)
        for trace_id, first_ns, base_ns, host, recorder in facts
    }
    parts = [
        TracePart(trace, trace_id, *starts[trace_id])
        for trace_id, trace in enumerate(run.traces)
        if not ranks or trace.rank in ranks
    ]
    missing = sorted(set(ranks) - {part.trace.rank for part in parts})
    if missing:
        there = ", ".join(sorted({str(trace.rank) for trace in run.traces}))
        raise TraceAnalyzerError(f"rank {missing[0]} is not in the run", "--rank", f"there are {there}")
    if window is not None and step is not None:
        raise TraceAnalyzerError("--window and --step were both given", "export", "give one of them")
    if window is not None:
        return [at_window(part, window) for part in parts]
    return parts if step is None else [_of_step(run, part, step) for part in parts]


def at_window(part: TracePart, window: str, option: str = "--window") -> TracePart:
    """Return the part of a trace in a window `A-B`, milliseconds since its start.

    Raises TraceAnalyzerError for what is no window, with the option that gave it.
    """
    match = _WINDOW.fullmatch(window)
    first, last = (round(float(text) * 1e6) for text in match.groups()) if match else (0, 0)
    if last <= first:
        raise TraceAnalyzerError(f"{window!r} is no window", option, "two times in ms, for example 120.5-180")
    return replace(part, window_ns=(part.first_ns + first, part.first_ns + last))


def _of_step(run: Run, part: TracePart, step: int) -> TracePart:
    query = """
        SELECT min(least(host_start_ns, start_ns)), max(greatest(host_end_ns, end_ns))
        FROM attribution.steps WHERE trace_id = ? AND step = ?
    """
    ((first_ns, last_ns),) = run.connection.execute(query, [part.trace_id, step]).fetchall()
    if first_ns is None:
        known = run.connection.execute(
            "SELECT min(step), max(step) FROM attribution.steps WHERE trace_id = ?", [part.trace_id]
        ).fetchall()[0]
        hint = "the trace has no steps" if known[0] is None else f"its steps are {known[0]} to {known[1]}"
        raise TraceAnalyzerError(f"step {step} is not in {part.trace.trace}", "--step", hint)
    return replace(part, window_ns=(first_ns, last_ns))
