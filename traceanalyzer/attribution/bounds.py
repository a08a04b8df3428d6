"""What removing causes can save at most: the lead scan read at the end of each device's analysis window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.arrow_columns import column
from traceanalyzer.attribution.lead_scan import Savings, Scan, Scenario

_READS = {
    "windows": "SELECT * FROM attribution.windows",
    "lead_events": "SELECT * FROM attribution.lead_events ORDER BY trace_id, device, position",
    "lead_costs": "SELECT * FROM attribution.lead_costs ORDER BY trace_id, device",
}


@dataclass(frozen=True)
class _Device:
    scan: Scan
    window_ns: int
    compute_ns: int
    first_op: int | None
    reading_op: int | None
    reading_scale: float
    abstains: str | None


@dataclass(frozen=True)
class Bounds:
    """Bounds of any set of causes and savings, on any device of a run."""

    devices: Mapping[tuple[int, int], _Device]

    @classmethod
    def load(cls, con: duckdb.DuckDBPyConnection) -> Self:
        """Read what the bounds of a run need; once a run."""
        return cls.of_tables(**{name: con.sql(query).to_arrow_table() for name, query in _READS.items()})

    @classmethod
    def of_tables(cls, windows: pa.Table, lead_events: pa.Table, lead_costs: pa.Table) -> Self:
        """Prepare the bounds of the devices in these tables; events in scan order."""
        devices = {}
        for window in windows.to_pylist():
            place = (window["trace_id"], window["device"])
            devices[place] = _Device(
                Scan.of_tables(_of_device(lead_events, place), _of_device(lead_costs, place)),
                window["window_ns"],
                window["compute_ns"],
                window["first_op_id"],
                window["reading_op_id"],
                window["reading_scale"],
                window["bound_abstains"],
            )
        return cls(devices)

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
        found = self.devices.get((trace_id, device))
        if found is None or not scenarios or not len(found.scan.end):
            return [0] * len(scenarios)
        leads = found.scan.leads(scenarios)
        position_of = found.scan.position_of
        first = 0 if found.first_op is None else leads.start[position_of[found.first_op]]
        if found.reading_op is None:
            mine = found.scan.is_op
            last = found.scan.end[mine]
            saved = last.max() - (last[:, None] - leads.end[mine]).max(axis=0) - first
        else:
            saved = (leads.start[position_of[found.reading_op]] - first) * found.reading_scale
        # A scenario wins no more than it takes out, however much lead it brings along from before the window.
        limits = [
            min(_limit(found, scenario), round(taken * found.reading_scale))
            for scenario, taken in zip(scenarios, leads.taken, strict=True)
        ]
        return [min(max(int(ns), 0), limit) for ns, limit in zip(np.asarray(saved).tolist(), limits, strict=True)]


def _limit(device: _Device, scenario: Scenario) -> int:
    """Return the time without compute, and what ops get shorter by: more cannot be saved."""
    shorter = sum(max(0, saving) for saving in (scenario.savings or {}).values())
    return min(device.window_ns, device.window_ns - device.compute_ns + shorter)


def _of_device(table: pa.Table, place: tuple[int, int]) -> pa.Table:
    """Return the rows of one device, which lie together."""
    rows = np.flatnonzero((column(table, "trace_id") == place[0]) & (column(table, "device") == place[1]))
    return table.slice(int(rows[0]) if len(rows) else 0, len(rows))
