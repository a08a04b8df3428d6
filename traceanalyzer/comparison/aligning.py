"""What makes two sides comparable: their steps, or the work in their windows where steps are not known.

A window without steps is only as long as the recording. The launches of kernels that both sides have then show how much
work each window holds. The unit is the work of the side that holds less, so both directions give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from traceanalyzer.comparison.sides import CompareOptions, Ledger, Named, mean_named
from traceanalyzer.comparison.summary import Summary

# Names that hold less of a side's kernel time do not show whether both sides do the same.
LEAST_MATCHED_SHARE = 0.5
# From this ratio of the quartiles on, kernels disagree on how much work there is.
WIDEST_WORK = 1.10
NARROW_WORK = 1.01


@dataclass(frozen=True)
class Alignment:
    """The unit of a comparison, and how many units each capture's window holds."""

    kind: str  # steps or work
    base_scales: tuple[Fraction, ...]  # one over the units in the window of each capture
    new_scales: tuple[Fraction, ...]
    matched_base: float | None  # share of a side's kernel time in names that the other side has; None: no kernels
    matched_new: float | None
    work_ratio: float | None = None  # work of a new window over that of a base window
    work_quartiles: tuple[float, float] | None = None
    problem: str | None = None  # why the windows cannot be aligned

    @property
    def confidence(self) -> str:
        """How well the unit is known: high, medium or low."""
        if self.kind == "steps":
            return "high"
        narrow = self.work_quartiles is not None and self.work_quartiles[1] <= NARROW_WORK * self.work_quartiles[0]
        return "medium" if narrow else "low"


def align(
    base: Sequence[Summary],
    new: Sequence[Summary],
    ledgers: tuple[Sequence[Ledger], Sequence[Ledger]],
    options: CompareOptions,
) -> Alignment:
    """Return the unit in which two sides are compared."""
    whole = [[Fraction(1)] * len(side) for side in (base, new)]
    # Launches in all windows, not per step: steps are what is in question.
    kernels = [
        mean_named([item.kernels for item in side], scales) for side, scales in zip((base, new), whole, strict=True)
    ]
    matched = [_matched_share(mine, other) for mine, other in (kernels, kernels[::-1])]
    has_steps = all(ledger.step_count for side in ledgers for ledger in side)
    if options.align == "steps" or (options.align == "auto" and has_steps):
        scales = [tuple(Fraction(1, max(ledger.step_count, 1)) for ledger in side) for side in ledgers]
        problem = None if has_steps else "a side has no steps"
        return Alignment("steps", scales[0], scales[1], matched[0], matched[1], problem=problem)
    return _align_by_work(base, new, kernels[0], kernels[1], (matched[0], matched[1]))


def _align_by_work(
    base: Sequence[Summary],
    new: Sequence[Summary],
    base_kernels: Mapping[str, Named],
    new_kernels: Mapping[str, Named],
    matched: tuple[float | None, float | None],
) -> Alignment:
    weights = {
        name: float(kernel.dur_ns + new_kernels[name].dur_ns)
        for name, kernel in base_kernels.items()
        if name in new_kernels and kernel.kind != "comm"
    }
    if not weights:
        ones = tuple((Fraction(1),) * len(side) for side in (base, new))
        nothing = "neither steps nor kernels of the same names are in the windows"
        return Alignment("work", ones[0], ones[1], *matched, problem=nothing)
    logs = {name: _log(new_kernels[name].launches) - _log(base_kernels[name].launches) for name in weights}
    low, high = (_quantile(logs, weights, share) for share in (0.25, 0.75))
    # Each capture's work, in units of what an average capture of both sides holds.
    common = {name: base_kernels[name].launches + new_kernels[name].launches for name in weights}
    work = [[_work(item, common, weights) for item in side] for side in (base, new)]
    base_work, new_work = (sum(side) / len(side) for side in work)
    unit = min(base_work, new_work)
    scales = [tuple(Fraction(unit / units) for units in side) for side in work]
    problem: str | None = None
    if math.exp(high - low) > WIDEST_WORK:
        spread = f"{math.exp(low):.2f} to {math.exp(high):.2f}"
        problem = f"kernels disagree on how much more work the new windows hold ({spread} times)"
    quartiles = math.exp(low), math.exp(high)
    return Alignment("work", scales[0], scales[1], *matched, new_work / base_work, quartiles, problem)


def _work(summary: Summary, common: Mapping[str, Fraction], weights: Mapping[str, float]) -> float:
    counts = {row.name: row.launch_count for row in summary.kernels.rows if row.name in common}
    logs = {name: math.log(count) - _log(common[name]) for name, count in counts.items()}
    return math.exp(_quantile(logs, {name: weights[name] for name in counts}, 0.5)) if counts else 1.0


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _quantile(values: Mapping[str, float], weights: Mapping[str, float], share: float) -> float:
    """Return a weighted quantile; where the weight ends between two neighbours, their mean: 1 − share mirrors it."""
    ordered = sorted(values, key=lambda name: (values[name], name))
    half = share * math.fsum(weights.values())
    reached = 0.0
    for at, name in enumerate(ordered):
        reached += weights[name]
        if math.isclose(reached, half, rel_tol=1e-9) and at + 1 < len(ordered):
            return (values[name] + values[ordered[at + 1]]) / 2
        if reached >= half:
            return values[name]
    return values[ordered[-1]]


def _matched_share(mine: Mapping[str, Named], other: Mapping[str, Named]) -> float | None:
    total = sum((kernel.dur_ns for kernel in mine.values()), Fraction(0))
    if not total:
        return None
    return float(sum((kernel.dur_ns for name, kernel in mine.items() if name in other), Fraction(0)) / total)
