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
from traceanalyzer.attribution.replay.kernel import DeviceReplay, Points, replay
from traceanalyzer.attribution.replay.scan import Scan, WhatIf

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

    @cached_property
    def _points(self) -> Points:
        """The sync points as the replay reads them."""
        members = [member for point in self.sync_points for member in point.members]
        device, position = np.asarray(members, np.int64).reshape(-1, 2).T.copy()
        return Points(
            np.cumsum([0, *(len(point.members) for point in self.sync_points)]),
            device,
            position,
            np.asarray([wait for point in self.sync_points for wait in point.waits], np.int64),
            np.asarray([max(0, point.transfer) for point in self.sync_points], np.int64),
            np.asarray([point.is_message for point in self.sync_points], np.bool_),
            np.zeros(len(self.scans), np.bool_),
        )

    def leads(self, what_ifs: Sequence[WhatIf]) -> list[Ints | None]:
        """Return how much earlier the end of each event of each scan is, with one what-if per scan.

        None: nothing happens earlier in the scan.
        """
        nothing = WhatIf()
        devices = []
        for scan, what_if in zip(self.scans, what_ifs, strict=True):
            changes = None if what_if == nothing else scan.changes(what_if)
            some = changes is not None and any(change.any() for change in changes)
            devices.append(DeviceReplay(scan.events, changes if some else None))
        balanced = np.asarray([STRAGGLER_WAIT in what_if.removed for what_if in what_ifs], np.bool_)
        replay(devices, self._points._replace(balanced=balanced))
        return [device.ends if device.moves else None for device in devices]


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
