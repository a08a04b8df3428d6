"""Applies every rule to a run and tells what was found, what was not, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import duckdb

from traceanalyzer import attribution
from traceanalyzer.diagnosis import BelowNoise, Diagnosis, Finding, Outcome
from traceanalyzer.rules import allocation, overview
from traceanalyzer.rules.attaching import Explained, explain_findings
from traceanalyzer.rules.balancing import add_balanced
from traceanalyzer.rules.bounds import Device, RememberedScan, Removal
from traceanalyzer.rules.doubting import blocked, doubted, run_blocker
from traceanalyzer.rules.findings import build_explanation, build_finding, merge_ranks, sort_findings
from traceanalyzer.rules.fix_order import ALTERNATIVE_SHARE, FixOrder
from traceanalyzer.rules.loading import check_settings
from traceanalyzer.rules.model import ABSTAINED, CLEAR, FINDING, FIRED, QUALITY, ParamValue, Rule
from traceanalyzer.rules.ordering import Field, Key, add_latent, join_ranks, plan_of, put_in_order, weigh_on_run
from traceanalyzer.rules.overriding import Overrides
from traceanalyzer.rules.places import Place, Run, read_run
from traceanalyzer.rules.sure_savings import with_least
from traceanalyzer.rules.together import Removals, Together
from traceanalyzer.rules.verdicts import Question, Verdict, evaluate
from traceanalyzer.rules.workspace import locked_workspace, open_workspace
from traceanalyzer.settings import NO_SETTINGS, Settings

# A finding that can save less is noise: the same run twice differs by as much.
MIN_IMPACT_SHARE = 0.01
TOO_LITTLE, BELOW_NOISE = "too-little", "below-noise-floor"


@dataclass(frozen=True)
class _Session:
    """What the passes of one diagnosis share."""

    con: duckdb.DuckDBPyConnection
    run: Run
    scan: RememberedScan
    together: Together
    rules: Sequence[Rule]
    values: Mapping[str, Mapping[str, ParamValue]]
    min_impact_share: float

    def evaluate(
        self, rule: Rule, fixed: Removals | None = None, added: Mapping[Device, int] | None = None
    ) -> list[Verdict]:
        """Return a rule's verdicts; with `fixed`, on what it adds to that, or on what is told to be `added`."""
        question = Question(self.scan, fixed or {}, added, self.min_impact_share, together=self.together)
        found = evaluate(self.con, rule, self.run, self.values[rule.id], question)
        return [reported(verdict, self.min_impact_share) for verdict in found]


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
    bounds = attribution.Bounds.load(con)
    own = locked_workspace(con) if exclusive else open_workspace(con, rules)
    session = _Session(own, read_run(own), RememberedScan(bounds), Together(bounds), rules, values, min_impact_share)
    for place in session.run.windows:
        session.scan.prepare(place, [Removal(frozenset(rule.removes)) for rule in rules if rule.op_saving is None])
    quality = [verdict for rule in rules if rule.kind == QUALITY for verdict in session.evaluate(rule)]
    session.together.abstain(run_blocker(quality, values))
    together = session.together if session.together.abstains is None else None
    field = Field(session.run, session.scan, together, min_impact_share)
    found = [verdict for rule in rules if rule.kind == FINDING for verdict in session.evaluate(rule)]
    found = join_ranks(field, blocked(found, quality, values), session.evaluate)
    found = with_least(field, bounds, doubted(weigh_on_run(field, found), quality))
    return _told(session, field, overrides, quality, found, run_name)


def _told(
    session: _Session,
    field: Field,
    overrides: Overrides,
    quality: Sequence[Verdict],
    found: Sequence[Verdict],
    run_name: str,
) -> Diagnosis:
    """Return what is told of verdicts: who owns which time, what to fix first, and why things are as they are."""
    timed = [verdict for verdict in found if verdict.state == FIRED]
    silenced = {_key(v) for v in (*quality, *timed) if overrides.suppression(session.run, v) is not None}
    owned = allocation.share_out(session.con, session.run, timed, session.values)
    told = [verdict for verdict in timed if _key(verdict) not in silenced]
    refined = {_key(verdict): by for verdict in told if (by := _refined_by(verdict, told, owned)) is not None}
    orders = put_in_order(field, [verdict for verdict in told if _key(verdict) not in refined], owned)
    open_to_fixes = [verdict for verdict in found if overrides.suppression(session.run, verdict) is None]
    later = partial(_doubted_again, session, quality)
    latent = [*add_latent(field, open_to_fixes, orders, later), *add_balanced(field, open_to_fixes, orders, later)]
    later_told = {_key(verdict) for verdict in latent}
    doubts = [verdict for verdict in quality if verdict.state == FIRED]
    fired = [verdict for verdict in (*doubts, *timed, *latent) if _key(verdict) not in refined]
    told = [verdict for verdict in fired if _key(verdict) not in silenced]
    explained = explain_findings(session.rules, found, fired, session.evaluate)
    if latent or refined:
        claiming = [verdict for verdict in fired if verdict.rule.kind == FINDING]
        owned = allocation.share_out(session.con, session.run, claiming, session.values)
    findings = _findings(session, told, owned, orders, explained)
    suppressed = _findings(session, [verdict for verdict in fired if _key(verdict) in silenced], owned, {}, explained)
    asked = sorted((*quality, *found), key=lambda verdict: verdict.rule.id)
    ledgers = overview.ledgers(session.con)
    plans = tuple(plan_of(field, place, order) for place, order in sorted(orders.items(), key=_first_first))
    return Diagnosis(
        run=run_name,
        traces=overview.traces(session.con),
        ledgers=ledgers,
        run_ledger=overview.run_ledger(session.con, ledgers) if field.together is not None else None,
        findings=tuple(sort_findings(merge_ranks(findings), plans)),
        outcomes=tuple(_outcome(session.run, item, overrides, refined) for item in (*asked, *explained.verdicts)),
        below_noise=_below_noise(session.run, [verdict for verdict in found if _key(verdict) not in later_told]),
        not_explained=allocation.unexplained(session.con),
        defects=overview.defects(session.con),
        suppressed=tuple(sort_findings(merge_ranks(suppressed))),
        overrides=overrides.told(session.rules, suppressed),
        plans=plans,
    )


def _doubted_again(
    session: _Session, quality: Sequence[Verdict], rule: Rule, fixed: Removals, added: Mapping[Device, int] | None
) -> list[Verdict]:
    """Return what a rule says once other fixes are made, with the doubts that it has of the trace as it is."""
    return doubted(session.evaluate(rule, fixed, added), quality)


def _first_first(item: tuple[Place, FixOrder]) -> tuple[str, int]:
    return item[0].trace or "", item[0].device or 0


def _findings(
    session: _Session,
    told: Sequence[Verdict],
    owned: Mapping[Key, int],
    orders: Mapping[Place, FixOrder],
    explained: Explained,
) -> list[Finding]:
    """Return what is told of verdicts, each with the time that it owns among all that fired."""
    ranks = {_key(v): item for order in orders.values() for item in order.items for v in item.candidate.verdicts}
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


def _refined_by(verdict: Verdict, told: Sequence[Verdict], owned: Mapping[Key, int]) -> str | None:
    """Return the finding that says the same more exactly: one that refines this one and leaves it no time to own."""
    if owned.get(_key(verdict), 0) > ALTERNATIVE_SHARE * (verdict.bound_ns or 0):
        return None
    finer = (item for item in told if item.place.covers(verdict.place) and verdict.rule.id in item.rule.refines)
    best = max(finer, key=lambda item: (owned.get(_key(item), 0), item.rule.id), default=None)
    return None if best is None or not owned.get(_key(best)) else best.rule.id


def _key(verdict: Verdict) -> Key:
    return verdict.rule.id, verdict.place


def reported(verdict: Verdict, min_impact_share: float) -> Verdict:
    """Return the verdict, or clear where it fired on less time than two runs of the same job differ by."""
    share = verdict.bound_share
    noise_share = verdict.row.get("noise_share") or 0.0
    if verdict.state != FIRED or verdict.rule.kind != FINDING or share is None:
        return verdict
    if share < min_impact_share:
        detail = f"can save {share:.1%}, less than the {min_impact_share:.1%} that is worth a word"
        return replace(verdict, state=CLEAR, reason=TOO_LITTLE, detail=detail.replace("%", " %"))
    if share < noise_share:
        detail = f"can save {share:.1%}, less than the {noise_share:.1%} by which steps differ by chance here"
        return replace(verdict, state=CLEAR, reason=BELOW_NOISE, detail=detail.replace("%", " %"))
    return verdict


def _below_noise(run: Run, verdicts: Sequence[Verdict]) -> tuple[BelowNoise, ...]:
    """Return what fired and saves too little to be told from chance, largest first; the finer of two rules for it."""
    hidden = [verdict for verdict in verdicts if verdict.reason == BELOW_NOISE]
    finer = {(rule, verdict.place) for verdict in hidden for rule in verdict.rule.refines}
    told = [
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
        if _key(verdict) not in finer
    ]
    return tuple(sorted(told, key=lambda item: (-item.saving_share, item.rule, item.trace or "", item.device or 0)))


def _outcome(run: Run, verdict: Verdict, overrides: Overrides, refined: Mapping[Key, str]) -> Outcome:
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
        kind=verdict.rule.kind,
        **told,
    )
