"""Diagnoses a run in passes, each of which takes what those before it return.

1. quality: judge how far to trust the traces (`judge_quality`).
2. fire: evaluate every rule by itself (`fire`), and let those about time abstain where a blocker fired
   (`abstain_where_blocked`).
3. join: let ranks that hold up the others in turn be one finding (`join_ranks`).
4. weigh: measure what each fix saves of the run (`measure_run_savings`), and let those be clear that save nothing of a
   program with several devices (`clear_behind_other_devices`).
5. what is sure: lower the confidence by the trace's quality (`lower_confidence`), and by what the trace leaves open
   (`with_lower_bounds`).
6. order: share the time out among findings (`share_out`), drop those that a finer one replaces (`find_refined`), put
   the fixes in order (`put_in_order`), append those that matter only after them (`add_latent`), and let general
   ones say what finer ones leave (`say_what_is_left`).
7. explain: attach explanations to what fired (`attach_explanations`).
8. report: build the diagnosis (`build_diagnosis`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb

from traceanalyzer import attribution
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.rules.diagnosis.allocation import find_refined, share_out, total_owned
from traceanalyzer.rules.diagnosis.attaching import attach_explanations
from traceanalyzer.rules.diagnosis.firing import MIN_IMPACT_SHARE, Evaluator, fire
from traceanalyzer.rules.diagnosis.joining import join_ranks
from traceanalyzer.rules.diagnosis.opening import Opening, check_ranks
from traceanalyzer.rules.diagnosis.quality import abstain_where_blocked, judge_quality, lower_confidence, run_blocker
from traceanalyzer.rules.diagnosis.reporting import Results, build_diagnosis
from traceanalyzer.rules.diagnosis.sharing import clear_behind_other_devices
from traceanalyzer.rules.diagnosis.sure_savings import with_lower_bounds
from traceanalyzer.rules.diagnosis.weighing import measure_run_savings
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.places import Place, read_places
from traceanalyzer.rules.evaluation.removals import RememberedScan
from traceanalyzer.rules.evaluation.run_savings import RunSavings
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.evaluation.workspace import lock_workspace
from traceanalyzer.rules.fix_plan.fix_order import FixOrder
from traceanalyzer.rules.fix_plan.latent import add_latent
from traceanalyzer.rules.fix_plan.leftovers import say_what_is_left
from traceanalyzer.rules.fix_plan.ordering import put_in_order
from traceanalyzer.rules.fix_plan.plan_context import PlanContext, key_of
from traceanalyzer.rules.rule_file.model import FINDING, FIRED, ParamValue, Rule
from traceanalyzer.rules.rule_set.loading import check_settings
from traceanalyzer.rules.rule_set.overriding import Overrides
from traceanalyzer.settings.settings import NO_SETTINGS, Settings

ALL_OR_USUAL = Opening()


@sandbox.total_time()
def diagnose(
    con: duckdb.DuckDBPyConnection,
    rules: Sequence[Rule],
    params: Mapping[str, ParamValue] | None = None,
    run_name: str = "",
    min_impact_share: float = MIN_IMPACT_SHARE,
    *,
    project: Settings = NO_SETTINGS,
    opening: Opening = ALL_OR_USUAL,
) -> Diagnosis:
    """Return the diagnosis of the run behind a connection of the engine.

    `params` overrides parameters by 'rule.param', and wins over the `project`'s settings. `opening` says which ranks
    evidence is quoted from. The connection can read the run's tables and nothing else afterwards: rules may come from
    anybody.
    """
    overrides = Overrides(project, params)
    # Settings of a rule that is switched off have to fit it, too.
    settings = check_settings(rules, overrides.merged_params())
    rules = overrides.enabled(rules)
    values = {rule.id: rule.values(settings.get(rule.id)) for rule in rules}
    bounds = attribution.Bounds.load(con)
    lock_workspace(con)
    run = read_places(con)
    check_ranks(opening, run.ranks)
    scan = RememberedScan(bounds)
    evaluator = Evaluator(con, run, scan, RunSavings(bounds), values, min_impact_share)
    evaluator.prepare(rules)

    quality = judge_quality(evaluator, rules)
    run_savings = RunSavings(bounds, run_blocker(quality, values))
    evaluator = replace(evaluator, run_savings=run_savings)
    context = PlanContext(run, scan, run_savings if run_savings.abstains is None else None, min_impact_share)

    verdicts = abstain_where_blocked(fire(evaluator, rules), quality, values)
    verdicts = join_ranks(context, verdicts, evaluator.evaluate)
    verdicts = clear_behind_other_devices(con, context, measure_run_savings(context, verdicts))
    verdicts = with_lower_bounds(context, bounds, lower_confidence(verdicts, quality))

    timed = [verdict for verdict in verdicts if verdict.state == FIRED]
    suppressed = {key_of(v) for v in (*quality, *timed) if overrides.suppression(run, v) is not None}
    visible = [verdict for verdict in timed if key_of(verdict) not in suppressed]
    shares = share_out(con, run, timed, values)
    owned = total_owned(shares)
    refined = find_refined(visible, owned)
    orders = put_in_order(context, [verdict for verdict in visible if key_of(verdict) not in refined], owned)
    orders, latent = add_latent(
        context,
        [verdict for verdict in verdicts if overrides.suppression(run, verdict) is None],
        orders,
        lambda rule, fixed, added: lower_confidence(evaluator.evaluate(rule, fixed, added), quality),
    )

    orders = say_what_is_left(
        context,
        orders,
        lambda rule, fixed, beside: lower_confidence(evaluator.evaluate_beside(rule, fixed, beside), quality),
    )
    timed = [_in_order(orders, verdict) for verdict in timed]

    warnings = [verdict for verdict in quality if verdict.state == FIRED]
    fired = [verdict for verdict in (*warnings, *timed, *latent) if key_of(verdict) not in refined]
    explained = attach_explanations(rules, verdicts, fired, evaluator.evaluate)
    if latent or refined:
        shares = share_out(con, run, [verdict for verdict in fired if verdict.rule.kind == FINDING], values)
    results = Results(quality, verdicts, fired, suppressed, refined, shares, orders, explained)
    return build_diagnosis(evaluator, context, rules, overrides, results, run_name, opening)


def _in_order(orders: Mapping[Place, FixOrder], verdict: Verdict) -> Verdict:
    """Return the verdict as it stands in the order of fixes, where it may say less than by itself."""
    items = (item for order in orders.values() for item in order.items if item.rule == verdict.rule.id)
    return next((own for item in items for own in item.candidate.verdicts if own.place == verdict.place), verdict)
