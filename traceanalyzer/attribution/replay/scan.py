"""How much shorter the window would be if causes cost nothing or ops were faster: one pass over the events of a replay.

The shift of an event is how much earlier it would happen. Host time that is removed shifts the issuing thread. A host
call that waits for the device loses the part of the shift that the device cannot match. An op starts earlier by the
least shift among what it waited for, each plus its slack: for how long it was done before the op could begin. Only
removed time makes a shift; gaps never do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from traceanalyzer.attribution.columns import (
    HOST,
    LIGHT,
    NO_ROW,
    STRAGGLER_WAIT,
    TRANSFER,
    Flags,
    Ints,
    NamedRows,
    column,
    flag_column,
)
from traceanalyzer.attribution.host.blocking_calls import API_MIN_NS
from traceanalyzer.attribution.ledger.dependencies import GAP_NS
from traceanalyzer.attribution.replay.kernel import NO_LIMIT, Changes, Need, ScanEvents

Savings = Mapping[int, int]  # op id -> ns


class OpSavings(Mapping[int, int]):
    """Savings as two columns, in the order of ops: of all kernels of a run they are held, joined and looked up."""

    def __init__(self, op_id: Ints, saving_ns: Ints) -> None:
        """Take the ids of ops, each once, and what each saves."""
        order = np.argsort(op_id, kind="stable")
        self.op_id, self.saving_ns = op_id[order], saving_ns[order]

    @classmethod
    def of(cls, savings: Savings) -> OpSavings:
        if isinstance(savings, OpSavings):
            return savings
        if not savings:
            return NO_SAVINGS
        count = len(savings)
        return cls(np.fromiter(savings, np.int64, count), np.fromiter(savings.values(), np.int64, count))

    def __getitem__(self, op_id: int) -> int:
        """Return what one op saves."""
        at = int(np.searchsorted(self.op_id, op_id))
        if at == len(self.op_id) or self.op_id[at] != op_id:
            raise KeyError(op_id)
        return int(self.saving_ns[at])

    def __iter__(self) -> Iterator[int]:
        return iter(self.op_id.tolist())

    def __len__(self) -> int:
        return len(self.op_id)

    def joined(self, other: OpSavings) -> OpSavings:
        """Return both; an op that both shorten is shortened by the larger saving."""
        if not len(self) or not len(other):
            return self if len(self) else other
        op_id = np.concatenate((self.op_id, other.op_id))
        order = np.argsort(op_id, kind="stable")  # merges the two, which are sorted
        op_id, saving_ns = op_id[order], np.concatenate((self.saving_ns, other.saving_ns))[order]
        firsts = np.flatnonzero(np.append(True, op_id[1:] != op_id[:-1]))
        return OpSavings(op_id[firsts], np.maximum.reduceat(saving_ns, firsts))

    def without(self, other: OpSavings) -> OpSavings:
        """Return the savings of ops that `other` leaves as they are."""
        rest = ~np.isin(self.op_id, other.op_id)
        return OpSavings(self.op_id[rest], self.saving_ns[rest])


NO_SAVINGS = OpSavings(np.zeros(0, np.int64), np.zeros(0, np.int64))

# What a trace leaves open, which at worst makes fixes save less.
LOADER_WORKERS = (
    "loader-workers: an earlier host needs its batches earlier, and the trace does not show how much faster the "
    "loader's workers could have prepared them"
)
STREAM_WAITS = "stream-waits: some calls made a stream or the host wait, and the trace does not show for what"
UNCERTAINTIES = (LOADER_WORKERS, STREAM_WAITS)
_LIGHT = frozenset(LIGHT)
_LOADER = "host.dataloader"
_COPYING = frozenset({"host.memcpy_block"})


class WhatIf(Struct, frozen=True):
    """A question: which causes cost nothing, which ops (by id) get shorter by how much, which are never launched.

    A launch that is left out saves the host its call, that of a copy with its wait, the operator around it and the
    Python before it. Its op stays, unless `savings` shortens it to nothing. A delay is a host cause that costs nothing
    before one op (by id) alone, since the launch of the op before it.
    """

    removed: frozenset[str] = frozenset()  # host causes and device buckets
    savings: Savings | None = None
    launches: frozenset[int] = frozenset()
    delays: frozenset[tuple[str, int]] = frozenset()


class Scan(Struct, frozen=True, dict=True):
    """The events of the replay of one device, ready to be scanned."""

    events: ScanEvents
    in_window: Flags
    end: Ints
    dur: Ints
    match: Ints  # collective all of whose ranks are known; NO_ROW: none
    wait: Ints  # of a matched collective: time at its beginning in which it waited for the last rank
    removable: Ints
    dispatch: Ints
    cause_of_wait: NamedRows
    cause_of_op: NamedRows
    cause_of_gap: NamedRows
    costs: Mapping[str, tuple[Ints, Ints]]  # cause -> positions, host time
    op_id: Ints  # NO_ROW: a wait of the host
    begins_at: int | None = None  # nothing changes before the start of the event at this position; None: all may
    only_in_window: bool = False  # nothing changes ahead of a window that begins ahead of its first op
    # Position -> ops that the event there may also have waited for.
    possible: Mapping[int, tuple[Need, ...]] = field(default_factory=dict)

    @classmethod
    def of_tables(
        cls,
        events: pa.Table,
        costs: pa.Table,
        needs: pa.Table,
        fixed_before: int | None = None,
        only_in_window: bool = False,
    ) -> Self:
        """Prepare one device's rows of replay_events (in order), replay_costs and replay_needs.

        Nothing changes before the op with the id `fixed_before`, or with `only_in_window` before the window.
        """
        op_id = column(events, "op_id")
        is_op = op_id != NO_ROW
        host_slack, limit = (column(events, name, NO_LIMIT) for name in ("host_slack_ns", "shift_limit_ns"))
        pred1, pred2 = (column(events, name) for name in ("pred1_position", "pred2_position"))
        pred1_slack, pred2_slack = (column(events, name, NO_LIMIT) for name in ("pred1_slack_ns", "pred2_slack_ns"))
        sure, possible = (_needs(needs, is_sure) for is_sure in (True, False))
        more = [sure.get(at, ()) for at in range(len(is_op))]
        position, cost = column(costs, "position"), column(costs, "cost_ns")
        cause = NamedRows.of(costs["cause"])
        begins_at = None if fixed_before is None else int(np.flatnonzero(op_id == fixed_before)[0])
        return cls(
            events=ScanEvents(
                is_op=is_op,
                host_slack_ns=host_slack,
                shift_limit_ns=limit,
                pred1=pred1,
                pred1_slack_ns=pred1_slack,
                pred2=pred2,
                pred2_slack_ns=pred2_slack,
                more=more,
                explained_wait_ns=column(events, "explained_wait_ns"),
            ),
            in_window=flag_column(events, "in_window"),
            end=column(events, "end_ns"),
            dur=column(events, "dur_ns"),
            match=column(events, "match_id"),
            wait=column(events, "wait_ns"),
            removable=column(events, "removable_ns"),
            dispatch=column(events, "dispatch_ns"),
            cause_of_wait=NamedRows.of(events["cause"]),
            cause_of_op=NamedRows.of(events["saving_cause"]),
            cause_of_gap=NamedRows.of(events["dispatch_cause"]),
            costs={
                str(name): (position[cause.codes == code], cost[cause.codes == code])
                for code, name in enumerate(cause.names)
            },
            op_id=op_id,
            begins_at=begins_at,
            only_in_window=only_in_window,
            possible=possible,
        )

    def at_worst(self, uncertainty: str) -> Self:
        """Return the scan if an uncertainty turns out against fixes."""
        return self.with_slow_workers if uncertainty == LOADER_WORKERS else self.with_possible_waits

    @cached_property
    def with_slow_workers(self) -> Self:
        """The same scan, but the loader's workers finish no batch earlier than it was taken."""
        takes = self._takes
        limits = self.events.shift_limit_ns.copy()
        limits[takes] = 0
        return replace(self, events=replace(self.events, shift_limit_ns=limits)) if len(takes) else self

    @cached_property
    def with_possible_waits(self) -> Self:
        """The same scan, but streams and the host waited for others wherever they may have."""
        if not self.possible:
            return self
        events = self.events
        pred1, pred1_slack, more = events.pred1.copy(), events.pred1_slack_ns.copy(), events.more.copy()
        for at, needs in self.possible.items():
            if events.is_op[at]:
                more[at] += needs
            else:  # a host call that may have waited for one op has no op that it surely waited for
                ((pred1[at], pred1_slack[at]),) = needs
        events = replace(events, pred1=pred1, pred1_slack_ns=pred1_slack, more=more)
        return replace(self, events=events)

    @property
    def waits_for_workers(self) -> bool:
        """Whether some batch was not ready when it was taken."""
        takes = self._takes
        return bool(((self.events.shift_limit_ns[takes] == 0) | (self.events.pred1[takes] != NO_ROW)).any())

    @property
    def has_takes(self) -> bool:
        """Whether a batch was taken from a loader's workers."""
        return len(self._takes) > 0

    @property
    def _takes(self) -> Ints:
        """Positions at which a batch was taken from a loader's workers."""
        return np.flatnonzero(~self.events.is_op & self.cause_of_wait.where(lambda name: name == _LOADER))

    @property
    def skew(self) -> Ints:
        """How long each collective waited for its last rank; 0 for messages, whose wait is part of the message."""
        found: Ints = np.where(self.cause_of_op.where(lambda name: name == TRANSFER), self.wait, 0)
        return found

    def causes(self) -> frozenset[str]:
        """Return every cause whose removal changes something."""
        found = set(self.costs)
        found |= self.cause_of_wait.among(self.removable > 0)
        found |= self.cause_of_op.among(self.dur > self.wait)
        found |= self.cause_of_gap.among(self.dispatch > 0)
        return frozenset(found | {STRAGGLER_WAIT} if (self.skew > 0).any() else found)

    def taken_ns(self, changes: Changes) -> int:
        """Return the host time and op time of the window that changes take out, whether or not that saves anything."""
        return int((changes.host_gain_ns + changes.earlier_ns + changes.shorter_ns)[self.in_window].sum())

    def changes(self, what_if: WhatIf) -> Changes:
        """Return what a what-if changes at each event."""
        gain = np.zeros(len(self.end), np.int64)
        for cause in what_if.removed & self.costs.keys():
            position, cost = self.costs[cause]
            gain[position] += cost
        left_out = np.zeros(len(self.end), np.bool_)
        left_out[self._positions(np.fromiter(what_if.launches, np.int64, len(what_if.launches)))[0]] = True
        for cause in (_LIGHT - what_if.removed) & self.costs.keys() if what_if.launches else ():
            position, cost = self.costs[cause]
            gain[position] += np.where(left_out[position], cost, 0)
        is_removed = what_if.removed.__contains__
        wait_removed = self.cause_of_wait.where(is_removed)
        for cause in {cause for cause, _ in what_if.delays} - what_if.removed:
            before = self._before([op for of, op in what_if.delays if of == cause])
            position, cost = self.costs.get(cause, (np.zeros(0, np.int64),) * 2)
            gain[position] += np.where(before[position], cost, 0)
            wait_removed |= before & self.cause_of_wait.where({cause}.__contains__)
        no_call = self._own_calls(left_out)
        wait_removed[no_call] = True
        gain[wait_removed] += self.removable[wait_removed]
        # Nothing takes the place of the call; what the host does before it is a cost of its own.
        since_before = self.end[no_call] - self.end[no_call - 2] - self.removable[no_call] - gain[no_call - 1]
        gain[no_call] += np.clip(since_before, 0, API_MIN_NS)
        if what_if.launches:
            # The queue has room for the other launches where some are left out.
            for_room = ~self.events.is_op & ~self.cause_of_wait.where(HOST.__contains__)
            gain[for_room] += self.events.explained_wait_ns[for_room]
            wait_removed |= for_room
        earlier = np.where(self.cause_of_gap.where(is_removed), self.dispatch, np.where(left_out, GAP_NS, 0))
        shorter = np.where(self.cause_of_op.where(is_removed), self.dur - self.wait, 0)
        shorter += self.skew if STRAGGLER_WAIT in what_if.removed else 0
        if what_if.savings:
            positions, saving = self._scanned(what_if.savings)
            shorter[positions] = np.minimum(np.maximum(shorter[positions], saving), self.dur[positions])
        if self.begins_at is not None:
            for change in (gain, wait_removed, earlier):
                change[: self.begins_at + 1] = 0
            shorter[: self.begins_at] = 0
        if self.only_in_window:
            for change in (gain, wait_removed, earlier, shorter):
                change[~self.in_window] = 0
        return Changes(gain, wait_removed, earlier, shorter)

    def _own_calls(self, left_out: Flags) -> Ints:
        """Return the waits in which calls hold copies that are left out, each right behind its copy."""
        waits = np.flatnonzero(self.cause_of_wait.where(_COPYING.__contains__))
        waits = waits[waits >= 2]
        found: Ints = waits[(self.events.pred1[waits] == waits - 1) & left_out[waits - 1]]
        return found

    def shorter_ns(self, savings: Savings) -> dict[str | None, int]:
        """Return how much savings shorten ops in all, by the dev.* cause of the ops; None: compute."""
        positions, saving = self._scanned(savings)
        codes = self.cause_of_op.codes[positions]
        saving = np.minimum(np.maximum(saving, 0), self.dur[positions])
        names = self.cause_of_op.names
        return {names[code]: int(saving[codes == code].sum()) for code in np.unique(codes).tolist()}

    def _scanned(self, savings: Savings) -> tuple[Ints, Ints]:
        """Return the positions of the ops that get shorter, and by how much; those that are not scanned left out."""
        shorter = OpSavings.of(savings)
        position, is_scanned = self._positions(shorter.op_id)
        return position, shorter.saving_ns[is_scanned]

    def _positions(self, ops: Ints) -> tuple[Ints, Flags]:
        """Return the positions of those of some ops (by id) that are scanned, and which of them these are."""
        op_id, position = self._ops
        if not len(op_id):
            return position, np.zeros(len(ops), np.bool_)
        nth = np.minimum(np.searchsorted(op_id, ops), len(op_id) - 1)
        is_scanned: Flags = op_id[nth] == ops
        return position[nth[is_scanned]], is_scanned

    @cached_property
    def _ops(self) -> tuple[Ints, Ints]:
        """The ids of all ops, in their order, and the position of each."""
        position = np.flatnonzero(self.events.is_op)
        op_id = self.op_id[position]
        order = np.argsort(op_id)
        return op_id[order], position[order]

    def position_of(self, op: int) -> int | None:
        """Return the position of an op, by its id; None where it is not scanned."""
        found, _ = self._positions(np.asarray([op], np.int64))
        return int(found[0]) if len(found) else None

    def _before(self, ops: Sequence[int]) -> Flags:
        """Return which events belong to one of these ops (by id): the op and the waits since the op before it."""
        at, _ = self._positions(np.asarray(ops, np.int64))
        next_op = np.flatnonzero(self.events.is_op)
        nth = np.searchsorted(next_op, np.arange(len(self.end)))
        belongs_to = np.append(next_op, NO_ROW)[nth]
        found: Flags = np.isin(belongs_to, at)
        return found


def _needs(needs: pa.Table, is_sure: bool) -> dict[int, tuple[Need, ...]]:
    """Return by position the ops beyond pred1 and pred2 that an event surely waits for, or only may wait for."""
    by_position: dict[int, list[Need]] = {}
    columns = (column(needs, name).tolist() for name in ("position", "before_position", "slack_ns"))
    for position, before, slack, sure in zip(*columns, flag_column(needs, "sure").tolist(), strict=True):
        if sure == is_sure:
            by_position.setdefault(position, []).append(Need(before, slack))
    return {position: tuple(found) for position, found in by_position.items()}
