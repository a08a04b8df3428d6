"""Simulation of a scenario: what the profiler records, the true ledger, and the true effect of every fix."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.actions import comm as comm_actions
from tracesim.actions import device as device_actions
from tracesim.actions import host as host_actions
from tracesim.actions import replica as replica_actions
from tracesim.catalogue.communication import Communicator
from tracesim.catalogue.nsys_vocabulary import GraphMode, NsysSchema
from tracesim.catalogue.recording import Recording
from tracesim.machine import truth
from tracesim.machine.counterfactual import Counterfactual
from tracesim.machine.machine import Machine, Meet
from tracesim.machine.stage import MIB, Recorded, Stage
from tracesim.scenario.program import ACTIONS
from tracesim.scenario.scenario import Scenario, parse_scenario
from tracesim.writers.kineto import Dialect, write_kineto
from tracesim.writers.nsys import write_nsys
from tracesim.writers.rocpd import write_rocpd
from tracesim.writers.tables import canonical_tables

_SYNONYMS = {"loader": "next"}
HANDLERS = {
    name: getattr(module, f"play_{_SYNONYMS.get(name, name)}")
    for name in ACTIONS
    for module in (host_actions, device_actions, comm_actions, replica_actions)
    if hasattr(module, f"play_{_SYNONYMS.get(name, name)}")
}


def simulate(scenario: Mapping[str, Any], seed: int = 0) -> SimulatedRun:
    """Simulate a scenario; the same scenario and seed give the same run."""
    parsed = parse_scenario(scenario)
    return SimulatedRun(parsed, seed, Counterfactual(), play(parsed, seed, Counterfactual()))


@dataclass(frozen=True)
class SimulatedRun:
    """One simulated process: what its profiler recorded, and the truth that no profiler knows."""

    scenario: Scenario
    seed: int
    counterfactual: Counterfactual
    recording: Recording

    @cached_property
    def boundaries_ns(self) -> tuple[int, ...]:
        """Return the start of the first compute kernel of each step, in virtual time."""
        first: dict[int, int] = {}
        for op in self.recording.ops:
            if op.is_compute and op.step is not None:
                first.setdefault(op.step, op.start_ns)
        return tuple(first[step] for step in sorted(first))

    @cached_property
    def recorded(self) -> Recording:
        """Return the recording with the times of the rank's own clock."""
        return self.recording.on_drifting_clock(self.scenario.conditions.clock_drift_ppm)

    @cached_property
    def capture(self) -> SimulatedRun | None:
        """Return the run that recorded how the graph of the scenario's `captured` was captured; None without one."""
        if not self.scenario.captured:
            return None
        scenario = self.scenario.of_capture()
        return SimulatedRun(scenario, self.seed, Counterfactual(), play(scenario, self.seed, Counterfactual()))

    @property
    def window_ns(self) -> int:
        """Return the length from the first compute kernel of the first step to that of the last step."""
        return self.length_ns(0, None) if self.boundaries_ns else 0

    def length_ns(self, first_step: int, last_step: int | None) -> int:
        """Return the time from the first compute kernel of one step to that of another; None means the last step."""
        return self.boundaries_ns[-1 if last_step is None else last_step] - self.boundaries_ns[first_step]

    @cached_property
    def true_ledger(self) -> dict[str, int]:
        """Return ns by bucket over the window; sums to `window_ns`."""
        return self.true_ledger_of(0, len(self.boundaries_ns) - 1)

    def true_ledger_of(self, first_step: int, last_step: int) -> dict[str, int]:
        """Return ns by bucket from the first compute kernel of one step to that of another."""
        if self.scenario.conditions.device_count > 1:
            raise TraceAnalyzerError("the true ledger is known only for processes with one device", "scenario")
        if not self.boundaries_ns:
            return {}
        return truth.ledger(self.recording.ops, self.boundaries_ns[first_step], self.boundaries_ns[last_step])

    def without(self, *causes: str, kernel_scale: Mapping[str, float] | None = None) -> SimulatedRun:
        """Simulate again with causes that cost nothing and with scaled durations of kernel classes.

        Causes have the names of the ledger's buckets; the kernel class `compute` means all classes. Removing host.sync
        leaves out the synchronising call (and all of `.item()`), as a fix would.
        """
        removed = self.counterfactual.also_without(causes, kernel_scale)
        recording = play(self.scenario, self.seed, removed)
        return SimulatedRun(self.scenario, self.seed, removed, recording)

    def true_saving(
        self,
        *causes: str,
        kernel_scale: Mapping[str, float] | None = None,
        first_step: int = 0,
        last_step: int | None = None,
    ) -> int:
        """Return how many ns shorter a window truly is without causes, or with faster kernels.

        The window reaches from the first compute kernel of one step to that of another; by default it is `window_ns`.
        """
        fixed = self.without(*causes, kernel_scale=kernel_scale)
        return self.length_ns(first_step, last_step) - fixed.length_ns(first_step, last_step)

    def true_saving_share(
        self,
        *causes: str,
        kernel_scale: Mapping[str, float] | None = None,
        first_step: int = 0,
        last_step: int | None = None,
    ) -> float:
        """Return the true saving as a share of its window."""
        saving_ns = self.true_saving(*causes, kernel_scale=kernel_scale, first_step=first_step, last_step=last_step)
        return saving_ns / self.length_ns(first_step, last_step)

    def canonical_tables(self, trace_id: int = 0, trace: str = "simulated.json") -> dict[str, pa.Table]:
        """Return the canonical tables that ingesting this run's trace gives, without writing a file."""
        return canonical_tables(self.scenario, self.recorded, self.seed, trace_id, trace)

    def write_kineto(self, path: Path | str, dialect: Dialect = "2025") -> Path:
        """Write the run as PyTorch's profiler does, gzipped if the name ends in .gz; return the path."""
        return write_kineto(Path(path), self.scenario, self.recorded, self.seed, dialect)

    def write_nsys(self, path: Path | str, graph_mode: GraphMode = "node", schema: NsysSchema = "2026.2") -> Path:
        """Write the run as the SQLite export of an Nsight Systems report; return the path."""
        return write_nsys(Path(path), self.scenario, self.recorded, self.seed, graph_mode, schema)

    def write_rocpd(self, path: Path | str, version: str = "3.0.2") -> Path:
        """Write the run as the database of rocprofv3; return the path."""
        return write_rocpd(Path(path), self.scenario, self.recorded, self.seed, version=version)


def play(scenario: Scenario, seed: int, without: Counterfactual, meet: Meet | None = None) -> Recording:
    """Play a scenario's steps; `meet` makes communication wait for other ranks, else they are always ready."""
    conditions = scenario.conditions
    machine = Machine(scenario.device, scenario.costs(), without, seed, meet)
    recorded = Recorded(conditions.shapes, conditions.stacks, conditions.memory)
    machine.tape.cached_bytes = round(conditions.cached_mb * MIB)
    if scenario.captured:
        graph = play(scenario.of_capture(), seed, Counterfactual()).captured
        machine.graph = [(launch.kernel, launch.dur_ns) for launch in graph]
    communicator = Communicator(conditions.rank, scenario.groups)
    stage = Stage(machine, recorded, scenario.precision, HANDLERS, communicator, conditions.device_count)
    for number in range(conditions.steps):
        machine.begin_step(number)
        with ExitStack() as around:
            if conditions.steps_marked:
                around.enter_context(machine.tape.slice("annotation", f"ProfilerStep#{number}"))
            around.enter_context(stage.frame("train.py(52): main"))
            stage.play(scenario.program)
    machine.step = None
    # The profiler waits for the device before it stops.
    counterfactual, machine.without = machine.without, replace(without, removed=frozenset())
    machine.synchronize("device")
    machine.without = counterfactual
    return machine.finish()
