"""The replay over all ranks of a run, which meet in collectives: over all events, or over reduced ranks.

Each rank is scanned up to its next collective. The members of a collective leave it together. Their common shift is the
least, over the members, of the time that a member waited there for the last rank plus the shift with which it now
arrives: a faster slowest rank helps until the second-slowest rank is last. Only durations are compared, so the ranks'
clocks need not agree.

Where the events of all ranks are not held, what-ifs are answered in rounds. Each rank reduces its scan to its sync
points, these alone are passed over in numpy, and each rank then passes over its events with the shifts that came out.
Where it arrives with the shifts that were computed, these are what a scan of all events gives. Where it does not, the
next round knows what the difference came from, which settles at least the first sync point that differed. After the
last round, the differences that are left bound how far off each shift can be: shifts are sums, least and largest values
of shifts before, so a difference never grows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import NO_ROW, STRAGGLER_WAIT, Flags, Ints
from traceanalyzer.attribution.replay.device_bounds import RankScans, ScanQuery
from traceanalyzer.attribution.replay.kernel import DeviceReplay, Points, replay
from traceanalyzer.attribution.replay.scan import Scan, WhatIf
from traceanalyzer.attribution.replay.sync_points import PREDECESSORS, Arrived, RankCalls, ReducedCalls, SyncPoints

_NEVER = int(np.iinfo(np.int64).max // 4)


class JointScan(Struct, frozen=True, dict=True):
    """The scans of all ranks, and where they meet."""

    scans: tuple[Scan, ...]
    sync_points: SyncPoints

    @classmethod
    def of_scans(cls, scans: Sequence[Scan], sizes: Mapping[int, int]) -> Self:
        """Find the sync points of scans; `sizes` is how many members each collective has, in and outside the scans."""
        return cls(tuple(scans), SyncPoints.of_calls([*map(RankCalls.of_scan, scans)], sizes))

    @cached_property
    def most_by_others(self) -> Ints:
        """The largest shift that each scan (row) can have where changes are made in one other scan (column) alone.

        A scan is shifted by others only in sync points. There it gains no more than the members besides the changed
        scan allow: each the time that it waited, plus the shift that it has from sync points before.
        """
        most = np.zeros((len(self.scans), len(self.scans)), np.int64)
        for low, high in itertools.pairwise(self._points.first.tolist()):
            members = self._points.device[low:high]
            arrivals = most[members] + self._points.wait[low:high, None]
            arrivals[range(len(members)), members] = _NEVER
            most[members] = np.maximum(most[members], arrivals.min(axis=0))
        return most

    @cached_property
    def _points(self) -> Points:
        return self.sync_points.points()

    def shifts(self, what_ifs: Sequence[WhatIf]) -> list[Ints | None]:
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


# Most what-ifs are settled by the first or second round, those of jobs with much jitter by the fifth.
ROUNDS = 10
# What the answers of one pass over all sync points may take.
_PASS_BYTES = 1 << 29
_BYTES_A_CALL = 12 * (PREDECESSORS + 1) + 72


class CallShifts(NamedTuple):
    """The shift with which each call is left (row) in each what-if (column), and how far off it is at most."""

    shift_ns: Ints
    off_ns: Ints


class ReducedRun(Struct, frozen=True, dict=True):
    """Answers what-ifs about all ranks from reduced scans."""

    sync_points: SyncPoints
    scans: RankScans
    rounds: int = ROUNDS

    def shifts(
        self, queries: Sequence[Sequence[WhatIf]], calls: Ints | None = None, rounds: int = ROUNDS
    ) -> CallShifts:
        """Return the shifts of calls, one column for each element of `queries`, each with one what-if per device.

        `calls` are their numbers, by default all.
        """
        scenarios = max(1, _PASS_BYTES // (_BYTES_A_CALL * max(self.sync_points.count, 1)))
        parts = [self._shifts(queries[first : first + scenarios], calls) for first in range(0, len(queries), scenarios)]
        return CallShifts(*(np.concatenate(column, axis=1) for column in zip(*parts, strict=True)))

    @cached_property
    def most_by_one(self) -> Ints:
        """The largest shift that other scans can have where changes are made in one scan alone, by that scan.

        In a sync point at which it alone came last, the others wait for the last of them instead.
        """
        return self.sync_points.most_by_one()

    @cached_property
    def _unchanged(self) -> dict[int, ReducedCalls]:
        """The reduced ranks of scans in which nothing changes, by number, as far as they were needed."""
        return {}

    def _shifts(self, queries: Sequence[Sequence[WhatIf]], calls: Ints | None) -> CallShifts:
        by_scan = list(zip(*queries, strict=True))
        found = self._arrivals(by_scan)
        of_scans = [[STRAGGLER_WAIT in what_if.removed for what_if in what_ifs] for what_ifs in by_scan]
        balanced = np.repeat(np.asarray(of_scans), np.diff(self.sync_points.first), axis=0)
        scenarios = np.arange(len(queries))  # of the what-ifs that are not settled
        more = np.zeros((self.sync_points.count, len(queries)), np.int64)
        chosen: Ints | slice = slice(None) if calls is None else calls
        count = self.sync_points.count if calls is None else len(calls)
        shift, off = (np.zeros((count, len(queries)), np.int64) for _ in range(2))
        for left_rounds in reversed(range(self.rounds)):
            left, begun = self.sync_points.shifts(found, more, balanced)
            arrived = self._arrived(by_scan, left, begun)
            error = np.subtract(arrived.shift_ns, begun, out=begun)
            is_open: Flags = np.any(error, axis=0)
            shift[:, scenarios] = left[chosen]
            off[:, scenarios] = self.sync_points.off_by(error)[chosen] if is_open.any() else 0
            if not is_open.any() or not left_rounds:
                break
            scenarios, left, balanced = scenarios[is_open], left[:, is_open], balanced[:, is_open]
            by_scan = [tuple(itertools.compress(what_ifs, is_open)) for what_ifs in by_scan]
            arrived = Arrived(arrived.shift_ns[:, is_open], arrived.source[:, is_open])
            found = _with_sources(ReducedCalls(*(array[..., is_open] for array in found.arrays)), arrived, left)
            more = arrived.shift_ns - self.sync_points.begun(found, left)
        return CallShifts(shift, off)

    def _arrivals(self, by_scan: Sequence[Sequence[WhatIf]]) -> ReducedCalls:
        """Return the reduced ranks of all devices one after the other, where `before` numbers calls of all devices."""
        self._reduce_unchanged(by_scan)
        nothing = WhatIf()
        changed = [
            ScanQuery(scan, [what_if for what_if in what_ifs if what_if != nothing], self.sync_points.positions[scan])
            for scan, what_ifs in enumerate(by_scan)
            if any(what_if != nothing for what_if in what_ifs) and len(self.sync_points.calls[scan].match)
        ]
        answers = zip(changed, self.scans.reduce_scans(changed), strict=True)
        of_changed = {item.scan: answer for item, answer in answers}
        count, scenarios = self.sync_points.count, len(by_scan[0])
        whole = ReducedCalls(
            np.empty((count, scenarios), np.int64),
            np.empty((count, PREDECESSORS, scenarios), np.int32),
            np.empty((count, PREDECESSORS, scenarios), np.int64),
            np.empty((count, scenarios), np.int64),
        )
        for scan, what_ifs in enumerate(by_scan):
            low, high = self.sync_points.first[scan : scan + 2]
            if low == high:
                continue
            is_changed = np.asarray([what_if != nothing for what_if in what_ifs])
            for nth, array in enumerate(whole.arrays):
                into = array[low:high]
                if is_changed.any():
                    into[..., is_changed] = of_changed[scan].arrays[nth]
                if not is_changed.all():
                    into[..., ~is_changed] = self._unchanged[scan].arrays[nth]
            before = whole.before[low:high]
            before[before != NO_ROW] += low
        return whole

    def _reduce_unchanged(self, by_scan: Sequence[Sequence[WhatIf]]) -> None:
        nothing = WhatIf()
        missing = [
            ScanQuery(scan, [nothing], self.sync_points.positions[scan])
            for scan, what_ifs in enumerate(by_scan)
            if scan not in self._unchanged and nothing in what_ifs and len(self.sync_points.calls[scan].match)
        ]
        for item, answer in zip(missing, self.scans.reduce_scans(missing), strict=True):
            self._unchanged[item.scan] = answer

    def _arrived(self, by_scan: Sequence[Sequence[WhatIf]], left: Ints, begun: Ints) -> Arrived:
        """Return how devices arrive where calls are left with these shifts: by passes over their events."""
        queries, shifts, places = [], [], []
        nothing = WhatIf()
        found = Arrived(begun.copy(), np.full(begun.shape, NO_ROW, np.int32))
        for scan, what_ifs in enumerate(by_scan):
            low, high = self.sync_points.first[scan : scan + 2].tolist()
            moved: Flags = np.any(left[low:high] != 0, axis=0)
            scenarios = [scenario for scenario, what_if in enumerate(what_ifs) if moved[scenario] or what_if != nothing]
            if low == high or not scenarios:
                continue  # Where nothing changes and nothing comes earlier, all shifts are 0.
            queries.append(
                ScanQuery(scan, [what_ifs[scenario] for scenario in scenarios], self.sync_points.positions[scan])
            )
            shifts.append(left[low:high] if len(scenarios) == left.shape[1] else left[low:high, scenarios])
            places.append((low, high, scenarios))
        for (low, high, scenarios), answer in zip(places, self.scans.arrivals(queries, shifts), strict=True):
            found.shift_ns[low:high, scenarios] = answer.shift_ns
            found.source[low:high, scenarios] = np.where(answer.source == NO_ROW, NO_ROW, answer.source + low)
        return found


def _with_sources(found: ReducedCalls, arrived: Arrived, left: Ints) -> ReducedCalls:
    """Return arrivals that also know the calls that shifts came from in a pass over all events."""
    padded = np.concatenate([left, np.zeros((1, left.shape[1]), np.int64)])
    slack = arrived.shift_ns - padded[arrived.source, np.arange(left.shape[1])]
    limit = np.where(arrived.source == NO_ROW, np.minimum(found.limit_ns, arrived.shift_ns), found.limit_ns)
    return ReducedCalls(
        limit,
        np.concatenate([found.before, arrived.source[:, None]], axis=1),
        np.concatenate([found.slack_ns, slack[:, None]], axis=1),
        found.shorter_ns,
    )
