"""How much time is left that no finding explains once the fixes are made: with what the fixes save, it adds up.

Time that no finding owns may go with a fix all the same, as where several waits end with the cause of one of them.
What is printed as saved is not printed as unexplained, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from traceanalyzer.diagnosis import Diagnosis, FixPlan

COMPUTE = "compute"


@dataclass(frozen=True)
class UnexplainedRest:
    """Shares of the windows: what is left when all fixes are made, and what goes with them although none owns it."""

    left: float
    gone: float


def unexplained_rest(diagnosis: Diagnosis) -> UnexplainedRest:
    """Return how much of the time that no finding owns is left, and how much goes with the fixes."""
    window_ns = sum(ledger.window_ns for ledger in diagnosis.ledgers)
    if not window_ns:
        return UnexplainedRest(0.0, 0.0)
    not_owned = sum(dur_ns for _, dur_ns in diagnosis.not_explained) / window_ns
    computed = max(dict(ledger.buckets).get(COMPUTE, 0) / max(ledger.window_ns, 1) for ledger in diagnosis.ledgers)
    saved = _saved_waits(diagnosis)
    left = min(not_owned, max(1 - computed - saved, 0.0))
    # Devices that wait for different shares of their windows differ without any fix, too.
    return UnexplainedRest(left, min(not_owned - left, saved))


def _saved_waits(diagnosis: Diagnosis) -> float:
    """Return the share of time without compute that fixes save: of the run, or of the device that saves least."""
    owned = {finding.rule: finding.owned_buckets for finding in reversed(diagnosis.findings)}
    shares = [
        max((_share(plan, owned) for plan in diagnosis.plans if _is_of(plan, ledger.trace, ledger.device)), default=0.0)
        for ledger in diagnosis.ledgers
    ]
    return min(shares, default=0.0)


def _is_of(plan: FixPlan, trace: str, device: int) -> bool:
    return plan.trace is None or (plan.trace, plan.device) == (trace, device)


def _share(plan: FixPlan, owned: Mapping[str, Mapping[str, int]]) -> float:
    """Return what a plan saves up to its first fix that makes kernels shorter: behind it, waits take their place."""
    saved_ns = 0
    for fix in plan.fixes:
        buckets = owned.get(fix.rule, {})
        if any(bucket.startswith(COMPUTE) for bucket in buckets):
            break
        saved_ns += fix.saving_ns if buckets else 0
    return saved_ns / max(plan.window_ns, 1)
