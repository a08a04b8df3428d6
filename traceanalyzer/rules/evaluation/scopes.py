"""Where a rule's verdict holds, which of the rule's requirements are met there, and how sure the verdict is.

Confidence is a level, and in half a line what limits it or what it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
from msgspec import Struct, field

from traceanalyzer.rules.dialects import dialect_of, uses_torch
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.sandbox import read_query
from traceanalyzer.rules.rule_file.model import CONFIDENCES, QUALITY, Rule


class Scope(Struct, frozen=True, order=True):
    """A device of a trace, a trace (device None), or the whole run (both None)."""

    trace: str | None = None
    device: int | None = None

    def covers(self, other: Scope) -> bool:
        """Return whether the other scope is this one or a part of it: the run covers all, a trace its devices."""
        return self.trace in (None, other.trace) and self.device in (None, other.device)

    def meets(self, other: Scope) -> bool:
        """Return whether one of the two covers the other."""
        return self.covers(other) or other.covers(self)


class Capability(Struct, frozen=True):
    """Whether something was recorded, what was seen of it, and what would record it."""

    available: bool
    detail: str | None
    unlock: str | None


class RunScopes(Struct, frozen=True):
    """The scopes of a run: its traces, its devices with their windows, and what each has recorded."""

    trace_ids: dict[str, int]
    ranks: dict[str, int | None]
    devices: tuple[Scope, ...]
    traces_without_devices: tuple[Scope, ...]
    windows: dict[tuple[int, int], dict[str, Any]]  # (trace_id, device) → its analysis window
    capabilities: dict[tuple[str, int | None, str], Capability]
    # By trace: hip on AMD's devices, xpu on Intel's, xla where XLA compiles the program.
    dialects: dict[str, str] = field(default_factory=dict)
    frameworks: dict[str, str] = field(default_factory=dict)  # what the program of a trace is written with
    unjudged: frozenset[str] = frozenset()  # traces: recordings of a rank that are only listed
    pooled: tuple[tuple[int, int], ...] = ()  # (trace_id, device) of the recordings of one rank whose steps are pooled
    without_torch: frozenset[str] = frozenset()  # traces of programs that are written with something else
    name: str = ""  # path or address of the run; empty: unknown

    def key(self, scope: Scope) -> tuple[int, int]:
        """Return the id of a scope's trace, and its device."""
        return self.trace_ids.get(scope.trace or "", -1), scope.device or 0

    def missing(self, scope: Scope, requires: Sequence[str]) -> tuple[str, Capability] | None:
        """Return the first requirement that a scope does not meet; the run meets it where one of its devices does."""
        if scope.trace is None and self.devices:
            by_device = [self.missing(device, requires) for device in self.devices]
            return None if None in by_device else by_device[0]
        for name in requires:
            capability = self.capabilities.get((scope.trace or "", scope.device, name))
            if capability is None:
                capability = self.capabilities.get((scope.trace or "", None, name))
            if capability is None or not capability.available:
                return name, capability or Capability(False, None, None)
        return None


def read_scopes(con: duckdb.DuckDBPyConnection, *, with_capabilities: bool = True) -> RunScopes:
    """Return the traces and devices of a run, and its capabilities unless nobody will ask for them."""
    traces = con.execute(
        "SELECT trace, trace_id, rank, framework, vendor, recorder FROM traces ORDER BY trace_id"
    ).fetchall()
    windows = sandbox.query(con, read_query("bound_windows"), {}, sandbox.UNLIMITED).dicts()
    columns = "trace, device, capability, available, detail, unlock"
    capabilities = con.execute(f"SELECT {columns} FROM capabilities").fetchall() if with_capabilities else []
    with_devices = {window["trace"] for window in windows}
    return RunScopes(
        trace_ids={trace: trace_id for trace, trace_id, *_ in traces},
        ranks={trace: rank for trace, _, rank, *_ in traces},
        devices=tuple(Scope(window["trace"], window["device"]) for window in windows),
        traces_without_devices=tuple(Scope(trace) for trace, *_ in traces if trace not in with_devices),
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
        frameworks={trace: framework for trace, _, _, framework, _, _ in traces if framework is not None},
        without_torch=frozenset(
            trace for trace, _, _, framework, _, recorder in traces if not uses_torch(framework, recorder)
        ),
    )


# Below these the window says less than the rule claims: a missing launch may hide a host cause, and a spread cannot be
# estimated from a few steps. What few steps show did happen, so they cost one level only.
SURE_LINK_SHARE = 0.97
SURE_STEPS = 5
SURE_RESOLVED_SHARE = 0.9
FAIR_RESOLVED_SHARE = 0.7

# Why the rule itself promises no more, whatever the trace.
_OF_RULE = {"medium": "estimated", "low": "indirect signs"}


class Confidence(Struct, frozen=True):
    """A level (high, medium or low) and why it is no higher; of a high one what it rests on."""

    level: str
    because: str


MEASURED = Confidence("high", "measured")


def least(items: Iterable[Confidence]) -> Confidence:
    """Return the lowest of some confidences, of equal ones the first."""
    return min(items, key=lambda item: CONFIDENCES.index(item.level))


def confidence_of(rule: Rule, row: Mapping[str, Any], lowered: Iterable[int]) -> Confidence:
    """Return how sure a rule is of a row that it selected; `lowered` are the positions of its conditions that hold."""
    items = [Confidence(rule.lower[index].to, rule.lower[index].because) for index in lowered]
    items.append(Confidence(rule.confidence, _OF_RULE.get(rule.confidence) or _measured(row)))
    if rule.kind != QUALITY:
        items += _of_window(row)
    return least(items)


def _measured(row: Mapping[str, Any]) -> str:
    steps = row.get("step_count")
    return f"measured in {steps} steps" if steps else MEASURED.because


def _of_window(row: Mapping[str, Any]) -> list[Confidence]:
    items = []
    link_share, steps, resolved = (row.get(name) for name in ("launch_link_share", "step_count", "resolved_share"))
    if resolved is not None and resolved < SURE_RESOLVED_SHARE:
        level = "medium" if resolved >= FAIR_RESOLVED_SHARE else "low"
        items.append(Confidence(level, f"the cause of {_percent(1 - resolved)} of its time is inferred"))
    if link_share is not None and link_share < SURE_LINK_SHARE:
        items.append(Confidence("medium", f"only {_percent(link_share)} of the launches were recorded"))
    if steps is not None and steps < SURE_STEPS:
        items.append(Confidence("medium", {0: "no steps to compare", 1: "one step"}.get(steps, f"{steps} steps")))
    return items


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
