"""The pass of `walk` for several what-ifs at once: one column per what-if, and long chains of ops taken together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.lead_scan.walk import NO_LIMIT, Changes, ScanEvents
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import Flags, Ints

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
class LaneChanges:
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
        for lane, array in enumerate(arrays):
            rows[:, lane] = array[events]
        return cls([0, *np.cumsum(changes).tolist()], events, rows)

    def between(self, since: int, until: int) -> NDArray[Any]:
        """Return one row per event from one position up to another."""
        first, last = self.before[since], self.before[until]
        if last - first == until - since:
            return self.rows[first:last]
        spread = np.zeros((until - since, self.rows.shape[1]), self.rows.dtype)
        spread[self.events[first:last] - since] = self.rows[first:last]
        return spread


class LaneWalk:
    """What `Walk` does, for several what-ifs at once: one column per what-if."""

    def __init__(self, events: ScanEvents, parts: Sequence[Stretch], changes: Sequence[Changes]):
        self._events = events
        self._parts = parts
        self._changes = [LaneChanges.of(arrays) for arrays in zip(*changes, strict=True)]
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
