"""Scans of a run's devices, each read when it is asked: the events of many ranks take more memory than there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import duckdb
import pyarrow as pa

from traceanalyzer.attribution.lead_scan.contracted_run import Calls
from traceanalyzer.attribution.lead_scan.scan import LOADER_WORKERS, STREAM_WAITS, Scan

# Scans that are kept for the next question: 540 bytes an event.
_KEPT_EVENTS = 500_000
_OF_DEVICE = "SELECT * FROM attribution.{table} WHERE trace_id = $trace_id AND device = $device ORDER BY position"


@dataclass(frozen=True)
class ScanFacts:
    """What is asked of a device's scan again and again, so that it need not be read for it."""

    causes: frozenset[str]
    event_count: int
    calls: Calls
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
        return cls(
            scan.causes(),
            scan.events.count,
            Calls.of_scan(scan),
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

    def __init__(self, con: duckdb.DuckDBPyConnection, windows: Mapping[tuple[int, int], Mapping[str, Any]]) -> None:
        """Take the rows of the table `windows` by trace and device."""
        self.windows = windows
        self._con = con
        self._kept: dict[tuple[int, int], Scan] = {}
        self._kept_events = 0

    def scan(self, place: tuple[int, int]) -> Scan:
        """Return the scan of a device."""
        scan = self._kept.pop(place, None)
        if scan is None:
            scan = scan_of(self.windows[place], *(self._rows(place, name) for name in _TABLES))
            self._kept_events += scan.events.count
        self._kept[place] = scan
        while self._kept_events > _KEPT_EVENTS and len(self._kept) > 1:
            self._kept_events -= self._kept.pop(next(iter(self._kept))).events.count
        return scan

    def facts(self, place: tuple[int, int]) -> ScanFacts:
        """Return the facts of a device's scan."""
        return ScanFacts.of_scan(self.scan(place), self.windows[place])

    def _rows(self, place: tuple[int, int], table: str) -> pa.Table:
        query = _OF_DEVICE.format(table=table)
        rows: pa.Table = self._con.sql(query, params={"trace_id": place[0], "device": place[1]}).to_arrow_table()
        return rows


_TABLES = ("lead_events", "lead_costs", "lead_needs")
