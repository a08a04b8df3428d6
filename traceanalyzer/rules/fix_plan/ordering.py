"""Puts the fixes of every scope in order: of each device, or of a run whose ranks wait for each other.

Of two limits that are as strong as each other, fixing one saves little, fixing both saves much. A general finding still
stands for the rest of its time behind a finer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from traceanalyzer.diagnosis import Enabling, FixPlan, PlannedFix
from traceanalyzer.rules.evaluation.interventions import Intervention
from traceanalyzer.rules.evaluation.run_savings import Interventions, joined
from traceanalyzer.rules.evaluation.scopes import Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict, severity_of
from traceanalyzer.rules.fix_plan.fix_order import (
    ALTERNATIVE,
    ALTERNATIVE_SHARE,
    LATENT,
    PRIMARY,
    Candidate,
    FixOrder,
    Key,
    Ordered,
    PlanContext,
    Reevaluate,
    SavingsOf,
    fired_after,
    fixes_of,
    group_by_rule,
    order_fixes,
    prepare_scans,
    saves_more,
    waiting_for_fixes,
)
from traceanalyzer.rules.rule_file.model import ABSTAINED, AUTO, Rule

# How often to ask again what matters once everything found so far is fixed.
LATENT_ROUNDS = 2


def add_latent(
    context: PlanContext, verdicts: Sequence[Verdict], orders: Mapping[Scope, FixOrder], evaluate: Reevaluate
) -> dict[Scope, FixOrder]:
    """Return the orders with their latent fixes appended."""
    extended = dict(orders)
    # A rule in an order already is fixed wherever it saves time.
    ordered = {(item.rule, scope) for scope, order in orders.items() for item in order.items}
    waiting = [
        item
        for item in waiting_for_fixes(context, verdicts)
        if (scope := context.scope_of(item)) in orders and (item.rule.id, scope) not in ordered
    ]
    for _ in range(LATENT_ROUNDS if orders else 0):
        done: Interventions = {}
        for order in extended.values():
            done = joined(done, fixes_of(order.items))
        candidates: dict[Scope, list[Ordered]] = {}
        if context.run_savings is None:
            prepare_scans(context, (_after(context, verdict, done) for verdict in waiting))
        for of_rule in fired_after(context, group_by_rule(waiting).values(), done, evaluate):
            for scope, fired in of_rule.items():
                candidates.setdefault(scope, []).append(_latent(context, scope, fired, extended[scope], done))
        # One a scope and round: the next round knows what this one adds.
        for scope, items in candidates.items():
            best = max(items, key=lambda item: (item.marginal_ns, item.rule))
            if best.marginal_ns < context.floor_ns(scope):
                continue
            extended[scope] = replace(extended[scope], items=(*extended[scope].items, best))
            keys = {(best.rule, verdict.scope) for verdict in best.candidate.verdicts}
            waiting = [item for item in waiting if (item.rule.id, item.scope) not in keys]
    return extended


def _is_needed(
    savings_of: SavingsOf, order: FixOrder, item: Ordered, interventions: Interventions, added_ns: int
) -> bool:
    """Return whether a fix saves less than half as much where one of those before it is left out."""
    others = fixes_of([other for other in order.items if other is not item])
    return 2 * (savings_of(joined(others, interventions)) - savings_of(others)) < added_ns


def _after(context: PlanContext, verdict: Verdict, done: Interventions) -> Interventions:
    device = context.run.key(verdict.scope)
    return {device: done.get(device, Intervention()).joined(verdict.interventions[device])}


def after_fixes(context: PlanContext, scope: Scope, fired: Sequence[Verdict], done: Interventions) -> Candidate:
    """Return the fix of one rule's verdicts, whose bound is what it adds to fixes that are made."""
    savings_of = context.savings_of(scope)
    fix = Candidate(tuple(sorted(fired, key=lambda item: -(item.bound_ns or 0))), 0)
    added_ns = max(0, savings_of(joined(done, fix.interventions)) - savings_of(done))
    if context.run_savings is not None:
        window_ns = context.window_ns(scope)
        share = added_ns / window_ns if window_ns else 0.0
        verdicts = context.pooled(fix.verdicts, added_ns)
        verdicts = [replace(verdict, run_ns=added_ns, run_share=share) for verdict in verdicts]
        verdicts = [replace(v, severity=severity_of(share)) if v.rule.severity == AUTO else v for v in verdicts]
        fix = replace(fix, verdicts=tuple(verdicts))
    return replace(fix, bound_ns=added_ns)


def _latent(
    context: PlanContext, scope: Scope, fired: Sequence[Verdict], order: FixOrder, done: Interventions
) -> Ordered:
    savings_of = context.savings_of(scope)
    fix = after_fixes(context, scope, fired, done)
    after = tuple(
        item.rule
        for item in order.items
        if item.status in (PRIMARY, LATENT) or _is_needed(savings_of, order, item, fix.interventions, fix.bound_ns)
    )
    return Ordered(fix, len(order.items) + 1, fix.bound_ns, status=LATENT, after=after)


# Two limits are named where removing both saves this share of the window: less is seldom worth two fixes.
JOINT_SHARE = 0.1


def find_joint(
    context: PlanContext, verdicts: Sequence[Verdict], orders: Mapping[Scope, FixOrder], evaluate: Reevaluate
) -> dict[Scope, FixOrder]:
    """Return the orders of the scopes where two fixes save much together that nothing else saves.

    The first is the fix without which all others save least; the second adds most to it. Each fires where the other
    counts as made, and is latent after it. A pair that saves more than the whole order goes ahead of it, else behind.
    """
    waiting: dict[Scope, dict[str, list[Verdict]]] = {}
    for verdict in waiting_for_fixes(context, verdicts):
        waiting.setdefault(context.scope_of(verdict), {}).setdefault(verdict.rule.id, []).append(verdict)
    ahead, behind = (FiredAfter(context, waiting, done, evaluate) for done in ({}, orders))
    found = {}
    for scope, own in waiting.items():
        order = orders.get(scope, FixOrder())
        done = fixes_of(order.items)
        savings_of, floor_ns = context.savings_of(scope), JOINT_SHARE * context.window_ns(scope)
        done_ns = savings_of(done)
        if savings_of(joined(done, *map(_interventions, own.values()))) - done_ns < floor_ns:
            continue
        pair = _pair(context, scope, FixOrder(), own, ahead)
        if pair is not None and (not order.items or savings_of(fixes_of(pair)) >= done_ns + floor_ns):
            found[scope] = _behind(savings_of, pair, [item for item in order.items if item.status != LATENT])
            continue
        latent = {item.rule for item in order.items if item.status == LATENT}
        rest = {rule: of_rule for rule, of_rule in own.items() if rule not in latent}
        pair = _pair(context, scope, order, rest, behind) if order.items else None
        if pair is not None:
            found[scope] = replace(order, items=(*order.items, *pair))
    return found


class FiredAfter:
    """Which verdicts of a rule fire in a scope once those of another rule, and the fixes of an order, are made.

    Devices that do not wait for each other are asked together, and once: a rule is evaluated for all of them anyway.
    """

    def __init__(
        self,
        context: PlanContext,
        waiting: Mapping[Scope, Mapping[str, Sequence[Verdict]]],
        orders: Mapping[Scope, FixOrder],
        evaluate: Reevaluate,
    ) -> None:
        """Take the clear verdicts of each scope, by rule, and the order of fixes that count as made there."""
        self._context, self._waiting, self._orders, self._evaluate = context, waiting, orders, evaluate
        self._known: dict[tuple[str, str], dict[Scope, list[Verdict]]] = {}

    def __call__(self, scope: Scope, rule: str, made: Sequence[Verdict]) -> list[Verdict]:
        """Return what fires of a rule where the fixes of these verdicts of another rule are made."""
        if self._context.run_savings is not None:
            return self._fired(rule, {scope: made}).get(scope, [])
        other = made[0].rule.id
        if (rule, other) not in self._known:
            fixes = {at: own[other] for at, own in self._waiting.items() if rule in own and other in own}
            self._known[rule, other] = self._fired(rule, fixes)
        return self._known[rule, other].get(scope, [])

    def _fired(self, rule: str, made: Mapping[Scope, Sequence[Verdict]]) -> dict[Scope, list[Verdict]]:
        done = joined(*(fixes_of(self._orders[scope].items) for scope in made if scope in self._orders))
        done = joined(done, *map(_interventions, made.values()))
        waiting = [verdict for scope in made for verdict in self._waiting[scope][rule]]
        if self._context.run_savings is None:
            prepare_scans(self._context, (_after(self._context, verdict, done) for verdict in waiting))
            waiting = [verdict for verdict in waiting if saves_more(self._context, verdict, done)]
        (fired,) = fired_after(self._context, [waiting], done, self._evaluate) if waiting else ({},)
        return fired


def _behind(savings_of: SavingsOf, pair: Sequence[Ordered], rest: Sequence[Ordered]) -> FixOrder:
    """Return an order in which a pair goes ahead of other fixes, which say what they add to it or who covers them."""

    def added_ns(item: Ordered, before: Interventions) -> int:
        return savings_of(joined(before, item.candidate.interventions)) - savings_of(before)

    items = list(pair)
    for item in rest:
        little_ns = ALTERNATIVE_SHARE * item.candidate.bound_ns
        marginal_ns = added_ns(item, fixes_of(items))
        placed = replace(item, order=len(items) + 1, marginal_ns=marginal_ns)
        if marginal_ns <= little_ns:
            others = [one.rule for one in pair if added_ns(item, one.candidate.interventions) <= little_ns]
            placed = replace(placed, status=ALTERNATIVE, alternatives=tuple(others or [pair[0].rule]))
        items.append(placed)
    return FixOrder(tuple(items))


def _pair(
    context: PlanContext, scope: Scope, order: FixOrder, groups: Mapping[str, Sequence[Verdict]], fired: FiredAfter
) -> tuple[Ordered, Ordered] | None:
    """Return two fixes that save much together once an order's fixes are made, and each alone little.

    What a fix takes away is left out of all others, too: several rules may claim one cause.
    """
    savings_of, floor_ns = context.savings_of(scope), JOINT_SHARE * context.window_ns(scope)
    done = fixes_of(order.items)
    interventions = {rule: _interventions(own) for rule, own in groups.items()}
    whole = joined(*interventions.values())
    without = {
        rule: joined(done, {device: item.without(own.get(device)) for device, item in whole.items()})
        for rule, own in interventions.items()
    }
    prepare_scans(context, without.values())
    together_ns, done_ns = savings_of(joined(done, whole)), savings_of(done)
    needed_ns = {rule: together_ns - savings_of(others) for rule, others in without.items()}
    if max(needed_ns.values()) < floor_ns:
        return None
    alone = {rule: joined(done, own) for rule, own in interventions.items()}
    prepare_scans(context, alone.values())
    alone_ns = {rule: savings_of(own) - done_ns for rule, own in alone.items()}
    for first in sorted(needed_ns, key=lambda rule: (-needed_ns[rule], rule)):
        if needed_ns[first] < floor_ns:
            break
        both = {rule: joined(alone[first], own) for rule, own in interventions.items()}
        prepare_scans(context, both.values())
        added_ns = {rule: savings_of(fixes) - done_ns - alone_ns[first] for rule, fixes in both.items()}
        for second in sorted(added_ns, key=lambda rule: (-added_ns[rule], rule)):
            if added_ns[second] - alone_ns[second] >= floor_ns:
                pair = _fired_together(context, scope, order, groups[first], groups[second], fired)
                if pair is not None:
                    return pair
    return None


def _fired_together(
    context: PlanContext,
    scope: Scope,
    order: FixOrder,
    first: Sequence[Verdict],
    second: Sequence[Verdict],
    fired: FiredAfter,
) -> tuple[Ordered, Ordered] | None:
    """Return the fixes of two rules, if each rule fires once the other's fix and those of an order are made."""
    done = fixes_of(order.items)
    later = fired(scope, second[0].rule.id, first)
    earlier = fired(scope, first[0].rule.id, later) if later else []
    if not earlier:
        return None
    one = after_fixes(context, scope, earlier, joined(done, _interventions(later)))
    other = after_fixes(context, scope, later, joined(done, one.interventions))
    savings_of, at = context.savings_of(scope), len(order.items)
    alone_ns = savings_of(joined(done, one.interventions)) - savings_of(done)
    before = tuple(item.rule for item in order.items if item.status in (PRIMARY, LATENT))
    return (
        Ordered(one, at + 1, alone_ns, status=LATENT, after=(*before, other.rule.id)),
        Ordered(other, at + 2, other.bound_ns, status=LATENT, after=(*before, one.rule.id)),
    )


def _interventions(verdicts: Iterable[Verdict]) -> Interventions:
    return joined(*(verdict.interventions for verdict in verdicts))


_SHARES = ("claimed_share", "bound_share")
# Evaluates a rule as if fixes were made before it, without the time that other rules (by id) claim.
EvaluateBeside = Callable[[Rule, Interventions, Sequence[str]], Sequence[Verdict]]


def say_what_is_left(
    context: PlanContext, orders: Mapping[Scope, FixOrder], evaluate: EvaluateBeside
) -> dict[Scope, FixOrder]:
    """Return the orders in which a general fix behind one that refines it has the verdict on the rest.

    Only where its message says how much time it claims, or saves: other messages do not change with the rest. An
    alternative that would add nothing keeps its own verdict: it is another way to the same time.
    """
    extended = {}
    for scope, order in orders.items():
        items: list[Ordered] = []
        for item in order.items:
            rule = item.candidate.rule
            finer = [other for other in items if other.status == PRIMARY and rule.id in other.candidate.rule.refines]
            is_said = item.status != LATENT and any(share in rule.message for share in _SHARES)
            is_said &= item.marginal_ns >= context.floor_ns(scope)
            has_rest = is_said and finer and _same_scopes(item, finer)
            items.append(_rest(context, scope, item, finer, evaluate) if has_rest else item)
        extended[scope] = replace(order, items=tuple(items))
    return extended


def _same_scopes(item: Ordered, finer: Sequence[Ordered]) -> bool:
    """Return whether finer fixes are made wherever the general one is."""
    refined = [verdict.scope for other in finer for verdict in other.candidate.verdicts]
    return all(any(scope.covers(verdict.scope) for scope in refined) for verdict in item.candidate.verdicts)


def _rest(
    context: PlanContext, scope: Scope, item: Ordered, finer: Sequence[Ordered], evaluate: EvaluateBeside
) -> Ordered:
    """Return the fix with verdicts on what the finer ones leave."""
    rule = item.candidate.rule
    before = tuple(other.rule for other in finer)
    by_scope = {verdict.scope: verdict for verdict in evaluate(rule, fixes_of(finer), before)}
    left = [by_scope.get(verdict.scope, verdict) for verdict in item.candidate.verdicts]
    if any(verdict.state == ABSTAINED or verdict.bound_ns is None for verdict in left):
        return item
    verdicts = [
        replace(old, row=new.row, severity=new.severity, confidence=new.confidence, sure_share=None, uncertainty=None)
        for old, new in zip(item.candidate.verdicts, left, strict=True)
    ]
    if context.run_savings is not None:
        window_ns = context.window_ns(scope)
        share = max(0, item.marginal_ns) / window_ns if window_ns else 0.0
        severity = severity_of(share) if rule.severity == AUTO else None
        verdicts = [
            replace(verdict, run_ns=item.marginal_ns, run_share=share, severity=severity or verdict.severity)
            for verdict in context.pooled(verdicts, item.marginal_ns)
        ]
    return replace(item, candidate=replace(item.candidate, verdicts=tuple(verdicts)), after=before)


def put_in_order(context: PlanContext, fired: Sequence[Verdict], owned: Mapping[Key, int]) -> dict[Scope, FixOrder]:
    """Return the order of fixes in each scope that has one."""
    by_scope: dict[Scope, dict[str, list[Verdict]]] = {}
    for verdict in fired:
        if verdict.bound_ns is not None and (context.run_savings is not None or verdict.scope.device is not None):
            by_scope.setdefault(context.scope_of(verdict), {}).setdefault(verdict.rule.id, []).append(verdict)
    orders = {}
    for scope, by_rule in by_scope.items():
        savings_of = context.savings_of(scope)
        candidates = [_candidate(own, savings_of) for own in by_rule.values()]
        owned_ns = {rule: sum(owned.get((rule, verdict.scope), 0) for verdict in own) for rule, own in by_rule.items()}
        orders[scope] = order_fixes(savings_of, candidates, owned_ns)
    return orders


def _candidate(verdicts: Sequence[Verdict], savings_of: SavingsOf) -> Candidate:
    ranked = sorted(verdicts, key=lambda item: (-(item.bound_share or 0.0), item.scope.trace or "", item.scope.device))
    fix = Candidate(tuple(ranked), 0)
    return replace(fix, bound_ns=savings_of(fix.interventions))


def plan_of(context: PlanContext, scope: Scope, order: FixOrder) -> FixPlan:
    """Return an order of fixes as a report shows it."""
    left_ns = context.window_ns(scope)
    fixes = []
    for item in order.items:
        left_ns -= item.marginal_ns
        fixes.append(PlannedFix(item.rule, item.status, item.marginal_ns, left_ns, item.alternatives, item.after))
    floor_ns = context.floor_ns(scope)
    enablers = tuple(
        Enabling(item.rules, item.alone_ns, item.together_ns)
        for item in order.combinations
        if item.enable and item.together_ns - sum(item.alone_ns) >= floor_ns
    )
    return FixPlan(
        trace=scope.trace,
        rank=context.run.ranks.get(scope.trace or ""),
        device=scope.device,
        window_ns=context.window_ns(scope),
        step_count=context.step_count(scope),
        fixes=tuple(fixes),
        enablers=enablers,
    )
