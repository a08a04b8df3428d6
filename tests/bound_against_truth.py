"""Bounds and ledgers of simulated workloads beside the truth: the same workload, run again without the cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import duckdb

from traceanalyzer import engine
from traceanalyzer.attribution import Bounds
from traceanalyzer.simulator import SimulatedRun, simulate
from traceanalyzer.simulator.counterfactuals import WORKLOADS, WhatIf

SEED = 3


@dataclass(frozen=True)
class Answer:
    """What the engine says and what is true, as shares of the analysis window."""

    question: WhatIf
    bound: float
    truth: float

    @property
    def error_points(self) -> float:
        """Return by how many percentage points the bound is too high."""
        return 100 * (self.bound - self.truth)


class Attributed:
    """A simulated workload and its attribution, read over the steps that the window kept."""

    def __init__(self, run: SimulatedRun) -> None:
        self.run = run
        self.con: duckdb.DuckDBPyConnection = engine.connect_tables(run.canonical_tables())
        self.bounds = Bounds.load(self.con)
        self.abstains = self.bounds.abstains(0, 0)
        kept = [step for (step,) in self.con.sql("SELECT step FROM attribution.steps WHERE kept").fetchall()]
        self.steps: tuple[int, int] = min(kept), max(kept) + 1
        self.window_ns = run.length_ns(*self.steps)

    def answer(self, question: WhatIf) -> Answer:
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


@cache
def attributed(workload: str) -> Attributed:
    """Return a workload of the list, simulated and attributed once."""
    return Attributed(simulate(WORKLOADS[workload], SEED))
