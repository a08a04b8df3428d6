"""What a general finding still stands for behind a finer one: the rest of its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.run_savings import Removals
from traceanalyzer.rules.evaluation.verdicts import Verdict, severity_of
from traceanalyzer.rules.fix_plan.fix_order import LATENT, PRIMARY, FixOrder, Ordered, fixes_of
from traceanalyzer.rules.fix_plan.plan_context import PlanContext
from traceanalyzer.rules.rule_file.model import ABSTAINED, AUTO, Rule

# Evaluates a rule as if fixes were made before it, without the time that other rules (by id) claim.
EvaluateBeside = Callable[[Rule, Removals, Sequence[str]], Sequence[Verdict]]


def say_what_is_left(
    context: PlanContext, orders: Mapping[Place, FixOrder], evaluate: EvaluateBeside
) -> dict[Place, FixOrder]:
    """Return the orders in which a general fix behind one that refines it has the verdict on the rest.

    Only where its message says how much time it claims: other messages do not change with the rest. An alternative
    that would add nothing keeps its own verdict: it is another way to the same time.
    """
    extended = {}
    for place, order in orders.items():
        items: list[Ordered] = []
        for item in order.items:
            rule = item.candidate.rule
            finer = [other for other in items if other.status == PRIMARY and rule.id in other.candidate.rule.refines]
            is_said = item.status != LATENT and "claimed_share" in rule.message
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
