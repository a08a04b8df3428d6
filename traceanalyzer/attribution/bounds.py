"""What removing causes can save at most: the lead scan read at the end of each device's analysis window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.arrow_columns import column
from traceanalyzer.attribution.buckets import Ints
from traceanalyzer.attribution.doubts import LOADER_WORKERS
from traceanalyzer.attribution.lead_scan import LANES_FROM, Savings, Scan, Scenario
from traceanalyzer.attribution.run_scan import RunScan

TRACES = "SELECT trace_id, rank, world_size FROM canonical.traces"
_READS = {
    "windows": "SELECT * FROM attribution.windows",
    "lead_events": "SELECT * FROM attribution.lead_events ORDER BY trace_id, device, position",
    "lead_costs": "SELECT * FROM attribution.lead_costs ORDER BY trace_id, device",
    "lead_needs": "SELECT * FROM attribution.lead_needs ORDER BY trace_id, device, position",
    "members": "SELECT * FROM attribution.collective_members ORDER BY match_id",
    "traces": TRACES,
}
NOT_MATCHED = "unmatched-collectives: which kernels of the ranks belong together is not known"

MESSAGES = "messages-between-ranks: the run's ranks send to each other, which is not followed"
# Communication that does not hold all ranks, and takes less than this share of the windows, is let pass.
IGNORED_SHARE = 0.01

# More scenarios of all ranks at once would take more memory and hardly less time.
_LANES = 16

Place = tuple[int, int]  # trace_id, device


@dataclass(frozen=True)
class _Device:
    scan: Scan
    window_ns: int
    busiest_stream_ns: int
    first_op: int | None
    opening_op: int | None
    closing_op: int | None
    reading_op: int | None
    reading_scale: float
    abstains: str | None


@dataclass(frozen=True)
class Reading:
    """What a scenario saves of a window, which may also begin earlier than it does now.

    Nothing happens later when more is removed, but a window lies between two instants: where only its first op gains by
    a removal (a copy that some steps wait for and others hide, at the start of one that waits), it truly grows.
    """

    saved_ns: int
    begins_earlier_ns: int


@dataclass(frozen=True)
class RunBound:
    """What a run saves: as long as its slowest rank takes, and each device on the way there."""

    saved_ns: int
    window_ns: int  # of the slowest device
    devices: Mapping[Place, int]


@dataclass(frozen=True)
class Bounds:
    """Bounds of any set of causes and savings, on any device of a run, and on all of them together."""

    devices: Mapping[Place, _Device]
    ranks: Mapping[int, int | None]  # by trace_id
    together: RunScan
    places: tuple[Place, ...]  # of the scans of `together`
    apart: str | None  # why ranks that communicate cannot be scanned together; NULL (None): they can

    @classmethod
    def load(cls, con: duckdb.DuckDBPyConnection) -> Self:
        """Read what the bounds of a run need; once a run."""
        return cls.of_tables(**{name: con.sql(query).to_arrow_table() for name, query in _READS.items()})

    @classmethod
    def of_tables(
        cls,
        windows: pa.Table,
        lead_events: pa.Table,
        lead_costs: pa.Table,
        lead_needs: pa.Table,
        members: pa.Table | None = None,
        traces: pa.Table | None = None,
    ) -> Self:
        """Prepare the bounds of the devices in these tables; events in scan order."""
        devices = {}
        for window in windows.to_pylist():
            place = (window["trace_id"], window["device"])
            devices[place] = _Device(
                Scan.of_tables(
                    _of_device(lead_events, place),
                    _of_device(lead_costs, place),
                    _of_device(lead_needs, place),
                    None if window["leads_in"] else window["first_op_id"],
                ),
                window["window_ns"],
                window["busiest_stream_ns"],
                window["first_op_id"],
                window["opening_op_id"],
                window["closing_op_id"],
                window["reading_op_id"],
                window["reading_scale"],
                window["bound_abstains"],
            )
        found = [] if members is None else members.to_pylist()
        whole = Counter(row["match_id"] for row in found if row["synchronises"] and row["wait_ns"] is not None)
        places = tuple(sorted(devices))
        return cls(
            devices,
            {} if traces is None else {row["trace_id"]: row["rank"] for row in traces.to_pylist()},
            RunScan.of_scans([devices[place].scan for place in places], whole),
            places,
            _apart([] if traces is None else traces.to_pylist(), found, sum(d.window_ns for d in devices.values())),
        )

    @cached_property
    def waits_for_workers(self) -> bool:
        """Whether some batch of a loader's workers was not ready when it was taken."""
        return any(device.scan.waits_for_workers for device in self.devices.values())

    def against(self, doubt: str) -> Self:
        """Return the least that fixes save: no worker of a loader has a batch earlier than it was taken, or streams
        waited for others wherever they may have. The bounds themselves where the trace leaves no such doubt.
        """
        devices = {place: replace(found, scan=_at_worst(found.scan, doubt)) for place, found in self.devices.items()}
        if all(devices[place].scan is self.devices[place].scan for place in self.places):
            return self
        scans = tuple(devices[place].scan for place in self.places)
        return replace(self, devices=devices, together=replace(self.together, scans=scans))

    def with_doubts(self, doubts: Sequence[str]) -> dict[str, Self]:
        """Return the least that fixes save with each doubt more, by the doubt; those that the trace does not leave are
        no part of it.
        """
        found: dict[str, Self] = {}
        last = self
        for doubt in doubts:
            least = last.against(doubt)
            if least is not last:
                found[doubt] = last = least
        return found

    def abstains(self, trace_id: int, device: int) -> str | None:
        """Return why bounds cannot be trusted on a device; None: they can."""
        found = self.devices.get((trace_id, device))
        return "not-applicable: no work on the device" if found is None else found.abstains

    def causes(self, trace_id: int, device: int) -> frozenset[str]:
        """Return every cause whose removal could change something on a device."""
        found = self.devices.get((trace_id, device))
        return frozenset() if found is None else found.scan.causes()

    def bound(self, trace_id: int, device: int, removed: frozenset[str], savings: Savings | None = None) -> int:
        """Return by how many ns the window is shorter if causes cost nothing and ops (by id) are that much faster."""
        return self.bounds(trace_id, device, [Scenario(removed, savings)])[0]

    def bounds(self, trace_id: int, device: int, scenarios: Sequence[Scenario]) -> list[int]:
        """Return the bound of each scenario; many in one call are much faster than one by one."""
        return [reading.saved_ns for reading in self.readings(trace_id, device, scenarios)]

    def readings(self, trace_id: int, device: int, scenarios: Sequence[Scenario]) -> list[Reading]:
        """Return what each scenario saves, and by how much earlier the window begins in it."""
        found = self.devices.get((trace_id, device))
        if found is None or not scenarios or not len(found.scan.end):
            return [Reading(0, 0)] * len(scenarios)
        leads = found.scan.leads(scenarios)
        position_of = found.scan.position_of
        first = np.zeros(len(scenarios), np.int64)
        if found.first_op is not None:
            first = leads.start(position_of[found.first_op])
        if found.reading_op is None:
            mine = found.scan.is_op
            last = found.scan.end[mine]
            saved = last.max() - (last[:, None] - leads.end[mine]).max(axis=0) - first
        else:
            saved = (leads.start(position_of[found.reading_op]) - first) * found.reading_scale
        # A scenario wins no more than it takes out, however much lead it brings along from before the window.
        limits = [
            min(_limit(found, scenario), round(taken * found.reading_scale))
            for scenario, taken in zip(scenarios, leads.taken, strict=True)
        ]
        told = zip(saved.tolist(), (first * found.reading_scale).tolist(), limits, strict=True)
        return [Reading(min(max(int(ns), 0), limit), int(earlier_ns)) for ns, earlier_ns, limit in told]

    def run_abstains(self) -> str | None:
        """Return why nothing can be said of the run as a whole; None: it can."""
        if self.apart is not None:
            return self.apart
        if not self.devices:
            return "not-applicable: no work on a device"
        return next((device.abstains for device in self.devices.values() if device.abstains), None)

    def run_bound(
        self,
        removed: frozenset[str] | Mapping[int, frozenset[str]],
        savings: Mapping[Place, Savings] | None = None,
    ) -> int:
        """Return by how many ns the slowest rank's window is shorter; causes are removed on all ranks, or by rank."""
        return self.run(self.scenarios(removed, savings)).saved_ns

    def scenarios(
        self,
        removed: frozenset[str] | Mapping[int, frozenset[str]],
        savings: Mapping[Place, Savings] | None = None,
    ) -> dict[Place, Scenario]:
        """Return what each device has if causes are removed on all ranks, or by rank, and ops (by id) are faster."""
        found = {}
        for place in self.places:
            rank = self.ranks.get(place[0])
            own = removed if isinstance(removed, frozenset) else removed.get(-1 if rank is None else rank, frozenset())
            found[place] = Scenario(own, (savings or {}).get(place))
        return found

    def run(self, scenarios: Mapping[Place, Scenario]) -> RunBound:
        """Return what the run saves if each device has its scenario: ranks wait for each other in collectives."""
        told = [scenarios.get(place, Scenario()) for place in self.places]
        walks = self.together.leads(told) if self.together.meetings else []
        return self._of_run(told, [walk.ends for walk in walks])

    def runs(self, asked: Sequence[Mapping[Place, Scenario]]) -> list[RunBound]:
        """Return `run` of each; many in one call are much faster than one by one."""
        if len(asked) < LANES_FROM or not self.together.meetings:
            return [self.run(scenarios) for scenarios in asked]
        found = []
        for start in range(0, len(asked), _LANES):
            told = [
                [scenarios.get(place, Scenario()) for place in self.places]
                for scenarios in asked[start : start + _LANES]
            ]
            walks = self.together.leads_at_once(told)
            found += [self._of_run(own, [walk.ends[:, lane] for walk in walks]) for lane, own in enumerate(told)]
        return found

    @cached_property
    def _readings(self) -> dict[Place, tuple[int, int] | None]:
        """By place: the collectives between which its saving is read."""
        return {place: _between(self.devices[place], self.together.positions(i)) for i, place in enumerate(self.places)}

    def _of_run(self, told: Sequence[Scenario], ends: Sequence[Sequence[int] | Ints]) -> RunBound:
        """Return what the run saves in a scenario for each place, from the leads of its events' ends."""
        saved, lengths = {}, {}
        for i, place in enumerate(self.places):
            between = self._readings[place]
            window_ns = self.devices[place].window_ns
            lengths[place] = window_ns
            if between is None:
                saved[place] = self.bounds(*place, [told[i]])[0]
                continue
            first, last = between
            scan = self.devices[place].scan
            lead = int(ends[i][last]) - int(ends[i][first])
            saved[place] = min(max(0, round(lead * window_ns / int(scan.end[last] - scan.end[first]))), window_ns)
        longest = max(lengths.values(), default=0)
        left = max((lengths[place] - saved[place] for place in self.places), default=0)
        return RunBound(longest - left, longest, saved)


def _at_worst(scan: Scan, doubt: str) -> Scan:
    return scan.with_slow_workers if doubt == LOADER_WORKERS else scan.with_possible_waits


def _apart(
    traces: Sequence[Mapping[str, int | None]], members: Sequence[Mapping[str, int | None]], windows_ns: int
) -> str | None:
    """Return why ranks cannot be scanned together."""
    world = max((row["world_size"] or 0 for row in traces), default=0)
    there = len({row["rank"] for row in traces})
    if world > there:
        return f"missing-ranks: {there} of {world} ranks {'is' if there == 1 else 'are'} in the run"
    if len(traces) > 1 and any(row["synchronises"] and row["wait_ns"] is None for row in members):
        return NOT_MATCHED
    messages = [row for row in members if not row["synchronises"] and (row["present_count"] or 0) > 1]
    sent_ns = sum((row["transfer_ns"] or 0) + (row["wait_ns"] or 0) for row in messages)
    return MESSAGES if sent_ns > IGNORED_SHARE * windows_ns else None


def _between(device: _Device, meetings: list[int]) -> tuple[int, int] | None:
    """Return the collectives that end the step before the window and its last one; None: it has none.

    Ranks leave them together, while the first kernel of a step also tells how far its rank had run ahead.
    """
    scan = device.scan
    opens = scan.position_of.get(device.opening_op) if device.opening_op is not None else None
    if opens is None or len(meetings) < 2:
        return None
    closes = scan.position_of.get(device.closing_op) if device.closing_op is not None else None
    # In the order of the launches: what a step receives first may be there before its first kernel.
    before = [position for position in meetings if position < opens]
    within = [position for position in meetings if closes is None or position < closes]
    first, last = before[-1] if before else meetings[0], within[-1] if within else meetings[0]
    return (first, last) if scan.end[last] > scan.end[first] else None


def _limit(device: _Device, scenario: Scenario) -> int:
    """Return the time in which the stream that computes most does not, and what ops get shorter by: streams that took
    turns may run at once, but more cannot be saved.
    """
    savings = (scenario.savings or {}).values()
    shorter = int(np.maximum(np.fromiter(savings, np.int64, len(savings)), 0).sum())
    return min(device.window_ns, device.window_ns - device.busiest_stream_ns + shorter)


def _of_device(table: pa.Table, place: tuple[int, int]) -> pa.Table:
    """Return the rows of one device, which lie together."""
    rows = np.flatnonzero((column(table, "trace_id") == place[0]) & (column(table, "device") == place[1]))
    return table.slice(int(rows[0]) if len(rows) else 0, len(rows))
