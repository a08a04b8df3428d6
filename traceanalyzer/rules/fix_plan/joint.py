"""Finds two limits that are as strong as each other: fixing one saves little, fixing both saves much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.run_savings import Removals, joined
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import LATENT, FixOrder, Ordered
from traceanalyzer.rules.fix_plan.latent import after_fixes
from traceanalyzer.rules.fix_plan.plan_context import (
    PlanContext,
    Reevaluate,
    fired_after,
    group_by_rule,
    prepare_scans,
    waiting_for_fixes,
)

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
