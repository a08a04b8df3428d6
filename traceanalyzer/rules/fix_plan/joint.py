"""Finds two limits that are as strong as each other: fixing one saves little, fixing both saves much.

Finds fixes that save nothing now and matter once the fixes before them are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


# Two limits are named where removing both saves this share of the window: less is seldom worth two fixes.
JOINT_SHARE = 0.1


def find_joint(
    context: PlanContext, verdicts: Sequence[Verdict], orders: Mapping[Place, FixOrder], evaluate: Reevaluate
) -> tuple[dict[Place, FixOrder], list[Verdict]]:
    """Return an order of two fixes for each place that has none and where both together save much, and their verdicts.

    The first is the fix without which all others save least; the second adds most to it. Each fires where the other
    counts as made, and is latent after it.
    """
    waiting: dict[Place, list[Verdict]] = {}
    for verdict in waiting_for_fixes(context, verdicts):
        waiting.setdefault(context.place_of(verdict), []).append(verdict)
    found, fired = dict(orders), []
    for place, own in waiting.items():
        first = None if place in orders else _most_needed(context, place, own)
        pair = None if first is None else _pair(context, place, first, own, evaluate)
        if pair is not None:
            found[place] = FixOrder(pair)
            fired += [verdict for item in pair for verdict in item.candidate.verdicts]
    return found, fired


def _most_needed(context: PlanContext, place: Place, waiting: Sequence[Verdict]) -> str | None:
    """Return the rule whose fix all other fixes need most; None: all fixes together save little."""
    removals = {rule: _removals(own) for rule, own in group_by_rule(waiting).items()}
    savings_of, floor_ns = context.savings_of(place), JOINT_SHARE * context.window_ns(place)
    together_ns = savings_of(joined(*removals.values()))
    if together_ns < floor_ns:
        return None
    without = {rule: joined(*(own for other, own in removals.items() if other != rule)) for rule in removals}
    prepare_scans(context, without.values())
    needed_ns = {rule: together_ns - savings_of(others) for rule, others in without.items()}
    first = max(needed_ns, key=lambda rule: (needed_ns[rule], rule))
    return first if needed_ns[first] >= floor_ns else None


def _pair(
    context: PlanContext, place: Place, first: str, waiting: Sequence[Verdict], evaluate: Reevaluate
) -> tuple[Ordered, Ordered] | None:
    """Return a fix and the one that adds most to it, if both fire once the other is made."""
    savings_of = context.savings_of(place)
    groups = group_by_rule(waiting)
    of_first = groups.pop(first)
    removals = _removals(of_first)
    alone_ns = savings_of(removals)
    prepare_scans(context, [joined(removals, _removals(own)) for own in groups.values()])
    added_ns = {rule: savings_of(joined(removals, _removals(own))) - alone_ns for rule, own in groups.items()}
    for second in sorted(added_ns, key=lambda rule: (-added_ns[rule], rule)):
        if alone_ns + added_ns[second] < JOINT_SHARE * context.window_ns(place):
            break
        (fired,) = fired_after(context, [groups[second]], removals, evaluate)
        later = fired.get(place, [])
        if not later:
            continue
        (fired,) = fired_after(context, [of_first], _removals(later), evaluate)
        earlier = fired.get(place)
        if earlier:
            one = after_fixes(context, place, earlier, _removals(later))
            other = after_fixes(context, place, later, one.removals)
            return (
                Ordered(one, 1, savings_of(one.removals), status=LATENT, after=(second,)),
                Ordered(other, 2, other.bound_ns, status=LATENT, after=(first,)),
            )
    return None


def _removals(verdicts: Iterable[Verdict]) -> Removals:
    return joined(*(verdict.removals for verdict in verdicts))
