"""One pass over a device's lead events under one what-if: how much earlier each event starts and ends.

`scan` prepares the events and the changes; `scenarios` makes the same pass for several what-ifs at once.

The pass of `walk` for several what-ifs at once: one column per what-if, and long chains of ops taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import Flags, Ints

# A pass over a chain of this many ops is faster than one over each of its ops.
_CHAIN_FROM = 6


class Stretch(NamedTuple):
    """Consecutive events from the end of the stretch before up to `end`."""

    end: int
    is_chain: bool  # each op waits for the op before it and for the host, and for nothing else


def stretches(follows: Flags) -> list[Stretch]:
    """Return all events as stretches; a chain is a stretch of its own if it is long enough to be worth it."""
    edges = np.flatnonzero(np.diff(follows, prepend=False, append=False)).reshape(-1, 2)
    chains = edges[edges[:, 1] - edges[:, 0] >= _CHAIN_FROM].ravel().tolist()
    ends = [*chains, len(follows)]
    return [Stretch(end, at % 2 == 1) for at, end in enumerate(ends) if end > (ends[at - 1] if at else 0)]


@dataclass(frozen=True)
class ScenarioChanges:
    """One field of `Changes` for several what-ifs, one column each: only the events that some what-if changes."""

    before: list[int]  # how many rows there are before each event, and in all
    events: Ints
    rows: NDArray[Any]

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> Self:
        """Join one array per what-if, and keep the events where at least one of them is not 0."""
        changes = np.zeros(len(arrays[0]), np.bool_)
        for array in arrays:
            changes |= array != 0
        events = np.flatnonzero(changes)
        rows = np.empty((len(events), len(arrays)), arrays[0].dtype)
        for scenario, array in enumerate(arrays):
            rows[:, scenario] = array[events]
        return cls([0, *np.cumsum(changes).tolist()], events, rows)

    def between(self, since: int, until: int) -> NDArray[Any]:
        """Return one row per event from one position up to another."""
        first, last = self.before[since], self.before[until]
        if last - first == until - since:
            return self.rows[first:last]
        spread = np.zeros((until - since, self.rows.shape[1]), self.rows.dtype)
        spread[self.events[first:last] - since] = self.rows[first:last]
        return spread


class ScenarioWalk:
    """What `Walk` does, for several what-ifs at once: one column per what-if."""

    def __init__(self, events: ScanEvents, parts: Sequence[Stretch], changes: Sequence[Changes]):
        self._events = events
        self._parts = parts
        self._changes = [ScenarioChanges.of(arrays) for arrays in zip(*changes, strict=True)]
        self._at, self._part = 0, 0
        self._host = np.zeros(len(changes), np.int64)
        self.ends = np.zeros((events.count, len(changes)), np.int64)
        self._rows = list(self.ends)  # taking a row out of the array costs as much as adding to it

    def start(self, position: int) -> Ints:
        """Return how much earlier an event starts in each what-if."""
        lead: Ints = self._rows[position] - self.shorter_ns(position)
        return lead

    def shorter_ns(self, position: int) -> Ints:
        """Return how much shorter an event is in each what-if."""
        _, _, _, shorter = self._changes
        of_event: Ints = shorter.between(position, position + 1)[0]
        return of_event

    def advance(self, until: int) -> None:
        """Scan the events before a position."""
        while self._at < until:
            end, is_chain = self._parts[self._part]
            scan = self._along if is_chain else self._one_by_one
            self._host = scan(self._at, min(end, until), self._host)
            self._at = min(end, until)
            self._part += end <= until

    def _along(self, since: int, until: int, host: Ints) -> Ints:
        """Scan a whole chain, and return the lead of the host after it.

        The lead at the end of an op is its own gain plus the least of the host's lead and the lead of the op before it.
        Unrolled: the sum of the gains up to the op, plus the least of two leads: the lead of the op before the chain,
        and, over the ops so far, the host's lead there less the gains before that op.
        """
        host_gain, _, earlier, shorter = self._changes
        hosts = host + np.cumsum(host_gain.between(since, until), axis=0)
        gains = earlier.between(since, until) + shorter.between(since, until)
        sums = np.cumsum(gains, axis=0)
        least = hosts + self._events.host_slack_ns[since:until, None] - sums + gains
        np.minimum(least[0], self._rows[self._events.pred1[since]], out=least[0])
        np.add(np.minimum.accumulate(least, axis=0), sums, out=self.ends[since:until])
        last: Ints = hosts[-1]
        return last

    def _one_by_one(self, since: int, until: int, host: Ints) -> Ints:
        """Scan events that are no chain, and return the lead of the host after them.

        An event leads by no more than the largest lead among what it waited for. Usually one of them held the event up
        until it began (no slack). Then its lead already limits the event, and the largest need not be computed.
        """
        ends = self._rows
        room, most = np.empty_like(host), np.empty_like(host)
        gain, removed, earlier, shorter = (change.rows for change in self._changes)
        gained, dropped, moved, shrunk = (change.before for change in self._changes)
        add, least, greatest = np.add, np.minimum, np.maximum
        for at, row in enumerate(self._events.rows[since:until], since):
            is_op, host_slack, limit, pred1, pred1_slack, pred2, pred2_slack, more, explained_wait = row
            if (change := gained[at]) < gained[at + 1]:
                host = host + gain[change]
            if not is_op:
                held = least(
                    host + explained_wait, limit if pred1 == NO_ROW else least(ends[pred1] + pred1_slack, limit)
                )
                host = np.where(removed[change], host, held) if (change := dropped[at]) < dropped[at + 1] else held
                ends[at][:] = host if pred2 == NO_ROW else greatest(host, ends[pred2])
                continue
            lead = ends[at]
            is_bound = limit == 0 or host_slack == 0
            if host_slack < NO_LIMIT:
                add(host, host_slack, out=lead)
                if limit < NO_LIMIT:
                    least(lead, limit, out=lead)
            else:
                lead.fill(limit)
            needs = ((pred1, pred1_slack), (pred2, pred2_slack))
            for before, slack in needs + more if more else needs:
                if before == NO_ROW:
                    continue
                if slack:
                    least(lead, add(ends[before], slack, out=room), out=lead)
                else:
                    is_bound = True
                    least(lead, ends[before], out=lead)
            if not is_bound:
                most[:] = host if host_slack < NO_LIMIT else 0
                for before, _ in needs + more if more else needs:
                    if before != NO_ROW:
                        greatest(most, ends[before], out=most)
                least(lead, most, out=lead)
            if (change := moved[at]) < moved[at + 1]:
                lead += earlier[change]
            if (change := shrunk[at]) < shrunk[at + 1]:
                lead += shorter[change]
        return host


# Far above any lead, and far enough below the largest integer to add to.
NO_LIMIT = int(np.iinfo(np.int64).max // 4)


class Need(NamedTuple):
    """An earlier op that an event waits for, and how long that op was done before the binding constraint."""

    position: int
    slack_ns: int


class Changes(NamedTuple):
    """What a what-if changes, one entry per event."""

    host_gain_ns: Ints  # host time removed before the event
    wait_removed: Flags
    earlier_ns: Ints  # the event starts earlier by this, on top of its lead
    shorter_ns: Ints  # the event runs shorter by this


# The fields of ScanEvents at one event.
_Row = tuple[bool, int, int, int, int, int, int, tuple[Need, ...], int]


@dataclass(frozen=True)
class ScanEvents:
    """What the pass reads of each event: one array per column of lead_events, NO_ROW and NO_LIMIT for NULL."""

    is_op: Flags
    host_slack_ns: Ints
    lead_limit_ns: Ints
    pred1: Ints
    pred1_slack_ns: Ints
    pred2: Ints
    pred2_slack_ns: Ints
    more: list[tuple[Need, ...]]  # ops beyond pred1 and pred2
    explained_wait_ns: Ints

    @property
    def count(self) -> int:
        """Return the number of events."""
        return len(self.is_op)

    @cached_property
    def with_more(self) -> list[int]:
        """The positions of events with `more` ops."""
        return [at for at, needs in enumerate(self.more) if needs]

    @cached_property
    def rows(self) -> list[_Row]:
        """The columns in the order of the fields, one plain tuple per event: the pass unpacks it 4 times faster than a
        named tuple.
        """
        before_more = (
            self.is_op,
            self.host_slack_ns,
            self.lead_limit_ns,
            self.pred1,
            self.pred1_slack_ns,
            self.pred2,
            self.pred2_slack_ns,
        )
        lists = (column.tolist() for column in before_more)
        return list(zip(*lists, self.more, self.explained_wait_ns.tolist(), strict=True))


class Walk:
    """A pass that can stop at any event: the lead of the host, and the lead of each start and end so far."""

    def __init__(self, events: ScanEvents, changes: Changes) -> None:
        self._events = events
        self._changes = [array.tolist() for array in changes]
        self.host = 0
        self.starts: list[int] = []
        self.ends: list[int] = []

    def advance(self, until: int) -> None:
        """Scan the events before a position."""
        since = len(self.starts)
        columns = (self._events.rows, *self._changes)
        events = zip(*(column[since:until] for column in columns), strict=True)
        self.host = _pass(events, self.host, self.starts, self.ends)


def _pass(events: Iterable[tuple[_Row, int, bool, int, int]], host: int, starts: list[int], ends: list[int]) -> int:
    """Append the leads of the next events, each with its `Changes`, and return the lead of the host after them.

    Comparisons are written out: calls of min and max would take half of the time.
    """
    add_start, add_end = starts.append, ends.append
    for row, host_gain, wait_removed, earlier, shorter in events:
        is_op, host_slack, limit, pred1, pred1_slack, pred2, pred2_slack, more, explained_wait = row
        host += host_gain
        if not is_op:
            if not wait_removed:
                host = host + explained_wait if host + explained_wait < limit else limit
                if pred1 != NO_ROW and ends[pred1] + pred1_slack < host:
                    host = ends[pred1] + pred1_slack
            add_start(0)
            # A batch that was ready cannot lower the lead of earlier batches.
            add_end(ends[pred2] if pred2 != NO_ROW and ends[pred2] > host else host)
            continue
        lead, most = limit, 0
        if host_slack < NO_LIMIT:
            lead, most = host + host_slack if host + host_slack < limit else limit, host
        if pred1 != NO_ROW:
            before = ends[pred1]
            lead = before + pred1_slack if before + pred1_slack < lead else lead
            most = before if before > most else most
        if pred2 != NO_ROW:
            before = ends[pred2]
            lead = before + pred2_slack if before + pred2_slack < lead else lead
            most = before if before > most else most
        for position, slack in more:
            before = ends[position]
            lead = before + slack if before + slack < lead else lead
            most = before if before > most else most
        lead = (most if most < lead else lead) + earlier
        add_start(lead)
        add_end(lead + shorter)
    return host
