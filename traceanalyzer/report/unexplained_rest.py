"""How much time is left that no finding explains once the fixes are made: with what the fixes save, it adds up.

Time that no finding owns may go with a fix all the same, as where several waits end with the cause of one of them.
What is printed as saved is not printed as unexplained, too.
"""

from __future__ import annotations

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
    left = min(not_owned, max(1 - computed - _saved_waits(diagnosis), 0.0))
    return UnexplainedRest(left, not_owned - left)


def _saved_waits(diagnosis: Diagnosis) -> float:
    """Return the share of time without compute that all fixes save: of the run, or of the device that saves least."""
    if not diagnosis.plans:
        return 0.0
    waits = {finding.rule for finding in diagnosis.findings if _saves_waits(finding.owned_buckets)}
    shares = {}
    for ledger in diagnosis.ledgers:
        plan = next((plan for plan in diagnosis.plans if _is_of(plan, ledger.trace, ledger.device)), None)
        shares[ledger.trace, ledger.device] = 0.0 if plan is None else _share(plan, waits)
    return min(shares.values(), default=0.0)


def _is_of(plan: FixPlan, trace: str, device: int) -> bool:
    return plan.trace is None or (plan.trace, plan.device) == (trace, device)


def _share(plan: FixPlan, waits: set[str]) -> float:
    return sum(fix.saving_ns for fix in plan.fixes if fix.rule in waits) / max(plan.window_ns, 1)


def _saves_waits(owned_buckets: dict[str, int]) -> bool:
    """Return whether a finding owns other time than that of kernels, which a fix would make shorter."""
    return any(not bucket.startswith(COMPUTE) for bucket in owned_buckets)
