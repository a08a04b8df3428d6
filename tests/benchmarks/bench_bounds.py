"""Set bounds and ledgers beside the truth: every workload of the list run again without what the bound removes.

    python tests/benchmarks/bench_bounds.py

Shares are of the analysis window in percent, errors in percentage points. A workload's ledger is as far from the true
one as its worst bucket.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from bound_against_truth import attributed, attributed_job
from workloads.counterfactuals import RUN_WHAT_IFS, WHAT_IFS
from workloads.workloads import JOBS, WORKLOADS


def print_bounds() -> None:
    """Print one row a question, and the worst and the median error."""
    print("| what if | bound | truth | error |")
    print("|---|---:|---:|---:|")
    errors = []
    for question in (*WHAT_IFS, *RUN_WHAT_IFS):
        made = attributed_job if question.workload in JOBS else attributed
        answer = made(question.workload).answer(question)
        errors.append(abs(answer.error_points))
        print(
            f"| {question.name} | {100 * answer.bound:.2f} % | {100 * answer.truth:.2f} % "
            f"| {answer.error_points:+.2f} |"
        )
    print(f"\n{len(errors)} bounds: worst {max(errors):.2f}, median {statistics.median(errors):.2f} points off.\n")


def print_ledgers() -> None:
    """Print one row a workload: its furthest bucket."""
    print("| workload | furthest bucket | ledger | truth | error |")
    print("|---|---|---:|---:|---:|")
    errors = []
    for workload in WORKLOADS:
        told, truth = attributed(workload).ledger_shares()
        apart = {bucket: 100 * (told.get(bucket, 0) - truth.get(bucket, 0)) for bucket in sorted({*told, *truth})}
        errors += [abs(points) for points in apart.values()]
        worst = max(apart, key=lambda bucket: abs(apart[bucket]))
        print(
            f"| {workload} | {worst} | {100 * told.get(worst, 0):.2f} % | {100 * truth.get(worst, 0):.2f} % "
            f"| {apart[worst]:+.2f} |"
        )
    for workload in JOBS:
        of_ranks = attributed_job(workload).ledger_apart()
        errors += [abs(points) for points in of_ranks.values()]
        rank, worst = max(of_ranks, key=lambda device_key: abs(of_ranks[device_key]))
        print(f"| {workload} | {worst} on rank {rank} | | | {of_ranks[rank, worst]:+.2f} |")
    print(f"\n{len(errors)} buckets: worst {max(errors):.2f}, median {statistics.median(errors):.2f} points off.")


if __name__ == "__main__":
    print_bounds()
    print_ledgers()
