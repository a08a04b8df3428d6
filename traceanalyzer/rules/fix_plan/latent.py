"""Finds fixes that save nothing now and matter once the fixes before them are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.removals import Removal
from traceanalyzer.rules.evaluation.run_savings import Removals, joined
from traceanalyzer.rules.evaluation.verdicts import Verdict, severity_of
from traceanalyzer.rules.fix_plan.fix_order import LATENT, PRIMARY, Candidate, FixOrder, Ordered, SavingsOf, fixes_of
from traceanalyzer.rules.fix_plan.plan_context import (
    PlanContext,
    Reevaluate,
    fired_after,
    group_by_rule,
    prepare_scans,
    waiting_for_fixes,
)
from traceanalyzer.rules.rule_file.model import AUTO

# How often to ask again what matters once everything found so far is fixed.
LATENT_ROUNDS = 2


def add_latent(
    context: PlanContext, verdicts: Sequence[Verdict], orders: Mapping[Place, FixOrder], evaluate: Reevaluate
) -> tuple[dict[Place, FixOrder], list[Verdict]]:
    """Return the orders with their latent fixes appended, and the verdicts of these fixes."""
    extended = dict(orders)
    # A rule in an order already is fixed wherever it saves time.
    ordered = {(item.rule, place) for place, order in orders.items() for item in order.items}
    waiting = [
        item
        for item in waiting_for_fixes(context, verdicts)
        if (place := context.place_of(item)) in orders and (item.rule.id, place) not in ordered
    ]
    latent: list[Verdict] = []
    for _ in range(LATENT_ROUNDS if orders else 0):
        done: Removals = {}
        for order in extended.values():
            done = joined(done, fixes_of(order.items))
        candidates: dict[Place, list[Ordered]] = {}
        if context.run_savings is None:
            prepare_scans(context, (_after(context, verdict, done) for verdict in waiting))
        for of_rule in fired_after(context, group_by_rule(waiting).values(), done, evaluate):
            for place, fired in of_rule.items():
                candidates.setdefault(place, []).append(_latent(context, place, fired, extended[place], done))
        # One a place and round: the next round knows what this one adds.
        for place, items in candidates.items():
            best = max(items, key=lambda item: (item.marginal_ns, item.rule))
            if best.marginal_ns < context.floor_ns(place):
                continue
            extended[place] = replace(extended[place], items=(*extended[place].items, best))
            keys = {(best.rule, verdict.place) for verdict in best.candidate.verdicts}
            waiting = [item for item in waiting if (item.rule.id, item.place) not in keys]
            latent += best.candidate.verdicts
    return extended, latent


def _is_needed(savings_of: SavingsOf, order: FixOrder, item: Ordered, removals: Removals, added_ns: int) -> bool:
    """Return whether a fix saves less than half as much where one of those before it is left out."""
    others = fixes_of([other for other in order.items if other is not item])
    return 2 * (savings_of(joined(others, removals)) - savings_of(others)) < added_ns


def _after(context: PlanContext, verdict: Verdict, done: Removals) -> Removals:
    device = context.run.key(verdict.place)
    return {device: done.get(device, Removal()).joined(verdict.removals[device])}


def after_fixes(context: PlanContext, place: Place, fired: Sequence[Verdict], done: Removals) -> Candidate:
    """Return the fix of one rule's verdicts, whose bound is what it adds to fixes that are made."""
    savings_of = context.savings_of(place)
    fix = Candidate(tuple(sorted(fired, key=lambda item: -(item.bound_ns or 0))), 0)
    added_ns = max(0, savings_of(joined(done, fix.removals)) - savings_of(done))
    if context.run_savings is not None:
        window_ns = context.window_ns(place)
        share = added_ns / window_ns if window_ns else 0.0
        verdicts = context.pooled(fix.verdicts, added_ns)
        verdicts = [replace(verdict, run_ns=added_ns, run_share=share) for verdict in verdicts]
        verdicts = [replace(v, severity=severity_of(share)) if v.rule.severity == AUTO else v for v in verdicts]
        fix = replace(fix, verdicts=tuple(verdicts))
    return replace(fix, bound_ns=added_ns)


def _latent(context: PlanContext, place: Place, fired: Sequence[Verdict], order: FixOrder, done: Removals) -> Ordered:
    savings_of = context.savings_of(place)
    fix = after_fixes(context, place, fired, done)
    after = tuple(
        item.rule
        for item in order.items
        if item.status in (PRIMARY, LATENT) or _is_needed(savings_of, order, item, fix.removals, fix.bound_ns)
    )
    return Ordered(fix, len(order.items) + 1, fix.bound_ns, status=LATENT, after=after)
