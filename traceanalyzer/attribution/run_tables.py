"""The tables that need the whole run: its ledger, and bounds of each cause and of each class of kernels.

The ledger of a run is at each moment that of the device that all others wait for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import astuple

from traceanalyzer.attribution.columns import (
    BUCKETS,
    CODE,
    HEAD,
    MESSAGE,
    NO_ROW,
    STRAGGLER_WAIT,
    DeviceKey,
    Ints,
    array_of,
    codes_of,
    column,
    named,
    optional,
    table_of_columns,
)
from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.scan import OpSavings, Savings, WhatIf
from traceanalyzer.metrics import case_of

_STARTS = "SELECT trace_id, op_id, start_ns FROM canonical.gpu_ops WHERE is_comm"
_LEDGER = "SELECT * FROM attribution.ledger_rows WHERE trace_id = $trace_id AND device = $device ORDER BY row_id"
_KEPT_LEDGERS = 64


class _Arrival(Struct, frozen=True):
    """The end of a wait: the collective, and when its last member arrived."""

    match_id: int
    device_key: DeviceKey
    start: int


class _Rows(Struct, frozen=True):
    """A device's ledger, and those of its rows that end with the arrival of another device."""

    start: Ints
    end: Ints
    bucket: Ints  # code of BUCKETS
    waits: Ints  # rows
    arrivals: list[_Arrival]  # one per row in `waits`


class _Pieces(Struct, frozen=True):
    """Rows of one device's ledger in time order; the first and last may be parts; NO_ROW: no row."""

    device_key: DeviceKey
    row: Ints
    start: Ints
    dur: Ints
    bucket: Ints


def run_rows(con: duckdb.DuckDBPyConnection, of_devices: Mapping[str, pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the ledger of the run as a table, from the tables of its devices.

    Ledgers that are not among them are read from the connection, one by one.
    """
    windows = of_devices["windows"].to_pylist()
    if not windows:
        return pa.Table.from_batches([], schema)
    arrivals = _arrivals(con, of_devices["collective_members"])
    rows: Mapping[DeviceKey, _Rows] | _StoredRows = (
        _rows_of_devices(of_devices["ledger_rows"], arrivals)
        if "ledger_rows" in of_devices
        else _StoredRows(con, arrivals)
    )
    slowest = max(windows, key=lambda window: (window["window_ns"], -window["trace_id"], -window["device"]))
    device_key = (slowest["trace_id"], slowest["device"])
    parts = list(_walk(rows, device_key, slowest["end_ns"], slowest["window_ns"]))[::-1]
    count = sum(len(part.row) for part in parts)
    columns: dict[str, Any] = {
        "position": np.arange(count),
        "trace_id": _joined([np.full(len(part.row), part.device_key[0]) for part in parts]),
        "device": _joined([np.full(len(part.row), part.device_key[1]) for part in parts]),
        "row_id": optional(_joined([part.row for part in parts])),
        "start_ns": _joined([part.start for part in parts]),
        "dur_ns": _joined([part.dur for part in parts]),
        "bucket": named(_joined([part.bucket for part in parts]), BUCKETS),
    }
    return table_of_columns(columns, schema)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class _StoredRows:
    """The ledgers of devices over a connection that has their rows; the last ones used are kept."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, arrivals: Mapping[tuple[int, int], tuple[_Arrival, int]]
    ) -> None:
        self._con, self._arrivals = con, arrivals
        self._kept: dict[DeviceKey, _Rows] = {}

    def __getitem__(self, device_key: DeviceKey) -> _Rows:
        if device_key not in self._kept:
            if len(self._kept) >= _KEPT_LEDGERS:
                self._kept.pop(next(iter(self._kept)))
            table = self._con.sql(_LEDGER, params={"trace_id": device_key[0], "device": device_key[1]}).to_arrow_table()
            self._kept[device_key] = _rows_of_devices(table, self._arrivals)[device_key]
        return self._kept[device_key]


def _walk(
    rows: Mapping[DeviceKey, _Rows] | _StoredRows, device_key: DeviceKey, until: int, left: int
) -> Iterator[_Pieces]:
    """Return the rows of each stretch of the path, the last stretch first, until they add up to `left`."""
    met: set[int] = set()
    while left > 0:
        ledger = rows[device_key]
        arrival, since = _last_arrival(ledger, until, met)
        part = _stretch(ledger, device_key, since, until, left)
        yield part
        left -= int(part.dur.sum())
        if arrival is None:
            if left > 0:
                ahead = np.asarray([left])
                yield _Pieces(
                    device_key, np.asarray([NO_ROW]), min(since, until) - ahead, ahead, np.asarray([CODE[HEAD]])
                )
            return
        met.add(arrival.match_id)
        device_key, until = arrival.device_key, arrival.start


def _stretch(ledger: _Rows, device_key: DeviceKey, since: int, until: int, most: int) -> _Pieces:
    """Return the rows of [since, until), limited to the last `most` ns of them."""
    row = np.arange(np.searchsorted(ledger.end, since, side="right"), np.searchsorted(ledger.start, until))
    end = np.minimum(ledger.end[row], until)
    dur = end - np.maximum(ledger.start[row], since)
    # The time that is still open once all later rows are taken.
    open_ns = most - (np.cumsum(dur[::-1])[::-1] - dur)
    dur = np.minimum(dur, open_ns)
    some = dur > 0
    return _Pieces(device_key, row[some], (end - dur)[some], dur[some], ledger.bucket[row[some]])


def _last_arrival(ledger: _Rows, until: int, met: set[int]) -> tuple[_Arrival | None, int]:
    """Return the last wait that was over by `until`, and its end; each collective is passed once."""
    at = int(np.searchsorted(ledger.end[ledger.waits], until, side="right")) - 1
    while at >= 0 and ledger.arrivals[at].match_id in met:
        at -= 1
    if at < 0:
        return None, int(ledger.start[0]) if len(ledger.start) else until
    return ledger.arrivals[at], int(ledger.end[ledger.waits[at]])


def _arrivals(con: duckdb.DuckDBPyConnection, members: pa.Table) -> dict[tuple[int, int], tuple[_Arrival, int]]:
    """Return for each op (trace, id) that waited the arrival that it waited for, and its end on the op's own clock."""
    starts = {(trace_id, op_id): start for trace_id, op_id, start in con.execute(_STARTS).fetchall()}
    whole = [row for row in members.to_pylist() if row["synchronises"] and row["wait_ns"] is not None]
    last = {row["match_id"]: row for row in reversed(whole) if row["wait_ns"] == 0}
    by_op = {}
    for row in whole:
        other = last.get(row["match_id"])
        if other is not None and row["wait_ns"] > 0:
            start = starts[other["trace_id"], other["op_id"]]
            arrival = _Arrival(row["match_id"], (other["trace_id"], other["device"]), start)
            over = starts[row["trace_id"], row["op_id"]] + row["wait_ns"]
            by_op[row["trace_id"], row["op_id"]] = (arrival, over)
    return by_op


def _rows_of_devices(
    table: pa.Table, arrivals: Mapping[tuple[int, int], tuple[_Arrival, int]]
) -> dict[DeviceKey, _Rows]:
    trace, device = column(table, "trace_id"), column(table, "device")
    codes, names = codes_of(table["bucket"])
    start = column(table, "start_ns")
    end = start + column(table, "dur_ns")
    blamed = column(table, "blame_id")
    of_waits = [code for code, name in enumerate(names) if name in (STRAGGLER_WAIT, MESSAGE)]
    waiting = np.isin(codes, of_waits) & (blamed != NO_ROW)
    known_codes = np.asarray([CODE[str(name)] for name in names], np.int64)
    by_device_key = {}
    # The rows of a device are contiguous.
    first = np.flatnonzero((np.diff(trace, prepend=NO_ROW) != 0) | (np.diff(device, prepend=NO_ROW) != 0))
    for low, high in zip(first.tolist(), np.append(first, len(trace))[1:].tolist(), strict=True):
        device_key, own = (int(trace[low]), int(device[low])), np.arange(low, high)
        waits, met = [], []
        for at in np.flatnonzero(waiting[own]).tolist():
            known = arrivals.get((device_key[0], int(blamed[own[at]])))
            # A message's transfer has the bucket of its wait, and steps cut rows: only the row with this end counts.
            if known is not None and end[own[at]] == known[1]:
                waits.append(at)
                met.append(known[0])
        bucket = known_codes[codes[own]]
        by_device_key[device_key] = _Rows(start[own], end[own], bucket, np.asarray(waits, np.int64), met)
    return by_device_key


# Twice as fast is half as long.
FASTER = 2

_KERNELS = f"""
WITH
names AS (
    SELECT name, {case_of("class")} AS class
    FROM (SELECT DISTINCT name FROM canonical.gpu_ops WHERE kind = 'kernel')
)
SELECT
    trace_id, device, op_id, dur_ns,
    COALESCE(class, 'other') AS class
FROM canonical.gpu_ops
LEFT JOIN names USING (name)
WHERE kind = 'kernel'
  AND NOT is_comm
ORDER BY trace_id, device, class, op_id
"""


class Owned(Struct, frozen=True):
    """The time of a device's window that a cause owns: its sum, the number of steps, and the longest row."""

    dur_ns: int
    step_hits: int
    worst_ns: int
    worst_step: int | None
    worst_start_ns: int | None


NOTHING = Owned(0, 0, 0, None, None)


class _Kernels(Struct, frozen=True):
    """Kernels of one class on one device, and how much shorter each is if it runs faster."""

    device_key: DeviceKey
    name: str
    count: int
    dur_sum_ns: int
    savings: Savings


def bound_tables(
    con: duckdb.DuckDBPyConnection,
    bounds: Bounds,
    tables: Mapping[str, pa.Table],
    owned: Mapping[DeviceKey, Mapping[str, Owned]],
    schemas: Mapping[str, pa.Schema],
) -> dict[str, pa.Table]:
    """Return the tables that need the whole run: its ledger, and the bounds of causes and of classes of kernels.

    `tables` are those of the devices; rows of the ledger that they lack are read from the connection.
    """
    kernels = _kernels(con)
    causes = {
        device_key: sorted(bounds.causes(*device_key) | owned.get(device_key, {}).keys())
        for device_key in bounds.device_keys
    }
    # All in one pass: a scan of twenty what-ifs takes hardly longer than one of ten.
    queries = {
        device_key: {cause: WhatIf(frozenset({cause})) for cause in causes[device_key]}
        for device_key in bounds.device_keys
        if bounds.abstains(*device_key) is None
    }
    for item in kernels:
        if item.device_key in queries:
            queries[item.device_key][item.name] = WhatIf(savings=item.savings)
    answers = bounds.bounds_of_each({device_key: list(of_one.values()) for device_key, of_one in queries.items()})
    alone = {
        (device_key, name): saved_ns
        for device_key, of_one in queries.items()
        for name, saved_ns in zip(of_one, answers[device_key], strict=True)
    }
    run = _run_bounds(bounds, causes, kernels, alone)
    rows_of_causes = []
    for device_key in bounds.device_keys:
        for cause in causes[device_key]:
            own = owned.get(device_key, {}).get(cause, NOTHING)
            rows_of_causes.append((*device_key, cause, alone.get((device_key, cause)), run.get(cause), *astuple(own)))
    rows_of_classes = [
        (
            *item.device_key,
            item.name,
            item.count,
            item.dur_sum_ns,
            alone.get((item.device_key, item.name)),
            run.get(item.name),
        )
        for item in kernels
    ]
    reason = bounds.run_abstains()
    return {
        "windows": _with_reason(tables["windows"], reason),
        "run_rows": run_rows(con, tables, schemas["run_rows"]) if reason is None else table_of([], schemas["run_rows"]),
        "cause_bounds": table_of(rows_of_causes, schemas["cause_bounds"]),
        "op_bounds": table_of(rows_of_classes, schemas["op_bounds"]),
    }


def _with_reason(windows: pa.Table, reason: str | None) -> pa.Table:
    at = windows.schema.get_field_index("run_abstains")
    reasons = array_of([reason] * windows.num_rows, pa.string())
    return windows.set_column(at, windows.schema.field(at), reasons)


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return table_of_columns(dict(zip(schema.names, columns, strict=True)), schema)


def _run_bounds(
    bounds: Bounds,
    causes: Mapping[DeviceKey, Sequence[str]],
    kernels: Sequence[_Kernels],
    alone: Mapping[tuple[DeviceKey, str], int],
) -> dict[str, int]:
    """Return the bound of each cause, and of each class of kernels, on all ranks; empty where it is not known."""
    if bounds.run_abstains() is not None:
        return {}
    if len(bounds.device_keys) == 1:
        return {name: saved_ns for (_, name), saved_ns in alone.items()}
    queries = {
        cause: dict.fromkeys(bounds.device_keys, WhatIf(frozenset({cause})))
        for cause in sorted(set(chain(*causes.values())))
    }
    for item in kernels:
        queries.setdefault(item.name, {})[item.device_key] = WhatIf(savings=item.savings)
    answers = bounds.runs(list(queries.values()))
    return {name: answer.saved_ns for name, answer in zip(queries, answers, strict=True)}


def _kernels(con: duckdb.DuckDBPyConnection) -> list[_Kernels]:
    table = con.sql(_KERNELS).to_arrow_table()
    dur_ns, op_id = column(table, "dur_ns"), column(table, "op_id")
    codes, names = codes_of(table["class"])
    keys = np.stack([column(table, "trace_id"), column(table, "device"), codes], axis=1)
    first = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=-1), axis=1)) if len(keys) else np.zeros(0, np.int64)
    groups = []
    for low, high in zip(first.tolist(), np.append(first, len(keys))[1:].tolist(), strict=True):
        trace_id, device, code = keys[low].tolist()
        shorter = dur_ns[low:high] - dur_ns[low:high] // FASTER
        savings = OpSavings(op_id[low:high], shorter)
        groups.append(_Kernels((trace_id, device), str(names[code]), high - low, int(dur_ns[low:high].sum()), savings))
    return groups
