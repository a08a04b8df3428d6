"""What a scan of several scenarios at once is given: their changes side by side, and the events to take together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.buckets import Flags, Ints

# From here on a pass over all of a chain is faster than one over each of its ops.
_CHAIN_FROM = 6


def stretches(follows: Flags) -> list[tuple[int, bool]]:
    """Return stretches of events, the chains among them long enough to be worth a pass of their own.

    A chain is of ops each of which waits for the one before and for the host, and for nothing else.
    """
    edges = np.flatnonzero(np.diff(follows, prepend=False, append=False)).reshape(-1, 2)
    chains = edges[edges[:, 1] - edges[:, 0] >= _CHAIN_FROM].ravel().tolist()
    ends = [*chains, len(follows)]
    return [(end, at % 2 == 1) for at, end in enumerate(ends) if end > (ends[at - 1] if at else 0)]


@dataclass(frozen=True)
class Lanes:
    """What several scenarios change, one column each: the rows of the events that some of them changes."""

    before: list[int]  # how many rows there are before each event, and in all
    events: Ints
    rows: NDArray[Any]

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> Self:
        """Return what arrays, one a scenario, say of the events where some of them is not 0."""
        changes = np.zeros(len(arrays[0]), np.bool_)
        for array in arrays:
            changes |= array != 0
        events = np.flatnonzero(changes)
        rows = np.empty((len(events), len(arrays)), arrays[0].dtype)
        for lane, array in enumerate(arrays):
            rows[:, lane] = array[events]
        return cls([0, *np.cumsum(changes).tolist()], events, rows)

    def between(self, since: int, until: int) -> NDArray[Any]:
        """Return a row for each event from one position to another."""
        first, last = self.before[since], self.before[until]
        if last - first == until - since:
            return self.rows[first:last]
        found = np.zeros((until - since, self.rows.shape[1]), self.rows.dtype)
        found[self.events[first:last] - since] = self.rows[first:last]
        return found
