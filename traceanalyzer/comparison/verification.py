"""Whether promised savings came true: the bounds of findings that are gone, beside what was measured.

A finding owns time of the base, by bucket. What these buckets lost since is its saving, up to the time that it owned.
Three things widen that to a range: time that came back in other buckets may be the time of any fix, what a bucket lost
may belong to any of the findings that own time in it, and a fix may save more than the time of its own finding.

What became of each finding: only one that a rule looked for and did not find is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from traceanalyzer.comparison.differences import Alignment, LedgerRow, NamedDifference
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
    if was_latent and any(
        finding.status == "primary" and finding.saving_ns for summary in side for finding in summary.findings
    ):
        return "hidden", "it matters only after other fixes"
    return "gone", ""


_COMPUTE = "compute"
# Kernels whose durations add up to the time of the ledger's compute bucket, but for this share, ran one by one.
_ONE_BY_ONE_SHARE = 0.01
# Less of a finding's time in the compared ledger: it lies elsewhere.
_LEAST_IN_LEDGER_SHARE = 0.9
# Of the promise: what findings share may leave open before their parts count as unknown.
_MOST_SHARED = 0.1

Times = Mapping[str, int]  # nanoseconds a unit by bucket


@dataclass(frozen=True)
class Promise:
    """What the base said that fixing a finding saves at most, in a unit, and what was saved of the time it owned."""

    rule: str
    title: str
    bound_ns: int
    owned_buckets: Times  # time of the base that the finding alone owned
    saved_least_ns: int | None = None  # None: not known, for `unknown`
    saved_most_ns: int | None = None
    unknown: str = ""

    @property
    def owned_ns(self) -> int:
        """The time that the finding alone owned."""
        return sum(self.owned_buckets.values())

    @property
    def beyond_ns(self) -> int:
        """What the fix saves beyond the finding's own time: a host that is ahead again hides what comes after."""
        return max(0, self.bound_ns - self.owned_ns)


@dataclass(frozen=True)
class Verification:
    """The promises of the findings that are gone, what was saved, and what limits the run now."""

    promises: tuple[Promise, ...]
    together_ns: int  # the most that all of them save, in a unit
    saved_ns: int  # measured: base less new, in a unit, whatever caused it
    ratio: float | None  # saved_ns / together_ns
    others_ns: int | None  # saved_ns less the most that each finding saved; None: a part is unknown
    limits_now: str | None  # the finding of the new side that saves most
    limits_now_share: float | None = None


def verify(
    base: Sequence[Summary],
    alignment: Alignment,
    changes: Sequence[FindingChange],
    ledger: Sequence[LedgerRow],
    kernels: NamedDifference,
) -> Verification | None:
    """Return what became of the promises; None where no finding with a bound is gone."""
    gone = {change.rule: change.title for change in changes if change.state == "gone"}
    bounds = {rule: _mean_bound_ns(rule, base, alignment) for rule in gone}
    order = sorted((rule for rule in gone if bounds[rule]), key=lambda rule: (-bounds[rule], rule))
    if not order:
        return None
    base_times, changed = _times_by_class(ledger, kernels)
    made = [Promise(rule, gone[rule], bounds[rule], _mean_owned(rule, base, alignment, base_times)) for rule in order]
    back_ns = sum(max(0, -ns) for ns in changed.values())
    promises = [
        _measured(promise, [item for item in made if item is not promise], base_times, changed, back_ns)
        for promise in made
    ]
    saved_ns = sum(row.base_ns - row.new_ns for row in ledger)
    most_ns = [promise.saved_most_ns for promise in promises if promise.saved_most_ns is not None]
    together_ns = _together_ns(base, alignment, promises)
    left = [change for change in changes if change.new_share]
    first = max(left, key=lambda change: (change.new_share or 0.0, change.rule), default=None)
    return Verification(
        tuple(promises),
        together_ns,
        saved_ns,
        saved_ns / together_ns if together_ns else None,
        saved_ns - sum(most_ns) if len(most_ns) == len(promises) else None,
        first.title if first else None,
        first.new_share if first else None,
    )


def _measured(promise: Promise, others: Sequence[Promise], base_times: Times, changed: Times, back_ns: int) -> Promise:
    """Return the promise with what was saved of the time that its finding owned, or why that is not known."""
    if not promise.owned_ns:
        return replace(promise, unknown=_not_separable(promise, others) or "no time of its own is recorded")
    in_ledger_ns = sum(min(ns, base_times.get(bucket, 0)) for bucket, ns in promise.owned_buckets.items())
    if in_ledger_ns < _LEAST_IN_LEDGER_SHARE * promise.owned_ns:
        return replace(promise, unknown="its time is not in the ledger that is compared")
    lost = {bucket: max(0, ns) for bucket, ns in changed.items()}
    most_ns = sum(min(ns, lost.get(bucket, 0)) for bucket, ns in promise.owned_buckets.items())
    least_ns = sum(
        max(0, min(ns, lost.get(bucket, 0) - sum(item.owned_buckets.get(bucket, 0) for item in others)))
        for bucket, ns in promise.owned_buckets.items()
    )
    least_ns = max(0, least_ns - sum(item.beyond_ns for item in others))
    most_ns += min(promise.beyond_ns, sum(lost.values()) - most_ns)
    if others and most_ns - least_ns > _MOST_SHARED * promise.bound_ns:
        return replace(promise, unknown=_not_separable(promise, others))
    if most_ns > 0 >= least_ns - back_ns and back_ns >= promise.bound_ns:
        return replace(promise, unknown="more time came back elsewhere")
    return replace(promise, saved_least_ns=least_ns - back_ns, saved_most_ns=most_ns)


def _not_separable(promise: Promise, others: Sequence[Promise]) -> str:
    """Return the words that name the findings which may have saved the same time; empty where there is none."""
    shared = [
        item.rule
        for item in others
        if item.beyond_ns or promise.beyond_ns or item.owned_buckets.keys() & promise.owned_buckets
    ]
    return f"not separable from {' and '.join(shared)}" if shared else ""


def _times_by_class(ledger: Sequence[LedgerRow], kernels: NamedDifference) -> tuple[Times, Times]:
    """Return the time of each bucket of the base and what it lost; of compute by class where kernels add up to it."""
    base_times = {row.bucket: row.base_ns for row in ledger}
    changed = {row.bucket: row.base_ns - row.new_ns for row in ledger}
    sides: tuple[dict[str, int], dict[str, int]] = defaultdict(int), defaultdict(int)
    for row in kernels.rows:
        if row.kind != "comm":
            sides[0][f"{_COMPUTE}.{row.kind}"] += row.base_ns
            sides[1][f"{_COMPUTE}.{row.kind}"] += row.new_ns
    compute_ns = base_times.get(_COMPUTE, 0), base_times.get(_COMPUTE, 0) - changed.get(_COMPUTE, 0)
    if all(abs(sum(side.values()) - ns) <= _ONE_BY_ONE_SHARE * ns for side, ns in zip(sides, compute_ns, strict=True)):
        rest_ns = changed.pop(_COMPUTE, 0) - sum(sides[0].values()) + sum(sides[1].values())
        names = sides[0].keys() | sides[1].keys()
        by_class = {name: sides[0].get(name, 0) - sides[1].get(name, 0) for name in names}
        return base_times | sides[0], changed | by_class | {_COMPUTE: rest_ns}
    return base_times, changed


def _mean_owned(rule: str, base: Sequence[Summary], alignment: Alignment, base_times: Times) -> Times:
    """Return the time that a finding owned in a unit, by the buckets that are compared."""
    owned: dict[str, Fraction] = defaultdict(Fraction)
    for finding, scale in _findings(rule, base, alignment):
        for bucket, dur_ns in finding.owned_buckets.items():
            is_compared = bucket in base_times or not bucket.startswith(_COMPUTE)
            owned[bucket if is_compared else _COMPUTE] += scale * dur_ns
    return {bucket: round(dur_ns / len(base)) for bucket, dur_ns in owned.items()}


def _mean_bound_ns(rule: str, base: Sequence[Summary], alignment: Alignment) -> int:
    bounds = [scale * (finding.saving_ns or 0) for finding, scale in _findings(rule, base, alignment)]
    return round(sum(bounds, Fraction(0)) / len(base))


def _findings(rule: str, base: Sequence[Summary], alignment: Alignment) -> list[tuple[FindingSummary, Fraction]]:
    """Return a rule's findings in the captures of the base, and the unit's part of each one's window."""
    by_steps = alignment.kind == "steps"
    return [
        (finding, Fraction(1, max(finding.step_count, 1)) if by_steps else scale)
        for summary, scale in zip(base, alignment.base_scales, strict=True)
        for finding in summary.findings
        if finding.rule == rule
    ]


def _together_ns(base: Sequence[Summary], alignment: Alignment, promises: Sequence[Promise]) -> int:
    """Return the bound of one fix, else the sum of their bounds, or less where the whole plan saves less."""
    total = sum(promise.bound_ns for promise in promises)
    joint = [
        summary.joint_saving_ns * _scale_of_plan(summary, scale, by_steps=alignment.kind == "steps")
        for summary, scale in zip(base, alignment.base_scales, strict=True)
        if summary.joint_saving_ns is not None
    ]
    if len(promises) == 1 or not joint:
        return total
    return min(total, round(sum(joint, Fraction(0)) / len(joint)))


def _scale_of_plan(summary: Summary, scale: Fraction, *, by_steps: bool) -> Fraction:
    if not by_steps:
        return scale
    return Fraction(1, max(1, max((device.step_count for device in summary.devices), default=1)))
