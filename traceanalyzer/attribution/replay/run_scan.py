"""The replay over all ranks of a run, which meet in collectives.

Each rank is scanned up to its next collective. The members of a collective leave it together. Their common lead is the
least, over the members, of the time that a member waited there for the last rank plus the lead with which it now
arrives: a faster slowest rank helps until the second-slowest rank is last. Only durations are compared, so the ranks'
clocks need not agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import MESSAGE, STRAGGLER_WAIT, Ints
from traceanalyzer.attribution.replay.scan import Scan, WhatIf
from traceanalyzer.attribution.replay.walk import Changes, Walk

_NEVER = int(np.iinfo(np.int64).max // 4)


class ScanPosition(NamedTuple):
    """An event of a run: the number of its scan, and its position there."""

    scan: int
    position: int


@dataclass(frozen=True)
class SyncPoint:
    """A collective or message of several scans: its members, and how long each waited there for the last one."""

    members: tuple[ScanPosition, ...]
    waits: tuple[int, ...]  # one per member
    transfer: int
    is_message: bool


@dataclass(frozen=True)
class JointScan:
    """The scans of all ranks, and their sync points in an order in which every rank can reach them."""

    scans: tuple[Scan, ...]
    sync_points: tuple[SyncPoint, ...]

    @classmethod
    def of_scans(cls, scans: Sequence[Scan], sizes: dict[int, int]) -> Self:
        """Find the sync points of scans; `sizes` is the number of members of each collective, in and outside the
        scans.
        """
        members_of: dict[int, list[ScanPosition]] = defaultdict(list)
        for i, scan in enumerate(scans):
            for position in np.flatnonzero(scan.match != NO_ROW).tolist():
                members_of[int(scan.match[position])].append(ScanPosition(i, position))
        whole = {match: members for match, members in members_of.items() if len(members) == sizes.get(match, 0)}
        return cls(tuple(scans), tuple(_sync_point(scans, whole[match]) for match in _order(scans, whole)))

    @cached_property
    def positions(self) -> list[list[int]]:
        """The positions at which each scan meets others, in the order of the sync points."""
        positions: list[list[int]] = [[] for _ in self.scans]
        for sync_point in self.sync_points:
            for i, position in sync_point.members:
                positions[i].append(position)
        return positions

    @cached_property
    def most_by_others(self) -> Ints:
        """The largest lead that each scan (row) can have where changes are made in one other scan (column) alone.

        A scan gets lead from others only in sync points. There it gains no more than the members besides the changed
        scan allow: each the time that it waited, plus the lead that it has from sync points before.
        """
        most = np.zeros((len(self.scans), len(self.scans)), np.int64)
        for sync_point in self.sync_points:
            members = [member.scan for member in sync_point.members]
            arrivals = most[members] + np.asarray(sync_point.waits)[:, None]
            arrivals[range(len(members)), members] = _NEVER
            most[members] = np.maximum(most[members], arrivals.min(axis=0))
        return most

    def leads(self, what_ifs: Sequence[WhatIf]) -> list[list[int] | None]:
        """Return how much earlier the end of each event of each scan is, with one what-if per scan.

        None: nothing happens earlier in the scan.
        """
        changes = [scan.changes(what_if) for scan, what_if in zip(self.scans, what_ifs, strict=True)]
        # A scan is walked from the first time on that something changes in it: before, all its leads are 0.
        walks = [
            Walk(scan.events, changed) if _changes_something(changed) else None
            for scan, changed in zip(self.scans, changes, strict=True)
        ]
        balanced = [STRAGGLER_WAIT in what_if.removed for what_if in what_ifs]
        for sync_point in self.sync_points:
            arrivals, cuts = [], []
            evens = [balanced[member.scan] and not sync_point.is_message for member in sync_point.members]
            for (i, position), wait, even in zip(sync_point.members, sync_point.waits, evens, strict=True):
                walk = walks[i]
                if walk is not None:
                    walk.advance(position + 1)
                arrivals.append(wait + (0 if walk is None else walk.starts[position]))
                cuts.append(int(changes[i].shorter_ns[position]) - (wait if even else 0))
            # If no rank is late, all arrive with the first; if some ranks are no longer late, the others do not wait
            # for them.
            awaited = [at for at, even in zip(arrivals, evens, strict=True) if not even]
            lead = (min(awaited) if awaited else max(arrivals)) + max(0, min(sync_point.transfer, *cuts))
            for i, position in sync_point.members:
                walk = walks[i]
                if walk is None and lead:
                    walk = walks[i] = Walk(self.scans[i].events, changes[i])
                    walk.advance(position + 1)
                if walk is not None:
                    walk.ends[position] = lead
        for walk, scan in zip(walks, self.scans, strict=True):
            if walk is not None:
                walk.advance(scan.events.count)
        return [None if walk is None else walk.ends for walk in walks]

    def leads_at_once(self, asked: Sequence[Sequence[WhatIf]]) -> list[Ints | None]:
        """Vectorized `leads`: one column per element of `asked`, each of which holds one what-if per scan."""
        by_scan = list(zip(*asked, strict=True))
        changes = [_changes(scan, what_ifs) for scan, what_ifs in zip(self.scans, by_scan, strict=True)]
        walks = [
            scan.walk_scenarios(changed) if any(map(_changes_something, changed)) else None
            for scan, changed in zip(self.scans, changes, strict=True)
        ]
        still = np.zeros(len(asked), np.int64)
        balanced = np.asarray([[STRAGGLER_WAIT in what_if.removed for what_if in what_ifs] for what_ifs in by_scan])
        for sync_point in self.sync_points:
            scans, waits = [member.scan for member in sync_point.members], np.asarray(sync_point.waits)[:, None]
            evens = balanced[scans] & (not sync_point.is_message)
            if not evens.any() and all(walks[i] is None for i in scans):
                continue
            starts, cuts = [], []
            for i, position in sync_point.members:
                walk = walks[i]
                if walk is not None:
                    walk.advance(position + 1)
                starts.append(still if walk is None else walk.start(position))
                cuts.append(still if walk is None else walk.shorter_ns(position))
            arrivals = waits + np.stack(starts)
            cut = (np.stack(cuts) - np.where(evens, waits, 0)).min(axis=0)
            awaited = np.where(evens, _NEVER, arrivals).min(axis=0)
            lead = np.where(evens.all(axis=0), arrivals.max(axis=0), awaited)
            lead += np.clip(cut, 0, max(0, sync_point.transfer))
            for i, position in sync_point.members:
                walk = walks[i]
                if walk is None and lead.any():
                    walk = walks[i] = self.scans[i].walk_scenarios(changes[i])
                    walk.advance(position + 1)
                if walk is not None:
                    walk.ends[position] = lead
        for walk, scan in zip(walks, self.scans, strict=True):
            if walk is not None:
                walk.advance(scan.events.count)
        return [None if walk is None else walk.ends for walk in walks]


def _changes_something(changes: Changes) -> bool:
    return any(bool(change.any()) for change in changes)


def _changes(scan: Scan, what_ifs: Sequence[WhatIf]) -> list[Changes]:
    """Return the changes of each what-if in a scan; most change nothing in most scans."""
    unchanged = scan.changes(WhatIf())
    return [unchanged if what_if == WhatIf() else scan.changes(what_if) for what_if in what_ifs]


def _sync_point(scans: Sequence[Scan], members: list[ScanPosition]) -> SyncPoint:
    waits = tuple(int(scans[i].wait[position]) for i, position in members)
    transfer = min(int(scans[i].dur[position]) for i, position in members)
    is_message = any(scans[i].cause_of_op.name(position) == MESSAGE for i, position in members)
    return SyncPoint(tuple(members), waits, transfer, is_message)


def _order(scans: Sequence[Scan], whole: dict[int, list[ScanPosition]]) -> list[int]:
    """Return collectives in an order in which every scan reaches its own; those that would deadlock are left out."""
    queues = [[match for match in scan.match[scan.match != NO_ROW].tolist() if match in whole] for scan in scans]
    heads = [0] * len(scans)
    there: dict[int, int] = defaultdict(int)
    ordered: list[int] = []
    left_out: set[int] = set()
    ready: list[int] = []

    def step_to(i: int) -> None:
        while heads[i] < len(queues[i]) and queues[i][heads[i]] in left_out:
            heads[i] += 1
        if heads[i] < len(queues[i]):
            match = queues[i][heads[i]]
            there[match] += 1
            if there[match] == len(whole[match]):
                ready.append(match)

    for i in range(len(scans)):
        step_to(i)
    while True:
        while ready:
            match = ready.pop()
            ordered.append(match)
            for i, _ in whole[match]:
                heads[i] += 1
                step_to(i)
        stuck = [i for i in range(len(scans)) if heads[i] < len(queues[i])]
        if not stuck:
            return ordered
        match = queues[stuck[0]][heads[stuck[0]]]
        left_out.add(match)
        for i in stuck:
            if queues[i][heads[i]] == match:
                step_to(i)
