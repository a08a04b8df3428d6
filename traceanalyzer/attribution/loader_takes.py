"""Batches that the launching thread takes from a loader's workers: what it waits there, it waits for them.

A host that comes earlier only waits longer for a batch that is not ready. The workers are no part of most traces; what
is known of them is that one is handed its next batch as others are taken, so that a batch can be ready earlier by as
much as that was, at most.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.host_slices import HostSlices

_TAKE = re.compile(r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter\.__next__")
# Taking a batch that is there passes a handle to its memory, which takes less.
READY_NS = 1_000_000
# A batch is handed out when the one so many before it is taken, or earlier: DataLoader's prefetch_factor for a worker.
PREFETCHED = 2


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


def find_loader_takes(slices: HostSlices) -> LoaderTakes:
    """Return the batches that some threads took from workers; one made in the thread itself is no wait."""
    rows = np.flatnonzero(slices.flags([bool(_TAKE.search(name)) for name in slices.names]))
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    return LoaderTakes(slices.thread[rows], slices.start[rows], slices.end[rows])
