"""What counters of Nsight Compute add to a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CountedKernel:
    """One kernel as launched, by its counters: the time is the trace's, and the headroom a ceiling."""

    name: str
    tier: str  # how its counters were found, as in the metric ncu_join
    sum_ns: int
    limited_by: str | None
    sm_share: float | None
    memory_share: float | None
    headroom_ns: int | None


@dataclass(frozen=True)
class ModelDisagreement:
    """An operator with shapes of which counters say something else than the model of its cost."""

    operator: str
    input_shapes: str | None
    sum_ns: int
    flops_factor: float | None
    traffic_factor: float | None
    verdict: str


@dataclass(frozen=True)
class KernelCounters:
    """What counters of Nsight Compute say of a run's kernels."""

    files: tuple[str, ...]
    launch_count: int
    lost_count: int
    lost_example: str | None
    matched_share: float | None  # of the kernel time without communication
    kernels: tuple[CountedKernel, ...]  # most headroom first
    compared_count: int  # operators by shapes
    disagreements: tuple[ModelDisagreement, ...]  # most time first
