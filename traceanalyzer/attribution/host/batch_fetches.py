"""Batches that the launching thread takes from a data loader's workers, and which of them it waited for.

If the host comes earlier to a batch that is not ready, it only waits longer. Most traces do not record the workers.
What is known: a worker gets its next batch when the host takes an earlier one. So a batch can be ready earlier by at
most as much as the earlier one is taken earlier, and it is never ready later than it was. The trace does not show how
well the workers would keep up in between, nor for batches that were ready when the host took them.

Workers that cannot keep up at all are different: each starts its next batch at once, so the host does not change when
its batches are ready. If such workers are equally fast, the host waits for one batch in every N, with N workers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.records.host_slices import HostSlices

_TAKE = re.compile(r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter\.__next__")
# Taking a batch that is ready only passes a handle to its memory, which takes less: a millisecond, or this share of the
# time between batches, since a handle to a large batch takes longer.
READY_NS = 1_000_000
READY_SHARE = 0.02
# Waits have a rhythm if so many, and this share, come the same number of batches after another wait.
MIN_REPEATS = 3
MIN_REPEATED_SHARE = 0.98


@dataclass(frozen=True)
class LoaderTakes:
    """Batches in the order in which the host took them."""

    thread: Ints
    start: Ints
    end: Ints

    @property
    def waited(self) -> Flags:
        """Return which batches the thread waited for."""
        between_ns = float(np.median(np.diff(self.start))) if len(self.start) > 1 else 0.0
        is_late: Flags = self.end - self.start > max(READY_NS, READY_SHARE * between_ns)
        return is_late

    def held_by(self) -> Ints:
        """Return for each batch the row of the batch whose lead limits its own; NO_ROW for the first.

        It is the previous late batch of the same worker if there is a rhythm, else the last batch that was ready: it
        cannot lower the lead of earlier batches.
        """
        waited = self.waited
        at = np.arange(len(waited))
        ready = np.maximum.accumulate(np.where(waited, NO_ROW, at))
        ready_before = np.concatenate([[NO_ROW], ready])[: len(at)]
        found = np.where(ready_before == NO_ROW, at - 1, ready_before)
        every = _rhythm(waited)
        same = np.flatnonzero(waited[every:] & waited[: len(at) - every]) + every if every else at[:0]
        found[same] = same - every
        return found


def find_batch_fetches(slices: HostSlices) -> LoaderTakes:
    """Return the batches that some threads took from workers, without batches made in the thread itself."""
    rows = np.flatnonzero(slices.flags([bool(_TAKE.search(name)) for name in slices.names]))
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    return LoaderTakes(slices.thread[rows], slices.start[rows], slices.end[rows])


def _rhythm(waited: Flags) -> int:
    """Return the smallest number of batches after which the host waits again; 0: there is no rhythm."""
    for every in range(1, len(waited) // MIN_REPEATS + 1):
        later = waited[every:]
        repeats = int((later & waited[:-every]).sum())
        if repeats >= max(MIN_REPEATS, MIN_REPEATED_SHARE * int(later.sum())):
            return every
    return 0
