"""What bounds the end of work on devices: the next work of its stream that waits for it, and the return of a call.

Kernels that a graph or a dependent launch starts may run beside what is ahead of them on their stream, but beside few
of many.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import duckdb

Int = npt.NDArray[np.int64]

_NONE = np.iinfo(np.int64).max
# So much is held in memory at once.
_PART_ROWS = 250_000
_EVER_NS = (-(2**63), 2**63 - 1)
# Work that outlasts so many later ones of its stream is looked at.
_LATER = 10
_WORK = """
SELECT
    op_id, device, stream, lane, start_ns, end_ns, call_start_ns, call_end_ns,
    coalesce(is_ordered, FALSE) AS is_ordered,
    coalesce(is_read_back, FALSE) AS is_read_back
FROM device_work
WHERE start_ns >= $first_ns AND start_ns < $last_ns
"""
_KEPT = ("op_id", "device", "lane", "start_ns", "end_ns", "call_start_ns", "call_end_ns")


def bound_work(database: duckdb.DuckDBPyConnection) -> None:
    """Make the table `bounded_work` of the views `device_work` and `device_waits`: a row an operation.

    `next_ns` and `next_end_ns` are the first start and the first end of what comes later in its lane and waits for it,
    `tenth_end_ns` is the end of the tenth that comes later, or the last end of fewer (`is_near_end`), `returned_ns` is
    when the first call returned that was made after its launch and waits for it. What is launched before work that
    comes before it `is_out_of_order`. NULL: there is none.
    """
    waits = "SELECT device, stream, start_ns, end_ns FROM device_waits WHERE device IS NOT NULL"
    of_streams, of_devices = (
        _Returns(database.sql(f"{waits} AND stream IS {null} NULL").to_arrow_table()) for null in ("NOT", "")
    )
    lanes = database.sql("SELECT DISTINCT lane FROM device_work ORDER BY lane").to_arrow_table().column("lane")
    later = _Later(lanes.to_numpy())
    into = "CREATE OR REPLACE TEMP TABLE bounded_work AS"
    # From the last part of a recording to the first.
    for first_ns, last_ns in reversed(list(pairwise(_edges(database)))):
        rows = database.sql(_WORK, params={"first_ns": first_ns, "last_ns": last_ns}).to_arrow_table()
        bounds = later.bounds_before(rows)
        device, stream, call_ns = (_numbers(rows, name) for name in ("device", "stream", "call_end_ns"))
        of_device_ns = of_devices.first_after(device, np.full(len(rows), _NONE), call_ns)
        returned_ns = np.minimum(of_device_ns, of_streams.first_after(device, stream, call_ns))
        is_read_back = rows.column("is_read_back").to_numpy()
        bounds["returned_ns"] = np.where(is_read_back, np.minimum(returned_ns, call_ns), returned_ns)
        columns: dict[str, Any] = {name: rows.column(name) for name in _KEPT}
        for name, values in bounds.items():
            columns[name] = pa.array(values, mask=None if values.dtype == np.bool_ else values == _NONE)
        database.register("part_of_work", pa.table(columns))
        database.execute(f"{into} FROM part_of_work")
        database.unregister("part_of_work")
        into = "INSERT INTO bounded_work BY NAME"


def _edges(database: duckdb.DuckDBPyConnection) -> list[int]:
    ((count,),) = database.execute("SELECT count(*) FROM device_work").fetchall()
    parts = -(-count // _PART_ROWS)
    if parts < 2:
        return [*_EVER_NS]
    quantiles = "SELECT approx_quantile(start_ns, CAST($shares AS FLOAT[])) FROM device_work"
    shares = {"shares": [part / parts for part in range(1, parts)]}
    return [_EVER_NS[0], *database.execute(quantiles, shares).fetchall()[0][0], _EVER_NS[1]]


def _numbers(rows: pa.Table, name: str) -> Int:
    column: Any = rows.column(name)
    numbers = column.cast(pa.int64()) if column.type != pa.int64() else column
    values: Int = (pc.fill_null(numbers, _NONE) if numbers.null_count else numbers).to_numpy()
    return values


class _Later:
    """What comes later in each lane than the parts that are still to come: the first times, the first operations."""

    def __init__(self, lanes: npt.NDArray[Any]) -> None:
        self._lanes = lanes
        self._least = {name: np.full(len(lanes), _NONE) for name in ("next_ns", "next_end_ns", "call_ns")}
        self._first = np.empty((3, 0), np.int64)  # lane, start, end

    def bounds_before(self, rows: pa.Table) -> dict[str, Any]:
        """Return what bounds the operations of the last part that was not asked for."""
        lane = np.searchsorted(self._lanes, rows.column("lane").to_numpy())
        start_ns, end_ns, call_ns = (_numbers(rows, name) for name in ("start_ns", "end_ns", "call_start_ns"))
        count, held = len(lane), self._first
        lane, start_ns, end_ns = (
            np.append(own, more) for own, more in zip((lane, start_ns, end_ns), held, strict=True)
        )
        missing = np.full(held.shape[1], _NONE)
        op_id, call_ns = (np.append(own, missing) for own in (_numbers(rows, "op_id"), call_ns))
        order = np.lexsort((op_id, end_ns, start_ns, lane))
        is_own = order < count
        lane, start_ns, end_ns, call_ns = (values[order] for values in (lane, start_ns, end_ns, call_ns))
        is_ordered = np.append(rows.column("is_ordered").to_numpy(), np.zeros(held.shape[1], np.bool_))[order]
        firsts = np.flatnonzero(np.diff(lane, prepend=-1))
        waiting = {
            name: np.where(is_ordered, ns, _NONE) for name, ns in (("next_ns", start_ns), ("next_end_ns", end_ns))
        }
        found: dict[str, Any] = {}
        for name, values in {**waiting, "call_ns": call_ns}.items():
            later = np.minimum(_least_later(lane, values), self._least[name][lane])
            self._least[name][lane[firsts]] = np.minimum(later, values)[firsts]
            found[name] = later
        found["is_out_of_order"] = found.pop("call_ns") < call_ns
        found["is_out_of_order"] &= call_ns != _NONE
        found["tenth_end_ns"], found["is_near_end"] = _tenth_ends(lane, end_ns)
        in_lane = np.arange(len(lane)) - np.repeat(firsts, np.diff(np.append(firsts, len(lane))))
        self._first = np.stack([lane, start_ns, end_ns])[:, in_lane < _LATER]
        result = {}
        for name, values in found.items():
            result[name] = np.empty(count, values.dtype)
            result[name][order[is_own]] = values[is_own]
        return result


def _least_later(group: Int, values: Int) -> Int:
    """Return the least value of later rows of the same group; `group` ascends, and _NONE is no value."""
    least = np.full(len(group), _NONE)
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    # From the end, a running minimum begins anew where a group does: all its numbers are below those behind it.
    key = np.where(values == _NONE, _NONE, group * len(group) + rank)
    place = np.minimum.accumulate(key[::-1])[::-1][1:] - group[:-1] * len(group)
    is_there = place < len(group)
    least[:-1][is_there] = values[order[place[is_there]]]
    return least


def _tenth_ends(lane: Int, end_ns: Int) -> tuple[Int, npt.NDArray[np.bool_]]:
    """Return the end of the tenth operation later in the lane, or the last of fewer, and where there are fewer."""
    tenth_ns = np.full(len(lane), _NONE)
    is_near_end = np.ones(len(lane), np.bool_)
    is_near_end[:-_LATER] = lane[_LATER:] != lane[:-_LATER]
    far = np.flatnonzero(~is_near_end)
    tenth_ns[far] = end_ns[far + _LATER]
    near = np.flatnonzero(is_near_end)
    last_ns = np.full(len(near), -_NONE)
    for later in range(1, _LATER):
        at = np.minimum(near + later, len(lane) - 1)
        np.maximum(last_ns, end_ns[at], out=last_ns, where=(lane[at] == lane[near]) & (at > near))
    tenth_ns[near] = np.where(last_ns == -_NONE, _NONE, last_ns)
    return tenth_ns, is_near_end


class _Returns:
    """When the first call returned that waits for a stream of a device, or for a device (the stream is _NONE)."""

    def __init__(self, waits: pa.Table) -> None:
        device, stream, start_ns, end_ns = (_numbers(waits, name) for name in waits.column_names)
        self._known = np.unique(device), np.unique(stream)
        self._starts_ns = np.unique(start_ns)
        keys, _ = self._keys(device, stream, start_ns)
        order = np.argsort(keys, kind="stable")
        self._sorted, end_ns = keys[order], end_ns[order]
        # A call that begins later and returns sooner bounds what was launched before both.
        self._ends_ns = np.minimum(end_ns, _least_later(self._sorted // (len(self._starts_ns) + 1), end_ns))

    def first_after(self, device: Int, stream: Int, after_ns: Int) -> Int:
        """Return when the first call returned that was made at an instant or later, for each; _NONE: there is none."""
        if not len(self._sorted):
            return np.full(len(device), _NONE)
        keys, is_there = self._keys(device, stream, after_ns)
        found = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        step = len(self._starts_ns) + 1
        is_there &= (self._sorted[found] >= keys) & (self._sorted[found] // step == keys // step) & (after_ns != _NONE)
        return np.where(is_there, self._ends_ns[found], _NONE)

    def _keys(self, device: Int, stream: Int, time_ns: Int) -> tuple[Int, npt.NDArray[np.bool_]]:
        """Return numbers that ascend by device, stream and time, and where device and stream are waited for."""
        group, is_known = np.zeros(len(device), np.int64), np.ones(len(device), np.bool_)
        for known, own in zip(self._known, (device, stream), strict=True):
            place = np.minimum(np.searchsorted(known, own), len(known) - 1)
            is_known &= known[place] == own
            group = group * len(known) + place
        return group * (len(self._starts_ns) + 1) + np.searchsorted(self._starts_ns, time_ns), is_known
