"""The events of the lead scan in the order the host issued them, with all that passes lead from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.blocking_calls import API_MIN_NS, RETURN_NS, BlockingCalls, waited_ops
from traceanalyzer.attribution.buckets import CODE, DISPATCH, GRAPH_GAP, Flags, Ints
from traceanalyzer.attribution.dependencies import GAP_NS, Dependencies
from traceanalyzer.attribution.device_ops import DeviceOps
from traceanalyzer.attribution.host_costs import cut, hand_over
from traceanalyzer.attribution.host_timeline import Timeline
from traceanalyzer.attribution.ledger import LedgerRows
from traceanalyzer.attribution.windows import Window

# What a launch costs the host where the queue has room.
LAUNCH_NS = 6_000
# A call that waits for nothing returns within this.
UNKNOWN_WAIT_NS = 50_000
NO_LIMIT = int(np.iinfo(np.int64).max)
_NEVER = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class LeadEvents:
    """Events in scan order. NO_ROW stands for no op, no cause, no predecessor; NO_LIMIT for no limit."""

    op: Ints  # row of the device's ops; NO_ROW: a wait of the host
    cause: Ints  # of waits, code of HOST
    end: Ints
    dur: Ints
    host_slack: Ints
    cap: Ints
    first: Ints
    first_slack: Ints
    second: Ints
    second_slack: Ints
    own: Ints
    removable: Ints
    dispatch: Ints
    dispatch_cause: Ints  # code of BUCKETS
    costs: Ints  # one row an event, one column a code of HOST


@dataclass(frozen=True)
class _Calls:
    """Host calls that matter, in order: launches and waits."""

    start: Ints
    end: Ints
    thread: Ints
    wait: Ints  # row of the blocking calls; NO_ROW: a launch
    launch_id: Ints
    pays: Flags  # the call itself costs host time; else it is spent waiting


def _host_calls(ops: DeviceOps, calls: BlockingCalls, chain: Ints, full: Flags, since: int) -> _Calls:
    """Return launches and waits of the chain's threads that begin at or after an instant."""
    mine = np.flatnonzero(ops.linked & np.isin(ops.launch_thread, chain) & (ops.launch_start >= since))
    launch_id, first = np.unique(ops.launch_id[mine], return_index=True)
    rows = mine[first]
    waits = np.flatnonzero(np.isin(calls.thread, chain) & (calls.start >= since))
    blocked = np.isin(ops.op_id[rows], calls.copy_op[calls.copy_op != NO_ROW]) | full[rows]
    start = np.concatenate([ops.launch_start[rows], calls.start[waits]])
    is_wait = np.concatenate([np.zeros(len(rows), np.int64), np.ones(len(waits), np.int64)])
    order = np.lexsort((is_wait, start))
    return _Calls(
        start[order],
        np.concatenate([ops.launch_end[rows], calls.end[waits]])[order],
        np.concatenate([ops.launch_thread[rows], calls.thread[waits]])[order],
        np.concatenate([np.full(len(rows), NO_ROW), waits])[order],
        np.concatenate([launch_id, np.full(len(waits), NO_ROW)])[order],
        np.concatenate([~blocked, np.zeros(len(waits), np.bool_)])[order],
    )


def _call_costs(timelines: Mapping[int, Timeline], host: _Calls, since: int) -> Ints:
    """Return what the host spent between each call and the one before it, its own cost included where it pays."""
    count = len(host.start)
    done = np.maximum(np.concatenate([[since], np.maximum.accumulate(host.end)[:-1]])[:count], since)
    until = np.where(host.pays, host.end, host.start)
    thread = np.concatenate([host.thread[:1], host.thread[:-1]])
    stretches = hand_over(timelines, np.arange(count), (thread, host.thread), done, np.maximum(done, until))
    return cut(timelines, stretches).amounts(count)


@dataclass(frozen=True)
class _Order:
    """Scan positions: for each event the op or wait it is, and the call whose cost comes before it (NO_ROW: none)."""

    op: Ints
    wait: Ints
    full: Flags  # a wait for room in the launch queue, by the op that follows
    call: Ints


def _order(ops: DeviceOps, host: _Calls, included: Flags, full: Flags) -> _Order:
    rows = np.flatnonzero(included)
    by_launch = np.argsort(host.launch_id, kind="stable")
    at = np.searchsorted(host.launch_id, ops.launch_id[rows], sorter=by_launch)
    call = by_launch[np.minimum(at, len(by_launch) - 1)] if len(by_launch) else np.full(len(rows), NO_ROW)
    chained = ops.linked[rows] & (host.launch_id[call] == ops.launch_id[rows]) if len(by_launch) else call != NO_ROW
    call = np.where(chained, call, NO_ROW)
    key = np.where(chained, host.start[call] if len(by_launch) else 0, ops.start[rows])
    key = np.where(ops.linked[rows] & ~chained, ops.launch_start[rows], key)
    queued = np.flatnonzero(full[rows])
    waits = np.flatnonzero(host.wait != NO_ROW)
    op = np.concatenate([rows, rows[queued], np.full(len(waits), NO_ROW)])
    time = np.concatenate([key, key[queued], host.start[waits]])
    # At one instant: the wait for room, then the ops it let through in their order, then the wait for one of them.
    phase = np.concatenate([np.ones(len(rows)), np.zeros(len(queued)), np.full(len(waits), 2)]).astype(np.int64)
    order = np.lexsort((op, phase, time))
    return _Order(
        np.where(phase == 1, op, NO_ROW)[order],
        np.concatenate([np.full(len(rows) + len(queued), NO_ROW), host.wait[waits]])[order],
        (phase == 0)[order],
        np.concatenate([call, call[queued], waits])[order],
    )


@dataclass(frozen=True)
class _Slacks:
    """For ops: by how much each constraint was met before the binding one."""

    host: Ints
    stream: Ints
    other: Ints


def _op_slacks(ops: DeviceOps, needs: Dependencies, calls: BlockingCalls, latency: int) -> _Slacks:
    own_copy = np.isin(ops.op_id, calls.copy_op[calls.copy_op != NO_ROW])
    issued = np.where(own_copy, np.minimum(ops.launch_start + API_MIN_NS, ops.launch_end), ops.launch_end + latency)
    host = np.where(ops.linked, np.minimum(issued, ops.start), _NEVER)
    after = [
        np.where(before == NO_ROW, _NEVER, np.minimum(ops.end[before] + GAP_NS, ops.start))
        for before in (needs.stream, needs.other)
    ]
    binding = np.maximum(host, np.maximum(*after))
    return _Slacks(*(np.where(ready == _NEVER, NO_LIMIT, binding - ready) for ready in (host, *after)))


def _dispatch(ops: DeviceOps, rows: LedgerRows) -> tuple[Ints, Ints]:
    """Return the dispatch gap before each op that the ledger holds, and its bucket."""
    length, cause = np.zeros(ops.count, np.int64), np.full(ops.count, NO_ROW)
    for bucket in (CODE[DISPATCH], CODE[GRAPH_GAP]):
        mine = np.flatnonzero(rows.bucket == bucket)
        np.add.at(length, rows.blame[mine], rows.dur[mine])
        cause[rows.blame[mine]] = bucket
    return length, cause


def build_lead_events(
    ops: DeviceOps,
    needs: Dependencies,
    timelines: Mapping[int, Timeline],
    calls: BlockingCalls,
    ledger: LedgerRows,
    window: Window,
    queue: tuple[Flags, Ints],
) -> LeadEvents:
    """Return the events of a device, up to the op at whose start a saving is read."""
    full, freed = queue
    head = window.first_row
    if head is None:
        head = int(np.searchsorted(ops.start, window.start))
    included = np.ones(ops.count, np.bool_)
    if window.reading_row is not None:
        last = window.reading_row
        until = int(ops.launch_start[last])
        included = np.where(ops.linked, ops.launch_start <= until, ops.start <= ops.start[last])
    chain = np.unique(ops.launch_thread[ops.compute & ops.linked])
    first_launch = int(ops.launch_start[included & ops.linked].min(initial=NO_LIMIT))
    host = _host_calls(ops, calls, chain, full, first_launch)
    order = _order(ops, host, included, full)
    # Host time before the window's first kernel was spent for the step before it: it is not removed. Faster ops are
    # faster from the start, so that the host's run-ahead over them is that of a steady state.
    since = int(ops.launch_end[head]) if ops.linked[head] else first_launch
    costs = _call_costs(timelines, host, since) if len(host.start) else np.zeros((0, 1), np.int64)
    return _events(
        ops, calls, order, since, costs, _Links(ops, needs, calls, window.latency, freed), _dispatch(ops, ledger)
    )


class _Links:
    """What passes lead to an event: positions and slacks of the events it waited for."""

    def __init__(self, ops: DeviceOps, needs: Dependencies, calls: BlockingCalls, latency: int, freed: Ints) -> None:
        self.needs = needs
        self.freed = freed
        self.slacks = _op_slacks(ops, needs, calls, latency)
        self.waited = waited_ops(calls, ops)


def _events(
    ops: DeviceOps,
    calls: BlockingCalls,
    order: _Order,
    since: int,
    costs: Ints,
    links: _Links,
    dispatch: tuple[Ints, Ints],
) -> LeadEvents:
    count = len(order.op)
    position = np.full(ops.count + 1, NO_ROW)  # one more, so that NO_ROW finds NO_ROW
    is_op = order.op != NO_ROW
    position[order.op[is_op]] = np.flatnonzero(is_op)
    op = order.op
    chained = is_op & (order.call != NO_ROW)
    first = np.where(is_op, links.needs.stream[op], NO_ROW)
    first_slack = np.where(is_op, links.slacks.stream[op], NO_LIMIT)
    second_op = np.where(is_op, links.needs.other[op], NO_ROW)
    second_slack = np.where(is_op, links.slacks.other[op], NO_LIMIT)
    host_slack = np.where(is_op, links.slacks.host[op], NO_LIMIT)
    end = np.where(is_op, ops.end[op], 0)
    own, removable = np.zeros(count, np.int64), np.zeros(count, np.int64)
    cause = np.full(count, NO_ROW)

    waits = np.flatnonzero(order.wait != NO_ROW)
    call = order.wait[waits]
    target = links.waited[call]
    dur = calls.end[call] - calls.start[call]
    known = target != NO_ROW
    released = known & (ops.end[target] > calls.start[call])
    waited = np.maximum(0, dur - API_MIN_NS)
    own[waits] = np.where(released, waited, 0)
    end[waits], first[waits] = calls.end[call], target
    inside = waits[calls.start[call] >= since]
    cause[inside] = calls.cause[order.wait[inside]]
    removable[waits] = np.where(calls.start[call] >= since, waited, 0)
    returned = np.where(released, calls.end[call], np.minimum(calls.end[call], ops.end[target] + RETURN_NS))
    first_slack[waits] = np.where(known, calls.end[call] - returned, NO_LIMIT)

    full = np.flatnonzero(order.full)
    caller = op[full + 1] if len(full) else full
    end[full] = ops.launch_end[caller]
    own[full] = np.maximum(0, ops.launch_end[caller] - ops.launch_start[caller] - LAUNCH_NS)
    first[full], first_slack[full] = links.freed[caller], 0

    # What lies outside the scan or after the event in it keeps its time, and caps the lead.
    cap = np.where(is_op & ~chained, host_slack, NO_LIMIT)
    # A long wait for nothing on this device waited for something else, which nothing here makes earlier.
    cap[waits[~known & (dur > UNKNOWN_WAIT_NS)]] = 0
    host_slack = np.where(chained, host_slack, NO_LIMIT)
    first, cap, first_slack = _inside(position[first], first_slack, cap, first != NO_ROW)
    second, cap, second_slack = _inside(position[second_op], second_slack, cap, second_op != NO_ROW)
    once = np.full(count, NO_ROW)
    paid = np.flatnonzero(order.call != NO_ROW)
    _, leader = np.unique(order.call[paid], return_index=True)
    once[paid[leader]] = order.call[paid[leader]]
    table = np.concatenate([costs, np.zeros((1, costs.shape[1]), np.int64)])
    return LeadEvents(
        op=op,
        cause=cause,
        end=end,
        dur=np.where(is_op, ops.end[op] - ops.start[op], 0),
        host_slack=host_slack,
        cap=cap,
        first=first,
        first_slack=first_slack,
        second=second,
        second_slack=second_slack,
        own=own,
        removable=removable,
        dispatch=np.where(is_op, dispatch[0][op], 0),
        dispatch_cause=np.where(is_op, dispatch[1][op], NO_ROW),
        costs=table[once],
    )


def _inside(position: Ints, slack: Ints, cap: Ints, exists: Flags) -> tuple[Ints, Ints, Ints]:
    earlier = (position != NO_ROW) & (position < np.arange(len(position)))
    cap = np.where(exists & ~earlier, np.minimum(cap, slack), cap)
    return np.where(earlier, position, NO_ROW), cap, np.where(earlier, slack, NO_LIMIT)
