"""The events of the lead scan in the order the host issued them, with all that passes lead from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.blocking_calls import API_MIN_NS, RETURN_NS, UNKNOWN_WAIT_NS, BlockingCalls
from traceanalyzer.attribution.buckets import CARRIED_IN, CODE, DISPATCH, GRAPH_GAP, HOST_CODE, Flags, Ints
from traceanalyzer.attribution.dependencies import GAP_NS, Dependencies
from traceanalyzer.attribution.device_ops import DeviceOps
from traceanalyzer.attribution.host_timeline import Timeline
from traceanalyzer.attribution.launch_queue import FullQueue
from traceanalyzer.attribution.ledger import LedgerRows
from traceanalyzer.attribution.loader_takes import LoaderTakes
from traceanalyzer.attribution.scan_order import ScanOrder, call_costs, host_calls, scan_order
from traceanalyzer.attribution.windows import Window

NO_LIMIT = int(np.iinfo(np.int64).max)
_NEVER = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class LeadEvents:
    """Events in scan order. NO_ROW stands for no op, no cause, no predecessor; NO_LIMIT for no limit."""

    op: Ints  # row of the device's ops; NO_ROW: a wait of the host
    cause: Ints  # of waits, code of HOST
    in_window: Flags
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
    more: MoreNeeds


@dataclass(frozen=True)
class MoreNeeds:
    """What events wait for beside `first` and `second`: one row each, in the order of the events."""

    position: Ints
    before: Ints
    slack: Ints
    sure: Flags  # else it may have: which streams wait for which was not recorded


@dataclass(frozen=True)
class _Slacks:
    """For ops: by how much each constraint was met before the binding one; for each pair of `more`, too."""

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
    takes: LoaderTakes,
    ledger: LedgerRows,
    window: Window,
    queue: FullQueue,
) -> LeadEvents:
    """Return the events of a device, up to the op at whose start a saving is read."""
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
    host = host_calls(ops, calls, takes, chain, queue.waited, first_launch)
    order = scan_order(ops, host, included, queue.waited)
    # Steps before the window lose their causes too, so that the host's run-ahead is that of a steady state. Where there
    # are none, the host time before the first op lies outside.
    if window.host_start is not None:
        since = min(first_launch, window.host_start)
    else:
        since = int(ops.launch_end[head]) if ops.linked[head] else min(window.start, first_launch)
    costs = call_costs(timelines, host, since) if len(host.start) else np.zeros((0, 1), np.int64)
    draft = _Draft(ops, calls, order)
    draft.link_ops(needs, _op_slacks(ops, needs, calls, window.latency))
    draft.link_waits(needs.of_calls)
    draft.link_full_queue(queue)
    draft.link_takes(takes)
    draft.hold(ledger.blame[ledger.bucket == CODE[CARRIED_IN]])
    return draft.finish(costs, _dispatch(ops, ledger), window.first_row)


class _Draft:
    """Events while what passes lead to them is filled in; `first` and `second` are rows of ops until they are done."""

    def __init__(self, ops: DeviceOps, calls: BlockingCalls, order: ScanOrder) -> None:
        self.ops, self.calls, self.order = ops, calls, order
        count = len(order.op)
        self.is_op = order.op != NO_ROW
        self.cause, self.first, self.second = (np.full(count, NO_ROW) for _ in range(3))
        self.first_slack, self.second_slack = np.full(count, NO_LIMIT), np.full(count, NO_LIMIT)
        # Rows of ops, of what each waits for, that one's slack, and whether it surely does.
        none = np.zeros(0, np.int64)
        self.more: tuple[Ints, Ints, Ints, Flags] = (none, none, none, np.zeros(0, np.bool_))
        # Positions of waits, the op that each may have been for, and by how much that one was done before.
        self.may_hold = (np.zeros(0, np.int64),) * 3
        # Positions of takes, of the one that holds each, and of the one whose lead each passes on if it is more.
        self.taken_before = (np.zeros(0, np.int64),) * 3
        self.host_slack, self.cap = np.full(count, NO_LIMIT), np.full(count, NO_LIMIT)
        self.end, self.own, self.removable = (np.zeros(count, np.int64) for _ in range(3))

    def link_ops(self, needs: Dependencies, slacks: _Slacks) -> None:
        """Let ops wait for their launch and for the ops before them."""
        at = np.flatnonzero(self.is_op)
        op = self.order.op[at]
        self.end[at] = self.ops.end[op]
        self.first[at], self.first_slack[at] = needs.stream[op], slacks.stream[op]
        self.second[at], self.second_slack[at] = needs.other[op], slacks.other[op]
        (waiting, awaited), (may_wait, may_be) = needs.more, needs.possible
        self.more = (
            np.concatenate([waiting, may_wait]),
            np.concatenate([awaited, may_be]),
            np.concatenate([slacks.more, slacks.possible]),
            np.arange(len(waiting) + len(may_wait)) < len(waiting),
        )
        # A launch by a thread that is not followed stays where it is.
        followed = self.order.call[at] != NO_ROW
        self.host_slack[at] = np.where(followed, slacks.host[op], NO_LIMIT)
        self.cap[at] = np.where(followed, NO_LIMIT, slacks.host[op])

    def link_waits(self, waited: Ints) -> None:
        """Let waits end with the op they waited for."""
        at = np.flatnonzero(self.order.wait != NO_ROW)
        call = self.order.wait[at]
        start, end, target = self.calls.start[call], self.calls.end[call], waited[call]
        frees = self.calls.frees[call]
        known = target != NO_ROW
        # Which event a call was for that found it there is not known: it may have been there long before.
        told = (self.calls.stream[call] != NO_ROW) | ~self.calls.of_event[call]
        guessed = known & ~told & (end - start <= self.calls.least[call] + API_MIN_NS)
        released = known & ~guessed & (self.ops.end[target] > start)
        # Memory is given back after the wait.
        freeing = np.where(released, end - self.ops.end[target], end - start)
        least = np.where(frees, freeing, self.calls.least[call])
        returned = self.ops.end[target] + np.where(frees, freeing, RETURN_NS)
        returned = np.where(released, end, np.minimum(end, returned))
        self.end[at], self.first[at] = end, np.where(guessed, NO_ROW, target)
        self.first_slack[at] = np.where(known & ~guessed, end - returned, NO_LIMIT)
        self.may_hold = at[guessed], target[guessed], (end - returned)[guessed]
        self.own[at] = np.where(released, np.maximum(0, end - start - least), 0)
        self.cause[at] = self.calls.cause[call]
        self.removable[at] = np.maximum(0, end - start - self.calls.least[call])
        # A long wait for nothing on this device waited for something else, which nothing here makes earlier.
        self.cap[at[~known & ~frees & (end - start > UNKNOWN_WAIT_NS)]] = 0

    def link_full_queue(self, queue: FullQueue) -> None:
        """Let launches into a full queue wait for the op that made room."""
        at = np.flatnonzero(self.order.full)
        op = self.order.op[at + 1] if len(at) else at
        self.end[at], self.own[at] = self.ops.launch_end[op], queue.wait_ns[op]
        self.first[at], self.first_slack[at] = queue.freed[op], 0

    def link_takes(self, takes: LoaderTakes) -> None:
        """Let batches that were waited for be ready by as much earlier, at most, as their workers could begin them."""
        at = np.flatnonzero(self.order.take != NO_ROW)
        row = self.order.take[at]
        self.end[at], self.cause[at] = takes.end[row], HOST_CODE["host.dataloader"]
        position = np.full(len(takes.start) + 1, NO_ROW)  # one more, so that NO_ROW finds NO_ROW
        position[row] = at
        waited, before = takes.waited[row], position[takes.held_by()[row]]
        # What its workers began before the trace, or the window's steps, is there when it is.
        self.cap[at[waited & (before == NO_ROW)]] = 0
        self.taken_before = at, np.where(waited, before, NO_ROW), np.where(waited, NO_ROW, before)

    def hold(self, rows: Ints) -> None:
        """Let ops that waited for work from before the trace keep their time: nothing here makes that earlier."""
        self.cap[np.isin(self.order.op, rows)] = 0

    def finish(self, costs: Ints, dispatch: tuple[Ints, Ints], first_row: int | None) -> LeadEvents:
        """Return the events, with positions for rows of ops and each call's costs at its first event."""
        op, is_op, call = self.order.op, self.is_op, self.order.call
        position = np.full(self.ops.count + 1, NO_ROW)  # one more, so that NO_ROW finds NO_ROW
        position[op[is_op]] = np.flatnonzero(is_op)
        first, first_slack = self._positions(position, self.first, self.first_slack)
        second, second_slack = self._positions(position, self.second, self.second_slack)
        more = self._more(position)
        at, awaited, before = self.taken_before
        first[at], first_slack[at] = awaited, np.where(awaited == NO_ROW, NO_LIMIT, 0)
        second[at] = before
        paid = np.flatnonzero(call != NO_ROW)
        _, leader = np.unique(call[paid], return_index=True)
        paying = np.full(len(op), NO_ROW)
        paying[paid[leader]] = call[paid[leader]]
        return LeadEvents(
            op=op,
            cause=self.cause,
            in_window=np.arange(len(op)) > (NO_ROW if first_row is None else position[first_row]),
            end=self.end,
            dur=np.where(is_op, self.ops.end[op] - self.ops.start[op], 0),
            host_slack=self.host_slack,
            cap=self.cap,
            first=first,
            first_slack=first_slack,
            second=second,
            second_slack=second_slack,
            own=self.own,
            removable=self.removable,
            dispatch=np.where(is_op, dispatch[0][op], 0),
            dispatch_cause=np.where(is_op, dispatch[1][op], NO_ROW),
            costs=np.concatenate([costs, np.zeros((1, costs.shape[1]), np.int64)])[paying],
            more=more,
        )

    def _positions(self, position: Ints, rows: Ints, slack: Ints) -> tuple[Ints, Ints]:
        """Return where ops stand in the scan; those outside or later keep their time, and cap the lead."""
        found = position[rows]
        earlier = (found != NO_ROW) & (found < np.arange(len(found)))
        outside = (rows != NO_ROW) & ~earlier
        self.cap[outside] = np.minimum(self.cap, slack)[outside]
        return np.where(earlier, found, NO_ROW), np.where(earlier, slack, NO_LIMIT)

    def _more(self, position: Ints) -> MoreNeeds:
        """Return the same of what ops wait for beside `first` and `second`."""
        waiting, awaited, slack, sure = self.more
        held, by, held_slack = self.may_hold
        at, before = np.concatenate([position[waiting], held]), position[np.concatenate([awaited, by])]
        slack, sure = np.concatenate([slack, held_slack]), np.concatenate([sure, np.zeros(len(held), np.bool_)])
        scanned = at != NO_ROW
        earlier = scanned & (before != NO_ROW) & (before < at)
        outside = scanned & ~earlier & sure
        np.minimum.at(self.cap, at[outside], slack[outside])
        kept = np.flatnonzero(earlier)
        kept = kept[np.argsort(at[kept], kind="stable")]
        return MoreNeeds(at[kept], before[kept], slack[kept], sure[kept])
