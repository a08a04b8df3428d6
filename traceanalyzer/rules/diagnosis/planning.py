"""Puts the fixes of what fired in order, and says which findings that leaves to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from traceanalyzer.rules.diagnosis.allocation import find_refined, share_out, total_owned
from traceanalyzer.rules.diagnosis.firing import Evaluator
from traceanalyzer.rules.diagnosis.quality import lower_confidence
from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.removals import Device
from traceanalyzer.rules.evaluation.run_savings import Removals
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import FixOrder
from traceanalyzer.rules.fix_plan.joint import find_joint
from traceanalyzer.rules.fix_plan.latent import add_latent
from traceanalyzer.rules.fix_plan.leftovers import say_what_is_left
from traceanalyzer.rules.fix_plan.ordering import put_in_order
from traceanalyzer.rules.fix_plan.plan_context import Key, PlanContext, key_of
from traceanalyzer.rules.rule_file.model import FINDING, FIRED, Rule
from traceanalyzer.rules.rule_set.overriding import Overrides


@dataclass(frozen=True)
class Planned:
    """The findings to report, and the order of their fixes."""

    fired: Sequence[Verdict]  # quality, findings and latent findings, without those that a finer one replaces
    suppressed: Set[Key]
    refined: Mapping[Key, str]  # what a finer finding replaces, with the rule of that one
    owned: Mapping[Key, Mapping[str, int]]  # by bucket
    orders: Mapping[Place, FixOrder]


def plan_fixes(
    evaluator: Evaluator,
    context: PlanContext,
    overrides: Overrides,
    quality: Sequence[Verdict],
    verdicts: Sequence[Verdict],
) -> Planned:
    """Share the time out among what fired, drop what finer findings replace, and put the fixes in order.

    Where nothing that fired can be fixed alone, two limits may hold each other up. Fixes that matter only after those
    come last, and general ones say what finer ones leave.
    """
    con, run, values = evaluator.con, evaluator.run, evaluator.values
    timed = [verdict for verdict in verdicts if verdict.state == FIRED]
    suppressed = {key_of(v) for v in (*quality, *timed) if overrides.suppression(run, v) is not None}
    visible = [verdict for verdict in timed if key_of(verdict) not in suppressed]
    shares = share_out(con, run, timed, values)
    owned = total_owned(shares)
    refined = find_refined(visible, owned)
    orders = put_in_order(context, [verdict for verdict in visible if key_of(verdict) not in refined], owned)
    waiting = [verdict for verdict in verdicts if overrides.suppression(run, verdict) is None]

    def evaluate(rule: Rule, fixed: Removals, added: Mapping[Device, int] | None) -> Sequence[Verdict]:
        return lower_confidence(evaluator.evaluate(rule, fixed, added), quality)

    orders, joint = find_joint(context, waiting, orders, evaluate)
    orders, latent = add_latent(context, waiting, orders, evaluate)
    orders = say_what_is_left(
        context,
        orders,
        lambda rule, fixed, beside: lower_confidence(evaluator.evaluate_beside(rule, fixed, beside), quality),
    )
    warnings = [verdict for verdict in quality if verdict.state == FIRED]
    ordered = [_in_order(orders, verdict) for verdict in timed]
    fired = [verdict for verdict in (*warnings, *ordered, *joint, *latent) if key_of(verdict) not in refined]
    if joint or latent or refined:
        shares = share_out(con, run, [verdict for verdict in fired if verdict.rule.kind == FINDING], values)
    return Planned(fired, suppressed, refined, shares, orders)


def _in_order(orders: Mapping[Place, FixOrder], verdict: Verdict) -> Verdict:
    """Return the verdict as it stands in the order of fixes, where it may say less than by itself."""
    items = (item for order in orders.values() for item in order.items if item.rule == verdict.rule.id)
    return next((own for item in items for own in item.candidate.verdicts if own.place == verdict.place), verdict)
