"""A simulated job of several ranks: their traces, and the true effect of every fix on the whole job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracesim.catalogue.nsys_vocabulary import GraphMode, NsysSchema
from tracesim.machine.counterfactual import Counterfactual
from tracesim.machine.rendezvous import MeetingPlace
from tracesim.scenario.ranks import scenarios_of_ranks
from tracesim.scenario.scenario import Scenario, parse_scenario
from tracesim.simulate import SimulatedRun, play
from tracesim.writers.kineto import Dialect

Removed = Collection[str] | Mapping[int, Collection[str]]  # of every rank, or by rank
KernelScale = Mapping[str, float] | Mapping[int, Mapping[str, float]]
# The seeds of ranks are this far apart, so that no rank shares the jitter of another job.
_SEED_STRIDE = 1_000_003


def simulate_job(scenario: Mapping[str, Any], seed: int = 0) -> SimulatedJob:
    """Simulate every rank of a scenario, which may have one rank only."""
    parsed = [parse_scenario(own) for own in scenarios_of_ranks(scenario)]
    return _simulated(parsed, seed, [Counterfactual()] * len(parsed))


def _simulated(scenarios: list[Scenario], seed: int, without: list[Counterfactual]) -> SimulatedJob:
    seeds = [seed + rank * _SEED_STRIDE for rank in range(len(scenarios))]
    if len(scenarios) == 1:
        recordings = [play(scenarios[0], seed, without[0])]
    else:
        place = MeetingPlace(len(scenarios))
        recordings = place.play(
            [
                partial(play, scenario, seeds[rank], without[rank], partial(place.meet, rank))
                for rank, scenario in enumerate(scenarios)
            ]
        )
    return SimulatedJob(seed, tuple(map(SimulatedRun, scenarios, seeds, without, recordings)))


@dataclass(frozen=True)
class SimulatedJob:
    """All ranks of one simulated job, and the truth about the job as a whole."""

    seed: int
    ranks: tuple[SimulatedRun, ...]

    @property
    def window_ns(self) -> int:
        """Return the time from the end of the first step to that of the last one, on the slowest rank."""
        return self.length_ns()

    def length_ns(self, first_step: int = 0, last_step: int | None = None, rank: int | None = None) -> int:
        """Return the time from one step to another on a rank, or on the slowest rank.

        Steps of ranks that communicate are measured at the end of their last communication, which all ranks leave
        together. The first kernel of a step, in contrast, also depends on how far its rank had run ahead.
        """
        lengths = []
        for run in self.ranks if rank is None else (self.ranks[rank],):
            ends = _ends_of_steps(run) if len(self.ranks) > 1 else ()
            boundaries = ends or run.boundaries_ns
            if boundaries:
                lengths.append(boundaries[-1 if last_step is None else last_step] - boundaries[first_step])
        return max(lengths, default=0)

    def without(self, removed: Removed = (), kernel_scale: KernelScale | None = None) -> SimulatedJob:
        """Simulate all ranks again with causes that cost nothing and kernels that take a share of their time.

        Both hold for all ranks, or are given by rank. A transfer costs nothing only if that holds for all its members.
        """
        without = [
            run.counterfactual.also_without(_causes(removed, rank), _scales(kernel_scale or {}, rank))
            for rank, run in enumerate(self.ranks)
        ]
        return _simulated([run.scenario for run in self.ranks], self.seed, without)

    def true_saving(
        self,
        removed: Removed = (),
        kernel_scale: KernelScale | None = None,
        first_step: int = 0,
        last_step: int | None = None,
        rank: int | None = None,
    ) -> int:
        """Return by how many ns the slowest rank's window (or that of a rank) is truly shorter."""
        fixed = self.without(removed, kernel_scale)
        return self.length_ns(first_step, last_step, rank) - fixed.length_ns(first_step, last_step, rank)

    def true_saving_share(
        self, removed: Removed = (), kernel_scale: KernelScale | None = None, rank: int | None = None
    ) -> float:
        """Return the true saving as a share of the window."""
        return self.true_saving(removed, kernel_scale, rank=rank) / self.length_ns(rank=rank)

    def canonical_tables(self) -> dict[str, pa.Table]:
        """Return the canonical tables that ingesting all ranks' traces gives, without writing a file."""
        names = ["simulated.json"] if len(self.ranks) == 1 else [f"rank{rank}.json" for rank in range(len(self.ranks))]
        parts = [run.canonical_tables(rank, names[rank]) for rank, run in enumerate(self.ranks)]
        return {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}

    def write_kineto(self, folder: Path | str, dialect: Dialect = "2025", suffix: str = ".json") -> list[Path]:
        """Write one file a rank into a folder: rank0.json, rank1.json, …; returns the paths.

        Captures of graphs lie in `capture_traces` in this folder, under the same names.
        """
        for rank, run in enumerate(self.ranks):
            if run.capture is not None:
                captures = Path(folder) / "capture_traces"
                captures.mkdir(exist_ok=True)
                run.capture.write_kineto(captures / f"rank{rank}{suffix}", dialect)
        return [run.write_kineto(Path(folder) / f"rank{rank}{suffix}", dialect) for rank, run in enumerate(self.ranks)]

    def write_nsys(
        self, folder: Path | str, graph_mode: GraphMode = "node", schema: NsysSchema = "2026.2"
    ) -> list[Path]:
        """Write one Nsight Systems export a rank into a folder: rank0.sqlite, …; returns the paths."""
        return [
            run.write_nsys(Path(folder) / f"rank{rank}.sqlite", graph_mode, schema)
            for rank, run in enumerate(self.ranks)
        ]

    def write_rocpd(self, folder: Path | str) -> list[Path]:
        """Write one database of rocprofv3 a rank into a folder: rank0_results.db, …; returns the paths."""
        return [run.write_rocpd(Path(folder) / f"rank{rank}_results.db") for rank, run in enumerate(self.ranks)]


def _ends_of_steps(run: SimulatedRun) -> tuple[int, ...]:
    """Return the end of each step's last communication; nothing where a step has none."""
    ends = {op.step: op.end_ns for op in run.recording.ops if op.collective is not None and op.step is not None}
    return tuple(ends.values()) if len(ends) == run.scenario.conditions.steps else ()


def _causes(removed: Removed, rank: int) -> Collection[str]:
    return removed.get(rank, ()) if isinstance(removed, Mapping) else removed


def _scales(kernel_scale: KernelScale, rank: int) -> Mapping[str, float]:
    own: dict[str, float] = {}
    for key, value in kernel_scale.items():
        if isinstance(value, Mapping):
            own.update(value if key == rank else {})
        else:
            own[str(key)] = value
    return own
