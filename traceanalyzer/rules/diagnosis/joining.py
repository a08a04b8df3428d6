"""Joins ranks that hold up the others in turn into one finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import Candidate
from traceanalyzer.rules.fix_plan.plan_context import (
    PlanContext,
    Reevaluate,
    fired_after,
    group_by_rule,
    waiting_for_fixes,
)
from traceanalyzer.rules.rule_file.model import FIRED


def join_ranks(context: PlanContext, verdicts: Sequence[Verdict], evaluate: Reevaluate) -> list[Verdict]:
    """Return the verdicts; a clear one fires where its rank has a part in what fired on another rank.

    Ranks that hold up the others in turn save little one by one. Where a rule fired on one rank, its fix is due on
    every rank on which the rule would fire if that rank saved what the run saves by fixing all of them, as long as
    these ranks add to it. Each keeps its own bound, and the report merges them.
    """
    run_savings = context.run_savings
    if run_savings is None:
        return list(verdicts)
    in_turn: dict[str, set[Place]] = {}
    groups = []
    for rule, own in group_by_rule(verdicts).items():
        fired = [verdict for verdict in own if verdict.state == FIRED]
        clear = waiting_for_fixes(context, own)
        if fired and clear:
            groups.append((rule, fired, clear))
    after = fired_after(context, [[*fired, *clear] for _, fired, clear in groups], {}, evaluate)
    for (rule, fired, clear), of_rule in zip(groups, after, strict=True):
        places = {verdict.place for verdict in of_rule.get(Place(), ())}
        late = [verdict for verdict in clear if verdict.place in places]
        alone, with_late = (Candidate(tuple(ranks), 0).removals for ranks in (fired, [*fired, *late]))
        if late and run_savings.saved_ns(with_late) - run_savings.saved_ns(alone) >= context.floor_ns(Place()):
            in_turn[rule] = {verdict.place for verdict in (*fired, *late)}
    return [
        replace(verdict, state=FIRED, reason=None, detail=None, in_turn=True)
        if verdict.place in in_turn.get(verdict.rule.id, ())
        else verdict
        for verdict in verdicts
    ]
