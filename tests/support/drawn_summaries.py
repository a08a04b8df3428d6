"""Summaries with chosen numbers, for tests of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from traceanalyzer.comparison.summary import (
    DeviceTimes,
    Fact,
    FindingSummary,
    NamedTime,
    NamedTimes,
    Summary,
)

MS = 1_000_000
FINGERPRINT: dict[str, Fact] = {
    "gpu": ("NVIDIA H100 80GB HBM3",),
    "vendor": ("nvidia",),
    "mode": ("training",),
    "world_size": 1,
}


def capture(
    steps_ms: Sequence[float] = (100.0,) * 4,
    *,
    waits_ms: Mapping[str, float] | None = None,
    kernels: Mapping[str, tuple[int, float]] | None = None,
    findings: Sequence[FindingSummary] = (),
    has_steps: bool = True,
    **changed: Any,
) -> Summary:
    """A capture with these steps on one device; `waits_ms` is taken a step from compute, kernels are (launches, ms)."""
    steps_ns = tuple(round(step * MS) for step in steps_ms)
    window_ns = sum(steps_ns)
    buckets = {name: round(ms * MS * len(steps_ns)) for name, ms in (waits_ms or {}).items()}
    buckets["compute"] = window_ns - sum(buckets.values())
    rows = {"sgemm_128x64": (40 * len(steps_ns), 80.0), **(kernels or {})} if kernels is None else kernels
    named = tuple(NamedTime(name, "gemm", count, round(ms * MS)) for name, (count, ms) in rows.items())
    step_count = len(steps_ns) if has_steps else 0
    device = DeviceTimes(0, 0, window_ns, step_count, steps_ns if has_steps else (), buckets)
    values: dict[str, Any] = {
        "label": "capture",
        "taken_at": None,
        "made_by": "0.2.0",
        "blocked": None,
        "time_of": "device",
        "fingerprint": FINGERPRINT,
        "devices": (device,),
        "run": None,
        "kernels": NamedTimes(named, max(step_count, 1)),
        "operators": NamedTimes(),
        "findings": tuple(findings),
        "outcomes": {finding.rule: "fired" for finding in findings},
        "below_noise": {},
        "joint_saving_ns": None,
    }
    return Summary(**values | changed)


_BUCKETS = {"dataloader-bound": "host.dataloader", "sync-in-step": "host.sync", "launch-bound": "host.op"}


def finding(rule: str = "dataloader-bound", share: float = 0.2, **changed: Any) -> FindingSummary:
    """A finding that saves this share of four steps of 100 ms, which is all the time that it owns."""
    values: dict[str, Any] = {
        "title": f"{rule} holds",
        "severity": "high",
        "status": "primary",
        "place": "device",
        "saving_ns": round(share * 400 * MS),
        "saving_share": share,
        "step_count": 4,
        "owned_buckets": {_BUCKETS[rule]: round(share * 400 * MS)} if rule in _BUCKETS else {},
    }
    return FindingSummary(rule=rule, **values | changed)
