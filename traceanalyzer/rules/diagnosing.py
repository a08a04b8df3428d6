"""Applies every rule to a run and tells what was found, what was not, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from traceanalyzer import attribution
from traceanalyzer.diagnosis import Diagnosis, Finding, Outcome
from traceanalyzer.rules import allocation, overview
from traceanalyzer.rules.attaching import Explained, explain_findings
from traceanalyzer.rules.bounds import LeadScan, RememberedScan
from traceanalyzer.rules.findings import build_explanation, build_finding, merge_ranks, sort_findings
from traceanalyzer.rules.fix_order import ALTERNATIVE_SHARE, LATENT, PRIMARY, Ordered, fixes_of, order_fixes
from traceanalyzer.rules.loading import check_settings
from traceanalyzer.rules.model import ABSTAINED, CLEAR, CONFIDENCES, EXPLANATION, FINDING, FIRED, ParamValue, Rule
from traceanalyzer.rules.overriding import Overrides
from traceanalyzer.rules.places import Place, Run, read_run
from traceanalyzer.rules.verdicts import Question, Verdict, evaluate
from traceanalyzer.rules.workspace import locked_workspace, open_workspace
from traceanalyzer.settings import NO_SETTINGS, Settings

# A finding that can save less is noise: the same run twice differs by as much.
MIN_IMPACT_SHARE = 0.01
# The most that a finding is trusted where a quality rule fired with this severity on its trace.
_DOUBTS = {"warning": "medium", "blocker": "low"}
# How often to ask again what matters once everything found so far is fixed.
LATENT_ROUNDS = 2


@dataclass(frozen=True)
class _Session:
    """What the passes of one diagnosis share."""

    con: duckdb.DuckDBPyConnection
    run: Run
    scan: LeadScan
    rules: Sequence[Rule]
    values: Mapping[str, Mapping[str, ParamValue]]
    min_impact_share: float


def diagnose(
    con: duckdb.DuckDBPyConnection,
    rules: Sequence[Rule],
    params: Mapping[str, ParamValue] | None = None,
    run_name: str = "",
    min_impact_share: float = MIN_IMPACT_SHARE,
    *,
    project: Settings = NO_SETTINGS,
    exclusive: bool = False,
) -> Diagnosis:
    """Return the diagnosis of the run behind a connection of the engine.

    `params` overrides parameters by 'rule.param', and wins over the `project`'s settings. Rules run on a connection of
    their own, which can read the run's tables and nothing else; `con` is left as it is, unless it was opened for them
    (`exclusive`).
    """
    overrides = Overrides(project, params)
    # Switched off or not: what is set for a rule must fit it.
    settings = check_settings(rules, overrides.merged_params())
    rules = overrides.enabled(rules)
    values = {rule.id: rule.values(settings.get(rule.id)) for rule in rules}
    scan = RememberedScan(attribution.Bounds.load(con))
    own = locked_workspace(con) if exclusive else open_workspace(con, rules)
    session = _Session(own, read_run(own), scan, rules, values, min_impact_share)
    for place in session.run.windows:
        scan.prepare(place, [frozenset(rule.removes) for rule in rules if rule.op_saving is None])
    asked = [rule for rule in rules if rule.kind != EXPLANATION]
    verdicts = _doubted([verdict for rule in asked for verdict in _evaluate(session, rule, {})])
    fired = [verdict for verdict in verdicts if verdict.state == FIRED]
    silenced = {_key(verdict) for verdict in fired if overrides.suppression(session.run, verdict) is not None}
    timed = [verdict for verdict in fired if verdict.rule.kind == FINDING]
    owned = allocation.share_out(own, session.run, timed, values)
    told = [verdict for verdict in timed if _key(verdict) not in silenced]
    refined = {_key(verdict): by for verdict in told if (by := _refined_by(verdict, told, owned)) is not None}
    order = _order(session, [verdict for verdict in told if _key(verdict) not in refined], owned)
    latent = _add_latent(session, verdicts, order)
    fired = [verdict for verdict in (*fired, *latent) if _key(verdict) not in refined]
    explained = explain_findings(rules, fired, lambda rule: _evaluate(session, rule, {}))
    told = [verdict for verdict in fired if _key(verdict) not in silenced]
    findings = _findings(session, told, fired, order, explained)
    suppressed = _findings(session, [verdict for verdict in fired if _key(verdict) in silenced], fired, {}, explained)
    return Diagnosis(
        run=run_name,
        traces=overview.traces(own),
        ledgers=overview.ledgers(own),
        findings=tuple(sort_findings(merge_ranks(findings))),
        outcomes=tuple(
            _outcome(session.run, verdict, overrides, refined) for verdict in (*verdicts, *explained.verdicts)
        ),
        not_explained=allocation.unexplained(own),
        defects=overview.defects(own),
        suppressed=tuple(sort_findings(merge_ranks(suppressed))),
        overrides=overrides.told(rules, suppressed),
    )


def _findings(
    session: _Session,
    told: Sequence[Verdict],
    fired: Sequence[Verdict],
    order: Mapping[Place, Sequence[Ordered]],
    explained: Explained,
) -> list[Finding]:
    """Return what is told of verdicts, each with the time that it owns among all that fired."""
    timed = [verdict for verdict in fired if verdict.rule.kind == FINDING]
    owned = allocation.share_out(session.con, session.run, timed, session.values)
    ranks = {_key(item.verdict): item for items in order.values() for item in items}
    return [
        build_finding(
            *(session.con, session.run, verdict, session.values[verdict.rule.id]),
            owned.get(_key(verdict)),
            ranks.get(_key(verdict)),
            tuple(
                build_explanation(session.con, session.run, item, session.values[item.rule.id])
                for item in explained.under.get(_key(verdict), ())
            ),
        )
        for verdict in told
    ]


def _refined_by(verdict: Verdict, told: Sequence[Verdict], owned: Mapping[tuple[str, Place], int]) -> str | None:
    """Return the finding that says the same more exactly: one that refines this one and leaves it no time to own."""
    if owned.get(_key(verdict), 0) > ALTERNATIVE_SHARE * (verdict.bound_ns or 0):
        return None
    finer = (item for item in told if item.place == verdict.place and verdict.rule.id in item.rule.refines)
    best = max(finer, key=lambda item: (owned.get(_key(item), 0), item.rule.id), default=None)
    return None if best is None or not owned.get(_key(best)) else best.rule.id


def _key(verdict: Verdict) -> tuple[str, Place]:
    return verdict.rule.id, verdict.place


def reported(verdict: Verdict, min_impact_share: float) -> Verdict:
    """Return the verdict, or clear where it fired on less time than two runs of the same job differ by."""
    share = verdict.bound_share
    floor = max(min_impact_share, verdict.row.get("noise_share") or 0.0)
    if verdict.state != FIRED or verdict.rule.kind != FINDING or share is None or share >= floor:
        return verdict
    detail = f"can save {share:.1%}, less than the {floor:.1%} that is told from noise here"
    return replace(verdict, state=CLEAR, reason="below-noise-floor", detail=detail)


def _doubted(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts with the confidence that their trace's quality leaves them: the verdict itself stays."""
    limits: dict[str | None, int] = {}
    for verdict in verdicts:
        if verdict.state == FIRED and verdict.severity in _DOUBTS:
            trace = verdict.place.trace
            limits[trace] = min(limits.get(trace, len(CONFIDENCES)), CONFIDENCES.index(_DOUBTS[verdict.severity]))
    found = []
    for verdict in verdicts:
        limit = limits.get(verdict.place.trace) if verdict.rule.kind == FINDING else None
        if limit is not None and CONFIDENCES.index(verdict.confidence) > limit:
            verdict = replace(verdict, confidence=CONFIDENCES[limit])
        found.append(verdict)
    return found


def _evaluate(session: _Session, rule: Rule, fixed: Mapping[Place, Sequence[Ordered]]) -> list[Verdict]:
    done = {session.run.key(place): fixes_of(items) for place, items in fixed.items()}
    question = Question(session.scan, done, ignored_share=session.min_impact_share)
    found = evaluate(session.con, rule, session.run, session.values[rule.id], question)
    return [reported(verdict, session.min_impact_share) for verdict in found]


def _order(
    session: _Session, timed: Sequence[Verdict], owned: Mapping[tuple[str, Place], int]
) -> dict[Place, list[Ordered]]:
    by_place: dict[Place, list[Verdict]] = {}
    for verdict in timed:
        if verdict.bound_ns is not None and verdict.place.device is not None:
            by_place.setdefault(verdict.place, []).append(verdict)
    ordered = {}
    for place, found in by_place.items():
        owned_ns = {verdict.rule.id: owned.get((verdict.rule.id, place), 0) for verdict in found}
        ordered[place] = order_fixes(session.scan, session.run.key(place), found, owned_ns)
    return ordered


def _add_latent(session: _Session, verdicts: Sequence[Verdict], order: dict[Place, list[Ordered]]) -> list[Verdict]:
    """Append to each device's order what is worth nothing now and matters once the findings before it are fixed."""
    waiting = [
        verdict
        for verdict in verdicts
        if verdict.state == CLEAR and not verdict.rule.claims.is_empty and verdict.place in order
    ]
    latent: list[Verdict] = []
    for _ in range(LATENT_ROUNDS if order else 0):
        changed = {v.rule.id: v.rule for v in waiting if _is_worth_more(session, v, order[v.place])}
        open_places = {(verdict.rule.id, verdict.place) for verdict in waiting}
        found = [
            verdict
            for rule in changed.values()
            for verdict in _evaluate(session, rule, order)
            if verdict.state == FIRED and (rule.id, verdict.place) in open_places
        ]
        # One a device and round: the next round knows what this one adds.
        best: dict[Place, Verdict] = {}
        for verdict in sorted(found, key=lambda verdict: (-(verdict.bound_ns or 0), verdict.rule.id)):
            best.setdefault(verdict.place, verdict)
        for place, verdict in best.items():
            items = order[place]
            after = tuple(item.verdict.rule.id for item in items if item.status in (PRIMARY, LATENT))
            items.append(Ordered(verdict, len(items) + 1, verdict.bound_ns or 0, status=LATENT, after=after))
            waiting = [item for item in waiting if (item.rule.id, item.place) != (verdict.rule.id, place)]
            latent.append(verdict)
    return latent


def _is_worth_more(session: _Session, verdict: Verdict, before: Sequence[Ordered]) -> bool:
    """Tell whether fixing a clear rule saves more after other fixes than now: only then can its verdict change."""
    place = session.run.key(verdict.place)
    added_ns = verdict.removal.added_ns(session.scan, place, fixes_of(before))
    floor_ns = session.min_impact_share * session.run.windows[place]["window_ns"]
    return added_ns >= max(floor_ns, 1) and added_ns != verdict.bound_ns


def _outcome(run: Run, verdict: Verdict, overrides: Overrides, refined: Mapping[tuple[str, Place], str]) -> Outcome:
    told: dict[str, Any] = {}
    if _key(verdict) in refined:
        told = {"reason": "refined", "detail": f"{refined[_key(verdict)]} says the same more exactly"}
    silence = overrides.suppression(run, verdict) if verdict.state == FIRED else None
    if silence is not None:
        told = {"reason": "suppressed", "detail": f"{silence.reason} (until {silence.until})"}
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
