"""Applies every rule to a run and tells what was found, what was not, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from traceanalyzer import attribution
from traceanalyzer.diagnosis import Diagnosis, Outcome
from traceanalyzer.rules import allocation, overview
from traceanalyzer.rules.bounds import LeadScan
from traceanalyzer.rules.findings import build_finding, merge_ranks, sort_findings
from traceanalyzer.rules.fix_order import Ordered, order_fixes
from traceanalyzer.rules.loading import check_settings
from traceanalyzer.rules.model import ABSTAINED, CLEAR, FINDING, FIRED, ParamValue, Rule
from traceanalyzer.rules.places import Place, Run, read_run
from traceanalyzer.rules.verdicts import Verdict, evaluate
from traceanalyzer.rules.workspace import open_workspace

# A finding that can save less is noise: the same run twice differs by as much.
MIN_IMPACT_SHARE = 0.01


def diagnose(
    con: duckdb.DuckDBPyConnection,
    rules: Sequence[Rule],
    params: Mapping[str, ParamValue] | None = None,
    run_name: str = "",
    min_impact_share: float = MIN_IMPACT_SHARE,
) -> Diagnosis:
    """Return the diagnosis of the run behind a connection of the engine.

    `params` overrides parameters by 'rule.param'. Rules run on a connection of their own, which can read the run's
    tables and nothing else; `con` is left as it is.
    """
    settings = check_settings(rules, params or {})
    values = {rule.id: rule.values(settings.get(rule.id)) for rule in rules}
    scan = attribution.Bounds.load(con)
    con = open_workspace(con, rules)
    run = read_run(con)
    verdicts = [
        reported(verdict, min_impact_share)
        for rule in rules
        for verdict in evaluate(con, rule, run, values[rule.id], scan)
    ]
    fired = [verdict for verdict in verdicts if verdict.state == FIRED]
    timed = [verdict for verdict in fired if verdict.rule.kind == FINDING]
    owned = allocation.share_out(con, run, timed, values)
    order = _order(scan, run, timed)
    findings = []
    for verdict in fired:
        key = (verdict.rule.id, verdict.place)
        findings.append(build_finding(con, run, verdict, values[verdict.rule.id], owned.get(key), order.get(key)))
    return Diagnosis(
        run=run_name,
        traces=overview.traces(con),
        ledgers=overview.ledgers(con),
        findings=tuple(sort_findings(merge_ranks(findings))),
        outcomes=tuple(_outcome(run, verdict) for verdict in verdicts),
        not_explained=allocation.unexplained(con),
        defects=overview.defects(con),
    )


def reported(verdict: Verdict, min_impact_share: float) -> Verdict:
    """Return the verdict, or clear where it fired on less time than two runs of the same job differ by."""
    share = verdict.bound_share
    if verdict.state != FIRED or verdict.rule.kind != FINDING or share is None or share >= min_impact_share:
        return verdict
    detail = f"can save {share:.1%}, less than the {min_impact_share:.0%} below which nothing is reported"
    return Verdict(verdict.rule, verdict.place, CLEAR, "below-noise-floor", detail, row=verdict.row)


def _order(scan: LeadScan, run: Run, timed: Sequence[Verdict]) -> dict[tuple[str, Place], Ordered]:
    by_place: dict[Place, list[Verdict]] = {}
    for verdict in timed:
        if verdict.bound_ns is not None and verdict.place.device is not None:
            by_place.setdefault(verdict.place, []).append(verdict)
    found: dict[tuple[str, Place], Ordered] = {}
    for place, verdicts in by_place.items():
        device = (run.trace_ids[place.trace or ""], place.device or 0)
        for item in order_fixes(scan, device, verdicts):
            found[(item.verdict.rule.id, place)] = item
    return found


def _outcome(run: Run, verdict: Verdict) -> Outcome:
    told: dict[str, Any] = {}
    if verdict.state in (ABSTAINED, CLEAR):
        told = {"reason": verdict.reason, "detail": verdict.detail, "unlock": verdict.unlock}
    return Outcome(
        rule=verdict.rule.id,
        title=verdict.rule.title,
        state=verdict.state,
        trace=verdict.place.trace,
        rank=run.ranks.get(verdict.place.trace or ""),
        device=verdict.place.device,
        **told,
    )
