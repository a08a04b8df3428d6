"""Scans of a run's devices, each read when it is asked: the events of many ranks take more memory than there is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.lead_scan.meetings import RankCalls
from traceanalyzer.attribution.lead_scan.scan import LOADER_WORKERS, STREAM_WAITS, Scan, WhatIf
from traceanalyzer.attribution.vocabulary.arrow_columns import column

# Scans that are kept for the next question: 540 bytes an event.
_KEPT_EVENTS = 500_000
# Scans that are read at once.
_READ_EVENTS = 100_000
_TABLES = ("lead_events", "lead_costs", "lead_needs")
_COUNTS = "SELECT trace_id, device, count(*) FROM attribution.lead_events GROUP BY trace_id, device"
_OF_TRACES = """
SELECT *
FROM attribution.{table}
WHERE trace_id BETWEEN $first AND $last
ORDER BY trace_id, device, position
"""

Place = tuple[int, int]  # trace_id, device


@dataclass(frozen=True)
class ScanFacts:
    """What is asked of a device's scan again and again, so that it need not be read for it."""

    causes: frozenset[str]
    taken_ns: Mapping[str, int]  # by cause: its time in the window
    event_count: int
    calls: RankCalls
    opens_at: int | None  # position of the first op of the window's steps
    closes_at: int | None  # position of the first op after them
    only_in_window: bool
    waits_for_workers: bool
    uncertainties: frozenset[str]  # what the trace leaves open about it

    @classmethod
    def of_scan(cls, scan: Scan, window: Mapping[str, Any]) -> Self:
        """Return the facts of a scan."""
        opens, closes = (
            None if window[name] is None else scan.position_of.get(window[name])
            for name in ("opening_op_id", "closing_op_id")
        )
        uncertain = {LOADER_WORKERS: scan.has_takes, STREAM_WAITS: bool(scan.possible)}
        causes = scan.causes()
        return cls(
            causes,
            {cause: scan.taken_ns(scan.changes(WhatIf(frozenset({cause})))) for cause in causes},
            scan.events.count,
            RankCalls.of_scan(scan),
            opens,
            closes,
            scan.only_in_window,
            scan.waits_for_workers,
            frozenset(name for name, applies in uncertain.items() if applies),
        )

    @cached_property
    def end_at(self) -> dict[int, int]:
        """The end of each of its collectives and messages, by position."""
        return dict(zip(self.calls.position.tolist(), self.calls.end_ns.tolist(), strict=True))


def scan_of(window: Mapping[str, Any], events: pa.Table, costs: pa.Table, needs: pa.Table) -> Scan:
    """Return the scan of a device, from its rows of the tables."""
    return Scan.of_tables(
        events,
        costs,
        needs,
        None if window["leads_in"] else window["first_op_id"],
        only_in_window=not window["leads_in"] and window["first_op_id"] is None,
    )


class StoredScans:
    """The scans of devices over a connection that has the tables of attribution; the last ones used are kept."""

    def __init__(self, con: duckdb.DuckDBPyConnection, windows: Mapping[Place, Mapping[str, Any]]) -> None:
        """Take the rows of the table `windows` by trace and device."""
        self.windows = windows
        self._con = con
        self._events = {(trace_id, device): count for trace_id, device, count in con.execute(_COUNTS).fetchall()}
        self._places = sorted(windows)
        self._kept: dict[Place, Scan] = {}
        self._kept_events = 0

    def scan(self, place: Place) -> Scan:
        """Return the scan of a device."""
        scan = self._kept.pop(place, None)
        if scan is None:
            self._read_from(place)
            scan = self._kept.pop(place)
        self._kept[place] = scan  # the last one used
        return scan

    def facts(self, place: Place) -> ScanFacts:
        """Return the facts of a device's scan."""
        return ScanFacts.of_scan(self.scan(place), self.windows[place])

    def _read_from(self, first: Place) -> None:
        """Read a device's scan and those that will be asked next: one query takes as long for several of them."""
        places: list[Place] = []
        count = 0
        for place in self._places[bisect_left(self._places, first) :]:
            count += self._events.get(place, 0)
            if places and (count > _READ_EVENTS or place in self._kept):
                break
            places.append(place)
        tables = [self._rows(table, places[0][0], places[-1][0]) for table in _TABLES]
        parts = [by_device(table) for table in tables]
        for place in reversed(places):  # the one that is asked comes last, and is kept longest
            if place not in self._kept:
                rows = (part.get(place, table[:0]) for part, table in zip(parts, tables, strict=True))
                scan = scan_of(self.windows[place], *rows)
                self._kept_events += scan.events.count
                self._kept[place] = scan
        while self._kept_events > _KEPT_EVENTS and len(self._kept) > 1:
            self._kept_events -= self._kept.pop(next(iter(self._kept))).events.count

    def _rows(self, table: str, first_trace: int, last_trace: int) -> pa.Table:
        query = _OF_TRACES.format(table=table)
        rows: pa.Table = self._con.sql(query, params={"first": first_trace, "last": last_trace}).to_arrow_table()
        return rows


def by_device(table: pa.Table) -> dict[Place, pa.Table]:
    """Return the rows of each device, which are contiguous."""
    trace_id, device = column(table, "trace_id"), column(table, "device")
    if not len(trace_id):
        return {}
    first = np.flatnonzero(np.append(True, (np.diff(trace_id) != 0) | (np.diff(device) != 0)))
    table = table.combine_chunks()
    return {
        (int(trace_id[low]), int(device[low])): table.slice(low, high - low)
        for low, high in zip(first.tolist(), [*first[1:].tolist(), len(trace_id)], strict=True)
    }
