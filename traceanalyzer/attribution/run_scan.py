"""The lead scan over all ranks of a run, which meet in collectives.

Each rank is scanned on its own up to its next collective. Its members leave it together, by the least of how long each
waited in it for the last one and of how much earlier it now comes: making the slowest rank faster helps until the
second-slowest is last. Only durations are compared, so that the ranks' clocks may be anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import MESSAGE, SKEW
from traceanalyzer.attribution.lead_scan import Inputs, LaneWalk, Scan, Scenario, Walk

_NEVER = int(np.iinfo(np.int64).max // 4)


@dataclass(frozen=True)
class Meeting:
    """A collective or message of several scans: the position of each member, and how long it waited there."""

    members: tuple[tuple[int, int], ...]  # number of the scan, position in it
    waits: tuple[int, ...]
    transfer: int
    is_message: bool


@dataclass(frozen=True)
class RunScan:
    """The scans of all ranks, and their collectives in an order in which every rank comes to them."""

    scans: tuple[Scan, ...]
    meetings: tuple[Meeting, ...]

    @classmethod
    def of_scans(cls, scans: Sequence[Scan], sizes: dict[int, int]) -> Self:
        """Prepare scans; `sizes` tells how many members each collective has, those outside the scans included."""
        at: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for i, scan in enumerate(scans):
            for position in np.flatnonzero(scan.match != NO_ROW).tolist():
                at[int(scan.match[position])].append((i, position))
        whole = {match: members for match, members in at.items() if len(members) == sizes.get(match, 0)}
        return cls(tuple(scans), tuple(_meeting(scans, whole[match]) for match in _order(scans, whole)))

    def positions(self, scan: int) -> list[int]:
        """Return where a scan meets others, in its order."""
        return [position for meeting in self.meetings for i, position in meeting.members if i == scan]

    def leads(self, scenarios: Sequence[Scenario]) -> list[Walk]:
        """Return by how much earlier everything happens if each scan has its scenario."""
        inputs = [scan.inputs(scenario) for scan, scenario in zip(self.scans, scenarios, strict=True)]
        walks = [Walk(scan.steps, changed) for scan, changed in zip(self.scans, inputs, strict=True)]
        balanced = [SKEW in scenario.removed for scenario in scenarios]
        for meeting in self.meetings:
            arrivals, cuts = [], []
            evens = [balanced[i] and not meeting.is_message for i, _ in meeting.members]
            for (i, position), wait, even in zip(meeting.members, meeting.waits, evens, strict=True):
                walks[i].advance(position + 1)
                arrivals.append(wait + walks[i].starts[position])
                cuts.append(int(inputs[i][3][position]) - (wait if even else 0))
            # Without skew all come when the first one does; without that of some, nobody waits for these.
            awaited = [at for at, even in zip(arrivals, evens, strict=True) if not even]
            lead = (min(awaited) if awaited else max(arrivals)) + max(0, min(meeting.transfer, *cuts))
            for i, position in meeting.members:
                walks[i].ends[position] = lead
        for walk, scan in zip(walks, self.scans, strict=True):
            walk.advance(len(scan.steps))
        return walks

    def leads_at_once(self, told: Sequence[Sequence[Scenario]]) -> list[LaneWalk]:
        """Return the same for several answers to what each scan has, one column each."""
        by_scan = list(zip(*told, strict=True))
        inputs = [_inputs(scan, scenarios) for scan, scenarios in zip(self.scans, by_scan, strict=True)]
        walks = [LaneWalk(scan, changed) for scan, changed in zip(self.scans, inputs, strict=True)]
        balanced = np.asarray([[SKEW in scenario.removed for scenario in scenarios] for scenarios in by_scan])
        for meeting in self.meetings:
            scans, waits = [i for i, _ in meeting.members], np.asarray(meeting.waits)[:, None]
            for i, position in meeting.members:
                walks[i].advance(position + 1)
            evens = balanced[scans] & (not meeting.is_message)
            arrivals = waits + np.stack([walks[i].start(position) for i, position in meeting.members])
            cuts = np.stack([walks[i].shorter_ns(position) for i, position in meeting.members])
            cuts -= np.where(evens, waits, 0)
            awaited = np.where(evens, _NEVER, arrivals).min(axis=0)
            lead = np.where(evens.all(axis=0), arrivals.max(axis=0), awaited)
            lead += np.clip(cuts.min(axis=0), 0, max(0, meeting.transfer))
            for i, position in meeting.members:
                walks[i].ends[position] = lead
        for walk, scan in zip(walks, self.scans, strict=True):
            walk.advance(len(scan.steps))
        return walks


def _inputs(scan: Scan, scenarios: Sequence[Scenario]) -> list[Inputs]:
    """Return what each scenario changes in a scan; most change nothing in most scans."""
    unchanged = scan.inputs(Scenario())
    return [unchanged if scenario == Scenario() else scan.inputs(scenario) for scenario in scenarios]


def _meeting(scans: Sequence[Scan], members: list[tuple[int, int]]) -> Meeting:
    waits = tuple(int(scans[i].wait[position]) for i, position in members)
    transfer = min(int(scans[i].dur[position]) for i, position in members)
    is_message = any(scans[i].cause_of_op.name(position) == MESSAGE for i, position in members)
    return Meeting(tuple(members), waits, transfer, is_message)


def _order(scans: Sequence[Scan], whole: dict[int, list[tuple[int, int]]]) -> list[int]:
    """Return collectives in an order in which each scan comes to its own; one that would wait for ever is left out."""
    queues = [[match for match in scan.match[scan.match != NO_ROW].tolist() if match in whole] for scan in scans]
    heads = [0] * len(scans)
    there: dict[int, int] = defaultdict(int)
    found: list[int] = []
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
            found.append(match)
            for i, _ in whole[match]:
                heads[i] += 1
                step_to(i)
        stuck = [i for i in range(len(scans)) if heads[i] < len(queues[i])]
        if not stuck:
            return found
        match = queues[stuck[0]][heads[stuck[0]]]
        left_out.add(match)
        for i in stuck:
            if queues[i][heads[i]] == match:
                step_to(i)
