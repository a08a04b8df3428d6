"""The scans of a run's devices, by their number, and what is asked of many of them at once.

Each question needs the scans of its devices and nothing of the others, so that any process that can read them answers
it as well as this one (`opening.screening`).

Scans of a run's devices, each read when it is asked: the events of many ranks take more memory than there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from traceanalyzer.attribution.arrow_columns import column
from traceanalyzer.attribution.buckets import Ints
from traceanalyzer.attribution.replay.device_bounds import ScanFacts, WindowSaving, whole_savings, window_savings
from traceanalyzer.attribution.replay.kernel import DevicePart, DeviceReplay, Points, replay
from traceanalyzer.attribution.replay.scan import Scan, WhatIf
from traceanalyzer.attribution.replay.sync_points import Arrivals, Arrived, arrivals, contract

Place = tuple[int, int]  # trace_id, device

# Events of the scans that are kept for the next question: 540 bytes each.
_KEPT_EVENTS = 500_000
# Folders whose files are kept open.
_OPEN_FOLDERS = 16
_TABLES = ("lead_events", "lead_costs", "lead_needs")


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
    """The scans of devices whose rows lie in Parquet files; those that were used last are kept."""

    def __init__(self, folder_of: Callable[[int], Path], kept_events: int = _KEPT_EVENTS) -> None:
        """Take what returns the folder with the tables of a trace, which other traces may share."""
        self._folder_of = folder_of
        self._most_kept = kept_events
        self._files: dict[Path, tuple[_RowsOfTraces, ...]] = {}
        self._kept: dict[Place, Scan] = {}
        self._kept_events = 0
        self._lock = Lock()  # a worker may have several threads

    def scan(self, place: Place, window: Mapping[str, Any]) -> Scan:
        """Return the scan of a device, whose row of the table `windows` is given."""
        with self._lock:
            scan = self._kept.pop(place, None)
            if scan is None:
                tables = [file.of(place[0]) for file in self._tables(place[0])]
                scan = scan_of(window, *(by_device(table).get(place, table[:0]) for table in tables))
                self._kept_events += scan.events.count
            self._kept[place] = scan  # the last one used
            while self._kept_events > self._most_kept and len(self._kept) > 1:
                self._kept_events -= self._kept.pop(next(iter(self._kept))).events.count
            return scan

    def event_count(self, trace_id: int) -> int:
        """Return how many events the scans of a trace have, and those of traces that share their rows' groups."""
        with self._lock:
            return self._tables(trace_id)[0].count(trace_id)

    def _tables(self, trace_id: int) -> tuple[_RowsOfTraces, ...]:
        folder = self._folder_of(trace_id)
        files = self._files.pop(folder, None)
        if files is None:
            files = tuple(_RowsOfTraces(pq.ParquetFile(folder / f"{name}.parquet")) for name in _TABLES)
        self._files[folder] = files  # the last one used
        if len(self._files) > _OPEN_FOLDERS:
            for file in self._files.pop(next(iter(self._files))):
                file.close()
        return files


class _RowsOfTraces:
    """A Parquet file with rows of several traces, in their order: what one of them has is read by its groups of rows.

    The file is parsed once: of a thousand traces, that takes longer than the rows of one.
    """

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        metadata = file.metadata
        at = metadata.schema.names.index("trace_id")
        self._groups: dict[int, list[int]] = {}
        for number in range(metadata.num_row_groups):
            found = metadata.row_group(number).column(at).statistics
            first, last = (None, None) if found is None or not found.has_min_max else (found.min, found.max)
            if first is not None and last is not None:
                for trace_id in range(first, last + 1):
                    self._groups.setdefault(trace_id, []).append(number)

    def close(self) -> None:
        self._file.close()

    def of(self, trace_id: int) -> pa.Table:
        """Return the rows of a trace, and of those in the same groups."""
        return self._file.read_row_groups(self._groups.get(trace_id, []), use_threads=False)

    def count(self, trace_id: int) -> int:
        groups = self._groups.get(trace_id, ())
        return sum(self._file.metadata.row_group(number).num_rows for number in groups)


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


class Asked(NamedTuple):
    """What is asked of one scan: the what-ifs there, and the positions of its sync points, where they matter."""

    scan: int
    what_ifs: Sequence[WhatIf] = ()
    positions: Sequence[int] = ()


class RankScans:
    """Answers questions about many scans in this process: one after the other, or many at once."""

    def __init__(self, scan_of: Callable[[int], Scan], window_of: Callable[[int], Mapping[str, Any]]) -> None:
        """Take what returns the scan of a device, by its number, and its row of the table `windows`."""
        self.scan_of = scan_of
        self.window_of = window_of

    def at_worst(self, uncertainty: str) -> RankScans:
        """Return the scans if an uncertainty turns out against fixes."""
        return RankScans(lambda number: self.scan_of(number).at_worst(uncertainty), self.window_of)

    def facts(self, asked: Sequence[Asked]) -> Iterator[ScanFacts]:
        """Return what is asked again and again of each scan."""
        for item in asked:
            yield ScanFacts.of_scan(self.scan_of(item.scan), self.window_of(item.scan))

    def savings(self, asked: Sequence[Asked]) -> Iterator[list[WindowSaving]]:
        """Return what the what-ifs save of each device's window, if nothing changes elsewhere."""
        for item in asked:
            yield window_savings(self.scan_of(item.scan), self.window_of(item.scan), item.what_ifs)

    def taken(self, asked: Sequence[Asked]) -> Iterator[list[int]]:
        """Return how many ns of host and ops the what-ifs take out of each device's window."""
        for item in asked:
            scan = self.scan_of(item.scan)
            yield [scan.taken_ns(scan.changes(what_if)) for what_if in item.what_ifs]

    def contract(self, asked: Sequence[Asked]) -> Iterator[Arrivals]:
        """Return the reduced rank of each scan that is asked."""
        for item in asked:
            yield contract(self._part(item))

    def arrivals(self, asked: Sequence[Asked], leads: Sequence[Ints]) -> Iterator[Arrived]:
        """Return how each scan that is asked arrives at its sync points, given the leads of these."""
        for item, left in zip(asked, leads, strict=True):
            yield arrivals(self._part(item), left)

    def whole_savings(self, asked: Sequence[Asked], leads: Sequence[Ints]) -> Iterator[list[int]]:
        """Return what each device's window, which is all of its scan, loses, given the leads of its sync points."""
        for item, left in zip(asked, leads, strict=True):
            scan, window = self.scan_of(item.scan), self.window_of(item.scan)
            saved: list[int] = []
            for what_if, given in zip(item.what_ifs, np.ascontiguousarray(left.T), strict=True):
                device = DeviceReplay(scan.events, scan.changes(what_if))
                replay([device], Points.of_positions(item.positions, given))
                saved += whole_savings(scan, window, device.ends[:, None], [what_if])
            yield saved

    def _part(self, item: Asked) -> DevicePart:
        scan = self.scan_of(item.scan)
        return DevicePart(scan.events, item.positions, [scan.changes(what_if) for what_if in item.what_ifs])


def scans_in(stored: StoredScans, windows: Sequence[Mapping[str, Any]]) -> RankScans:
    """Return the stored scans of the devices that have these rows of `windows`."""
    return RankScans(partial(_stored_scan, stored, windows), windows.__getitem__)


def _stored_scan(stored: StoredScans, windows: Sequence[Mapping[str, Any]], number: int) -> Scan:
    window = windows[number]
    return stored.scan((window["trace_id"], window["device"]), window)
