"""A scenario: what a training or inference job does in each step, in a few words or as a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.communication import parse_groups
from tracesim.catalogue.costs import Costs
from tracesim.catalogue.devices import DEFAULT_DEVICE, Device, parse_device
from tracesim.catalogue.kernels import KERNEL_CLASSES, PRECISIONS
from tracesim.catalogue.keys import (
    checked_choice,
    checked_count,
    checked_flag,
    checked_number,
    checked_text,
    reject_unknown_keys,
)
from tracesim.catalogue.recording import ProcessGroup
from tracesim.scenario.program import Action, parse_program, us_by_step
from tracesim.scenario.shorthand import Shorthand, end_of_step, spell_out, start_of_step


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a job runs, and what its profiler records."""

    steps: int = 10
    steps_marked: bool = True  # ProfilerStep#n annotations
    shapes: bool = True
    stacks: bool = False
    memory: bool = False  # allocator events
    sync_events: bool = False  # cuda_sync records
    rank: int = 0
    world_size: int = 1
    device_count: int = 1  # of each process
    launch_us: float = 6.0
    launch_latency_us: float = 2.0
    kernel_gap_us: float = 1.0
    api_min_us: float = 8.0
    sync_return_us: float = 4.0
    event_us: float = 1.0
    graph_launch_us: float = 12.0
    queue_depth: int = 1024
    pinned_gb_per_s: float = 50.0
    pageable_gb_per_s: float = 12.0
    comm_latency_us: float = 20.0
    comm_gb_per_s: float = 200.0
    jitter: float = 0.0  # sigma of the log-normal factor on every cost; 0: exact
    host_scale: float = 1.0  # factor on Python and dispatch
    kernel_scale: float = 1.0  # factor on compute kernels: a slow device
    core_clock: float = 1.0  # of the usual one: what computes takes longer at a lower one, what moves data does not
    comm_slows: float = 1.0  # factor on compute kernels while a collective runs beside them
    blocking_launches: bool = False  # CUDA_LAUNCH_BLOCKING=1
    drop_kernels: float = 0.0  # share of device records that the profiler lost
    carry_in: int = 0  # launches of the first kernels that happened before the recording began
    truncate: float = 0.0  # share of the file's bytes that is missing at its end
    no_gpu: bool = False  # the profiler recorded no device activity
    clock_offset_us: float = 0.0
    clock_drift_ppm: float = 0.0  # by how much the rank's clock runs fast
    cached_mb: float = 0.0  # memory that the allocator has reserved and nothing uses
    warning: str = ""  # what the profiler complains about in its log
    output: str = ""  # what the program prints to its standard error, which Nsight Systems keeps
    sample_us: float = 0.0  # time between two CPU samples of Nsight Systems; 0: it takes none
    page_faults: bool = False  # Nsight Systems records page faults of managed memory


@dataclass(frozen=True)
class Scenario:
    """A checked scenario."""

    device: Device
    conditions: Conditions
    precision: str
    program: tuple[Action, ...]
    groups: tuple[ProcessGroup, ...]
    captured: tuple[Action, ...] = ()  # what was recorded into the graph that steps replay, before the recording began

    def of_capture(self) -> Scenario:
        """Return the scenario of the recording that shows how the graph was captured."""
        conditions = replace(self.conditions, steps=1, steps_marked=False, truncate=0.0, carry_in=0, drop_kernels=0.0)
        return replace(self, conditions=conditions, program=(Action("capture", {}, self.captured),), captured=())

    def costs(self) -> Costs:
        """Return what things cost."""
        conditions = self.conditions
        return Costs(
            launch_ns=round(conditions.launch_us * 1000),
            graph_launch_ns=round(conditions.graph_launch_us * 1000),
            event_ns=round(conditions.event_us * 1000),
            launch_latency_ns=round(conditions.launch_latency_us * 1000),
            kernel_gap_ns=round(conditions.kernel_gap_us * 1000),
            sync_return_ns=round(conditions.sync_return_us * 1000),
            api_min_ns=round(conditions.api_min_us * 1000),
            pinned_bytes_per_s=conditions.pinned_gb_per_s * 1e9,
            pageable_bytes_per_s=conditions.pageable_gb_per_s * 1e9,
            queue_depth=max(1, conditions.queue_depth),
            comm_latency_ns=round(conditions.comm_latency_us * 1000),
            comm_bytes_per_s=conditions.comm_gb_per_s * 1e9,
            host_scale=conditions.host_scale,
            kernel_scale=conditions.kernel_scale,
            core_clock=conditions.core_clock,
            comm_slows=conditions.comm_slows,
            blocking_launches=conditions.blocking_launches,
            jitter=conditions.jitter,
        )


_CHOICES = {
    "mode": ("training", "inference"),
    "kernel_class": KERNEL_CLASSES,
    "precision": PRECISIONS,
    "h2d_stream": ("copy", "compute"),
    "sync_kind": ("device", "stream"),
    "attention": ("none", "unfused", "fused"),
}
_BY_STEP = ("loader_us", "worker_us")
_SHARES = ("drop_kernels", "truncate")
_PLANTABLE = (
    "loader_us",
    "loader_workers",
    "worker_us",
    "loader_prefetch",
    "pin_us",
    "item_per_step",
    "item_every",
    "gc_us",
    "gc_every",
    "free_per_step",
    "free_us",
    "overhead_us",
    "compile_first_us",
    "compile_us",
    "compile_every",
)


def parse_scenario(mapping: Mapping[str, Any]) -> Scenario:
    """Check a scenario and spell it out as a program; raises with the nearest valid key where one is unknown."""
    shorthand = {field.name: field.default for field in fields(Shorthand)}
    conditions = {field.name: field.default for field in fields(Conditions)}
    known = {*shorthand, *conditions, "device", "program", "faults", "name", "scenario", "groups", "captured"}
    faults = mapping.get("faults") or {}
    reject_unknown_keys(mapping, known, "the scenario")
    reject_unknown_keys(faults, known, "faults")
    given = {**mapping, **faults}
    checked: dict[str, Any] = {
        key: _check(key, value, {**shorthand, **conditions}[key])
        for key, value in given.items()
        if key in shorthand or key in conditions
    }
    short = {key: value for key, value in checked.items() if key in shorthand}
    if "item_every" in short:
        short.setdefault("item_per_step", 1)
    how = Conditions(**{key: value for key, value in checked.items() if key in conditions})
    if how.core_clock == 0:
        raise TraceAnalyzerError("core_clock: cores that stand still end no kernel", "scenario")
    if how.device_count < 1:
        raise TraceAnalyzerError("device_count: a process has at least one device", "scenario")
    if how.steps < 1:
        raise TraceAnalyzerError("steps: a run has at least one step", "scenario")
    program = _faulty(given["program"], short, faults) if "program" in given else spell_out(Shorthand(**short))
    device = parse_device(given.get("device", DEFAULT_DEVICE))
    groups = parse_groups(mapping.get("groups"), how.world_size)
    captured = parse_program(given["captured"]) if "captured" in given else ()
    return Scenario(device, how, short.get("precision", "bf16"), program, groups, captured)


def _faulty(program: object, short: Mapping[str, Any], faults: Mapping[str, Any]) -> tuple[Action, ...]:
    """Read a program and plant the faults in it: before its first action, after its last, or in place of its loader."""
    for key in short:
        if key not in ("precision", "item_per_step") and (key not in faults or key not in _PLANTABLE):
            hint = f"say it as an action of the program; as faults: {', '.join(_PLANTABLE)}"
            raise TraceAnalyzerError(f"{key!r} cannot be combined with a program", "scenario", hint)
    actions = parse_program(program)
    if "loader_us" in faults or "worker_us" in faults:
        actions = tuple(action for action in actions if action.name not in ("next", "loader"))
    planted = Shorthand(**{"loader_us": 0.0, "h2d_mb": 0.0, **short})
    return (*start_of_step(planted), *actions, *end_of_step(planted))


def _check(key: str, value: object, default: object) -> object:
    if key in _CHOICES:
        return checked_choice(value, _CHOICES[key], key)
    if key in _BY_STEP:
        return us_by_step(value, key)
    if isinstance(default, bool):
        return checked_flag(value, key)
    if isinstance(default, str):
        return checked_text(value, key)
    if isinstance(default, int):
        return checked_count(value, key)
    if key == "clock_offset_us" and isinstance(value, int | float):
        return value
    number = checked_number(value, key)
    if key in _SHARES and number > 1:
        raise TraceAnalyzerError(f"{key}: {value!r} is not a share from 0 to 1", "scenario")
    return number
