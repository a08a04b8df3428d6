"""What removing causes saves on one device, measured at both ends of its analysis window, and the scans of all devices.

Each question needs the scans of its devices and nothing of the others, so that any process that can read them answers
it as well as this one (`pipeline.attributing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution.columns import DeviceKey, Ints, column
from traceanalyzer.attribution.replay.kernel import DevicePart, DeviceReplay, Points, replay, replay_alone
from traceanalyzer.attribution.replay.scan import LOADER_WORKERS, STREAM_WAITS, Scan, WhatIf
from traceanalyzer.attribution.replay.sync_points import Arrived, RankCalls, ReducedCalls, arrivals, reduced

# Events of the scans that are kept for the next question: 540 bytes each.
_KEPT_EVENTS = 500_000
# Folders whose files are kept open.
_OPEN_FOLDERS = 16
_TABLES = ("replay_events", "replay_costs", "replay_needs")


def scan_of(window: Mapping[str, Any], events: pa.Table, costs: pa.Table, needs: pa.Table) -> Scan:
    """Return the scan of a device, from its rows of the tables."""
    return Scan.of_tables(
        events,
        costs,
        needs,
        None if window["runs_in"] else window["first_op_id"],
        only_in_window=not window["runs_in"] and window["first_op_id"] is None,
    )


class StoredScans:
    """The scans of devices whose rows lie in Parquet files; those that were used last are kept."""

    def __init__(self, folder_of: Callable[[int], Path], kept_events: int = _KEPT_EVENTS) -> None:
        """Take what returns the folder with the tables of a trace, which other traces may share."""
        self._folder_of = folder_of
        self._most_kept = kept_events
        self._files: dict[Path, tuple[_RowsOfTraces, ...]] = {}
        self._kept: dict[DeviceKey, Scan] = {}
        self._kept_events = 0
        self._lock = Lock()  # a worker may have several threads

    def scan(self, device_key: DeviceKey, window: Mapping[str, Any]) -> Scan:
        """Return the scan of a device, whose row of the table `windows` is given."""
        with self._lock:
            scan = self._kept.pop(device_key, None)
            if scan is None:
                tables = [file.of(device_key[0]) for file in self._tables(device_key[0])]
                scan = scan_of(window, *(by_device(table).get(device_key, table[:0]) for table in tables))
                self._kept_events += scan.events.count
            self._kept[device_key] = scan  # the last one used
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


def by_device(table: pa.Table) -> dict[DeviceKey, pa.Table]:
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


class ScanQuery(NamedTuple):
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

    def facts(self, queries: Sequence[ScanQuery]) -> Iterator[ScanFacts]:
        """Return what is asked again and again of each scan."""
        for item in queries:
            yield ScanFacts.of_scan(self.scan_of(item.scan), self.window_of(item.scan))

    def savings(self, queries: Sequence[ScanQuery]) -> Iterator[list[int]]:
        """Return what the what-ifs save of each device's window, if nothing changes elsewhere."""
        for item in queries:
            yield window_savings(self.scan_of(item.scan), self.window_of(item.scan), item.what_ifs)

    def taken(self, queries: Sequence[ScanQuery]) -> Iterator[list[int]]:
        """Return how many ns of host and ops the what-ifs take out of each device's window."""
        for item in queries:
            scan = self.scan_of(item.scan)
            yield [scan.taken_ns(scan.changes(what_if)) for what_if in item.what_ifs]

    def reduce_scans(self, queries: Sequence[ScanQuery]) -> Iterator[ReducedCalls]:
        """Return the reduced rank of each scan that is asked."""
        for item in queries:
            yield reduced(self._part(item))

    def arrivals(self, queries: Sequence[ScanQuery], shifts: Sequence[Ints]) -> Iterator[Arrived]:
        """Return how each scan that is asked arrives at its sync points, given the shifts of these."""
        for item, left in zip(queries, shifts, strict=True):
            yield arrivals(self._part(item), left)

    def whole_savings(self, queries: Sequence[ScanQuery], shifts: Sequence[Ints]) -> Iterator[list[int]]:
        """Return what each device's window, which is all of its scan, loses, given the shifts of its sync points."""
        for item, left in zip(queries, shifts, strict=True):
            scan, window = self.scan_of(item.scan), self.window_of(item.scan)
            saved: list[int] = []
            for what_if, given in zip(item.what_ifs, np.ascontiguousarray(left.T), strict=True):
                device = DeviceReplay(scan.events, scan.changes(what_if))
                replay([device], Points.of_positions(item.positions, given))
                saved += whole_savings(scan, window, device.ends[:, None], [what_if])
            yield saved

    def _part(self, item: ScanQuery) -> DevicePart:
        scan = self.scan_of(item.scan)
        return DevicePart(scan.events, item.positions, [scan.changes(what_if) for what_if in item.what_ifs])


def scans_in(stored: StoredScans, windows: Sequence[Mapping[str, Any]]) -> RankScans:
    """Return the stored scans of the devices that have these rows of `windows`."""

    def scan_of(number: int) -> Scan:
        window = windows[number]
        return stored.scan((window["trace_id"], window["device"]), window)

    return RankScans(scan_of, windows.__getitem__)


class ScanFacts(Struct, frozen=True, dict=True):
    """What is asked of a device's scan again and again, so that it need not be read for it."""

    causes: frozenset[str]
    taken_ns: Mapping[str, int]  # by cause: its time in the window
    calls: RankCalls
    opens_at: int | None  # position of the first op of the window's steps
    closes_at: int | None  # position of the first op after them
    only_in_window: bool
    waits_for_workers: bool
    uncertainties: frozenset[str]  # what the trace leaves open about it

    @classmethod
    def of_scan(cls, scan: Scan, window: Mapping[str, Any]) -> Self:
        opens, closes = (
            None if window[name] is None else scan.position_of(window[name])
            for name in ("opening_op_id", "closing_op_id")
        )
        uncertain = {LOADER_WORKERS: scan.has_takes, STREAM_WAITS: bool(scan.possible)}
        causes = scan.causes()
        return cls(
            causes,
            {cause: scan.taken_ns(scan.changes(WhatIf(frozenset({cause})))) for cause in causes},
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


class DeviceBounds(Struct, frozen=True):
    """A device, its analysis window and its scan, which say what a what-if saves there."""

    window: Mapping[str, Any]  # its row of the table `windows`
    facts: ScanFacts
    load: Callable[[], Scan]

    @property
    def scan(self) -> Scan:
        """The device's scan: held, or read when it is asked."""
        return self.load()

    @property
    def window_ns(self) -> int:
        return int(self.window["window_ns"])

    @property
    def abstains(self) -> str | None:
        """Why its bounds cannot be trusted."""
        reason: str | None = self.window["bound_abstains"]
        return reason

    def at_worst(self, uncertainty: str) -> Self:
        """Return the device if an uncertainty turns out against its fixes; this one if it does not apply."""
        if uncertainty not in self.facts.uncertainties:
            return self
        return replace(self, load=lambda: self.load().at_worst(uncertainty))

    def savings(self, what_ifs: Sequence[WhatIf]) -> list[int]:
        return window_savings(self.scan, self.window, what_ifs) if what_ifs else []

    def taken_ns(self, what_if: WhatIf) -> int:
        """Return the time of host and ops in the window that a what-if takes out, even if that saves nothing."""
        if what_if == WhatIf(what_if.removed):  # Causes take out no time of each other.
            return sum(self.facts.taken_ns.get(cause, 0) for cause in what_if.removed)
        scan = self.scan
        return scan.taken_ns(scan.changes(what_if))

    @property
    def is_whole(self) -> bool:
        """Whether the window is all that was recorded, and ends with the last op."""
        return self.window["first_op_id"] is None and self.window["measure_at_op_id"] is None


def window_savings(scan: Scan, window: Mapping[str, Any], what_ifs: Sequence[WhatIf]) -> list[int]:
    """Return what each what-if saves of a device's window (its row of `windows`).

    Removing more never delays anything, but it can move only the start of the window, which makes the window longer:
    for example, where the window begins with a copy that its first step waits for and later steps hide.
    """
    if not what_ifs or not scan.events.count:
        return [0] * len(what_ifs)
    scale, first_op, measure_at_op = (window[name] for name in ("measure_scale", "first_op_id", "measure_at_op_id"))
    savings = []
    for what_if in what_ifs:
        changes = scan.changes(what_if)
        ends = replay_alone(scan.events, changes)
        first, last = (
            0 if at is None else int(ends[at] - changes.shorter_ns[at])
            for at in (None if op is None else scan.position_of(op) for op in (first_op, measure_at_op))
        )
        until_end = measure_at_op is None
        saved = int(_ends_earlier(scan, ends[:, None])[0]) - first if until_end else (last - first) * scale
        # A what-if saves no more than it takes out of the window, however much earlier its first op is.
        limit = min(_limit(scan, window, what_if), round(scan.taken_ns(changes) * scale))
        savings.append(min(max(int(saved), 0), limit))
    return savings


def whole_savings(scan: Scan, window: Mapping[str, Any], shifts: Ints, what_ifs: Sequence[WhatIf]) -> list[int]:
    """Return what a window that is all of a scan loses in each what-if (column), where each event ends so much earlier.

    `window` is its row of `windows`.
    """
    saved = _ends_earlier(scan, shifts).tolist()
    return [min(max(ns, 0), _limit(scan, window, what_if)) for ns, what_if in zip(saved, what_ifs, strict=True)]


def _ends_earlier(scan: Scan, shifts: Ints) -> Ints:
    """Return by how much the last op ends earlier, where events (rows) do; one answer per column."""
    is_op = scan.events.is_op
    last = scan.end[is_op]
    saved: Ints = last.max() - (last[:, None] - shifts[is_op]).max(axis=0)
    return saved


def _limit(scan: Scan, window: Mapping[str, Any], what_if: WhatIf) -> int:
    """Return the most that a what-if can save: the idle time of the busiest engine, and what its ops get shorter.

    Streams that took turns may run at once, but no stream gets faster than its own work, the blocks of all kernels
    share the device's SMs, and the copies in one direction share the link.
    """
    shorter = scan.shorter_ns(what_if.savings or {})
    window_ns = int(window["window_ns"])
    compute_ns = max(int(window["busiest_stream_ns"]), int(window["full_device_ns"]))
    needed = [compute_ns - shorter.get(None, 0)]
    for cause, counted in (("dev.h2d", "h2d_ns"), ("dev.d2h", "d2h_ns")):
        if cause not in what_if.removed:
            needed.append(int(window[counted]) - shorter.get(cause, 0))
    return window_ns - max(0, *needed)
