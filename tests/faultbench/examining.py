"""Runs a scenario the way a user does: trace files in a folder, opened and diagnosed; and knows the truth beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import duckdb

import traceanalyzer
from faultbench.planted import Scenario, Without
from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import SimulatedJob, in_memory, simulate_job

SEED = 0
# `tables` leaves out writing and reading files: what they hold is the same, which the simulator's own tests show.
Way = Literal["kineto", "nsys", "rocpd", "tables"]
_KEPT = "SELECT min(step), max(step) FROM attribution.steps WHERE kept"


@dataclass(frozen=True)
class Examined:
    """A simulated job and what a diagnosis says about it."""

    job: SimulatedJob
    diagnosis: Diagnosis
    steps: tuple[int, int] | None  # first and last kept step; None: the trace has no steps
    noise_share: float = 0.0  # savings below it may be the spread of the steps

    @property
    def findings(self) -> list[Finding]:
        """Return the findings that are not about the trace itself, as a reader sees them."""
        return [finding for finding in self.diagnosis.findings if finding.kind == "finding"]

    def states(self) -> dict[tuple[str, int | None, int | None], str]:
        """Return what became of each rule on each rank's device."""
        return {(item.rule, item.rank, item.device): item.state for item in self.diagnosis.outcomes}

    def true_share(self, without: Without) -> float:
        """Return the share of the kept steps that a fix truly saves, by running the job again without the fault."""
        first, last = self._between()
        fixed = self.job if without.instead is None else simulate_job(without.instead, self.job.seed)
        fixed = fixed.without(without.removed, without.kernel_scale or None)
        before_ns = self.job.length_ns(first, last)
        return (before_ns - fixed.length_ns(first, last)) / before_ns

    def _between(self) -> tuple[int, int | None]:
        """Return the boundaries that the kept steps lie between.

        Those of one process are the steps' first kernels. Ranks leave a step's last communication together, so theirs
        are its ends: the one before the first kept step, and the last kept step's own.
        """
        if self.steps is None:
            return 0, None
        first, last = self.steps
        final = self.job.ranks[0].scenario.conditions.steps - 1
        if len(self.job.ranks) == 1:
            return first, min(last + 1, final)
        return max(first - 1, 0), last


def examine(scenario: Scenario, way: Way = "kineto", lost_ranks: tuple[int, ...] = ()) -> Examined:
    """Simulate a scenario and diagnose it, without the traces of `lost_ranks`."""
    job = simulate_job(scenario, SEED)
    if way == "tables":
        return examine_recorded(job, lost_ranks)
    with tempfile.TemporaryDirectory() as folder:
        writers: dict[str, Callable[[str], list[Path]]] = {
            "kineto": job.write_kineto,
            "nsys": job.write_nsys,
            "rocpd": job.write_rocpd,
        }
        paths = writers[way](folder)
        for rank in lost_ranks:
            paths[rank].unlink()
        return examine_folder(job, Path(folder))


def examine_folder(job: SimulatedJob, folder: Path) -> Examined:
    """Diagnose the trace files of a job."""
    with traceanalyzer.open(folder) as run:
        return Examined(job, run.diagnose(), _kept_steps(run.connection), _noise_share(run.connection))


def examine_recorded(job: SimulatedJob, lost_ranks: tuple[int, ...]) -> Examined:
    left = replace(job, ranks=tuple(run for rank, run in enumerate(job.ranks) if rank not in lost_ranks))
    with in_memory.connect_tables(left.canonical_tables(), readers=readers(rules())) as con:
        steps, noise_share = _kept_steps(con), _noise_share(con)
        return Examined(job, diagnose(con, rules()), steps, noise_share)


@lru_cache(maxsize=1)
def rules() -> list[Rule]:
    """Return the built-in rules, read once."""
    return load_rules(tests=False)


def _noise_share(con: duckdb.DuckDBPyConnection) -> float:
    """Return twice the standard error of the steps' mean, and no more than is never taken for chance."""
    found = con.execute("SELECT step_spread, step_count FROM attribution.windows").fetchall()
    return max((min(0.05, 2 * spread / count**0.5) for spread, count in found if spread), default=0.0)


def _kept_steps(con: duckdb.DuckDBPyConnection) -> tuple[int, int] | None:
    ((first, last),) = con.execute(_KEPT).fetchall()
    return None if first is None else (first, last)
