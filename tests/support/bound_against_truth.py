"""Bounds and ledgers of simulated workloads beside the truth: the same workload, run again without the cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import duckdb
from workloads.counterfactuals import Question
from workloads.workloads import JOBS, WORKLOADS

from traceanalyzer.attribution.columns import DeviceKey
from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.scan import Savings, WhatIf
from tracesim import SimulatedJob, SimulatedRun, in_memory, simulate, simulate_job

SEED = 3
# What is asked besides bounds and the ledger: those of what-if questions.
METRICS = ("kernel_class",)


def what_ifs(
    bounds: Bounds,
    removed: frozenset[str] | Mapping[int, frozenset[str]],
    savings: Mapping[DeviceKey, Savings] | None = None,
) -> dict[DeviceKey, WhatIf]:
    """Return the what-if of each device; `removed` holds for all ranks, or is by rank."""
    by_device_key = {}
    for device_key in bounds.device_keys:
        rank = bounds.ranks.get(device_key[0])
        causes = removed
        if not isinstance(causes, frozenset):
            causes = causes.get(-1 if rank is None else rank, frozenset())
        by_device_key[device_key] = WhatIf(causes, (savings or {}).get(device_key))
    return by_device_key


@dataclass(frozen=True)
class Answer:
    """What the engine says and what is true, as shares of the analysis window."""

    question: Question
    bound: float
    truth: float

    @property
    def error_points(self) -> float:
        """Return by how many percentage points the bound is too high."""
        return 100 * (self.bound - self.truth)


class Attributed:
    """A simulated workload and its attribution, read over the steps that the window kept."""

    def __init__(self, run: SimulatedRun, con: duckdb.DuckDBPyConnection | None = None) -> None:
        self.run = run
        self.con: duckdb.DuckDBPyConnection = con or in_memory.connect_tables(run.canonical_tables(), readers=METRICS)
        self.bounds = Bounds.load(self.con)
        self.abstains = self.bounds.abstains(0, 0)
        kept = [step for (step,) in self.con.sql("SELECT step FROM attribution.steps WHERE kept").fetchall()]
        self.steps: tuple[int, int] = min(kept), max(kept) + 1
        self.window_ns = run.length_ns(*self.steps)

    def answer(self, question: Question) -> Answer:
        """Return the bound and the truth of a question."""
        savings = None if question.scaled is None else self._savings(question.kernel_scale)
        bound = self.bounds.bound(0, 0, frozenset(question.removed), savings)
        first, last = self.steps
        truth = self.run.true_saving(*question.removed, kernel_scale=question.scaled, first_step=first, last_step=last)
        return Answer(question, bound / self.window_ns, truth / self.window_ns)

    def ledger_shares(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return each bucket's share of the window as the engine and as the truth has it."""
        rows = self.con.sql("SELECT bucket, sum(dur_ns) FROM ledger_rows WHERE kept GROUP BY bucket").fetchall()
        truth = self.run.true_ledger_of(*self.steps)
        return (
            {bucket: dur_ns / self.window_ns for bucket, dur_ns in rows},
            {bucket: dur_ns / self.window_ns for bucket, dur_ns in truth.items()},
        )

    def _savings(self, scale: float) -> dict[int, int]:
        ops = "SELECT op_id, dur_ns FROM gpu_ops WHERE kind = 'kernel' AND NOT is_comm"
        return {op: dur - round(dur * scale) for op, dur in self.con.sql(ops).fetchall()}


class AttributedJob:
    """A simulated job and its attribution, read between the ends of the steps that bound the windows."""

    def __init__(self, job: SimulatedJob) -> None:
        self.job = job
        self.con: duckdb.DuckDBPyConnection = in_memory.connect_tables(job.canonical_tables(), readers=METRICS)
        self.bounds = Bounds.load(self.con)
        self.abstains = self.bounds.run_abstains()
        kept = [step for (step,) in self.con.sql("SELECT step FROM attribution.steps WHERE kept").fetchall()]
        self.steps: tuple[int, int] = min(kept) - 1, max(kept)

    def answer(self, question: Question) -> Answer:
        """Return the bound and the truth of a question about all ranks or some."""
        ranks = range(len(self.job.ranks)) if question.ranks is None else question.ranks
        removed = {rank: frozenset(question.removed) for rank in ranks}
        savings = None if question.scaled is None else {(r, 0): self._savings(r, question.kernel_scale) for r in ranks}
        first, last = self.steps
        scales = None if question.scaled is None else dict.fromkeys(ranks, question.scaled)
        truth = self.job.true_saving(removed, scales, first_step=first, last_step=last)
        ((window_ns,),) = self.con.sql("SELECT max(window_ns) FROM attribution.windows").fetchall()
        bound = self.bounds.run(what_ifs(self.bounds, removed, savings)).saved_ns
        return Answer(question, bound / window_ns, truth / self.job.length_ns(first, last))

    def ledger_apart(self) -> dict[tuple[int, str], float]:
        """Return by how many points each rank's buckets are apart from the true ones."""
        query = "SELECT trace_id, bucket, sum(dur_ns) FROM ledger_rows WHERE kept GROUP BY trace_id, bucket"
        told = {(trace_id, bucket): dur_ns for trace_id, bucket, dur_ns in self.con.sql(query).fetchall()}
        first, last = self.steps[0] + 1, self.steps[1] + 1
        apart = {}
        for rank, run in enumerate(self.job.ranks):
            truth = run.true_ledger_of(first, last)
            for bucket in truth.keys() | {bucket for of_rank, bucket in told if of_rank == rank}:
                off_ns = told.get((rank, bucket), 0) - truth.get(bucket, 0)
                apart[rank, bucket] = 100 * off_ns / run.length_ns(first, last)
        return apart

    def _savings(self, rank: int, scale: float) -> dict[int, int]:
        ops = "SELECT op_id, dur_ns FROM gpu_ops WHERE kind = 'kernel' AND NOT is_comm AND trace_id = $rank"
        return {op: dur - round(dur * scale) for op, dur in self.con.execute(ops, {"rank": rank}).fetchall()}


@cache
def attributed_job(workload: str) -> AttributedJob:
    """Return a job of the list, simulated and attributed once."""
    return AttributedJob(simulate_job(JOBS[workload], SEED))


@cache
def attributed(workload: str) -> Attributed:
    """Return a workload of the list, simulated and attributed once."""
    return Attributed(simulate(WORKLOADS[workload], SEED))
