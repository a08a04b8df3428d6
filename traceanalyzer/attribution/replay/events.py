"""The events of the replay, in the order in which the host issued them, and how a time shift passes between them.

They are launches and waits of the host, call by call, with the host time of each.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import CODE, DISPATCH, GRAPH_GAP, HOST_CODE, NO_ROW, QUEUED_BEFORE, Flags, Ints
from traceanalyzer.attribution.host.blocking_calls import API_MIN_NS, RETURN_NS, UNKNOWN_WAIT_NS, BlockingCalls
from traceanalyzer.attribution.host.host_timeline import Timeline
from traceanalyzer.attribution.host.queues import FullQueue, LoaderTakes, cut, hand_over
from traceanalyzer.attribution.ledger.dependencies import GAP_NS, Dependencies
from traceanalyzer.attribution.ledger.ledger import LedgerRows
from traceanalyzer.attribution.records.device_ops import DeviceOps
from traceanalyzer.attribution.steps.windows import Window


class HostCalls(Struct, frozen=True):
    """The host calls of the scan, in order: launches, waits for the device, and batches taken from workers."""

    start: Ints
    end: Ints
    thread: Ints
    wait: Ints  # row of the blocking calls; NO_ROW: not a blocking call
    take: Ints  # row of the loader takes; NO_ROW: not a take
    launch_id: Ints
    pays: Flags  # the call itself costs host time; False: it spends its time waiting


def host_calls(
    ops: DeviceOps, calls: BlockingCalls, takes: LoaderTakes, chain: Ints, full: Flags, since: int
) -> HostCalls:
    """Return the launches, waits and takes of the threads in `chain` at or after an instant.

    A take has no length: the call after it pays its cost.
    """
    launched = np.flatnonzero(ops.linked & np.isin(ops.launch_thread, chain) & (ops.launch_start >= since))
    launch_id, first = np.unique(ops.launch_id[launched], return_index=True)
    rows = launched[first]
    waits = np.flatnonzero(np.isin(calls.thread, chain) & (calls.start >= since))
    blocked = np.isin(ops.op_id[rows], calls.copy_op[calls.copy_op != NO_ROW]) | full[rows]
    taken = np.flatnonzero(np.isin(takes.thread, chain) & (takes.start >= since))
    start = np.concatenate([ops.launch_start[rows], calls.start[waits], takes.start[taken]])
    no_launch, no_wait, no_take = (np.full(len(part), NO_ROW) for part in (rows, waits, taken))
    kind = np.repeat(np.arange(3), [len(rows), len(waits), len(taken)])
    order = np.lexsort((kind, start))
    return HostCalls(
        start[order],
        np.concatenate([ops.launch_end[rows], calls.end[waits], takes.start[taken]])[order],
        np.concatenate([ops.launch_thread[rows], calls.thread[waits], takes.thread[taken]])[order],
        np.concatenate([no_launch, waits, no_take])[order],
        np.concatenate([no_launch, no_wait, taken])[order],
        np.concatenate([launch_id, no_wait, no_take])[order],
        np.concatenate([~blocked, np.zeros(len(waits) + len(taken), np.bool_)])[order],
    )


def call_costs(timelines: Mapping[int, Timeline], host: HostCalls, since: int) -> Ints:
    """Return the host time by cause between each call and the one before it, with the call's own cost if it pays."""
    count = len(host.start)
    done = np.maximum(np.concatenate([[since], np.maximum.accumulate(host.end)[:-1]])[:count], since)
    until = np.where(host.pays, host.end, host.start)
    thread = np.concatenate([host.thread[:1], host.thread[:-1]])
    stretches = hand_over(timelines, np.arange(count), (thread, host.thread), done, np.maximum(done, until))
    return cut(timelines, stretches).amounts(count)


class ScanOrder(Struct, frozen=True):
    """The events by position: what each is, and the call whose cost comes before it (NO_ROW: none)."""

    op: Ints
    wait: Ints
    take: Ints
    full: Flags  # a wait for room in the launch queue, by the op after it
    call: Ints


def scan_order(ops: DeviceOps, host: HostCalls, included: Flags, full: Flags) -> ScanOrder:
    """Return the events of a scan: included ops ordered by launch, and waiting calls ordered by start."""
    rows = np.flatnonzero(included)
    by_launch = np.argsort(host.launch_id, kind="stable")
    at = np.searchsorted(host.launch_id, ops.launch_id[rows], sorter=by_launch)
    call = by_launch[np.minimum(at, len(by_launch) - 1)] if len(by_launch) else np.full(len(rows), NO_ROW)
    chained = ops.linked[rows] & (host.launch_id[call] == ops.launch_id[rows]) if len(by_launch) else call != NO_ROW
    call = np.where(chained, call, NO_ROW)
    key = np.where(chained, host.start[call] if len(by_launch) else 0, ops.start[rows])
    key = np.where(ops.linked[rows] & ~chained, ops.launch_start[rows], key)
    key = np.where(ops.linked[rows], key, np.minimum(key, _launched_after(ops, rows, key)))
    queued = np.flatnonzero(full[rows])
    waits = np.flatnonzero((host.wait != NO_ROW) | (host.take != NO_ROW))
    op = np.concatenate([rows, rows[queued], np.full(len(waits), NO_ROW)])
    time = np.concatenate([key, key[queued], host.start[waits]])
    # Order within one instant: the wait for room, then the ops that it let through, then the wait for one of them.
    phase = np.concatenate([np.ones(len(rows)), np.zeros(len(queued)), np.full(len(waits), 2)]).astype(np.int64)
    order = np.lexsort((op, phase, time))
    none = np.full(len(rows) + len(queued), NO_ROW)
    return ScanOrder(
        np.where(phase == 1, op, NO_ROW)[order],
        np.concatenate([none, host.wait[waits]])[order],
        np.concatenate([none, host.take[waits]])[order],
        (phase == 0)[order],
        np.concatenate([call, call[queued], waits])[order],
    )


def _launched_after(ops: DeviceOps, rows: Ints, key: Ints) -> Ints:
    """Return for each op the earliest launch among the ops that run after it.

    An op without a known launch was queued before those ops, and events that wait for it need it scanned before them.
    """
    order = np.argsort(ops.start[rows], kind="stable")
    launched = np.where(ops.linked[rows], key, np.iinfo(np.int64).max)[order]
    earliest = np.empty_like(launched)
    earliest[order] = np.minimum.accumulate(launched[::-1])[::-1]
    return earliest


NO_LIMIT = int(np.iinfo(np.int64).max)
_NEVER = int(np.iinfo(np.int64).min)


class ReplayEvents(Struct, frozen=True):
    """Events in scan order; schema/replay_events.sql defines the columns.

    NO_ROW means no op, no cause or no predecessor; NO_LIMIT means no limit.
    """

    op: Ints  # row of the device's ops; NO_ROW: a wait of the host
    cause: Ints  # of waits, code of HOST
    in_window: Flags
    end: Ints
    dur: Ints
    host_slack: Ints
    shift_limit: Ints
    pred1: Ints
    pred1_slack: Ints
    pred2: Ints
    pred2_slack: Ints
    explained_wait: Ints
    removable: Ints
    dispatch: Ints
    dispatch_cause: Ints  # code of BUCKETS
    costs: Ints  # one row per event, one column per code of HOST
    more: MoreNeeds


class MoreNeeds(Struct, frozen=True):
    """The ops that events wait for beyond `pred1` and `pred2`: one row per pair, in the order of the events."""

    position: Ints
    before: Ints
    slack: Ints
    sure: Flags  # False: it may wait; the trace does not say which stream waits for which


class _Slacks(Struct, frozen=True):
    """How long before the binding constraint each other constraint was met: per op, and per pair of `more`."""

    host: Ints
    stream: Ints
    other: Ints
    more: Ints
    possible: Ints


def _op_slacks(ops: DeviceOps, needs: Dependencies, calls: BlockingCalls, latency: int) -> _Slacks:
    own_copy = np.isin(ops.op_id, calls.copy_op[calls.copy_op != NO_ROW])
    issued = np.where(own_copy, np.minimum(ops.launch_start + API_MIN_NS, ops.launch_end), ops.launch_end + latency)
    host = np.where(ops.linked, np.minimum(issued, ops.start), _NEVER)
    after = [
        np.where(before == NO_ROW, _NEVER, np.minimum(ops.end[before] + GAP_NS, ops.start))
        for before in (needs.stream, needs.other)
    ]
    binding = np.maximum.reduce([host, *after])
    waiting, awaited = needs.more
    there = np.minimum(ops.end[awaited] + GAP_NS, ops.start[waiting])
    np.maximum.at(binding, waiting, there)
    may_wait, may_be = needs.possible
    done = np.minimum(ops.end[may_be] + GAP_NS, ops.start[may_wait])
    of_host, of_stream, of_other = (np.where(ready == _NEVER, NO_LIMIT, binding - ready) for ready in (host, *after))
    return _Slacks(of_host, of_stream, of_other, binding[waiting] - there, np.maximum(0, binding[may_wait] - done))


def _dispatch(ops: DeviceOps, rows: LedgerRows) -> tuple[Ints, Ints]:
    """Return the length and the bucket of the dispatch gap that the ledger has before each op."""
    length, cause = np.zeros(ops.count, np.int64), np.full(ops.count, NO_ROW)
    for bucket in (CODE[DISPATCH], CODE[GRAPH_GAP]):
        of_bucket = np.flatnonzero(rows.bucket == bucket)
        np.add.at(length, rows.blame[of_bucket], rows.dur[of_bucket])
        cause[rows.blame[of_bucket]] = bucket
    return length, cause


def build_replay_events(
    ops: DeviceOps,
    needs: Dependencies,
    timelines: Mapping[int, Timeline],
    calls: BlockingCalls,
    takes: LoaderTakes,
    ledger: LedgerRows,
    window: Window,
    queue: FullQueue,
) -> ReplayEvents:
    """Return the events of a device, up to the op at whose start savings are measured."""
    head = window.first_row
    if head is None:
        head = int(np.searchsorted(ops.start, window.start))
    included = np.ones(ops.count, np.bool_)
    if window.measure_at_row is not None:
        last = window.measure_at_row
        until = int(ops.launch_start[last])
        included = np.where(ops.linked, ops.launch_start <= until, ops.start <= ops.start[last])
    chain = np.unique(ops.launch_thread[ops.compute & ops.linked])
    first_launch = int(ops.launch_start[included & ops.linked].min(initial=NO_LIMIT))
    host = host_calls(ops, calls, takes, chain, queue.waited, first_launch)
    order = scan_order(ops, host, included, queue.waited)
    # Causes are removed from the steps before the window too, so that the host runs ahead as in a steady state. Without
    # such steps the host time before the first op lies outside.
    if window.host_start is not None:
        since = min(first_launch, window.host_start)
    elif window.runs_in_from is not None:
        since = window.runs_in_from
    else:
        since = int(ops.launch_end[head]) if ops.linked[head] else min(window.start, first_launch)
    costs = call_costs(timelines, host, since) if len(host.start) else np.zeros((0, 1), np.int64)
    draft = _Draft(ops, calls, order)
    draft.link_ops(needs, _op_slacks(ops, needs, calls, window.latency))
    draft.link_waits(needs.of_calls)
    draft.link_full_queue(queue)
    draft.link_takes(takes)
    draft.hold(ledger.blame[ledger.bucket == CODE[QUEUED_BEFORE]])
    return draft.finish(costs, _dispatch(ops, ledger), draft.window_begins(window))


class _Draft:
    """Events under construction; `pred1` and `pred2` hold rows of ops until `finish` turns them into positions."""

    def __init__(self, ops: DeviceOps, calls: BlockingCalls, order: ScanOrder) -> None:
        self.ops, self.calls, self.order = ops, calls, order
        count = len(order.op)
        self.is_op = order.op != NO_ROW
        self.cause, self.pred1, self.pred2 = (np.full(count, NO_ROW) for _ in range(3))
        self.pred1_slack, self.pred2_slack = np.full(count, NO_LIMIT), np.full(count, NO_LIMIT)
        # Rows of ops, rows of the ops that each waits for, the slack, and whether the wait is sure.
        none = np.zeros(0, np.int64)
        self.more: tuple[Ints, Ints, Ints, Flags] = (none, none, none, np.zeros(0, np.bool_))
        # Positions of waits, the op that each may have been for, and how long that op was done before.
        self.may_hold = (np.zeros(0, np.int64),) * 3
        # Positions of takes, of the take that limits each, and of the take whose larger shift each passes on.
        self.taken_before = (np.zeros(0, np.int64),) * 3
        self.host_slack, self.shift_limit = np.full(count, NO_LIMIT), np.full(count, NO_LIMIT)
        self.end, self.explained_wait, self.removable = (np.zeros(count, np.int64) for _ in range(3))

    def link_ops(self, needs: Dependencies, slacks: _Slacks) -> None:
        """Make ops wait for their launch and for the ops before them."""
        at = np.flatnonzero(self.is_op)
        op = self.order.op[at]
        self.end[at] = self.ops.end[op]
        # Pages move when the host comes to them, or the kernel that it launched, in no order of their own.
        moved = self.ops.moves_pages[op]
        self.pred1[at] = np.where(moved, NO_ROW, needs.stream[op])
        self.pred1_slack[at] = np.where(moved, NO_LIMIT, slacks.stream[op])
        self.pred2[at], self.pred2_slack[at] = needs.other[op], slacks.other[op]
        (waiting, awaited), (may_wait, may_be) = needs.more, needs.possible
        self.more = (
            np.concatenate([waiting, may_wait]),
            np.concatenate([awaited, may_be]),
            np.concatenate([slacks.more, slacks.possible]),
            np.arange(len(waiting) + len(may_wait)) < len(waiting),
        )
        # A launch by a thread that the scan does not follow keeps its time.
        followed = self.order.call[at] != NO_ROW
        self.host_slack[at] = np.where(followed, slacks.host[op], np.where(moved, 0, NO_LIMIT))
        self.shift_limit[at] = np.where(followed | moved, NO_LIMIT, slacks.host[op])

    def link_waits(self, waited: Ints) -> None:
        """Make waits end with the op that they waited for."""
        at = np.flatnonzero(self.order.wait != NO_ROW)
        call = self.order.wait[at]
        start, end, target = self.calls.start[call], self.calls.end[call], waited[call]
        frees = self.calls.frees[call]
        known = target != NO_ROW
        # A call that found its event already recorded does not say which event: it may have been recorded long before.
        is_recorded = (self.calls.stream[call] != NO_ROW) | ~self.calls.of_event[call]
        guessed = known & ~is_recorded & (end - start <= self.calls.least[call] + API_MIN_NS)
        released = known & ~guessed & (self.ops.end[target] > start)
        # The driver frees memory after the wait.
        freeing = np.where(released, end - self.ops.end[target], end - start)
        least = np.where(frees, freeing, self.calls.least[call])
        returned = self.ops.end[target] + np.where(frees, freeing, RETURN_NS)
        returned = np.where(released, end, np.minimum(end, returned))
        self.end[at], self.pred1[at] = end, np.where(guessed, NO_ROW, target)
        self.pred1_slack[at] = np.where(known & ~guessed, end - returned, NO_LIMIT)
        self.may_hold = at[guessed], target[guessed], (end - returned)[guessed]
        self.explained_wait[at] = np.where(released, np.maximum(0, end - start - least), 0)
        self.cause[at] = self.calls.cause[call]
        self.removable[at] = np.maximum(0, end - start - self.calls.kept[call])
        # A long wait that no op of this device explains is for something else, which no removal here makes earlier.
        self.shift_limit[at[~known & ~frees & (end - start > UNKNOWN_WAIT_NS)]] = 0

    def link_full_queue(self, queue: FullQueue) -> None:
        """Make launches into a full queue wait for the op that made room."""
        at = np.flatnonzero(self.order.full)
        op = self.order.op[at + 1] if len(at) else at
        self.end[at], self.explained_wait[at] = self.ops.launch_end[op], queue.wait_ns[op]
        self.pred1[at], self.pred1_slack[at] = queue.freed[op], 0

    def link_takes(self, takes: LoaderTakes) -> None:
        """Limit how much earlier a late batch can be ready to how much earlier its worker could begin it."""
        at = np.flatnonzero(self.order.take != NO_ROW)
        row = self.order.take[at]
        self.end[at], self.cause[at] = takes.end[row], HOST_CODE["host.dataloader"]
        position = np.full(len(takes.start) + 1, NO_ROW)  # the last entry answers NO_ROW
        position[row] = at
        waited, before = takes.waited[row], position[takes.held_by()[row]]
        # A batch that workers began before the trace, or before the window's steps, keeps its time.
        self.shift_limit[at[waited & (before == NO_ROW)]] = 0
        self.taken_before = at, np.where(waited, before, NO_ROW), np.where(waited, NO_ROW, before)

    def hold(self, rows: Ints) -> None:
        """Pin ops that waited for work from before the trace: no removal makes that work earlier."""
        self.shift_limit[np.isin(self.order.op, rows)] = 0

    def window_begins(self, window: Window) -> int:
        """Return the position of the first event in the window."""
        order, since = self.order, window.runs_in_from
        if window.first_row is not None:
            return int(np.flatnonzero(order.op == window.first_row)[0]) + 1
        if since is None:
            return 0
        launched = np.where(self.ops.linked, self.ops.launch_start >= since, self.ops.start >= window.start)
        inside = np.where(order.op != NO_ROW, np.append(launched, False)[order.op], False)
        inside |= (order.wait != NO_ROW) & (np.append(self.calls.start, 0)[order.wait] >= since)
        return int(np.append(np.flatnonzero(inside), len(inside))[0])

    def finish(self, costs: Ints, dispatch: tuple[Ints, Ints], window_begins: int) -> ReplayEvents:
        """Return the events, with positions instead of rows of ops, and each call's costs at its first event."""
        op, is_op, call = self.order.op, self.is_op, self.order.call
        position = np.full(self.ops.count + 1, NO_ROW)  # the last entry answers NO_ROW
        position[op[is_op]] = np.flatnonzero(is_op)
        # Where the op ahead on the stream was launched later, the order of calls proves nothing, and limits nothing.
        is_later = is_op & (self.pred1 != NO_ROW) & (position[self.pred1] > np.arange(len(op)))
        self.pred1[is_later] = NO_ROW
        pred1, pred1_slack = self._positions(position, self.pred1, self.pred1_slack)
        pred2, pred2_slack = self._positions(position, self.pred2, self.pred2_slack)
        more = self._more(position)
        at, awaited, before = self.taken_before
        pred1[at], pred1_slack[at] = awaited, np.where(awaited == NO_ROW, NO_LIMIT, 0)
        pred2[at] = before
        paid = np.flatnonzero(call != NO_ROW)
        _, leader = np.unique(call[paid], return_index=True)
        paying = np.full(len(op), NO_ROW)
        paying[paid[leader]] = call[paid[leader]]
        return ReplayEvents(
            op=op,
            cause=self.cause,
            in_window=np.arange(len(op)) >= window_begins,
            end=self.end,
            dur=np.where(is_op, self.ops.recorded_end[op] - self.ops.start[op], 0),
            host_slack=self.host_slack,
            shift_limit=self.shift_limit,
            pred1=pred1,
            pred1_slack=pred1_slack,
            pred2=pred2,
            pred2_slack=pred2_slack,
            explained_wait=self.explained_wait,
            removable=self.removable,
            dispatch=np.where(is_op, dispatch[0][op], 0),
            dispatch_cause=np.where(is_op, dispatch[1][op], NO_ROW),
            costs=np.concatenate([costs, np.zeros((1, costs.shape[1]), np.int64)])[paying],
            more=more,
        )

    def _positions(self, position: Ints, rows: Ints, slack: Ints) -> tuple[Ints, Ints]:
        """Return the positions and slacks of ops; an op outside the scan or later in it limits the shift instead."""
        at = position[rows]
        earlier = (at != NO_ROW) & (at < np.arange(len(at)))
        outside = (rows != NO_ROW) & ~earlier
        self.shift_limit[outside] = np.minimum(self.shift_limit, slack)[outside]
        return np.where(earlier, at, NO_ROW), np.where(earlier, slack, NO_LIMIT)

    def _more(self, position: Ints) -> MoreNeeds:
        """Return the ops that events wait for beyond `pred1` and `pred2`, treated as `_positions` treats those."""
        waiting, awaited, slack, sure = self.more
        held, by, held_slack = self.may_hold
        at, before = np.concatenate([position[waiting], held]), position[np.concatenate([awaited, by])]
        slack, sure = np.concatenate([slack, held_slack]), np.concatenate([sure, np.zeros(len(held), np.bool_)])
        scanned = at != NO_ROW
        earlier = scanned & (before != NO_ROW) & (before < at)
        outside = scanned & ~earlier & sure
        np.minimum.at(self.shift_limit, at[outside], slack[outside])
        kept = np.flatnonzero(earlier)
        kept = kept[np.argsort(at[kept], kind="stable")]
        return MoreNeeds(at[kept], before[kept], slack[kept], sure[kept])
