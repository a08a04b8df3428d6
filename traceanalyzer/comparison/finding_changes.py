"""What became of each finding: only one that a rule looked for and did not find is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.comparison.summary import FindingSummary, Summary
from traceanalyzer.diagnosis import SEVERITIES

STATES = ("new", "more", "same", "less", "hidden", "in the noise", "not looked", "gone")
# A saving that differs by less, of itself and of the step, is the same.
SAME_SAVING_SHARE = 0.2
SAME_STEP_SHARE = 0.01


@dataclass(frozen=True)
class FindingChange:
    """A finding on both sides; savings are means over the captures of a side that have it."""

    rule: str
    title: str
    severity: str  # on the new side, else on the base
    state: str  # one of STATES
    base_share: float | None
    new_share: float | None
    base_captures: int  # with the finding
    new_captures: int
    note: str = ""
    is_looked_for: bool = True  # of a new one: the base could have shown it


def compare_findings(base: Sequence[Summary], new: Sequence[Summary]) -> tuple[FindingChange, ...]:
    """Return each finding that at least half the captures of a side have, the gravest states first."""
    rules = {finding.rule for side in (base, new) for item in side for finding in item.findings}
    changes = [change for rule in sorted(rules) if (change := _change(rule, base, new)) is not None]
    return tuple(
        sorted(
            changes,
            key=lambda item: (STATES.index(item.state), -max(item.base_share or 0, item.new_share or 0), item.rule),
        )
    )


def _change(rule: str, base: Sequence[Summary], new: Sequence[Summary]) -> FindingChange | None:
    sides = _findings_of_rule(rule, base), _findings_of_rule(rule, new)
    there = [len(found) * 2 >= len(side) for found, side in zip(sides, (base, new), strict=True)]
    shares = [_mean_share(found) if is_there else None for found, is_there in zip(sides, there, strict=True)]
    if not any(there):
        return None
    worst = max(sides[1] or sides[0], key=lambda finding: SEVERITIES.index(finding.severity))
    note, is_looked_for = "", True
    if all(there):
        state = _amount(shares[0], shares[1])
    elif there[0]:
        state, note = _why_absent(rule, sides[0], new)
    else:
        state = "new"
        before, _ = _why_absent(rule, sides[1], base)
        note = {"in the noise": "in the noise before", "not looked": "not looked for before"}.get(before, "")
        is_looked_for = before != "not looked"
    return FindingChange(
        rule,
        worst.title,
        worst.severity,
        state,
        shares[0],
        shares[1],
        len(sides[0]),
        len(sides[1]),
        note,
        is_looked_for,
    )


def _findings_of_rule(rule: str, side: Sequence[Summary]) -> list[FindingSummary]:
    return [item for summary in side for item in summary.findings if item.rule == rule and item.status != "suppressed"]


def _mean_share(findings: Sequence[FindingSummary]) -> float | None:
    shares = [finding.saving_share for finding in findings if finding.saving_share is not None]
    return sum(shares) / len(shares) if shares else None


def _amount(base: float | None, new: float | None) -> str:
    change = (new or 0.0) - (base or 0.0)
    if abs(change) <= max(SAME_STEP_SHARE, SAME_SAVING_SHARE * max(base or 0.0, new or 0.0)):
        return "same"
    return "more" if change > 0 else "less"


def _why_absent(rule: str, before: Sequence[FindingSummary], side: Sequence[Summary]) -> tuple[str, str]:
    """Return why most captures of a side do not have a finding, and more about it."""
    if any(item.rule == rule and item.status == "suppressed" for summary in side for item in summary.findings):
        return "hidden", "suppressed by the project's settings"
    if any(rule in summary.below_noise for summary in side):
        share = max(summary.below_noise.get(rule, 0.0) for summary in side)
        return "in the noise", f"saves {share:.1%} there, less than the steps differ".replace("%", " %")
    outcomes = {summary.outcomes.get(rule, "abstained") for summary in side}
    if outcomes <= {"abstained"}:
        return "not looked", "rule skipped: data not recorded"
    if outcomes & {"fired", "latent"}:
        return "hidden", "owned by another finding or rank"
    was_latent = all(finding.status == "latent" for finding in before)
    if was_latent and any(_has_primary(summary) for summary in side):
        return "hidden", "it matters only after other fixes"
    return "gone", ""


def _has_primary(summary: Summary) -> bool:
    return any(finding.status == "primary" and finding.saving_ns for finding in summary.findings)
