"""One device's scan contracted to what the scan of a run asks of it: when it arrives at each of its meetings.

Leads are made of sums, least and, rarely, largest values. So the lead with which a device arrives at a meeting is the
least of a limit and of the leads of meetings before, each plus a slack. Few meetings before matter: `contract` finds
the last ones by passes in which meetings have no limit or marked leads. `arrivals` passes over the events with given
leads. It shows whether the numbers say the same as the scan, and which meeting matters where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.lead_scan.scan import LANES_FROM, Scan
from traceanalyzer.attribution.lead_scan.walk import NO_LIMIT, Changes, Need, ScanEvents, Walk
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import Ints

# The meetings before one that `contract` finds: one of the last with an even number, one with an odd one.
PREDECESSORS = 2
# More than any lead: a meeting that sets no limit.
UNLIMITED = 1 << 60
# The leads of marked meetings differ by this, which is more than any slack (37 minutes), so that the lead at a later
# meeting says which of them it comes from.
_MARK = 1 << 41
# A pass over so many lanes at once takes hardly longer than one over a few.
_LANES = 48

Numbers = NDArray[np.int32]  # of calls, meetings or devices


@dataclass(frozen=True)
class Arrivals:
    """The lead with which a device arrives at each of its meetings (row), in several what-ifs (last axis).

    It is the least of `limit_ns` and, for each meeting `before` that matters (middle axis), that meeting's lead plus
    `slack_ns`. `before` is a row; NO_ROW: none. The device's operation there gets shorter by `shorter_ns`.
    """

    limit_ns: Ints
    before: Numbers
    slack_ns: Ints
    shorter_ns: Ints

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays, in the order of the fields."""
        return self.limit_ns, self.before, self.slack_ns, self.shorter_ns


class Arrived(NamedTuple):
    """The leads with which a device arrives at its meetings (row), and which meetings they come from (NO_ROW: none)."""

    lead_ns: Ints
    source: Numbers


def contract(scan: Scan, positions: Sequence[int], changes: Sequence[Changes]) -> Arrivals:
    """Return when a device arrives at its meetings, which are at these positions of its scan, in each what-if."""
    at_once = _LANES // (PREDECESSORS + 1)
    parts = [_contract(scan, positions, changes[first : first + at_once]) for first in range(0, len(changes), at_once)]
    columns = zip(*(part.arrays for part in parts), strict=True)
    return Arrivals(*(np.concatenate(column, axis=-1) for column in columns))


def _contract(scan: Scan, positions: Sequence[int], changes: Sequence[Changes]) -> Arrivals:
    """Walk once for each what-if without any limit, and once for each class of meetings with those marked."""
    asked, meetings = len(changes), len(positions)
    row = np.arange(meetings)
    left = np.full((meetings, PREDECESSORS + 1, asked), UNLIMITED)
    left[row, row % PREDECESSORS] = -_MARK * (row // PREDECESSORS + 1)[:, None]
    leads = _starts(scan, positions, [*changes] * (PREDECESSORS + 1), left.reshape(meetings, -1))
    leads = leads.reshape(meetings, PREDECESSORS + 1, asked)
    shorter = np.stack([one.shorter_ns[positions] for one in changes], axis=-1)
    limit, marks = leads[:, PREDECESSORS], leads[:, :PREDECESSORS]
    is_marked = marks < 0  # Only a marked meeting makes a lead less than 0.
    number = -(marks // _MARK)
    row_of = (number - 1) * PREDECESSORS + np.arange(PREDECESSORS)[None, :, None]
    slack = marks + number * _MARK
    return Arrivals(limit, np.where(is_marked, row_of, NO_ROW).astype(np.int32), np.where(is_marked, slack, 0), shorter)


def arrivals(scan: Scan, positions: Sequence[int], changes: Sequence[Changes], leads: Ints) -> Arrived:
    """Return how a device arrives at its meetings where it leaves them with these leads: a column for each what-if."""
    # All times are shifted to make room for the number of the meeting that a lead comes from.
    bits = len(positions).bit_length()
    shifted = [
        Changes(one.host_gain_ns << bits, one.wait_removed, one.earlier_ns << bits, one.shorter_ns << bits)
        for one in changes
    ]
    left = (leads << bits) + np.arange(1, len(positions) + 1)[:, None]
    found = _starts(_shifted(scan, bits), positions, shifted, left)
    return Arrived(found >> bits, ((found & ((1 << bits) - 1)) - 1).astype(np.int32))


def _starts(scan: Scan, positions: Sequence[int], changes: Sequence[Changes], left: Ints) -> Ints:
    """Return the leads with which meetings start, where they are left with `left`: a column for each lane."""
    found = np.empty_like(left)
    if len(changes) < LANES_FROM:
        for lane, one in enumerate(changes):
            walk, of_lane = Walk(scan.events, one), left[:, lane].tolist()
            for position, lead in zip(positions, of_lane, strict=True):
                walk.advance(position + 1)
                walk.ends[position] = lead
            found[:, lane] = [walk.starts[position] for position in positions]
        return found
    lanes = scan.walk_lanes(changes)
    for row, position in enumerate(positions):
        lanes.advance(position + 1)
        found[row] = lanes.start(position)
        lanes.ends[position] = left[row]
    return found


def _shifted(scan: Scan, bits: int) -> Scan:
    events = scan.events

    def shifted(values: Sequence[int]) -> list[int]:
        return [value << bits if value < NO_LIMIT else value for value in values]

    host_slack = shifted(events.host_slack_ns)
    return replace(
        scan,
        events=ScanEvents(
            is_op=events.is_op,
            host_slack_ns=host_slack,
            lead_limit_ns=shifted(events.lead_limit_ns),
            pred1=events.pred1,
            pred1_slack_ns=shifted(events.pred1_slack_ns),
            pred2=events.pred2,
            pred2_slack_ns=shifted(events.pred2_slack_ns),
            more=[tuple(Need(need.position, need.slack_ns << bits) for need in needs) for needs in events.more],
            explained_wait_ns=shifted(events.explained_wait_ns),
        ),
        host_slack=np.asarray(host_slack, np.int64),
    )
