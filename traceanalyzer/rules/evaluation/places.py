"""Where a rule's verdict holds, and which of the rule's requirements are met there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
from msgspec import Struct, field

from traceanalyzer.rules.dialects import dialect_of, uses_torch
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.sql import read_query


class Place(Struct, frozen=True, order=True):
    """A device of a trace, a trace (device None), or the whole run (both None)."""

    trace: str | None = None
    device: int | None = None

    def covers(self, other: Place) -> bool:
        """Return whether the other place is this one or a part of it: the run covers all, a trace its devices."""
        return self.trace in (None, other.trace) and self.device in (None, other.device)

    def meets(self, other: Place) -> bool:
        """Return whether one of the two covers the other."""
        return self.covers(other) or other.covers(self)


class Capability(Struct, frozen=True):
    """Whether something was recorded, what was seen of it, and what would record it."""

    available: bool
    detail: str | None
    unlock: str | None


class RunPlaces(Struct, frozen=True):
    """The places of a run: its traces, its devices with their windows, and what each has recorded."""

    trace_ids: dict[str, int]
    ranks: dict[str, int | None]
    devices: tuple[Place, ...]
    traces_without_devices: tuple[Place, ...]
    windows: dict[tuple[int, int], dict[str, Any]]  # (trace_id, device) → its analysis window
    capabilities: dict[tuple[str, int | None, str], Capability]
    # By trace: hip on AMD's devices, xpu on Intel's, xla where XLA compiles the program.
    dialects: dict[str, str] = field(default_factory=dict)
    unjudged: frozenset[str] = frozenset()  # traces: recordings of a rank that are only listed
    pooled: tuple[tuple[int, int], ...] = ()  # (trace_id, device) of the recordings of one rank whose steps are pooled
    without_torch: frozenset[str] = frozenset()  # traces of programs that are written with something else
    name: str = ""  # path or address of the run; empty: unknown

    def key(self, place: Place) -> tuple[int, int]:
        """Return the id of a place's trace, and its device."""
        return self.trace_ids.get(place.trace or "", -1), place.device or 0

    def missing(self, place: Place, requires: Sequence[str]) -> tuple[str, Capability] | None:
        """Return the first requirement that a place does not meet; the run meets it where one of its devices does."""
        if place.trace is None and self.devices:
            by_device = [self.missing(device, requires) for device in self.devices]
            return None if None in by_device else by_device[0]
        for name in requires:
            capability = self.capabilities.get((place.trace or "", place.device, name))
            if capability is None:
                capability = self.capabilities.get((place.trace or "", None, name))
            if capability is None or not capability.available:
                return name, capability or Capability(False, None, None)
        return None


def read_places(con: duckdb.DuckDBPyConnection, *, with_capabilities: bool = True) -> RunPlaces:
    """Return the traces and devices of a run, and its capabilities unless nobody will ask for them."""
    traces = con.execute(
        "SELECT trace, trace_id, rank, framework, vendor, recorder FROM traces ORDER BY trace_id"
    ).fetchall()
    windows = sandbox.query(con, read_query("bound_windows"), {}, sandbox.UNLIMITED).dicts()
    columns = "trace, device, capability, available, detail, unlock"
    capabilities = con.execute(f"SELECT {columns} FROM capabilities").fetchall() if with_capabilities else []
    with_devices = {window["trace"] for window in windows}
    return RunPlaces(
        trace_ids={trace: trace_id for trace, trace_id, *_ in traces},
        ranks={trace: rank for trace, _, rank, *_ in traces},
        devices=tuple(Place(window["trace"], window["device"]) for window in windows),
        traces_without_devices=tuple(Place(trace) for trace, *_ in traces if trace not in with_devices),
        windows={(window["trace_id"], window["device"]): window for window in windows},
        capabilities={
            (trace, device, name): Capability(available, detail, unlock)
            for trace, device, name, available, detail, unlock in capabilities
        },
        dialects={
            trace: dialect
            for trace, _, _, framework, vendor, recorder in traces
            if (dialect := dialect_of(framework, vendor, recorder)) is not None
        },
        without_torch=frozenset(
            trace for trace, _, _, framework, _, recorder in traces if not uses_torch(framework, recorder)
        ),
    )
