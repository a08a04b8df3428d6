"""What rules say of a run: findings with their evidence and fixes, and what became of every rule.

The order of fixes, and what each saves after those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# A finding that saves this part of another one's time, and claims it first, says where it comes from.
EXPLAINED_SHARE = 0.8


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


# Why an outcome abstained whose query took too long or too much memory: the next time it may not.
LIMIT_REACHED = "limit-reached"

# From harmless to worst; quality findings use note, warning and blocker.
SEVERITIES = ("note", "info", "low", "warning", "medium", "high", "critical", "blocker")


@dataclass(frozen=True)
class Fix:
    """One way to fix what a finding names: what to do, and a snippet to paste."""

    text: str
    code: str | None = None
    lang: str = "python"
    effort: str = "code"  # recording (the program stays as it is), one-line, config, code or redesign


@dataclass(frozen=True)
class Evidence:
    """A small table that proves a finding; rows name places that can be found in a viewer."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class AttachedExplanation:
    """The cause of a finding, found by another rule: claims no time and is shown under the finding."""

    rule: str
    title: str
    confidence: str
    confidence_because: str
    trace: str | None
    rank: int | None
    device: int | None
    message: str
    why: str
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    references: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A rule that holds somewhere in the run.

    `saving_ns` is the bound: what removing only this cause can save in the analysis window; bounds overlap and are
    never summed. `owned_ns` is the time of the window that this finding alone owns; owned times add up.
    `marginal_ns` is what it adds when fixed after the findings before it; marginals add up to the joint bound.
    A negative one says that the window is longer with the fix, as its first step then begins earlier.
    Times are NULL (None) for quality findings. Shares are of the analysis window, and the run's is its slowest rank's.
    Of one rank that was recorded several times, the run is all recordings whose steps are pooled.
    """

    rule: str
    title: str
    kind: str  # finding or quality
    severity: str
    confidence: str  # high, medium or low
    confidence_because: str  # what limits it; of a high one what it rests on
    trace: str | None
    rank: int | None
    device: int | None
    message: str
    why: str
    saving_ns: int | None
    saving_share: float | None
    owned_ns: int | None
    owned_share: float | None
    marginal_ns: int | None
    marginal_order: int | None
    # primary; alternative: another fix saves the same time; latent: saves nothing before the findings ahead of it are
    # fixed, its saving is what it adds after them.
    status: str
    is_experimental: bool = False  # no real trace has shown its rule yet
    run_saving_ns: int | None = None  # what the run saves, whose ranks wait for each other, if it is fixed on all
    run_saving_share: float | None = None
    # Of many ranks, where `run_saving_ns` could not be shown to be exact: what is saved at least.
    run_saving_least_ns: int | None = None
    # The claimed time of a step, where there are enough steps: its tenth and ninetieth percentile.
    step_p10_ns: int | None = None
    step_p90_ns: int | None = None
    step_hits: int | None = None  # steps with claimed time
    step_count: int | None = None  # kept steps
    same_on_ranks: tuple[int, ...] = ()
    same_on_traces: tuple[
        str, ...
    ] = ()  # more than one: this finding stands for all of them, its numbers are the worst's
    same_on_devices: tuple[int, ...] = ()  # more than one: those of one process that this finding stands for
    owned_buckets: dict[str, int] = field(default_factory=dict)  # owned_ns by bucket; compute by class: compute.gemm
    alternatives: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    explanations: tuple[AttachedExplanation, ...] = ()
    references: tuple[str, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What became of one rule in one place: fired, clear, latent, or abstained, with the reason and what unlocks it.

    Latent: the rule is clear now and fires once other fixes are made, which its finding names.
    """

    rule: str
    title: str
    state: str
    trace: str | None = None
    rank: int | None = None
    device: int | None = None
    reason: str | None = None
    detail: str | None = None
    unlock: str | None = None
    kind: str = "finding"  # finding, quality or explanation


@dataclass(frozen=True)
class BelowNoise:
    """What a rule found but is no finding, because it saves less than the spread of the steps."""

    rule: str
    title: str
    trace: str | None
    rank: int | None
    device: int | None
    saving_ns: int
    saving_share: float
    noise_share: float  # the least share of the window that these steps distinguish from chance


def asks_for_recording(finding: Finding) -> bool:
    """Return whether the first fix of a finding leaves the program as it is."""
    return bool(finding.fixes) and finding.fixes[0].effort == "recording"


def promised_ns(plan: FixPlan, findings: Sequence[Finding]) -> list[int]:
    """Return what the fixes of an order save one after the other, without those that leave the program as it is."""
    again = {finding.rule for finding in findings if asks_for_recording(finding)}
    return [fix.saving_ns for fix in plan.fixes if fix.rule not in again]


def weight_of_fix(finding: Finding) -> float:
    """Return what the saving of a finding weighs: how to record again says less than what to change."""
    return 0.5 if asks_for_recording(finding) else 1.0


def worth_share(finding: Finding) -> float:
    """Return what fixing a finding saves: of the run where its ranks wait for each other, else of its device."""
    return (finding.saving_share if finding.run_saving_share is None else finding.run_saving_share) or 0.0


def lead_on_host(timed: Sequence[Finding]) -> Finding | None:
    """Return which finding of a run without GPU work saves most, but for time that another finding explains."""

    def is_explained(finding: Finding) -> bool:
        rivals = [other for other in timed if finding.status == "alternative" and other.rule in finding.alternatives]
        return any(worth_share(other) >= EXPLAINED_SHARE * worth_share(finding) for other in rivals)

    alone = [finding for finding in timed if not is_explained(finding)]
    return max(alone or timed, key=lambda finding: worth_share(finding) * weight_of_fix(finding), default=None)
