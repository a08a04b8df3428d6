"""Measures what each rule's fix saves of the run, whose ranks wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.rules.diagnosis.firing import TOO_LITTLE
from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.pooled_savings import pooled_row
from traceanalyzer.rules.evaluation.verdicts import Verdict, severity_of
from traceanalyzer.rules.fix_plan.fix_order import Candidate
from traceanalyzer.rules.fix_plan.plan_context import SAME_SHARE, PlanContext, group_by_rule
from traceanalyzer.rules.rule_file.model import AUTO, CLEAR, DEVICE, FINDING, FIRED


def measure_run_savings(context: PlanContext, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return verdicts with what their rule's fix saves of the run; a fix that saves nothing of it makes them clear.

    A rank that only waits for others can be made faster without any gain.
    """
    run_savings = context.run_savings
    if run_savings is None:
        return list(verdicts)
    timed = group_by_rule(
        [item for item in verdicts if item.state == FIRED and item.rule.kind == FINDING and item.bound_ns is not None]
    )
    removals = {rule: Candidate(tuple(own), 0).removals for rule, own in timed.items() if own[0].rule.scope == DEVICE}
    run_savings.prepare(removals.values())
    saved = {rule: run_savings.saved_ns(removals[rule]) if rule in removals else None for rule in timed}
    open_ns = {rule: run_savings.open_ns(Candidate(tuple(own), 0).removals) for rule, own in timed.items()}
    worst = {rule: max(verdict.bound_share or 0.0 for verdict in own) for rule, own in timed.items()}
    pooled_rows = {
        rule: pooled_row(context.run, own, saved[rule] or 0) for rule, own in timed.items() if rule in removals
    }
    weighed = []
    timed_ids = {id(verdict) for own in timed.values() for verdict in own}
    for verdict in verdicts:
        if id(verdict) in timed_ids:
            run_ns = saved[verdict.rule.id]
            verdict = _weighed(context, verdict, verdict.bound_ns if run_ns is None else run_ns, worst[verdict.rule.id])
            verdict = replace(verdict, pooled=pooled_rows.get(verdict.rule.id, {}))
            if open_ns[verdict.rule.id]:
                verdict = replace(verdict, run_least_ns=max(0, (verdict.run_ns or 0) - open_ns[verdict.rule.id]))
        weighed.append(verdict)
    return weighed


def _hidden_by(context: PlanContext) -> str:
    return TOO_LITTLE if context.run.pooled else "hidden-by-other-ranks"


def _weighed(context: PlanContext, verdict: Verdict, run_ns: int | None, worst_share: float) -> Verdict:
    run_ns = run_ns or 0
    window_ns = context.window_ns(Place())
    share = run_ns / window_ns if window_ns else 0.0
    weighed = replace(verdict, run_ns=run_ns, run_share=share)
    if run_ns < context.floor_ns(Place()):
        own = verdict.bound_share or 0.0
        rest = "of all recordings" if context.run.pooled else "of the run: other ranks are what it waits for"
        detail = f"saves {own:.1%} here and {share:.1%} {rest}"
        return replace(weighed, state=CLEAR, reason=_hidden_by(context), detail=detail.replace("%", " %"))
    if verdict.rule.severity != AUTO:
        return weighed
    own = verdict.bound_share or 0.0
    is_like_worst = verdict.in_turn or own >= (1 - SAME_SHARE) * worst_share
    return replace(weighed, severity=severity_of(share if is_like_worst else min(share, own)))
