"""Measures how much of a saving is sure, whatever the trace leaves open; where it is little, confidence falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.attribution.lead_scan.scan import LOADER_WORKERS, UNCERTAINTIES
from traceanalyzer.rules.evaluation.confidence import Confidence, least
from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.pooled_savings import PooledSavings
from traceanalyzer.rules.evaluation.removals import RememberedScan
from traceanalyzer.rules.evaluation.run_savings import Removals, RunSavings
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import Candidate
from traceanalyzer.rules.fix_plan.plan_context import PlanContext
from traceanalyzer.rules.rule_file.model import FINDING, FIRED

if TYPE_CHECKING:
    from traceanalyzer.attribution import Bounds

# Below this share of sure saving, the saving rests on what the trace leaves open.
_SURE_SHARE = 0.5


@dataclass(frozen=True)
class _LowerBound:
    """What a fix saves at least, as a share of the window, and which uncertainty takes most of the rest."""

    share: float
    uncertainty: str
    is_little: bool


def with_lower_bounds(context: PlanContext, bounds: Bounds, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts; one that may save noticeably less has a lower bound, and less confidence if that is little.

    Loader workers that never delayed a batch are assumed to keep up.
    """
    uncertainties = [item for item in UNCERTAINTIES if item != LOADER_WORKERS or bounds.waits_for_workers]
    contexts = {
        uncertainty: _measured_by(context, at_least)
        for uncertainty, at_least in bounds.lower_bounds(uncertainties).items()
    }
    if not contexts:
        return list(verdicts)
    by_fix: dict[tuple[Place, str], list[Verdict]] = {}
    for verdict in verdicts:
        if _has_saving(context, verdict):
            by_fix.setdefault((context.place_of(verdict), verdict.rule.id), []).append(verdict)
    lower_bounds: dict[int, _LowerBound] = {}
    for (place, _), own in by_fix.items():
        removals = Candidate(tuple(own), 0).removals
        most_ns = left_ns = context.savings_of(place)(removals)
        falls = {}
        for uncertainty, at_least_context in contexts.items():
            least_ns = min(left_ns, _at_least(at_least_context, place, removals))
            falls[uncertainty], left_ns = left_ns - least_ns, least_ns
        is_little = left_ns < _SURE_SHARE * most_ns
        if is_little or most_ns - left_ns >= context.min_impact_share * context.window_ns(place):
            lower = _LowerBound(left_ns / context.window_ns(place), max(falls, key=falls.__getitem__), is_little)
            lower_bounds |= {id(verdict): lower for verdict in own}
    return [_with(context, item, lower_bounds[id(item)]) if id(item) in lower_bounds else item for item in verdicts]


def _measured_by(context: PlanContext, bounds: Bounds) -> PlanContext:
    """Return the context with other bounds: of devices, and of the run or the pooled recordings, as it has them."""
    scan = RememberedScan(bounds)
    of_run: RunSavings | PooledSavings | None = None
    if isinstance(context.run_savings, PooledSavings):
        of_run = PooledSavings(context.run, scan)
    elif context.run_savings is not None:
        of_run = RunSavings(bounds)
    return replace(context, scan=scan, run_savings=of_run)


def _at_least(context: PlanContext, place: Place, removals: Removals) -> int:
    saved_ns = context.savings_of(place)(removals)
    return saved_ns if context.run_savings is None else max(0, saved_ns - context.run_savings.open_ns(removals))


def _has_saving(context: PlanContext, verdict: Verdict) -> bool:
    is_timed = verdict.state == FIRED and verdict.rule.kind == FINDING and verdict.bound_ns is not None
    return is_timed and (context.run_savings is not None or verdict.place.device is not None)


def _with(context: PlanContext, verdict: Verdict, lower: _LowerBound) -> Verdict:
    bounded = replace(verdict, sure_share=lower.share, uncertainty=lower.uncertainty)
    if not lower.is_little:
        return bounded
    most = "medium" if lower.share >= context.min_impact_share else "low"
    little = Confidence(most, f"{100 * lower.share:.1f} % is sure")
    return replace(bounded, confidence=least([little, verdict.confidence]))
