"""Host calls that return only when the device has finished something: synchronisations, blocking copies and launches.

Freeing memory of the driver (cudaFree) is one of them: it waits until the device is idle.
"""

from __future__ import annotations

import re

import duckdb
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution.columns import HOST_CODE, NO_ROW, SYNC_CODE, Codes, Flags, Ints, rows_of_each
from traceanalyzer.attribution.host.host_states import COPY_CALL, is_api, slice_state
from traceanalyzer.attribution.records.device_ops import DeviceOps, as_launched
from traceanalyzer.attribution.records.host_slices import HostSlices

# At most this is the cost of a call that has nothing to wait for.
API_MIN_NS = 8_000
# A shorter call that need not wait only enqueued its copy.
BLOCKING_COPY_MIN_NS = 20_000
# Recorded times are integer microseconds of two clocks.
CLOCK_ERROR_NS = 2_000
# A copy to the host that moves data for this long is a copy; one that mostly waits is a synchronisation.
READ_BACK_COPY_MIN_NS = 100_000
# A copy from pageable memory goes through the driver's buffer: the call returns once its last part is in the buffer.
STAGED_SHARE = 0.5
# A call that waits for nothing returns within this.
UNKNOWN_WAIT_NS = 50_000
# A call returns at most this long after the op that it waited for, or, by clocks that differ a little, before it ends.
RETURN_MAX_NS = 20_000
# A program that asks again within this whether work is done does nothing else.
POLL_MAX_NS = 1_000_000
_LEAST_POLLS = 3
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
_OF_STREAM = re.compile(r"StreamSynchronize|SynchronizeStream|QueueFinish|QueueSynchronize|CommandListHostSynchronize")
_OF_EVENT = re.compile(r"EventSynchronize|Events?Wait$|(Event|Fence)HostSynchronize")
_POLL = re.compile(r"^(cuda|cu|hip|musa|mu)(Event|Stream)Query(_|$)")
_SYCL_WAIT = re.compile(r"^(ur|pi|ze)[A-Z]")
# Nsight Systems appends the version of the call.
_FREE = re.compile(r"^((cuda|hip|musa)Free|cuMemFree)(_v[0-9]+)?$")


class BlockingCalls(Struct, frozen=True):
    """Calls that wait for a device, in the order of their rows."""

    row: Ints  # of host_slices; of calls that ask again and again, the first
    thread: Ints
    start: Ints  # of a launch that waits: when the launch itself was done
    end: Ints
    least: Ints  # duration of the call if there is nothing to wait for
    kept: Ints  # duration of what takes the place of the call where its wait is removed: an asynchronous copy
    release: Ints  # when the wait for earlier work was over
    cause: Codes
    stream: Ints  # stream waited for; NO_ROW: not recorded
    until: Ints  # the call does not wait for work launched from here on
    of_event: Flags  # waits for an event, so the stream may still hold later work when the call returns
    copy_op: Ints  # op_id of the call's own copy; NO_ROW: none
    copy_device: Ints

    @property
    def frees(self) -> Flags:
        """Return which calls free memory; the time after their wait belongs to them, too."""
        is_free: Flags = self.cause == _ALLOC
        return is_free

    @property
    def count(self) -> int:
        return len(self.row)


class _Copies(Struct, frozen=True):
    row: Ints
    copy_start: Ints
    cause: Codes
    op_id: Ints
    device: Ints


def _blocking_copies(slices: HostSlices, syncs: Ints, devices: list[DeviceOps]) -> _Copies:
    sycl_waits = syncs[slices.flags([bool(_SYCL_WAIT.search(name)) for name in slices.names], syncs)]
    parts = []
    for ops in devices:
        copies = ops.launch_name.where(lambda name: name is not None and bool(COPY_CALL.search(name)))
        asynchronous = ops.launch_name.where(lambda name: name is not None and "Async" in name)
        row, returns = _with_waits_right_after(slices, ops, sycl_waits)
        long = returns - ops.launch_start > BLOCKING_COPY_MIN_NS
        short = ~long & ~asynchronous & (returns >= ops.end)
        returned = returns >= ops.end - CLOCK_ERROR_NS
        to_device = ops.with_host & ~ops.read_back
        returned |= to_device & (returns - ops.start >= STAGED_SHARE * (ops.end - ops.start))
        found = np.flatnonzero(copies & ops.linked & (short | (long & returned)))
        wait = ops.start[found] - ops.launch_start[found]
        copying = returns[found] - ops.start[found]
        reads_back = ops.read_back[found] & ((copying < READ_BACK_COPY_MIN_NS) | (copying < wait))
        parts.append(
            (
                row[found],
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


def _with_waits_right_after(slices: HostSlices, ops: DeviceOps, waits: Ints) -> tuple[Ints, Ints]:
    """Return the row of the call that returns when an op that it launched is done, and the time when it returns.

    That is the launch, or, of SYCL's calls, one of the `waits` right after it: no call of SYCL both copies and waits.
    """
    launch = slices.rows_of(ops.launch_id)
    if not len(waits):
        return launch, ops.launch_end
    at = np.searchsorted(waits, launch, side="right")
    wait = waits[np.minimum(at, len(waits) - 1)]
    follows = (launch != NO_ROW) & (at < len(waits)) & (slices.thread[wait] == slices.thread[launch])
    follows &= slices.start[wait] - ops.launch_end <= BLOCKING_COPY_MIN_NS
    return np.where(follows, wait, launch), np.where(follows, slices.end[wait], ops.launch_end)


class _BlockingLaunches(Struct, frozen=True):
    row: Ints
    start: Ints
    stream: Ints


def _blocking_launches(slices: HostSlices, devices: list[DeviceOps]) -> _BlockingLaunches:
    rows = [np.flatnonzero(ops.launch_return > ops.launch_end) for ops in devices]
    found = list(zip(devices, rows, strict=True))
    row = slices.rows_of(np.concatenate([ops.launch_id[at] for ops, at in found]))
    start = np.concatenate([ops.launch_end[at] for ops, at in found])
    stream = np.concatenate([ops.stream[at] for ops, at in found])
    known = row != NO_ROW
    return _BlockingLaunches(row[known], start[known], stream[known])


class _Polls(Struct, frozen=True):
    """Calls that ask again and again whether work is done, until it is: the first of each, and the end of the last."""

    row: Ints
    end: Ints


def _polls(slices: HostSlices, devices: list[DeviceOps]) -> _Polls:
    is_poll = slices.flags([bool(_POLL.search(name)) for name in slices.names])
    if np.count_nonzero(is_poll) < _LEAST_POLLS:
        return _Polls(*(np.zeros(0, np.int64),) * 2)
    acts = [is_api(category) or category == "cpu_op" for category in slices.categories]
    rows = np.flatnonzero(slices.flags(acts))
    same = (np.diff(slices.thread[rows]) == 0) & (slices.start[rows[1:]] - slices.end[rows[:-1]] <= POLL_MAX_NS)
    goes_on = np.append(False, is_poll[rows[1:]] & is_poll[rows[:-1]] & same)
    first = np.flatnonzero(is_poll[rows] & ~goes_on)
    last = np.append(first[1:], len(rows)) - 1
    count = np.add.reduceat(is_poll[rows].astype(np.int64), first)
    last = first + np.minimum(last - first, count - 1)
    begin, end = slices.start[rows[first]], slices.end[rows[last]]
    found = (count >= _LEAST_POLLS) & (end - begin > UNKNOWN_WAIT_NS)
    # What was asked for was not done when the call before the last one began; a call may contain the driver's.
    open_until = slices.start[rows[np.maximum(last - 2, 0)]]
    done = np.zeros(len(first), np.bool_)
    for ops in devices:
        ends = np.sort(ops.end)
        at = np.searchsorted(ends, end + CLOCK_ERROR_NS, side="right") - 1
        done |= (at >= 0) & (ends[at] >= open_until) if len(ends) else False
    found &= done
    return _Polls(rows[first[found]], end[found])


def _waited_for(con: duckdb.DuckDBPyConnection, trace_id: int, correlations: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return the stream that each call waited for, and the time up to which it waited for launches there."""
    rows = con.execute(_SYNC_QUERY, {"trace_id": trace_id}).fetchall()
    by_correlation = {correlation: (stream, recorded) for correlation, stream, recorded in rows}
    nothing = (NO_ROW, None)
    awaited = [by_correlation.get(correlation, nothing) for correlation in correlations.tolist()]
    until = [start if at is None else at for (_, at), start in zip(awaited, starts.tolist(), strict=True)]
    return np.asarray([stream for stream, _ in awaited], np.int64), np.asarray(until, np.int64)


def _streams_of_copies(slices: HostSlices, syncs: Ints, devices: list[DeviceOps]) -> Ints:
    """Return the stream of the copy right before each call on its thread; NO_ROW: there is no copy right before it.

    PyTorch waits for the stream after each copy that is not `non_blocking`.
    """
    stream = np.full(len(syncs), NO_ROW)
    for thread in np.unique(slices.thread[syncs]).tolist():
        on_thread = np.flatnonzero(slices.thread[syncs] == thread)
        start, latest = slices.start[syncs[on_thread]], np.full(len(on_thread), NO_ROW)
        for ops in devices:
            rows = as_launched(ops, ops.launch_thread == thread)
            at = np.searchsorted(ops.launch_start[rows], start) - 1
            launch = rows[at[at >= 0]]
            later = np.flatnonzero(at >= 0)[ops.launch_start[launch] > latest[at >= 0]]
            launch = rows[at[later]]
            latest[later] = ops.launch_start[launch]
            follows = ops.with_host[launch] & (start[later] - ops.launch_end[launch] <= BLOCKING_COPY_MIN_NS)
            stream[on_thread[later]] = np.where(follows, ops.stream[launch], NO_ROW)
    return stream


def _cause_of_wait(category: str, name: str) -> int:
    """Return the code of HOST for the wait in a call; NO_ROW: it never waits, or only its own copy shows it."""
    if not is_api(category):
        return NO_ROW
    return SYNC_CODE if slice_state(category, name) == SYNC_CODE else _ALLOC if _FREE.search(name) else NO_ROW


def _shortest_of_name(slices: HostSlices, syncs: Ints) -> Ints:
    """Return for each synchronising call how long it takes with nothing to wait for.

    No call of its name in the trace took less. It is 0.6 to 3 us in most real traces.
    """
    shortest = np.full(len(slices.names), API_MIN_NS)
    np.minimum.at(shortest, slices.name_code[syncs], slices.end[syncs] - slices.start[syncs])
    return shortest[slices.name_code[syncs]]


def find_blocking_calls(
    con: duckdb.DuckDBPyConnection, trace_id: int, slices: HostSlices, devices: list[DeviceOps]
) -> BlockingCalls:
    """Return the slices that are calls which wait for a device."""
    names = zip(slices.categories, slices.names, strict=True)
    causes = np.asarray([_cause_of_wait(c, n) for c, n in names], np.int64)[slices.name_code]
    syncs = np.flatnonzero(causes != NO_ROW)
    polls = _polls(slices, devices)
    # A call of the runtime that waits may contain the driver's: the inner one is where the thread is.
    parents = slices.parent[syncs]
    syncs = syncs[~np.isin(syncs, parents[(parents != NO_ROW) & (causes[parents] == causes[syncs])])]
    copies, launches = _blocking_copies(slices, syncs, devices), _blocking_launches(slices, devices)
    syncs = syncs[~np.isin(syncs, copies.row)]
    row = np.concatenate([syncs, copies.row, launches.row, polls.row])
    order = np.argsort(row, kind="stable")
    sync_stream, sync_until = _waited_for(con, trace_id, slices.correlation[syncs], slices.start[syncs])
    unknown = slices.flags([bool(_OF_STREAM.search(name)) for name in slices.names])[syncs] & (sync_stream == NO_ROW)
    sync_stream[unknown] = _streams_of_copies(slices, syncs[unknown], devices)
    of_event = slices.flags([bool(_OF_EVENT.search(name) or _POLL.search(name)) for name in slices.names])

    def joined(
        of_syncs: Ints | int, of_copies: Ints | Codes | int, of_launches: Ints | int, of_polls: Ints | int
    ) -> Ints:
        values = (of_syncs, of_copies, of_launches, of_polls)
        parts = zip(values, map(len, (syncs, copies.row, launches.row, polls.row)), strict=True)
        return np.concatenate([np.broadcast_to(np.asarray(part, np.int64), count) for part, count in parts])[order]

    calls = BlockingCalls(
        row=row[order],
        thread=slices.thread[row[order]],
        start=joined(slices.start[syncs], slices.start[copies.row], launches.start, slices.start[polls.row]),
        end=joined(slices.end[syncs], slices.end[copies.row], slices.end[launches.row], polls.end),
        least=joined(np.where(causes[syncs] == _ALLOC, 0, _shortest_of_name(slices, syncs)), API_MIN_NS, 0, 0),
        kept=joined(0, API_MIN_NS, 0, 0),
        release=joined(
            slices.end[syncs],
            np.minimum(copies.copy_start, slices.end[copies.row]),
            slices.end[launches.row],
            polls.end,
        ),
        cause=joined(causes[syncs], copies.cause, SYNC_CODE, SYNC_CODE).astype(np.int8),
        stream=joined(sync_stream, NO_ROW, launches.stream, NO_ROW),
        until=joined(sync_until, slices.start[copies.row], launches.start, slices.start[polls.row]),
        of_event=of_event[row[order]],
        copy_op=joined(NO_ROW, copies.op_id, NO_ROW, NO_ROW),
        copy_device=joined(NO_ROW, copies.device, NO_ROW, NO_ROW),
    )
    return replace(calls, cause=_with_their_copies(calls), stream=_streams_waited_for(slices, calls, devices))


def _streams_waited_for(slices: HostSlices, calls: BlockingCalls, devices: list[DeviceOps]) -> Ints:
    """Return the stream that each call waited for; NO_ROW where that stream was itself waiting for another one.

    In that case the call lasted long after the recorded work of its stream, nothing was launched to that stream after a
    call made some stream wait, and the call returned when another stream was done.
    """
    stream_waits = np.sort(slices.start[slices.flags([bool(_STREAM_WAIT.search(name)) for name in slices.names])])
    long = np.flatnonzero((calls.stream != NO_ROW) & (calls.end - calls.start > UNKNOWN_WAIT_NS))
    start, end, stream_of = calls.start[long], calls.end[long], calls.stream[long]
    done, launched = (np.zeros(len(long), np.int64) for _ in range(2))
    other_is_done = np.zeros(len(long), np.bool_)
    calls_of_stream = dict(rows_of_each(stream_of)) if len(stream_waits) else {}
    for ops in devices if calls_of_stream else ():
        reached, of_own = [np.zeros(0, np.int64)], np.zeros(len(long), np.int64)
        for number, on_stream in rows_of_each(ops.stream):
            ends = np.maximum.accumulate(ops.end[on_stream])
            reached.append(ends)
            own = calls_of_stream.get(number)
            if own is None:
                continue
            begun = np.append(0, ends)[np.searchsorted(ops.start[on_stream], end[own])]
            done[own] = np.maximum(done[own], begun)
            launches = np.sort(ops.launch_start[on_stream])
            before = np.append(NO_ROW, launches)[np.searchsorted(launches, start[own])]
            launched[own] = np.maximum(launched[own], before)
            of_own[own] = _count_between(ends, end[own] - RETURN_MAX_NS, end[own] + CLOCK_ERROR_NS)
        of_all = _count_between(np.sort(np.concatenate(reached)), end - RETURN_MAX_NS, end + CLOCK_ERROR_NS)
        other_is_done |= of_all > of_own
    made_to_wait = np.searchsorted(stream_waits, start) > np.searchsorted(stream_waits, launched)
    stream = calls.stream.copy()
    stream[long[made_to_wait & other_is_done & (end - done > UNKNOWN_WAIT_NS)]] = NO_ROW
    return stream


def _count_between(times: Ints, first: Ints, last: Ints) -> Ints:
    counts: Ints = np.searchsorted(times, last, side="right") - np.searchsorted(times, first)
    return counts


def _with_their_copies(calls: BlockingCalls) -> Codes:
    """Return the causes, with short waits right after a blocking copy given to the copy: PyTorch waits after every one.

    Nothing is left to wait for by then. A fix that makes the copy asynchronous removes the wait too.
    """
    cause, thread, start, end = calls.cause, calls.thread, calls.start, calls.end
    is_short = (end - start <= BLOCKING_COPY_MIN_NS) & (calls.least > 0)
    follows = np.zeros(len(cause), np.bool_)
    follows[1:] = (
        (cause[:-1] == _MEMCPY_BLOCK) & (thread[1:] == thread[:-1]) & (start[1:] - end[:-1] <= BLOCKING_COPY_MIN_NS)
    )
    return np.where(follows & is_short & (cause == SYNC_CODE), _MEMCPY_BLOCK, cause).astype(np.int8)
