"""Upper bounds of what removing causes saves: the replay, measured at the end of each device's analysis window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Self

import duckdb
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution.columns import DeviceKey
from traceanalyzer.attribution.replay.all_ranks import JointScan, ReducedRun
from traceanalyzer.attribution.replay.device_bounds import (
    DeviceBounds,
    RankScans,
    ScanFacts,
    ScanQuery,
    by_device,
    scan_of,
)
from traceanalyzer.attribution.replay.run_bounds import RunBound, WholeRun
from traceanalyzer.attribution.replay.scan import Savings, Scan, WhatIf
from traceanalyzer.attribution.replay.sync_points import SyncPoints

NOT_MATCHED = "unmatched-collectives: the trace does not show which kernels of the ranks are one collective"
MESSAGES = "messages-between-ranks: ranks send each other data in ways that the scan cannot follow"
# Communication that some ranks may leave early is ignored below this share of the windows.
IGNORED_SHARE = 0.01
# What `why_apart` looks at: a member of a collective that is not matched, and the time of messages.
MEMBERS_THAT_MATTER = """
SELECT TRUE AS synchronises, NULL AS wait_ns, NULL AS transfer_ns, NULL AS present_count
FROM (SELECT 1 FROM attribution.collective_members WHERE synchronises AND wait_ns IS NULL LIMIT 1)
UNION ALL
SELECT FALSE, sum(wait_ns), sum(transfer_ns), 2
FROM attribution.collective_members
WHERE NOT synchronises AND present_count > 1
"""


def why_apart(
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


# The scans of more devices are read when they are asked, instead of held.
HELD_DEVICES = 64

# Returns the scans of devices, by their number, from their rows of the table `windows`.
ScansOf = Callable[[Sequence[Mapping[str, Any]]], RankScans]

TRACES = "SELECT trace_id, rank, world_size FROM canonical.traces"
_SYNC_POINT_SIZES = """
SELECT match_id, count(*)
FROM attribution.collective_members
WHERE synchronises AND wait_ns IS NOT NULL
GROUP BY match_id
"""
_OF_MEMBERS = ["match_id", "synchronises", "present_count", "transfer_ns", "wait_ns"]
_READS = {
    "replay_events": "SELECT * FROM attribution.replay_events ORDER BY trace_id, device, position",
    "replay_costs": "SELECT * FROM attribution.replay_costs ORDER BY trace_id, device",
    "replay_needs": "SELECT * FROM attribution.replay_needs ORDER BY trace_id, device, position",
    "members": f"SELECT {', '.join(_OF_MEMBERS)} FROM attribution.collective_members",
    "traces": TRACES,
}


class Bounds(Struct, frozen=True, dict=True):
    """Upper bounds for any what-if, on one device or on all devices of a run together."""

    devices: Mapping[DeviceKey, DeviceBounds]
    ranks: Mapping[int, int | None]  # by trace_id
    together: JointScan | ReducedRun
    device_keys: tuple[DeviceKey, ...]  # of the scans of `together`
    apart: str | None  # why ranks that communicate cannot be scanned together; None: they can

    @classmethod
    def load(
        cls,
        con: duckdb.DuckDBPyConnection,
        scans_of: ScansOf | None = None,
        held_devices: int = HELD_DEVICES,
        unjudged: Collection[int] = (),
    ) -> Self:
        """Read the tables of a run; one call serves all questions about it.

        Where `scans_of` is given, the scans of more than `held_devices` are what it returns, and are read when asked.
        The run ends with none of the traces that are `unjudged`: they show it at another time.
        """
        judged = "SELECT * FROM attribution.windows WHERE NOT list_contains($unjudged::INTEGER[], trace_id)"
        windows = con.sql(judged, params={"unjudged": [*unjudged]}).to_arrow_table()
        if scans_of is not None and windows.num_rows > held_devices:
            return cls._of_scans(con, windows, scans_of)
        return cls.of_tables(windows, **{name: _read(con, query) for name, query in _READS.items()})

    @classmethod
    def of_tables(
        cls,
        windows: pa.Table,
        replay_events: pa.Table,
        replay_costs: pa.Table,
        replay_needs: pa.Table,
        members: pa.Table | None = None,
        traces: pa.Table | None = None,
    ) -> Self:
        """Prepare the bounds of the devices in these tables; replay_events must be in scan order."""
        events, costs, needs = (by_device(table) for table in (replay_events, replay_costs, replay_needs))
        devices = {}
        for window in windows.to_pylist():
            device_key = (window["trace_id"], window["device"])
            scan = scan_of(
                window,
                events.get(device_key, replay_events[:0]),
                costs.get(device_key, replay_costs[:0]),
                needs.get(device_key, replay_needs[:0]),
            )
            devices[device_key] = DeviceBounds(window, ScanFacts.of_scan(scan, window), partial(_held, scan))
        kernels = [] if members is None else members.select(_OF_MEMBERS).to_pylist()
        whole = Counter(row["match_id"] for row in kernels if row["synchronises"] and row["wait_ns"] is not None)
        device_keys = tuple(sorted(devices))
        ranks = [] if traces is None else traces.to_pylist()
        return cls(
            devices,
            {row["trace_id"]: row["rank"] for row in ranks},
            JointScan.of_scans([devices[device_key].scan for device_key in device_keys], whole),
            device_keys,
            why_apart(ranks, kernels, sum(device.window_ns for device in devices.values())),
        )

    @classmethod
    def _of_scans(cls, con: duckdb.DuckDBPyConnection, windows: pa.Table, scans_of: ScansOf) -> Self:
        """Prepare the bounds of devices whose scans are not held."""
        rows = sorted(windows.to_pylist(), key=lambda row: (row["trace_id"], row["device"]))
        scans = scans_of(rows)
        facts = scans.facts([ScanQuery(number) for number in range(len(rows))])
        devices = {
            (row["trace_id"], row["device"]): DeviceBounds(row, of_one, partial(scans.scan_of, number))
            for number, (row, of_one) in enumerate(zip(rows, facts, strict=True))
        }
        device_keys = tuple(devices)
        sizes = dict(con.execute(_SYNC_POINT_SIZES).fetchall())
        sync_points = SyncPoints.of_calls([devices[device_key].facts.calls for device_key in device_keys], sizes)
        traces = con.sql(TRACES).to_arrow_table().to_pylist()
        return cls(
            devices,
            {row["trace_id"]: row["rank"] for row in traces},
            ReducedRun(sync_points, scans),
            device_keys,
            why_apart(
                traces,
                con.sql(MEMBERS_THAT_MATTER).to_arrow_table().to_pylist(),
                sum(device.window_ns for device in devices.values()),
            ),
        )

    @cached_property
    def waits_for_workers(self) -> bool:
        """Whether some batch of a loader's workers was not ready when it was taken."""
        return any(device.facts.waits_for_workers for device in self.devices.values())

    def at_worst(self, uncertainty: str) -> Self:
        """Return what fixes save at least if an uncertainty turns out against them; these bounds if it does not apply.

        LOADER_WORKERS: no worker finishes a batch earlier than it was taken. STREAM_WAITS: streams waited for others
        wherever they may have.
        """
        devices = {device_key: device.at_worst(uncertainty) for device_key, device in self.devices.items()}
        if all(devices[device_key] is self.devices[device_key] for device_key in self.device_keys):
            return self
        together: JointScan | ReducedRun
        if isinstance(self.together, JointScan):
            together = replace(self.together, scans=tuple(devices[device_key].scan for device_key in self.device_keys))
        else:
            together = replace(self.together, scans=self.together.scans.at_worst(uncertainty))
        return replace(self, devices=devices, together=together)

    def lower_bounds(self, uncertainties: Sequence[str]) -> dict[str, Self]:
        """Return, by uncertainty, what fixes save if it and all uncertainties before it turn out against them.

        Uncertainties that do not apply to the run have no entry.
        """
        by_uncertainty: dict[str, Self] = {}
        last = self
        for uncertainty in uncertainties:
            lower = last.at_worst(uncertainty)
            if lower is not last:
                by_uncertainty[uncertainty] = last = lower
        return by_uncertainty

    def abstains(self, trace_id: int, device: int) -> str | None:
        """Return why bounds cannot be trusted on a device; None: they can."""
        scanned = self.devices.get((trace_id, device))
        return "not-applicable: no work on the device" if scanned is None else scanned.abstains

    def causes(self, trace_id: int, device: int) -> frozenset[str]:
        """Return every cause whose removal could change something on a device."""
        scanned = self.devices.get((trace_id, device))
        return frozenset() if scanned is None else scanned.facts.causes

    def bound(self, trace_id: int, device: int, removed: frozenset[str], savings: Savings | None = None) -> int:
        """Return how many ns shorter the window gets if causes cost nothing and ops (by id) get faster by `savings`."""
        return self.bounds(trace_id, device, [WhatIf(removed, savings)])[0]

    def bounds(self, trace_id: int, device: int, what_ifs: Sequence[WhatIf]) -> list[int]:
        """Return the bound of each what-if; one call with many is much faster than many calls."""
        scanned = self.devices.get((trace_id, device))
        return [0] * len(what_ifs) if scanned is None else scanned.savings(what_ifs)

    def bounds_of_each(self, queries: Mapping[DeviceKey, Sequence[WhatIf]]) -> dict[DeviceKey, list[int]]:
        """Return `bounds` of each device; where scans are not held, one call with many is much faster than many."""
        if isinstance(self.together, JointScan):
            return {device_key: self.bounds(*device_key, what_ifs) for device_key, what_ifs in queries.items()}
        there = [device_key for device_key in queries if device_key in self.devices]
        savings = self.together.scans.savings(
            [ScanQuery(self._number[device_key], queries[device_key]) for device_key in there]
        )
        found = dict(zip(there, savings, strict=True))
        return {device_key: found.get(device_key, [0] * len(what_ifs)) for device_key, what_ifs in queries.items()}

    def taken_of_each(self, queries: Mapping[DeviceKey, Sequence[WhatIf]]) -> dict[DeviceKey, list[int]]:
        """Return how many ns of host and ops what-ifs take out of each device's window, even if that saves nothing."""
        if isinstance(self.together, JointScan):
            return {
                device_key: [*map(self.devices[device_key].taken_ns, what_ifs)]
                for device_key, what_ifs in queries.items()
            }
        # What causes take is known without a scan.
        scanned = {
            device_key: [item for item in of_one if item != WhatIf(item.removed)]
            for device_key, of_one in queries.items()
        }
        questions = [ScanQuery(self._number[device_key], of_one) for device_key, of_one in scanned.items() if of_one]
        answers = zip(questions, self.together.scans.taken(questions), strict=True)
        found = {self.device_keys[item.scan]: iter(of_one) for item, of_one in answers}
        return {
            device_key: [
                self.devices[device_key].taken_ns(item) if item == WhatIf(item.removed) else next(found[device_key])
                for item in of_one
            ]
            for device_key, of_one in queries.items()
        }

    @cached_property
    def _number(self) -> dict[DeviceKey, int]:
        return {device_key: number for number, device_key in enumerate(self.device_keys)}

    def run_abstains(self) -> str | None:
        """Return why there are no bounds of the run as a whole; None: there are."""
        if self.apart is not None:
            return self.apart
        if not self.devices:
            return "not-applicable: no work on a device"
        return next((device.abstains for device in self.devices.values() if device.abstains), None)

    def run(self, what_ifs: Mapping[DeviceKey, WhatIf]) -> RunBound:
        """Return what the run saves with one what-if per device; ranks wait for each other in collectives."""
        return self.runs([what_ifs])[0]

    def runs(self, queries: Sequence[Mapping[DeviceKey, WhatIf]]) -> list[RunBound]:
        """Return `run` of each; one call with many is much faster than many calls."""
        return self._run.of_each(queries)

    def most_alone_ns(self, device_key: DeviceKey) -> int:
        """Return a limit of what the run can save by changes on one device alone, found without a scan."""
        return int(self._run.most_alone_ns[self._number[device_key]])

    @cached_property
    def _run(self) -> WholeRun:
        return WholeRun(self.devices, self.together, self.device_keys)


def _held(scan: Scan) -> Scan:
    return scan


def _read(con: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """Return the rows of a query in one piece each column, so that no other copy of them is held beside their scans."""
    rows: pa.Table = con.sql(query).to_arrow_table()
    # Arrow's combine_chunks of no rows imports pandas if it is installed: a third of a second.
    whole: pa.Table = rows.combine_chunks() if rows.num_rows else rows
    return whole
