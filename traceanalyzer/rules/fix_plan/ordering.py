"""Puts the fixes of every place in order: of each device, or of a run whose ranks wait for each other.

What a general finding still stands for behind a finer one: the rest of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from traceanalyzer.diagnosis import Enabling, FixPlan, PlannedFix
from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.run_savings import Removals
from traceanalyzer.rules.evaluation.verdicts import Verdict, severity_of
from traceanalyzer.rules.fix_plan.fix_order import (
    LATENT,
    PRIMARY,
    Candidate,
    FixOrder,
    Ordered,
    SavingsOf,
    fixes_of,
    order_fixes,
)
from traceanalyzer.rules.fix_plan.plan_context import Key, PlanContext
from traceanalyzer.rules.rule_file.model import ABSTAINED, AUTO, Rule

_SHARES = ("claimed_share", "bound_share")
# Evaluates a rule as if fixes were made before it, without the time that other rules (by id) claim.
EvaluateBeside = Callable[[Rule, Removals, Sequence[str]], Sequence[Verdict]]


def say_what_is_left(
    context: PlanContext, orders: Mapping[Place, FixOrder], evaluate: EvaluateBeside
) -> dict[Place, FixOrder]:
    """Return the orders in which a general fix behind one that refines it has the verdict on the rest.

    Only where its message says how much time it claims, or saves: other messages do not change with the rest. An
    alternative that would add nothing keeps its own verdict: it is another way to the same time.
    """
    extended = {}
    for place, order in orders.items():
        items: list[Ordered] = []
        for item in order.items:
            rule = item.candidate.rule
            finer = [other for other in items if other.status == PRIMARY and rule.id in other.candidate.rule.refines]
            is_said = item.status != LATENT and any(share in rule.message for share in _SHARES)
            is_said &= item.marginal_ns >= context.floor_ns(place)
            has_rest = is_said and finer and _same_places(item, finer)
            items.append(_rest(context, place, item, finer, evaluate) if has_rest else item)
        extended[place] = replace(order, items=tuple(items))
    return extended


def _same_places(item: Ordered, finer: Sequence[Ordered]) -> bool:
    """Return whether finer fixes are made wherever the general one is."""
    refined = [verdict.place for other in finer for verdict in other.candidate.verdicts]
    return all(any(place.covers(verdict.place) for place in refined) for verdict in item.candidate.verdicts)


def _rest(
    context: PlanContext, place: Place, item: Ordered, finer: Sequence[Ordered], evaluate: EvaluateBeside
) -> Ordered:
    """Return the fix with verdicts on what the finer ones leave."""
    rule = item.candidate.rule
    before = tuple(other.rule for other in finer)
    by_place = {verdict.place: verdict for verdict in evaluate(rule, fixes_of(finer), before)}
    left = [by_place.get(verdict.place, verdict) for verdict in item.candidate.verdicts]
    if any(verdict.state == ABSTAINED or verdict.bound_ns is None for verdict in left):
        return item
    verdicts = [
        replace(old, row=new.row, severity=new.severity, confidence=new.confidence, sure_share=None, uncertainty=None)
        for old, new in zip(item.candidate.verdicts, left, strict=True)
    ]
    if context.run_savings is not None:
        window_ns = context.window_ns(place)
        share = max(0, item.marginal_ns) / window_ns if window_ns else 0.0
        severity = severity_of(share) if rule.severity == AUTO else None
        verdicts = [
            replace(verdict, run_ns=item.marginal_ns, run_share=share, severity=severity or verdict.severity)
            for verdict in context.pooled(verdicts, item.marginal_ns)
        ]
    return replace(item, candidate=replace(item.candidate, verdicts=tuple(verdicts)), after=before)


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
