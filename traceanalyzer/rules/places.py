"""Where a rule's verdict holds, and which of the rule's requirements are met there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb


@dataclass(frozen=True, order=True)
class Place:
    """A device of a trace, a trace (device None), or the whole run (both None)."""

    trace: str | None = None
    device: int | None = None


@dataclass(frozen=True)
class Capability:
    """Whether something was recorded, what was seen of it, and what would record it."""

    available: bool
    detail: str | None
    unlock: str | None


@dataclass(frozen=True)
class Run:
    """What the rules' machinery must know about a run: its traces, their devices and their capabilities."""

    trace_ids: dict[str, int]
    ranks: dict[str, int | None]
    devices: tuple[Place, ...]
    traces_without_devices: tuple[Place, ...]
    capabilities: dict[tuple[str, int | None, str], Capability]

    def missing(self, place: Place, requires: Sequence[str]) -> tuple[str, Capability] | None:
        """Return the first requirement that a place does not meet."""
        for name in requires:
            capability = self.capabilities.get((place.trace or "", place.device, name))
            if capability is None:
                capability = self.capabilities.get((place.trace or "", None, name))
            if capability is None or not capability.available:
                return name, capability or Capability(False, None, None)
        return None


def read_run(con: duckdb.DuckDBPyConnection) -> Run:
    """Return the traces, devices and capabilities of a run."""
    traces = con.execute("SELECT trace, trace_id, rank FROM traces ORDER BY trace_id").fetchall()
    devices = con.execute(
        "SELECT trace, device FROM windows JOIN traces USING (trace_id) ORDER BY trace_id, device"
    ).fetchall()
    capabilities = con.execute("SELECT trace, device, capability, available, detail, unlock FROM capabilities")
    with_devices = {trace for trace, _ in devices}
    return Run(
        trace_ids={trace: trace_id for trace, trace_id, _ in traces},
        ranks={trace: rank for trace, _, rank in traces},
        devices=tuple(Place(trace, device) for trace, device in devices),
        traces_without_devices=tuple(Place(trace) for trace, _, _ in traces if trace not in with_devices),
        capabilities={
            (trace, device, name): Capability(available, detail, unlock)
            for trace, device, name, available, detail, unlock in capabilities.fetchall()
        },
    )
