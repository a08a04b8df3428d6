"""Faults 24 and 25: recordings that do not hold what they should, all simulated."""

from __future__ import annotations

from workloads.bases import BASES, DDP
from workloads.step_programs import data_parallel

from faultbench.planted import Expected, Fault, Scenario

_ON_HOST_TIME = ("dataloader-bound", "launch-bound", "sync-in-step", "gc-pauses", "host-stalls")
_ACROSS_RANKS = ("comm-straggler-wait", "rank-compute-imbalance", "slow-gpu-rank")


def _defects() -> Scenario:
    """Return four ranks, each of which was recorded with something amiss; the third one's file is lost."""
    faults = [
        {"rank": 0, "compile_first_us": 900_000},
        {"rank": 1, "drop_kernels": 0.02, "warning": "CUPTI: dropped 47 activity records"},
        {"rank": 3, "stacks": True, "overhead_us": 1_400},
    ]
    return {**DDP, "program": data_parallel(), "faults": faults}


CAPTURES: tuple[Fault, ...] = (
    Fault(
        "24",
        "four capture defects in one folder",
        _defects(),
        BASES["data parallel"],
        (
            Expected("tq-missing-ranks", first=False, says="3 of 4"),
            Expected("tq-lost-records", rank=1, first=False),
            Expected("tq-warmup-in-window", rank=0, first=False),
            Expected("tq-profiler-overhead", rank=3, first=False),
        ),
        silent=_ACROSS_RANKS,
        lost_ranks=(2,),
        abstains=("comm-straggler-wait",),
    ),
    Fault(
        "25",
        "no GPU activity in the trace of a GPU job",
        {"steps": 6, "memory": True, "no_gpu": True},
        {"steps": 6, "memory": True},
        (Expected("tq-missing-gpu-activity", first=False, severity="blocker"),),
        abstains=_ON_HOST_TIME,
    ),
)
