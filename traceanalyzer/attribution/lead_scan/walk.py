"""One pass over a device's lead events under one what-if: how much earlier each event starts and ends.

`scan` prepares the events and the changes; `lanes` makes the same pass for several what-ifs at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import Flags, Ints

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
