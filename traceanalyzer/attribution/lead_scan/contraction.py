"""The scans of devices contracted to what the scan of a run asks of them: when they arrive at each of their meetings.

Leads are made of sums, least and, rarely, largest values. So the lead with which a device arrives at a meeting is the
least of a limit and of the leads of meetings before, each plus a slack. Few meetings before matter: `contract` finds
the last ones by passes in which meetings have no limit or marked leads. `arrivals` passes over the events with given
leads. It shows whether the numbers say the same as the scan, and which meeting matters where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.lead_scan.abreast import DevicePart, starts
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import Ints

# The meetings before one that `contract` finds: one of the last with an even number, one with an odd one.
PREDECESSORS = 2
# The passes of a contraction, for each what-if.
PASSES = PREDECESSORS + 1
# More than any lead: a meeting that sets no limit.
UNLIMITED = 1 << 60
# The leads of marked meetings differ by this, which is more than any slack (37 minutes), so that the lead at a later
# meeting says which of them it comes from.
_MARK = 1 << 41

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


def contract(parts: Sequence[DevicePart]) -> list[Arrivals]:
    """Return when devices arrive at their meetings in each what-if.

    One pass without any limit, and one for each class of meetings with those marked, all of them abreast.
    """
    return list(map(_arrivals, parts, starts(parts, [_marked(part) for part in parts])))


def _marked(part: DevicePart) -> Ints:
    row = np.arange(len(part.positions))
    left = np.full((len(row), PASSES, len(part.changes)), UNLIMITED)
    left[row, row % PREDECESSORS] = -_MARK * (row // PREDECESSORS + 1)[:, None]
    return left.reshape(len(row), -1)


def _arrivals(part: DevicePart, leads: Ints) -> Arrivals:
    leads = leads.reshape(len(part.positions), PASSES, -1)
    shorter = np.stack([one.shorter_ns[part.positions] for one in part.changes], axis=-1)
    limit, marks = leads[:, PREDECESSORS], leads[:, :PREDECESSORS]
    is_marked = marks < 0  # Only a marked meeting makes a lead less than 0.
    number = -(marks // _MARK)
    row_of = (number - 1) * PREDECESSORS + np.arange(PREDECESSORS)[None, :, None]
    slack = marks + number * _MARK
    return Arrivals(limit, np.where(is_marked, row_of, NO_ROW).astype(np.int32), np.where(is_marked, slack, 0), shorter)


def arrivals(parts: Sequence[DevicePart], leads: Sequence[Ints]) -> list[Arrived]:
    """Return how devices arrive where they leave their meetings with these leads: a column for each what-if."""
    # All times are shifted to make room for the number of the meeting that a lead comes from.
    bits = max(len(part.positions) for part in parts).bit_length()
    left = [(of_part << bits) + np.arange(1, len(of_part) + 1)[:, None] for of_part in leads]
    sources = (1 << bits) - 1
    found = starts(parts, left, bits)
    return [Arrived(of_part >> bits, ((of_part & sources) - 1).astype(np.int32)) for of_part in found]
