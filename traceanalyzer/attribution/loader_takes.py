"""Batches that the launching thread takes from a loader's workers: what it waits there, it waits for them.

A host that comes earlier only waits longer for a batch that is not ready. The workers are no part of most traces; what
is known of them is that one is handed its next batch as earlier ones are taken, so that a batch can be ready earlier by
as much as one of those was, at most, and never later than it was. How far they could keep up in between, with those
batches too that were ready when they were taken, nobody can tell.

Workers that cannot keep up at all are another matter: each goes on to its next batch at once, so that its batches are
ready when they are whatever the host does. Where they are equally fast, one batch in as many as there are workers is
waited for, again and again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.host_slices import HostSlices

_TAKE = re.compile(r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter\.__next__")
# Taking a batch that is there passes a handle to its memory, which takes less.
READY_NS = 1_000_000
# A rhythm is no chance where so many waits, and this share of them, come the same number of batches after another one.
MIN_REPEATS = 3
MIN_REPEATED_SHARE = 0.98


@dataclass(frozen=True)
class LoaderTakes:
    """Batches in the order in which they were taken."""

    thread: Ints
    start: Ints
    end: Ints

    @property
    def waited(self) -> Flags:
        """Tell for which batches the thread waited."""
        found: Flags = self.end - self.start > READY_NS
        return found

    def held_by(self) -> Ints:
        """Return for each batch the row of one that it leads by no more than; NO_ROW for the first.

        It is one from the same worker that was waited for, too, or else the last that was ready: it stands for all.
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


def find_loader_takes(slices: HostSlices) -> LoaderTakes:
    """Return the batches that some threads took from workers; one made in the thread itself is no wait."""
    rows = np.flatnonzero(slices.flags([bool(_TAKE.search(name)) for name in slices.names]))
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    return LoaderTakes(slices.thread[rows], slices.start[rows], slices.end[rows])


def _rhythm(waited: Flags) -> int:
    """Return after how many batches one is waited for again, the fewest; 0: there is no telling."""
    for every in range(1, len(waited) // MIN_REPEATS + 1):
        later = waited[every:]
        repeats = int((later & waited[:-every]).sum())
        if repeats >= max(MIN_REPEATS, MIN_REPEATED_SHARE * int(later.sum())):
            return every
    return 0
