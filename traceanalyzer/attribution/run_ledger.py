"""The ledger of a run of several ranks: at each moment that of the device which all others wait for.

It is walked backwards from the end of the slowest window. Where a device had waited for another one in a collective or
for a message, the walk goes on where that one came in, and so passes the blame on through groups within groups to the
rank where it began. Members of a collective meet at one instant, so that no clocks are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.arrow_columns import NO_ROW, array_of, codes_of, column, named, optional
from traceanalyzer.attribution.buckets import BUCKETS, CODE, HEAD, MESSAGE, SKEW, Ints
from traceanalyzer.attribution.comm_calls import Place

_STARTS = "SELECT trace_id, op_id, start_ns FROM canonical.gpu_ops WHERE is_comm"


@dataclass(frozen=True)
class _Arrival:
    """Where a wait ended: the collective, and when the member that came last came in."""

    match_id: int
    place: Place
    start: int


@dataclass(frozen=True)
class _Rows:
    """A device's ledger, and its rows that end with the arrival of another device."""

    start: Ints
    end: Ints
    bucket: Ints  # code of BUCKETS
    waits: Ints  # rows
    arrivals: list[_Arrival]  # of each of them


@dataclass(frozen=True)
class _Pieces:
    """Rows of one device's ledger in time order, the first and last one maybe in part; row NO_ROW: none."""

    place: Place
    row: Ints
    start: Ints
    dur: Ints
    bucket: Ints


def run_rows(con: duckdb.DuckDBPyConnection, found: Mapping[str, pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the run's ledger as a table; the tables are those of its devices."""
    windows = found["windows"].to_pylist()
    if not windows:
        return pa.Table.from_batches([], schema)
    rows = _rows_of_devices(found["ledger_rows"], _arrivals(con, found["collective_members"]))
    slowest = max(windows, key=lambda window: (window["window_ns"], -window["trace_id"], -window["device"]))
    place = (slowest["trace_id"], slowest["device"])
    parts = list(_walk(rows, place, slowest["end_ns"], slowest["window_ns"]))[::-1]
    count = sum(len(part.row) for part in parts)
    columns: dict[str, Any] = {
        "position": np.arange(count),
        "trace_id": _joined([np.full(len(part.row), part.place[0]) for part in parts]),
        "device": _joined([np.full(len(part.row), part.place[1]) for part in parts]),
        "row_id": optional(_joined([part.row for part in parts])),
        "start_ns": _joined([part.start for part in parts]),
        "dur_ns": _joined([part.dur for part in parts]),
        "bucket": named(_joined([part.bucket for part in parts]), BUCKETS),
    }
    return pa.Table.from_arrays(
        [
            values if isinstance(values := columns[field.name], pa.Array) else array_of(values, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _walk(rows: Mapping[Place, _Rows], place: Place, until: int, left: int) -> Iterator[_Pieces]:
    """Return what each stretch of the path holds, the last stretch first, until they add up to `left`."""
    met: set[int] = set()
    while left > 0:
        ledger = rows[place]
        arrival, since = _last_arrival(ledger, until, met)
        part = _stretch(ledger, place, since, until, left)
        yield part
        left -= int(part.dur.sum())
        if arrival is None:
            if left > 0:
                ahead = np.asarray([left])
                yield _Pieces(place, np.asarray([NO_ROW]), min(since, until) - ahead, ahead, np.asarray([CODE[HEAD]]))
            return
        met.add(arrival.match_id)
        place, until = arrival.place, arrival.start


def _stretch(ledger: _Rows, place: Place, since: int, until: int, most: int) -> _Pieces:
    """Return the rows of [since, until), no more of them than the last ones that hold `most`."""
    row = np.arange(np.searchsorted(ledger.end, since, side="right"), np.searchsorted(ledger.start, until))
    end = np.minimum(ledger.end[row], until)
    dur = end - np.maximum(ledger.start[row], since)
    # What still has to be told once all later rows are.
    open_ns = most - (np.cumsum(dur[::-1])[::-1] - dur)
    dur = np.minimum(dur, open_ns)
    some = dur > 0
    return _Pieces(place, row[some], (end - dur)[some], dur[some], ledger.bucket[row[some]])


def _last_arrival(ledger: _Rows, until: int, met: set[int]) -> tuple[_Arrival | None, int]:
    """Return the last wait that was over by then, and when; a collective is passed once."""
    at = int(np.searchsorted(ledger.end[ledger.waits], until, side="right")) - 1
    while at >= 0 and ledger.arrivals[at].match_id in met:
        at -= 1
    if at < 0:
        return None, int(ledger.start[0]) if len(ledger.start) else until
    return ledger.arrivals[at], int(ledger.end[ledger.waits[at]])


def _arrivals(con: duckdb.DuckDBPyConnection, members: pa.Table) -> dict[tuple[int, int], tuple[_Arrival, int]]:
    """Return for each op (trace, id) that waited whom it waited for, and until when on its own clock."""
    starts = {(trace_id, op_id): start for trace_id, op_id, start in con.execute(_STARTS).fetchall()}
    whole = [row for row in members.to_pylist() if row["synchronises"] and row["wait_ns"] is not None]
    last = {row["match_id"]: row for row in reversed(whole) if row["wait_ns"] == 0}
    found = {}
    for row in whole:
        other = last.get(row["match_id"])
        if other is not None and row["wait_ns"] > 0:
            start = starts[other["trace_id"], other["op_id"]]
            arrival = _Arrival(row["match_id"], (other["trace_id"], other["device"]), start)
            over = starts[row["trace_id"], row["op_id"]] + row["wait_ns"]
            found[row["trace_id"], row["op_id"]] = (arrival, over)
    return found


def _rows_of_devices(table: pa.Table, arrivals: Mapping[tuple[int, int], tuple[_Arrival, int]]) -> dict[Place, _Rows]:
    trace, device = column(table, "trace_id"), column(table, "device")
    codes, names = codes_of(table["bucket"])
    start = column(table, "start_ns")
    end = start + column(table, "dur_ns")
    blamed = column(table, "blame_id")
    waiting = np.isin(codes, [code for code, name in enumerate(names) if name in (SKEW, MESSAGE)]) & (blamed != NO_ROW)
    known_codes = np.asarray([CODE[str(name)] for name in names], np.int64)
    found = {}
    # The rows of a device lie together.
    first = np.flatnonzero((np.diff(trace, prepend=NO_ROW) != 0) | (np.diff(device, prepend=NO_ROW) != 0))
    for low, high in zip(first.tolist(), np.append(first, len(trace))[1:].tolist(), strict=True):
        place, mine = (int(trace[low]), int(device[low])), np.arange(low, high)
        waits, met = [], []
        for at in np.flatnonzero(waiting[mine]).tolist():
            known = arrivals.get((place[0], int(blamed[mine[at]])))
            # Of a message the transfer after the wait has the same bucket; a row cut at a step's end is one of several.
            if known is not None and end[mine[at]] == known[1]:
                waits.append(at)
                met.append(known[0])
        bucket = known_codes[codes[mine]]
        found[place] = _Rows(start[mine], end[mine], bucket, np.asarray(waits, np.int64), met)
    return found
