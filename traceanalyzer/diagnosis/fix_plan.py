"""The order of fixes, and what each saves after those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.diagnosis.findings import Finding


@dataclass(frozen=True)
class PlannedFix:
    """One fix in the order of fixes: what it saves after those before it, and how long the window is then.

    The savings add up to what all of them save; one that costs time is negative.
    """

    rule: str
    status: str  # as of its finding
    saving_ns: int
    left_ns: int
    alternatives: tuple[str, ...] = ()
    # Of a latent one: the fixes without which it saves nothing. Of two that limit as much as each other: the other one.
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Enabling:
    """Two fixes that save more together than their sum."""

    rules: tuple[str, ...]
    alone_ns: tuple[int, ...]
    together_ns: int


@dataclass(frozen=True)
class FixPlan:
    """The order of fixes of one device; where ranks wait for each other, of the whole run (trace and device None)."""

    trace: str | None
    rank: int | None
    device: int | None
    window_ns: int
    step_count: int
    fixes: tuple[PlannedFix, ...]
    enablers: tuple[Enabling, ...] = ()


def plan_of_finding(plans: Sequence[FixPlan], finding: Finding) -> FixPlan | None:
    """Return the order of fixes in which a finding stands: its device's, or that of the whole run."""
    for plan in plans:
        if plan.trace is None or (plan.trace, plan.device) == (finding.trace, finding.device):
            return plan
    return None
