"""Whether promised savings came true: the bounds of findings that are gone, beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.comparison.finding_changes import FindingChange
from traceanalyzer.comparison.summary import Summary


@dataclass(frozen=True)
class Promise:
    """What the base said that fixing a finding saves at most, a step."""

    rule: str
    title: str
    bound_ns: int


@dataclass(frozen=True)
class Verification:
    """The promises of the findings that are gone, what was saved, and what limits the run now."""

    promises: tuple[Promise, ...]
    together_ns: int  # the most that all of them save, a step
    saved_ns: int  # measured: base less new, a step, whatever caused it
    ratio: float | None  # saved_ns / together_ns
    limits_now: str | None  # the finding of the new side that saves most
    limits_now_share: float | None = None


def verify(base: Sequence[Summary], changes: Sequence[FindingChange], saved_ns: int) -> Verification | None:
    """Return what became of the promises; None where no finding with a bound is gone."""
    promises = []
    for change in changes:
        bounds = [
            _per_step(finding.saving_ns, finding.step_count)
            for summary in base
            for finding in summary.findings
            if change.state == "gone" and finding.rule == change.rule and finding.saving_ns
        ]
        if bounds:
            promises.append(Promise(change.rule, change.title, round(sum(bounds) / len(bounds))))
    if not promises:
        return None
    together_ns = _together_ns(base, promises)
    left = [change for change in changes if change.new_share]
    first = max(left, key=lambda change: (change.new_share or 0.0, change.rule), default=None)
    return Verification(
        tuple(sorted(promises, key=lambda item: (-item.bound_ns, item.rule))),
        together_ns,
        saved_ns,
        saved_ns / together_ns if together_ns else None,
        first.title if first else None,
        first.new_share if first else None,
    )


def _together_ns(base: Sequence[Summary], promises: Sequence[Promise]) -> int:
    """Return the bound of one fix, else the sum of their bounds, or less where the whole plan saves less."""
    total = sum(promise.bound_ns for promise in promises)
    if len(promises) == 1:
        return total
    joint = [
        _per_step(summary.joint_saving_ns, max((device.step_count for device in summary.devices), default=1))
        for summary in base
        if summary.joint_saving_ns is not None
    ]
    return min(total, round(sum(joint) / len(joint))) if joint else total


def _per_step(dur_ns: int, step_count: int) -> float:
    return dur_ns / max(step_count, 1)
