"""Builds the diagnosis out of what the passes before found: findings, outcomes of every rule, plans and overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.diagnosis import BelowNoise, Diagnosis, Finding, Outcome, Recording, Screening
from traceanalyzer.rules.diagnosis import allocation, overview
from traceanalyzer.rules.diagnosis.attaching import Explained
from traceanalyzer.rules.diagnosis.findings import (
    build_explanation,
    build_finding,
    merge_ranks,
    sort_findings,
    with_evidence,
)
from traceanalyzer.rules.diagnosis.firing import BELOW_NOISE, Evaluator
from traceanalyzer.rules.diagnosis.opening import Opening, choose_opened
from traceanalyzer.rules.diagnosis.planning import Planned
from traceanalyzer.rules.diagnosis.ranks import rank_steps
from traceanalyzer.rules.diagnosis.recordings import judged_ledgers, pooled_ledger
from traceanalyzer.rules.evaluation.places import Place, RunPlaces
from traceanalyzer.rules.evaluation.pooled_savings import selected_over_all
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import LATENT, FixOrder, Ordered
from traceanalyzer.rules.fix_plan.ordering import plan_of
from traceanalyzer.rules.fix_plan.plan_context import Key, PlanContext, key_of
from traceanalyzer.rules.rule_file.model import ABSTAINED, CLEAR, FIRED, Rule
from traceanalyzer.rules.rule_set.overriding import Overrides

AFTER_OTHER_FIXES = "after-other-fixes"


@dataclass(frozen=True)
class Results:
    """What the passes before the report return."""

    quality: Sequence[Verdict]
    verdicts: Sequence[Verdict]  # of the rules that find what costs time, in every state
    planned: Planned
    explained: Explained


def build_diagnosis(
    evaluator: Evaluator,
    context: PlanContext,
    rules: Sequence[Rule],
    overrides: Overrides,
    results: Results,
    run_name: str,
    opening: Opening,
    recordings: Sequence[Recording] = (),
) -> Diagnosis:
    """Return the diagnosis; reads the claims that `share_out` left in the connection."""
    con, run = evaluator.con, evaluator.run
    ranked = {
        key_of(v): item
        for order in results.planned.orders.values()
        for item in order.items
        for v in item.candidate.verdicts
    }
    latent = {key: item for key, item in ranked.items() if item.status == LATENT}
    visible = [verdict for verdict in results.planned.fired if key_of(verdict) not in results.planned.suppressed]
    silent = [verdict for verdict in results.planned.fired if key_of(verdict) in results.planned.suppressed]
    judged = sorted((*results.quality, *results.verdicts), key=lambda verdict: verdict.rule.id)
    outcomes = [
        _outcome(run, v, overrides, results.planned.refined, latent) for v in (*judged, *results.explained.verdicts)
    ]
    plans = tuple(
        plan_of(context, place, order) for place, order in sorted(results.planned.orders.items(), key=_place_order)
    )
    device_ledgers = judged_ledgers(run, overview.ledgers(con))
    ledger_of_run = pooled_ledger(run, device_ledgers)
    if ledger_of_run is None and context.run_savings is not None:
        ledger_of_run = overview.run_ledger(con, device_ledgers)
    ranks = rank_steps(con, device_ledgers)
    found = [_findings(evaluator, visible, results, ranked), _findings(evaluator, silent, results, {})]
    screening = choose_opened(opening, run.ranks, ranks, ledger_of_run, sort_findings(found[0], plans))
    findings, suppressed = (_proven(evaluator, of_kind, results, screening) for of_kind in found)
    suppressed = sort_findings(suppressed)
    return Diagnosis(
        run=run_name,
        traces=overview.traces(con),
        ledgers=device_ledgers,
        run_ledger=ledger_of_run,
        findings=tuple(sort_findings(findings, plans)),
        outcomes=tuple(outcomes),
        below_noise=_below_noise(run, [verdict for verdict in results.verdicts if key_of(verdict) not in latent]),
        not_explained=allocation.unexplained(con, run),
        recordings=tuple(recordings),
        defects=overview.defects(con),
        ranks=ranks,
        host_ledgers=() if run.devices else overview.host_ledgers(con),
        host_hint=overview.host_hint(con),
        host_functions=overview.host_functions(con),
        suppressed=tuple(suppressed),
        overrides=overrides.changes(rules, suppressed),
        plans=plans,
        screening=screening,
    )


def _place_order(item: tuple[Place, FixOrder]) -> tuple[str, int]:
    return item[0].trace or "", item[0].device or 0


def _findings(
    evaluator: Evaluator, verdicts: Sequence[Verdict], results: Results, ranked: Mapping[Key, Ordered]
) -> list[Finding]:
    """Return the findings of verdicts, each with the time that it owns among all that fired; equal ones are one.

    They have no evidence yet.
    """
    run, values = evaluator.run, evaluator.values
    findings = []
    for verdict in verdicts:
        key = key_of(verdict)
        under = results.explained.under.get(key, ())
        explanations = tuple(build_explanation(run, item, values[item.rule.id]) for item in under)
        owned, ordered = results.planned.owned.get(key, {}), ranked.get(key)
        said = selected_over_all(evaluator.con, run, verdict, values[verdict.rule.id])
        findings.append(build_finding(run, verdict, values[verdict.rule.id], owned, ordered, explanations, said))
    return merge_ranks(findings)


def _proven(
    evaluator: Evaluator, findings: Sequence[Finding], results: Results, screening: Screening | None
) -> list[Finding]:
    """Return findings with their evidence, where it is of a rank that is opened, or of the run."""
    under = [item for items in results.explained.under.values() for item in items]
    proving = {key_of(verdict): verdict for verdict in (*results.planned.fired, *under)}
    opened = None if screening is None else {None, *screening.opened}
    return [
        with_evidence(evaluator.con, evaluator.run, finding, proving, evaluator.values)
        if opened is None or finding.trace in opened
        else finding
        for finding in findings
    ]


def _below_noise(run: RunPlaces, verdicts: Sequence[Verdict]) -> tuple[BelowNoise, ...]:
    """Return what fired and saves too little to be more than chance, largest first; of two rules for it the finer."""
    hidden = [verdict for verdict in verdicts if verdict.reason == BELOW_NOISE]
    finer = {(rule, verdict.place) for verdict in hidden for rule in verdict.rule.refines}
    items = [
        BelowNoise(
            rule=verdict.rule.id,
            title=verdict.rule.title,
            trace=verdict.place.trace,
            rank=run.ranks.get(verdict.place.trace or ""),
            device=verdict.place.device,
            saving_ns=verdict.bound_ns or 0,
            saving_share=verdict.bound_share or 0.0,
            noise_share=verdict.row["noise_share"],
        )
        for verdict in hidden
        if key_of(verdict) not in finer
    ]
    return tuple(sorted(items, key=lambda item: (-item.saving_share, item.rule, item.trace or "", item.device or 0)))


def _outcome(
    run: RunPlaces,
    verdict: Verdict,
    overrides: Overrides,
    refined: Mapping[Key, str],
    latent: Mapping[Key, Ordered],
) -> Outcome:
    key = key_of(verdict)
    state = LATENT if key in latent else verdict.state
    suppression = overrides.suppression(run, verdict) if verdict.state == FIRED else None
    reasons: dict[str, Any] = {}
    if key in latent:
        detail = (
            f"saves time once {' and '.join(latent[key].after)} {'is' if len(latent[key].after) == 1 else 'are'} fixed"
        )
        reasons = {"reason": AFTER_OTHER_FIXES, "detail": detail}
    elif verdict.state in (ABSTAINED, CLEAR):
        reasons = {"reason": verdict.reason, "detail": verdict.detail, "unlock": verdict.unlock}
    elif suppression is not None:
        reasons = {"reason": "suppressed", "detail": f"{suppression.reason} (until {suppression.until})"}
    elif key in refined:
        reasons = {"reason": "refined", "detail": f"{refined[key]} says the same more exactly"}
    return Outcome(
        rule=verdict.rule.id,
        title=verdict.rule.title,
        state=state,
        trace=verdict.place.trace,
        rank=run.ranks.get(verdict.place.trace or ""),
        device=verdict.place.device,
        kind=verdict.rule.kind,
        **reasons,
    )
