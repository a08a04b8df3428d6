"""Puts the fixes of every place in order: of each device, or of a run whose ranks wait for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceanalyzer.diagnosis import Enabling, FixPlan, PlannedFix
from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import Candidate, FixOrder, SavingsOf, order_fixes
from traceanalyzer.rules.fix_plan.plan_context import Key, PlanContext


def put_in_order(context: PlanContext, fired: Sequence[Verdict], owned: Mapping[Key, int]) -> dict[Place, FixOrder]:
    """Return the order of fixes in each place that has one."""
    by_place: dict[Place, dict[str, list[Verdict]]] = {}
    for verdict in fired:
        if verdict.bound_ns is not None and (context.run_savings is not None or verdict.place.device is not None):
            by_place.setdefault(context.place_of(verdict), {}).setdefault(verdict.rule.id, []).append(verdict)
    orders = {}
    for place, by_rule in by_place.items():
        savings_of = context.savings_of(place)
        candidates = [_candidate(own, savings_of) for own in by_rule.values()]
        owned_ns = {rule: sum(owned.get((rule, verdict.place), 0) for verdict in own) for rule, own in by_rule.items()}
        orders[place] = order_fixes(savings_of, candidates, owned_ns)
    return orders


def _candidate(verdicts: Sequence[Verdict], savings_of: SavingsOf) -> Candidate:
    ranked = sorted(verdicts, key=lambda item: (-(item.bound_share or 0.0), item.place.trace or "", item.place.device))
    fix = Candidate(tuple(ranked), 0)
    return replace(fix, bound_ns=savings_of(fix.removals))


def plan_of(context: PlanContext, place: Place, order: FixOrder) -> FixPlan:
    """Return an order of fixes as a report shows it."""
    left_ns = context.window_ns(place)
    fixes = []
    for item in order.items:
        left_ns -= item.marginal_ns
        fixes.append(PlannedFix(item.rule, item.status, item.marginal_ns, left_ns, item.alternatives, item.after))
    floor_ns = context.floor_ns(place)
    enablers = tuple(
        Enabling(item.rules, item.alone_ns, item.together_ns)
        for item in order.combinations
        if item.enable and item.together_ns - sum(item.alone_ns) >= floor_ns
    )
    return FixPlan(
        trace=place.trace,
        rank=context.run.ranks.get(place.trace or ""),
        device=place.device,
        window_ns=context.window_ns(place),
        step_count=context.step_count(place),
        fixes=tuple(fixes),
        enablers=enablers,
    )
