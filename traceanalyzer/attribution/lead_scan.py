"""How much shorter the window would be if causes cost nothing or ops were faster: one pass over the lead events.

Lead is by how much earlier an event would happen. Host time that is removed gives the issuing thread lead; a wait for
the device gives back what the device cannot match; an op starts earlier by the least lead among what it waited for,
plus the slack that this one had. Lead is only made of removed time, never of gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.arrow_columns import NO_ROW, NamedRows, column, flag_column
from traceanalyzer.attribution.buckets import HOST, LIGHT, SKEW, TRANSFER, Flags, Ints
from traceanalyzer.attribution.dependencies import GAP_NS
from traceanalyzer.attribution.lanes import Lanes, stretches

Savings = Mapping[int, int]
_LIGHT = frozenset(LIGHT)
_LOADER = "host.dataloader"
# Far above any lead, and far enough below the largest integer to add to.
_NO_LIMIT = int(np.iinfo(np.int64).max // 4)
# From here on one pass over many scenarios at once is faster than one pass each.
LANES_FROM = 4


@dataclass(frozen=True)
class Scenario:
    """What costs nothing (host causes, device buckets), which ops (by id) are shorter by how much, or not launched.

    The host saves what it spent on launches that are left out: the call, its operator and the Python before it. Their
    ops stay, unless they are shortened to nothing.
    """

    removed: frozenset[str] = frozenset()
    savings: Savings | None = None
    launches: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Leads:
    """By how much earlier everything happens, a value a scenario."""

    end: Ints  # of each event's end, one row an event
    start: Callable[[int], Ints]  # of the start of the event at a position
    taken: list[int]  # host time and time of ops that a scenario takes out of the window


# For each event: host time removed before it, whether its wait is, its earlier start, its shorter run.
Inputs = tuple[Ints, Flags, Ints, Ints]
# Positions of further ops that an event waits for, and by how much each was done before the binding constraint.
_More = tuple[tuple[int, int], ...]
# is_op, host_slack, cap, first, first_slack, second, second_slack, more, own
_Step = tuple[bool, int, int, int, int, int, int, _More, int]


@dataclass(frozen=True)
class Scan:
    """The lead events of one device, ready to be scanned."""

    steps: list[_Step]
    stretches: list[tuple[int, bool]]  # where each ends, and whether it is a chain
    host_slack: Ints
    is_op: np.ndarray[tuple[int], np.dtype[np.bool_]]
    in_window: np.ndarray[tuple[int], np.dtype[np.bool_]]
    end: Ints
    dur: Ints
    match: Ints  # collective all of whose ranks are known; NO_ROW: none
    wait: Ints  # time at the beginning of such a collective in which it waited for the last rank
    removable: Ints
    own: Ints  # of a wait: how long the call itself waited
    dispatch: Ints
    cause_of_wait: NamedRows
    cause_of_op: NamedRows
    cause_of_gap: NamedRows
    costs: Mapping[str, tuple[Ints, Ints]]  # cause -> positions, host time
    position_of: Mapping[int, int]  # op id -> position
    begins_at: int | None = None  # position at whose start changes begin; None: everything may change
    possible: Mapping[int, _More] = field(default_factory=dict)  # position -> what that event may have waited for, too

    @classmethod
    def of_tables(cls, events: pa.Table, costs: pa.Table, needs: pa.Table, fixed_before: int | None = None) -> Self:
        """Prepare a device's rows of lead_events, in order, lead_costs and lead_needs; before an op nothing changes."""
        op_id = column(events, "op_id")
        is_op = op_id != NO_ROW
        host_slack, cap = (column(events, name, _NO_LIMIT) for name in ("host_slack_ns", "cap_ns"))
        befores = [
            values
            for name in ("first", "second")
            for values in (column(events, f"{name}_position"), column(events, f"{name}_slack_ns", _NO_LIMIT))
        ]
        own = column(events, "own_ns")
        sure, possible = (_more_needs(needs, told) for told in (True, False))
        more = [sure.get(at, ()) for at in range(len(is_op))]
        first, first_slack, second, _ = befores
        alone = is_op & (cap == _NO_LIMIT) & (host_slack < _NO_LIMIT) & (second == NO_ROW)
        alone &= (first_slack == 0) & ~np.asarray([bool(also) for also in more], np.bool_)
        parts = [part.tolist() for part in (is_op, host_slack, cap, *befores)]
        position, cost = column(costs, "position"), column(costs, "cost_ns")
        cause = NamedRows.of(costs["cause"])
        position_of = {op: at for at, op in enumerate(op_id.tolist()) if op != NO_ROW}
        return cls(
            steps=list(zip(*parts, more, own.tolist(), strict=True)),
            stretches=stretches(alone & (first == np.arange(len(is_op)) - 1)),
            host_slack=host_slack,
            is_op=is_op,
            in_window=flag_column(events, "in_window"),
            end=column(events, "end_ns"),
            dur=column(events, "dur_ns"),
            match=column(events, "match_id"),
            wait=column(events, "wait_ns"),
            removable=column(events, "removable_ns"),
            own=own,
            dispatch=column(events, "dispatch_ns"),
            cause_of_wait=NamedRows.of(events["cause"]),
            cause_of_op=NamedRows.of(events["saving_cause"]),
            cause_of_gap=NamedRows.of(events["dispatch_cause"]),
            costs={
                str(name): (position[cause.codes == code], cost[cause.codes == code])
                for code, name in enumerate(cause.names)
            },
            position_of=position_of,
            begins_at=None if fixed_before is None else position_of[fixed_before],
            possible=possible,
        )

    @cached_property
    def with_slow_workers(self) -> Self:
        """The same scan if the loader's workers have no batch earlier than it was taken."""
        takes = self._takes
        steps = self.steps.copy()
        for at in takes:
            is_op, host_slack, _, first, first_slack, second, second_slack, more, own = steps[at]
            steps[at] = (is_op, host_slack, 0, first, first_slack, second, second_slack, more, own)
        return replace(self, steps=steps) if takes else self

    @cached_property
    def with_possible_waits(self) -> Self:
        """The same scan if streams, and the host, waited for others wherever they may have."""
        if not self.possible:
            return self
        steps = self.steps.copy()
        for at, also in self.possible.items():
            is_op, host_slack, cap, first, first_slack, second, second_slack, more, own = steps[at]
            if not is_op:  # a wait of the host may be for one op, and is surely for none
                ((first, first_slack),) = also
                also = ()
            steps[at] = (is_op, host_slack, cap, first, first_slack, second, second_slack, more + also, own)
        follows = np.zeros(len(steps), np.bool_)
        for since, (until, is_chain) in zip([0, *(end for end, _ in self.stretches)], self.stretches, strict=False):
            follows[since:until] = is_chain
        follows[list(self.possible)] = False
        return replace(self, steps=steps, stretches=stretches(follows))

    @property
    def waits_for_workers(self) -> bool:
        """Whether some batch was not ready when it was taken."""
        return any(cap == 0 or first != NO_ROW for _, _, cap, first, *_ in map(self.steps.__getitem__, self._takes))

    @property
    def _takes(self) -> list[int]:
        """Positions at which a batch was taken from a loader's workers."""
        found: list[int] = np.flatnonzero(~self.is_op & self.cause_of_wait.where(lambda name: name == _LOADER)).tolist()
        return found

    @property
    def skew(self) -> Ints:
        """Return how long each collective waited for its last rank; waiting for a message is the message's."""
        found: Ints = np.where(self.cause_of_op.where(lambda name: name == TRANSFER), self.wait, 0)
        return found

    def causes(self) -> frozenset[str]:
        """Return every cause whose removal changes something."""
        found = set(self.costs)
        found |= self.cause_of_wait.among(self.removable > 0)
        found |= self.cause_of_op.among(self.dur > self.wait)
        found |= self.cause_of_gap.among(self.dispatch > 0)
        return frozenset(found | {SKEW} if (self.skew > 0).any() else found)

    def leads(self, scenarios: Sequence[Scenario]) -> Leads:
        """Return by how much earlier everything happens in each scenario."""
        inputs = [self.inputs(scenario) for scenario in scenarios]
        taken = [int((gained + earlier + shorter)[self.in_window].sum()) for gained, _, earlier, shorter in inputs]
        if len(scenarios) >= LANES_FROM:
            lanes = LaneWalk(self, inputs)
            lanes.advance(len(self.steps))
            return Leads(lanes.ends, lanes.start, taken)
        walks = [Walk(self.steps, arrays) for arrays in inputs]
        for walk in walks:
            walk.advance(len(self.steps))
        ends = np.asarray([walk.ends for walk in walks]).T
        return Leads(ends, lambda position: np.asarray([walk.starts[position] for walk in walks]), taken)

    def inputs(self, scenario: Scenario) -> Inputs:
        """Return what a scenario changes at each event."""
        gained = np.zeros(len(self.end), np.int64)
        for cause in scenario.removed & self.costs.keys():
            position, cost = self.costs[cause]
            gained[position] += cost
        left_out = np.zeros(len(self.end), np.bool_)
        left_out[[at for op in scenario.launches if (at := self.position_of.get(op)) is not None]] = True
        for cause in (_LIGHT - scenario.removed) & self.costs.keys() if scenario.launches else ():
            position, cost = self.costs[cause]
            gained[position] += np.where(left_out[position], cost, 0)
        gone = scenario.removed.__contains__
        removed = self.cause_of_wait.where(gone)
        gained[removed] += self.removable[removed]
        if scenario.launches:
            # Launches that are left out leave room in the queue to those that are not.
            for_room = ~self.is_op & ~self.cause_of_wait.where(HOST.__contains__)
            gained[for_room] += self.own[for_room]
            removed |= for_room
        earlier = np.where(self.cause_of_gap.where(gone), self.dispatch, np.where(left_out, GAP_NS, 0))
        shorter = np.where(self.cause_of_op.where(gone), self.dur - self.wait, 0)
        shorter += self.skew if SKEW in scenario.removed else 0
        if scenario.savings:
            there = self.position_of
            known = [(there[op], ns) for op, ns in scenario.savings.items() if op in there]
            positions, saving = np.asarray(known, np.int64).reshape(-1, 2).T
            shorter[positions] = np.minimum(np.maximum(shorter[positions], saving), self.dur[positions])
        changes = (gained, removed, earlier, shorter)
        if self.begins_at is not None:
            for change in changes[:3]:
                change[: self.begins_at + 1] = 0
            shorter[: self.begins_at] = 0
        return changes


class Walk:
    """One scan on its way: the lead of the host, and of the start and end of each event so far."""

    def __init__(self, steps: list[_Step], inputs: Inputs) -> None:
        self._steps = steps
        self._inputs = [array.tolist() for array in inputs]
        self.host = 0
        self.starts: list[int] = []
        self.ends: list[int] = []

    def advance(self, until: int) -> None:
        """Scan the events up to a position, that one left out."""
        since = len(self.starts)
        parts = (self._steps, *self._inputs)
        self.host = _scan(zip(*(part[since:until] for part in parts), strict=True), self.host, self.starts, self.ends)


def _scan(events: Iterable[tuple[_Step, int, int, int, int]], host: int, starts: list[int], ends: list[int]) -> int:
    """Append the leads of some more events, and return the lead of the host after them.

    Comparisons are written out: calls of min and max would take half of the time.
    """
    add_start, add_end = starts.append, ends.append
    for step, gain, gone, start, run in events:
        is_op, host_slack, cap, first, first_slack, second, second_slack, more, own = step
        host += gain
        if not is_op:
            if not gone:
                host = host + own if host + own < cap else cap
                if first != NO_ROW and ends[first] + first_slack < host:
                    host = ends[first] + first_slack
            add_start(0)
            # A batch that was ready stands for all before it: the most lead that one was taken with.
            add_end(ends[second] if second != NO_ROW and ends[second] > host else host)
            continue
        lead, most = cap, 0
        if host_slack < _NO_LIMIT:
            lead, most = host + host_slack if host + host_slack < cap else cap, host
        if first != NO_ROW:
            before = ends[first]
            lead = before + first_slack if before + first_slack < lead else lead
            most = before if before > most else most
        if second != NO_ROW:
            before = ends[second]
            lead = before + second_slack if before + second_slack < lead else lead
            most = before if before > most else most
        for also, also_slack in more:
            before = ends[also]
            lead = before + also_slack if before + also_slack < lead else lead
            most = before if before > most else most
        lead = (most if most < lead else lead) + start
        add_start(lead)
        add_end(lead + run)
    return host


class LaneWalk:
    """What `Walk` does for several scenarios at once, one column each."""

    def __init__(self, scan: Scan, inputs: Sequence[Inputs]) -> None:
        self._scan = scan
        self._changes = [Lanes.of(arrays) for arrays in zip(*inputs, strict=True)]
        self._at, self._stretch = 0, 0
        self._host = np.zeros(len(inputs), np.int64)
        self.ends = np.zeros((len(scan.steps), len(inputs)), np.int64)
        self._rows = list(self.ends)  # taking a row out of the array costs as much as adding to it

    def start(self, position: int) -> Ints:
        """Return by how much earlier an event starts in each scenario."""
        found: Ints = self._rows[position] - self.shorter_ns(position)
        return found

    def shorter_ns(self, position: int) -> Ints:
        """Return by how much an event is shorter in each scenario."""
        found: Ints = self._changes[3].between(position, position + 1)[0]
        return found

    def advance(self, until: int) -> None:
        """Scan the events up to a position, that one left out."""
        while self._at < until:
            end, is_chain = self._scan.stretches[self._stretch]
            scan = self._along if is_chain else self._one_by_one
            self._host = scan(self._at, min(end, until), self._host)
            self._at = min(end, until)
            self._stretch += end <= until

    def _along(self, since: int, until: int, host: Ints) -> Ints:
        """Scan a chain, all of it at once, and return the lead of the host after it.

        Each op leads at its end by what it gains, and by the least of what the host and the op before lead by. So it is
        the sum of what the ops up to it gain, and the least of what the op before the chain leads by, and of what the
        host leads by at each op less the sum before that.
        """
        pays, _, moves, shrinks = self._changes
        hosts = host + np.cumsum(pays.between(since, until), axis=0)
        gains = moves.between(since, until) + shrinks.between(since, until)
        sums = np.cumsum(gains, axis=0)
        least = hosts + self._scan.host_slack[since:until, None] - sums + gains
        np.minimum(least[0], self._rows[self._scan.steps[since][3]], out=least[0])
        np.add(np.minimum.accumulate(least, axis=0), sums, out=self.ends[since:until])
        last: Ints = hosts[-1]
        return last

    def _one_by_one(self, since: int, until: int, host: Ints) -> Ints:
        """Scan some events, and return the lead of the host after them.

        Nothing leads by more than all that it waited for do. Where one of these held it up until it began, which is the
        rule, the lead is no more than that one's anyway, and the most need not be known.
        """
        steps, ends = self._scan.steps, self._rows
        room, most = np.empty_like(host), np.empty_like(host)
        gain, gone, start, run = (change.rows for change in self._changes)
        paid, dropped, moved, shrunk = (change.before for change in self._changes)
        add, least, greatest = np.add, np.minimum, np.maximum
        for at in range(since, until):
            is_op, host_slack, cap, first, first_slack, second, second_slack, more, own = steps[at]
            if (change := paid[at]) < paid[at + 1]:
                host = host + gain[change]
            if not is_op:
                held = least(host + own, cap if first == NO_ROW else least(ends[first] + first_slack, cap))
                host = np.where(gone[change], host, held) if (change := dropped[at]) < dropped[at + 1] else held
                ends[at][:] = host if second == NO_ROW else greatest(host, ends[second])
                continue
            lead = ends[at]
            is_bound = cap == 0 or host_slack == 0
            if host_slack < _NO_LIMIT:
                add(host, host_slack, out=lead)
                if cap < _NO_LIMIT:
                    least(lead, cap, out=lead)
            else:
                lead.fill(cap)
            needs = ((first, first_slack), (second, second_slack))
            for before, slack in needs + more if more else needs:
                if before == NO_ROW:
                    continue
                if slack:
                    least(lead, add(ends[before], slack, out=room), out=lead)
                else:
                    is_bound = True
                    least(lead, ends[before], out=lead)
            if not is_bound:
                most[:] = host if host_slack < _NO_LIMIT else 0
                for before, _ in needs + more if more else needs:
                    if before != NO_ROW:
                        greatest(most, ends[before], out=most)
                least(lead, most, out=lead)
            if (change := moved[at]) < moved[at + 1]:
                lead += start[change]
            if (change := shrunk[at]) < shrunk[at + 1]:
                lead += run[change]
        return host


def _more_needs(needs: pa.Table, sure: bool) -> dict[int, _More]:
    """Return by position what ops surely wait for, or may wait for, beside the two that all have."""
    found: dict[int, _More] = {}
    told = (column(needs, name).tolist() for name in ("position", "before_position", "slack_ns"))
    for position, before, slack, is_sure in zip(*told, flag_column(needs, "sure").tolist(), strict=True):
        if is_sure == sure:
            found[position] = (*found.get(position, ()), (before, slack))
    return found
