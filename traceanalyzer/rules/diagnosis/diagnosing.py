"""Diagnoses a run in passes, each of which takes what those before it return.

1. quality: judge how far to trust the traces (`judge_quality`).
2. fire: evaluate every rule by itself (`fire`), and let those about time abstain where a blocker fired
   (`abstain_where_blocked`).
3. join: let ranks that hold up the others in turn be one finding (`join_ranks`).
4. weigh: measure what each fix saves of the run (`measure_run_savings`), and let those be clear that save nothing of a
   program with several devices (`clear_behind_other_devices`).
5. what is sure: lower the confidence by the trace's quality (`lower_confidence`), and by what the trace leaves open
   (`with_lower_bounds`).
6. order: share the time out among findings, drop those that a finer one replaces, and put the fixes in order
   (`plan_fixes`).
7. explain: attach explanations to what fired (`attach_explanations`).
8. report: build the diagnosis (`build_diagnosis`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
from msgspec.structs import replace

from traceanalyzer.attribution.replay.bounds import Bounds, ScansOf
from traceanalyzer.diagnosis import DetailRanks, Diagnosis
from traceanalyzer.process import give_memory_back
from traceanalyzer.rules.diagnosis.explaining import attach_explanations
from traceanalyzer.rules.diagnosis.firing import (
    MIN_IMPACT_SHARE,
    Evaluator,
    abstain_where_blocked,
    clear_behind_other_devices,
    fire,
    judge_quality,
    lower_confidence,
    measure_run_savings,
    run_blocker,
    with_lower_bounds,
)
from traceanalyzer.rules.diagnosis.planning import plan_fixes
from traceanalyzer.rules.diagnosis.ranks import check_ranks, join_ranks, read_recordings, with_recordings
from traceanalyzer.rules.diagnosis.reporting import Results, build_diagnosis
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import Device, RememberedScan
from traceanalyzer.rules.evaluation.run_savings import PooledSavings, RunSavings
from traceanalyzer.rules.evaluation.sandbox import SharedMetrics, lock_workspace, read_query, tables_read
from traceanalyzer.rules.evaluation.scopes import read_scopes
from traceanalyzer.rules.evaluation.verdicts import Question
from traceanalyzer.rules.fix_plan.fix_order import PlanContext
from traceanalyzer.rules.rule_file.model import ParamValue, Rule
from traceanalyzer.rules.rule_set.loading import check_settings
from traceanalyzer.rules.rule_set.settings_in_force import Overrides
from traceanalyzer.settings.settings import NO_SETTINGS, Settings

ALL_OR_USUAL = DetailRanks()


@sandbox.total_time()
def diagnose(
    con: duckdb.DuckDBPyConnection,
    rules: Sequence[Rule],
    params: Mapping[str, ParamValue] | None = None,
    run_name: str = "",
    min_impact_share: float = MIN_IMPACT_SHARE,
    *,
    project: Settings = NO_SETTINGS,
    opening: DetailRanks = ALL_OR_USUAL,
    scans_of: ScansOf | None = None,
) -> Diagnosis:
    """Return the diagnosis of the run behind a connection of the engine.

    `params` overrides parameters by 'rule.param', and wins over the `project`'s settings. `opening` says which ranks
    evidence is quoted from, and `scans_of` returns the scans of devices that are too many to be held (`Bounds.load`).
    The connection can read the run's tables and nothing else afterwards: rules may come from anybody.
    """
    overrides = Overrides(project, params)
    rules, values = _in_force(rules, overrides)
    lock_workspace(con)
    metrics = SharedMetrics(con, tables_read(rules))
    metrics.make_for(["recordings", "capabilities", "shared_gpus"])
    recordings = read_recordings(con)
    run = replace(with_recordings(read_scopes(con), recordings), name=run_name)
    check_ranks(opening, run.ranks)
    bounds = Bounds.load(con, scans_of, unjudged=[run.trace_ids[trace] for trace in run.unjudged])
    give_memory_back()
    scan = RememberedScan(bounds, _most_idle_ns(con))
    question = Question(scan, run_savings=RunSavings(bounds), idle={}, metrics=metrics)
    evaluator = Evaluator(con, run, scan, values, min_impact_share, question)
    evaluator.prepare(rules)

    quality = judge_quality(evaluator, rules)
    evaluator, context = _with_run_savings(evaluator, RunSavings(bounds, run_blocker(quality, values)))

    verdicts = fire(evaluator, rules)
    verdicts = abstain_where_blocked(verdicts, quality, values)
    verdicts = join_ranks(context, verdicts, evaluator.evaluate)
    verdicts = measure_run_savings(context, verdicts)
    verdicts = clear_behind_other_devices(con, context, verdicts)
    verdicts = lower_confidence(verdicts, quality)
    verdicts = with_lower_bounds(context, bounds, verdicts)

    planned = plan_fixes(evaluator, context, overrides, quality, verdicts)
    explained = attach_explanations(rules, verdicts, planned.fired, evaluator.evaluate)
    results = Results(quality, verdicts, planned, explained)
    return build_diagnosis(evaluator, context, rules, overrides, results, opening, recordings)


def _most_idle_ns(con: duckdb.DuckDBPyConnection) -> dict[Device, int]:
    """Return for how long GPUs are idle that processes use by turns: no fix of one process saves more waits."""
    rows = con.execute(read_query("idle_times_of_shared_gpus")).fetchall()
    return {(trace_id, device): idle_ns for trace_id, device, idle_ns in rows}


def _in_force(
    rules: Sequence[Rule], overrides: Overrides
) -> tuple[Sequence[Rule], dict[str, Mapping[str, ParamValue]]]:
    # Settings of a rule that is switched off have to fit it, too.
    settings = check_settings(rules, overrides.merged_params())
    rules = overrides.enabled(rules)
    return rules, {rule.id: rule.values(settings.get(rule.id)) for rule in rules}


def _with_run_savings(evaluator: Evaluator, run_savings: RunSavings) -> tuple[Evaluator, PlanContext]:
    """Return an evaluator that knows what fixes save of the run, and what fixes are put in order by."""
    of_run: RunSavings | PooledSavings | None = run_savings if run_savings.abstains is None else None
    if evaluator.run.pooled:
        of_run = PooledSavings(evaluator.run, evaluator.scan)
    context = PlanContext(evaluator.run, evaluator.scan, of_run, evaluator.min_impact_share)
    return replace(evaluator, question=replace(evaluator.question, run_savings=run_savings)), context
