"""Host calls that return only when the device has done something: synchronisations, blocking copies and launches.

Giving memory back to the driver (cudaFree) is one of them: it waits until the device is idle.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import duckdb
import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import HOST_CODE, SYNC_CODE, Codes, Flags, Ints
from traceanalyzer.attribution.device_ops import DeviceOps, as_launched
from traceanalyzer.attribution.host_slices import HostSlices, RowsById
from traceanalyzer.attribution.host_states import COPY_CALL, is_api, slice_state
from traceanalyzer.attribution.recorded_waits import RecordedWaits

# What a synchronising call costs where there is nothing to wait for.
API_MIN_NS = 8_000
# A copy call that is shorter only enqueued its copy.
BLOCKING_COPY_MIN_NS = 20_000
# Times of integer microseconds, and two clocks.
CLOCK_ERROR_NS = 2_000
# A read-back that mostly moves data is a copy; one that mostly waits for earlier work is a synchronisation.
READ_BACK_COPY_MIN_NS = 100_000
# A copy from pageable memory goes through the driver's buffer: the call returns when the last part of it is in there.
STAGED_SHARE = 0.5
# A call that waits for nothing returns within this.
UNKNOWN_WAIT_NS = 50_000
# A call returns at most this long after the op that it waited for.
RETURN_MAX_NS = 20_000
# A call returns this long after the op that it waited for.
RETURN_NS = 4_000

_MEMCPY_BLOCK = HOST_CODE["host.memcpy_block"]
_ALLOC = HOST_CODE["host.alloc"]

# An event waits for what was launched on its stream before the call that recorded it.
_SYNC_QUERY = """
SELECT s.correlation, COALESCE(s.wait_on_stream, s.stream) AS stream, recorded.start_ns
FROM canonical.syncs AS s
LEFT JOIN canonical.host_slices AS recorded
  ON recorded.trace_id = s.trace_id
  AND recorded.correlation = s.wait_on_correlation
  AND recorded.category IN ('runtime', 'driver')
WHERE s.trace_id = $trace_id
  AND s.kind IN ('stream', 'event')
  AND s.correlation IS NOT NULL
  AND COALESCE(s.wait_on_stream, s.stream) IS NOT NULL
"""
_STREAM_WAIT = re.compile(r"StreamWaitEvent")
_OF_STREAM = re.compile(r"StreamSynchronize")
_OF_EVENT = re.compile(r"EventSynchronize")
# Nsight Systems appends the version of the call.
_FREE = re.compile(r"^((cuda|hip)Free|cuMemFree)(_v[0-9]+)?$")


@dataclass(frozen=True)
class BlockingCalls:
    """Calls in the order of their rows. `release` is when the wait for earlier work was over."""

    row: Ints  # of host_slices
    thread: Ints
    start: Ints  # of a launch that waits: when the launch itself was done
    end: Ints
    least: Ints  # what the call takes where there is nothing to wait for
    release: Ints
    cause: Codes
    stream: Ints  # stream waited for; NO_ROW: not recorded
    until: Ints  # what was launched from here on is not waited for
    of_event: Flags  # waits for an event: its stream may hold later work when it returns
    copy_op: Ints  # op_id of the call's own copy; NO_ROW: none
    copy_device: Ints

    @property
    def frees(self) -> Flags:
        """Tell which give memory back: what they do after the wait is theirs, too."""
        found: Flags = self.cause == _ALLOC
        return found

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.row)


@dataclass(frozen=True)
class _Copies:
    row: Ints
    copy_start: Ints
    cause: Codes
    op_id: Ints
    device: Ints


def _blocking_copies(slices: HostSlices, devices: list[DeviceOps]) -> _Copies:
    parts = []
    for ops in devices:
        copies = ops.launch_name.where(lambda name: name is not None and bool(COPY_CALL.search(name)))
        long = ops.launch_end - ops.launch_start > BLOCKING_COPY_MIN_NS
        returned = ops.launch_end >= ops.end - CLOCK_ERROR_NS
        to_device = ops.with_host & ~ops.read_back
        returned |= to_device & (ops.launch_end - ops.start >= STAGED_SHARE * (ops.end - ops.start))
        found = np.flatnonzero(copies & ops.linked & long & returned)
        wait = ops.start[found] - ops.launch_start[found]
        copying = ops.launch_end[found] - ops.start[found]
        reads_back = ops.read_back[found] & ((copying < READ_BACK_COPY_MIN_NS) | (copying < wait))
        parts.append(
            (
                slices.rows_of(ops.launch_id[found]),
                ops.start[found],
                np.where(reads_back, SYNC_CODE, _MEMCPY_BLOCK),
                ops.op_id[found],
                np.full(len(found), ops.device),
            )
        )
    row, start, cause, op_id, device = (np.concatenate(column) for column in zip(*parts, strict=True))
    known = row != NO_ROW
    _, once = np.unique(row[known], return_index=True)
    at = np.flatnonzero(known)[once]
    return _Copies(row[at], start[at], cause[at].astype(np.int8), op_id[at], device[at])


@dataclass(frozen=True)
class _Launches:
    row: Ints
    start: Ints
    stream: Ints


def _blocking_launches(slices: HostSlices, devices: list[DeviceOps]) -> _Launches:
    rows = [np.flatnonzero(ops.launch_return > ops.launch_end) for ops in devices]
    found = list(zip(devices, rows, strict=True))
    row = slices.rows_of(np.concatenate([ops.launch_id[at] for ops, at in found]))
    start = np.concatenate([ops.launch_end[at] for ops, at in found])
    stream = np.concatenate([ops.stream[at] for ops, at in found])
    known = row != NO_ROW
    return _Launches(row[known], start[known], stream[known])


def _waited_for(con: duckdb.DuckDBPyConnection, trace_id: int, correlations: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return the stream that each call waited for, and until when it was launched."""
    rows = con.execute(_SYNC_QUERY, {"trace_id": trace_id}).fetchall()
    told = {correlation: (stream, recorded) for correlation, stream, recorded in rows}
    nothing = (NO_ROW, None)
    found = [told.get(correlation, nothing) for correlation in correlations.tolist()]
    until = [start if at is None else at for (_, at), start in zip(found, starts.tolist(), strict=True)]
    return np.asarray([stream for stream, _ in found], np.int64), np.asarray(until, np.int64)


def _streams_of_copies(slices: HostSlices, syncs: Ints, devices: list[DeviceOps]) -> Ints:
    """Return the stream of the copy that each call follows at once on its thread; NO_ROW: it follows none.

    PyTorch makes sure of a copy that is not `non_blocking` by waiting for its stream.
    """
    found = np.full(len(syncs), NO_ROW)
    for thread in np.unique(slices.thread[syncs]).tolist():
        mine = np.flatnonzero(slices.thread[syncs] == thread)
        start, latest = slices.start[syncs[mine]], np.full(len(mine), NO_ROW)
        for ops in devices:
            rows = as_launched(ops, ops.launch_thread == thread)
            at = np.searchsorted(ops.launch_start[rows], start) - 1
            launch = rows[at[at >= 0]]
            later = np.flatnonzero(at >= 0)[ops.launch_start[launch] > latest[at >= 0]]
            launch = rows[at[later]]
            latest[later] = ops.launch_start[launch]
            follows = ops.with_host[launch] & (start[later] - ops.launch_end[launch] <= BLOCKING_COPY_MIN_NS)
            found[mine[later]] = np.where(follows, ops.stream[launch], NO_ROW)
    return found


def _cause_of_wait(category: str, name: str) -> int:
    """Return the code of HOST that waiting in a call belongs to; NO_ROW: it never waits, or its own work tells."""
    if not is_api(category):
        return NO_ROW
    return SYNC_CODE if slice_state(category, name) == SYNC_CODE else _ALLOC if _FREE.search(name) else NO_ROW


def find_blocking_calls(
    con: duckdb.DuckDBPyConnection, trace_id: int, slices: HostSlices, devices: list[DeviceOps]
) -> BlockingCalls:
    """Return the calls among some threads' slices that wait for a device."""
    names = zip(slices.categories, slices.names, strict=True)
    causes = np.asarray([_cause_of_wait(c, n) for c, n in names], np.int64)[slices.name_code]
    syncs = np.flatnonzero(causes != NO_ROW)
    copies, launches = _blocking_copies(slices, devices), _blocking_launches(slices, devices)
    row = np.concatenate([syncs, copies.row, launches.row])
    order = np.argsort(row, kind="stable")
    sync_stream, sync_until = _waited_for(con, trace_id, slices.correlation[syncs], slices.start[syncs])
    untold = slices.flags([bool(_OF_STREAM.search(name)) for name in slices.names])[syncs] & (sync_stream == NO_ROW)
    sync_stream[untold] = _streams_of_copies(slices, syncs[untold], devices)
    of_event = slices.flags([bool(_OF_EVENT.search(name)) for name in slices.names])

    def joined(of_syncs: Ints | int, of_copies: Ints | Codes | int, of_launches: Ints | int) -> Ints:
        parts = ((of_syncs, len(syncs)), (of_copies, len(copies.row)), (of_launches, len(launches.row)))
        return np.concatenate([np.broadcast_to(np.asarray(part, np.int64), count) for part, count in parts])[order]

    calls = BlockingCalls(
        row=row[order],
        thread=slices.thread[row[order]],
        start=joined(slices.start[syncs], slices.start[copies.row], launches.start),
        end=slices.end[row[order]],
        least=joined(np.where(causes[syncs] == _ALLOC, 0, API_MIN_NS), API_MIN_NS, 0),
        release=joined(
            slices.end[syncs], np.minimum(copies.copy_start, slices.end[copies.row]), slices.end[launches.row]
        ),
        cause=joined(causes[syncs], copies.cause, SYNC_CODE).astype(np.int8),
        stream=joined(sync_stream, NO_ROW, launches.stream),
        until=joined(sync_until, slices.start[copies.row], launches.start),
        of_event=of_event[row[order]],
        copy_op=joined(NO_ROW, copies.op_id, NO_ROW),
        copy_device=joined(NO_ROW, copies.device, NO_ROW),
    )
    return replace(calls, cause=_with_their_copies(calls), stream=_streams_waited_for(slices, calls, devices))


def _streams_waited_for(slices: HostSlices, calls: BlockingCalls, devices: list[DeviceOps]) -> Ints:
    """Return the stream that each call waited for; NO_ROW where it waited for what that one had been told to wait for.

    Then the call went on for long after its stream was done, which had been launched nothing since it was told so, and
    returned when another stream was done.
    """
    told = np.sort(slices.start[slices.flags([bool(_STREAM_WAIT.search(name)) for name in slices.names])])
    long = np.flatnonzero((calls.stream != NO_ROW) & (calls.end - calls.start > UNKNOWN_WAIT_NS))
    start, end, stream_of = calls.start[long], calls.end[long], calls.stream[long]
    done, launched = (np.zeros(len(long), np.int64) for _ in range(2))
    other_is_done = np.zeros(len(long), np.bool_)
    for ops in devices:
        for stream in np.unique(ops.stream).tolist() if len(long) and len(told) else ():
            mine, of_stream = ops.stream == stream, stream_of == stream
            ends = np.concatenate([[0], np.maximum.accumulate(ops.end[mine])])
            launches = np.concatenate([[NO_ROW], np.sort(ops.launch_start[mine])])
            begun = ends[np.searchsorted(ops.start[mine], end)]
            done = np.where(of_stream, np.maximum(done, begun), done)
            before = launches[np.searchsorted(launches, start) - 1]
            launched = np.where(of_stream, np.maximum(launched, before), launched)
            last = ends[np.searchsorted(ends, end + CLOCK_ERROR_NS, side="right") - 1]
            other_is_done |= ~of_stream & (end - last <= RETURN_MAX_NS)
    was_told = np.searchsorted(told, start) > np.searchsorted(told, launched)
    found = calls.stream.copy()
    found[long[was_told & other_is_done & (end - done > UNKNOWN_WAIT_NS)]] = NO_ROW
    return found


def _with_their_copies(calls: BlockingCalls) -> Codes:
    """Return the causes with those of waits that only make sure of a blocking copy: PyTorch waits after every one.

    Nothing is left to wait for then. Without the copy's blocking they are not there either, and hold nothing up.
    """
    cause, thread, start, end = calls.cause, calls.thread, calls.start, calls.end
    is_short = (end - start <= BLOCKING_COPY_MIN_NS) & (calls.least > 0)
    follows = np.zeros(len(cause), np.bool_)
    follows[1:] = (
        (cause[:-1] == _MEMCPY_BLOCK) & (thread[1:] == thread[:-1]) & (start[1:] - end[:-1] <= BLOCKING_COPY_MIN_NS)
    )
    return np.where(follows & is_short & (cause == SYNC_CODE), _MEMCPY_BLOCK, cause).astype(np.int8)


def waited_ops(calls: BlockingCalls, ops: DeviceOps, waits: RecordedWaits) -> Ints:
    """Return the op of a device that each call waited for last, NO_ROW where none.

    A call waits for streams that have run dry when it returns; of these the one that ended last decides. One that waits
    for an event returns while its stream goes on: there it is the last op that had ended. Who waits for a stream waits
    for what that one was told to wait for, too.
    """
    end = calls.end + CLOCK_ERROR_NS
    target = np.full(calls.count, NO_ROW)
    target_end = np.full(calls.count, np.iinfo(np.int64).min)
    for stream in np.unique(ops.stream).tolist():
        mine = as_launched(ops, ops.stream == stream)
        before = np.searchsorted(ops.launch_start[mine], calls.until, side="left")
        ends = ops.end[mine]
        if not len(mine):
            continue
        # The op of the stream that ends last of those launched before the call.
        running = np.maximum.accumulate(ends)
        before = np.where(calls.of_event, np.minimum(before, np.searchsorted(running, end, side="right")), before)
        holder = np.maximum.accumulate(np.where(ends == running, np.arange(len(ends)), 0))
        last = holder[np.maximum(before - 1, 0)]
        asked = (before > 0) & ((calls.stream == NO_ROW) | (calls.stream == stream))
        later = asked & (ends[last] > target_end) & (ends[last] <= end)
        target = np.where(later, mine[last], target)
        target_end = np.where(later, ends[last], target_end)
    for at in np.flatnonzero(calls.stream != NO_ROW).tolist():
        for op in waits.waits_for(int(calls.stream[at]), int(calls.until[at])).values():
            if target_end[at] < ops.end[op] <= end[at]:
                target[at], target_end[at] = op, ops.end[op]
    own = (calls.copy_op != NO_ROW) & (calls.copy_device == ops.device)
    copies = np.flatnonzero(calls.copy_op != NO_ROW)
    target[copies] = np.where(own[copies], RowsById(ops.op_id).of(calls.copy_op[copies]), NO_ROW)
    return target


def device_waits_of(calls: BlockingCalls, ops: DeviceOps, target: Ints, stream_before: Ints) -> Ints:
    """Return how long each call waited for work of a device that was there before it; 0: it waited for nothing.

    Giving memory back is a cost of its own however long it takes: it passes nothing on.
    """
    # A copy waits for the op before it in its stream; its own time is no wait.
    own_copy = (calls.copy_op != NO_ROW) & (target != NO_ROW)
    awaited = np.where(own_copy, stream_before[target], target)
    busy_until = np.where(awaited == NO_ROW, calls.start, ops.end[awaited])
    waited = calls.release - calls.start - calls.least
    real = (busy_until > calls.start + CLOCK_ERROR_NS) & ~calls.frees
    return np.where(real, np.maximum(0, waited), 0)
