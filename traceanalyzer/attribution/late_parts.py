"""Pauses of compute that a late host made, cut where the host itself waited for other work of the device.

Such a wait, for a copy or a collective while nothing computes, is missed in full, and what the host does after it is
too. Only what it did before may have been hidden in part by what was still running.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.blocking_calls import BlockingCalls
from traceanalyzer.attribution.buckets import SYNC_CODE, Flags, Ints


@dataclass(frozen=True)
class LateParts:
    """Parts of pauses, in order: from `start` to `end` compute missed what the host did from `since` to `until`."""

    owner: Ints  # number of the pause
    since: Ints
    until: Ints
    since_thread: Ints
    until_thread: Ints
    start: Ints
    end: Ints


@dataclass(frozen=True)
class WaitsInPauses:
    """Waits for the device that began in a pause, in order."""

    owner: Ints  # number of the pause
    start: Ints
    end: Ints
    thread: Ints
    row: Ints  # of host_slices


def waits_in_pauses(pauses: LateParts, calls: BlockingCalls, waited: Ints, threads: Ints) -> WaitsInPauses:
    """Return the synchronisations of some threads that lie in pauses, from where they waited on."""
    real = np.flatnonzero((waited > 0) & (calls.cause == SYNC_CODE) & np.isin(calls.thread, threads))
    real = real[np.argsort(calls.start[real], kind="stable")]
    release = np.maximum.accumulate(calls.release[real])
    first = np.searchsorted(calls.start[real], pauses.start, side="left")
    counts = np.maximum(0, np.searchsorted(release, pauses.until, side="right") - first)
    owner = np.repeat(np.arange(len(first)), counts)
    at = np.arange(len(owner)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    end = np.minimum(release[at], pauses.end[owner])
    # Of waits on several threads at once each counts from where the one before it ended.
    before = np.where(np.append(True, owner[1:] != owner[:-1])[: len(owner)], pauses.start[owner], np.roll(end, 1))
    start = np.clip(release[at] - waited[real[at]], before, end)
    return WaitsInPauses(owner, start, end, calls.thread[real[at]], calls.row[real[at]])


def cut_at_waits(pauses: LateParts, waits: WaitsInPauses) -> LateParts:
    """Cut pauses at the waits in them, which are left out."""
    inside = np.bincount(waits.owner, minlength=len(pauses.owner))
    owner = np.repeat(pauses.owner, inside + 1)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(inside + 1) - inside - 1, inside + 1)
    next_wait = np.repeat(np.cumsum(inside) - inside, inside + 1) + nth
    is_first, is_last = nth == 0, nth == inside[owner]

    def begin(first: Ints, after_wait: Ints) -> Ints:
        return _either(is_first, first[owner], after_wait, next_wait - 1)

    def end(last: Ints, at_wait: Ints) -> Ints:
        return _either(is_last, last[owner], at_wait, next_wait)

    return LateParts(
        owner,
        begin(pauses.since, waits.end),
        end(pauses.until, waits.start),
        begin(pauses.since_thread, waits.thread),
        end(pauses.until_thread, waits.thread),
        begin(pauses.start, waits.end),
        end(pauses.end, waits.start),
    )


def _either(outer: Flags, values: Ints, of_waits: Ints, wait: Ints) -> Ints:
    """Return the values of pauses where these are asked for, else those of waits."""
    found = values.copy()
    found[~outer] = of_waits[wait[~outer]]
    return found
