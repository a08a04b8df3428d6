"""Evaluates rules on a run, and measures what each rule's fix saves of the run, whose ranks wait for each other.

A finding that saves less than two runs of the same job differ by is cleared, and one that would save nothing of the
program, as another device of the same thread computes all the time. A quality rule that fires as a blocker makes others
abstain; a warning lowers their confidence, and so does a saving of which little is sure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import duckdb
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.scan import LOADER_WORKERS, UNCERTAINTIES
from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import Device, Intervention, RememberedScan
from traceanalyzer.rules.evaluation.run_savings import Interventions, PooledSavings, RunSavings, pooled_row
from traceanalyzer.rules.evaluation.sandbox import read_query
from traceanalyzer.rules.evaluation.scopes import Confidence, RunScopes, Scope, least
from traceanalyzer.rules.evaluation.verdicts import Question, Verdict, evaluate, severity_of
from traceanalyzer.rules.fix_plan.fix_order import SAME_SHARE, Candidate, PlanContext, group_by_rule
from traceanalyzer.rules.rule_file.model import (
    ABSTAINED,
    AUTO,
    CLEAR,
    DEVICE,
    EXPLANATION,
    FINDING,
    FIRED,
    HOST,
    QUALITY,
    RUN,
    ParamValue,
    Rule,
    render,
)
from traceanalyzer.text.words import lower_first

BLOCKER = "blocker"
# The highest confidence of a finding where a quality rule fired with this severity on its trace.
_HIGHEST_CONFIDENCE = {"warning": "medium", BLOCKER: "low"}

Values = Mapping[str, Mapping[str, ParamValue]]


def judge_quality(evaluator: Evaluator, rules: Sequence[Rule]) -> list[Verdict]:
    """Return the verdicts of the rules about how far to trust the traces."""
    return [verdict for rule in rules if rule.kind == QUALITY for verdict in evaluator.evaluate(rule)]


def run_blocker(quality: Sequence[Verdict], values: Values) -> str | None:
    """Return why the ranks of a run must not be compared, as 'reason: detail'; None: they may."""
    for verdict in quality:
        serious = SEVERITIES.index(verdict.severity or "note") >= SEVERITIES.index("warning")
        if verdict.state == FIRED and (verdict.severity == BLOCKER or (verdict.rule.blocks == RUN and serious)):
            return f"{_reason(verdict)}: {_message(verdict, values)}"
    return None


def abstain_where_blocked(verdicts: Sequence[Verdict], quality: Sequence[Verdict], values: Values) -> list[Verdict]:
    """Return the verdicts; one about time abstains where a blocker says that the times are wrong."""
    blockers = [
        verdict
        for verdict in quality
        if verdict.state == FIRED and verdict.severity == BLOCKER and verdict.rule.blocks != RUN
    ]
    judged = []
    for verdict in verdicts:
        wrong = next((item for item in blockers if item.scope.meets(verdict.scope)), None)
        if wrong is not None and verdict.state != ABSTAINED and _is_about_time(verdict.rule):
            unlock = wrong.rule.fixes[wrong.fix_order[0]].text if wrong.fix_order else None
            verdict = replace(
                verdict, state=ABSTAINED, reason=_reason(wrong), detail=_message(wrong, values), unlock=unlock
            )
        judged.append(verdict)
    return judged


def lower_confidence(verdicts: Sequence[Verdict], quality: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts with no more confidence than the quality of their trace allows; their state stays."""
    warnings = [verdict for verdict in quality if verdict.state == FIRED and verdict.severity in _HIGHEST_CONFIDENCE]

    @cache
    def limits(trace: str | None, *, of_run: bool) -> list[Confidence]:
        return [
            Confidence(_HIGHEST_CONFIDENCE[item.severity or ""], lower_first(item.rule.title))
            for item in warnings
            # A finding about the run rests on every trace.
            if item.scope.trace == trace or (of_run and item.scope.trace is not None)
        ]

    return [
        replace(
            verdict,
            confidence=least([verdict.confidence, *limits(verdict.scope.trace, of_run=verdict.rule.scope == RUN)]),
        )
        if verdict.rule.kind == FINDING
        else verdict
        for verdict in verdicts
    ]


def _is_about_time(rule: Rule) -> bool:
    return rule.kind == EXPLANATION or rule.scope == HOST or not rule.claims.is_empty or "bounds" in rule.requires


def _reason(verdict: Verdict) -> str:
    return f"blocked by {verdict.rule.id}"


def _message(verdict: Verdict, values: Values) -> str:
    return render(verdict.rule.message, {**values[verdict.rule.id], **verdict.row})


# A finding that can save less is noise: the same run twice differs by as much.
MIN_IMPACT_SHARE = 0.01
TOO_LITTLE, BELOW_NOISE = "too-little", "below-noise-floor"


class Evaluator(Struct, frozen=True):
    """Evaluates the rules of one diagnosis; `values` holds each rule's parameters.

    `question` asks about each rule by itself; what it keeps is kept for all that is asked.
    """

    con: duckdb.DuckDBPyConnection
    run: RunScopes
    scan: RememberedScan
    values: Values
    min_impact_share: float
    question: Question

    def evaluate(
        self, rule: Rule, fixed: Interventions | None = None, added: Mapping[Device, int] | None = None
    ) -> list[Verdict]:
        """Return a rule's verdicts; with `fixed`, on what its fix adds to that, which is `added` where it is known."""
        question = replace(self.question, fixed=fixed or {}, added=added, ignored_share=self.min_impact_share)
        verdicts = evaluate(self.con, rule, self.run, self.values[rule.id], question)
        return [clear_if_little(verdict, self.min_impact_share) for verdict in verdicts]

    def evaluate_beside(self, rule: Rule, fixed: Interventions, beside: Sequence[str]) -> list[Verdict]:
        """Return a rule's verdicts on what its fix adds to `fixed`, and on what the rules `beside` it do not claim."""
        # Claims are written anew for each order of fixes, so that nothing that depends on them is kept.
        question = replace(self.question, fixed=fixed, beside=tuple(beside), run_savings=None, claimed={}, settled={})
        return evaluate(self.con, rule, self.run, self.values[rule.id], question)

    def prepare(self, rules: Sequence[Rule]) -> None:
        """Scan each device once for the causes of all rules: one by one takes several times as long."""
        whole = [rule for rule in rules if rule.op_saving is None and not rule.removes_claimed]
        interventions = [Intervention(frozenset(rule.removes)) for rule in whole]
        self.scan.prepare(dict.fromkeys(self.run.windows, interventions))


def fire(evaluator: Evaluator, rules: Sequence[Rule]) -> list[Verdict]:
    """Return the verdicts of the rules that find what costs time, each rule by itself."""
    return [verdict for rule in rules if rule.kind == FINDING for verdict in evaluator.evaluate(rule)]


def clear_if_little(verdict: Verdict, min_impact_share: float) -> Verdict:
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


# Below this share of sure saving, the saving rests on what the trace leaves open.
_SURE_SHARE = 0.5


class _LowerBound(Struct, frozen=True):
    """What a fix saves at least, as a share of the window, and which uncertainty takes most of the rest."""

    share: float
    uncertainty: str
    is_little: bool


def with_lower_bounds(context: PlanContext, bounds: Bounds, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts; one that may save noticeably less has a lower bound, and less confidence if that is little.

    Loader workers that never delayed a batch are assumed to keep up.
    """
    uncertainties = [item for item in UNCERTAINTIES if item != LOADER_WORKERS or bounds.waits_for_workers]
    contexts = {
        uncertainty: _measured_by(context, at_least)
        for uncertainty, at_least in bounds.lower_bounds(uncertainties).items()
    }
    if not contexts:
        return list(verdicts)
    by_fix: dict[tuple[Scope, str], list[Verdict]] = {}
    for verdict in verdicts:
        if _has_saving(context, verdict):
            by_fix.setdefault((context.scope_of(verdict), verdict.rule.id), []).append(verdict)
    lower_bounds: dict[int, _LowerBound] = {}
    for (scope, _), own in by_fix.items():
        interventions = Candidate(tuple(own), 0).interventions
        most_ns = left_ns = context.savings_of(scope)(interventions)
        falls = {}
        for uncertainty, at_least_context in contexts.items():
            least_ns = min(left_ns, _at_least(at_least_context, scope, interventions))
            falls[uncertainty], left_ns = left_ns - least_ns, least_ns
        is_little = left_ns < _SURE_SHARE * most_ns
        if is_little or most_ns - left_ns >= context.min_impact_share * context.window_ns(scope):
            lower = _LowerBound(left_ns / context.window_ns(scope), max(falls, key=falls.__getitem__), is_little)
            lower_bounds |= {id(verdict): lower for verdict in own}
    return [_with(context, item, lower_bounds[id(item)]) if id(item) in lower_bounds else item for item in verdicts]


def _measured_by(context: PlanContext, bounds: Bounds) -> PlanContext:
    """Return the context with other bounds: of devices, and of the run or the pooled recordings, as it has them."""
    scan = RememberedScan(bounds)
    of_run: RunSavings | PooledSavings | None = None
    if isinstance(context.run_savings, PooledSavings):
        of_run = PooledSavings(context.run, scan)
    elif context.run_savings is not None:
        of_run = RunSavings(bounds)
    return replace(context, scan=scan, run_savings=of_run)


def _at_least(context: PlanContext, scope: Scope, interventions: Interventions) -> int:
    saved_ns = context.savings_of(scope)(interventions)
    return saved_ns if context.run_savings is None else max(0, saved_ns - context.run_savings.open_ns(interventions))


def _has_saving(context: PlanContext, verdict: Verdict) -> bool:
    is_timed = verdict.state == FIRED and verdict.rule.kind == FINDING and verdict.bound_ns is not None
    return is_timed and (context.run_savings is not None or verdict.scope.device is not None)


def _with(context: PlanContext, verdict: Verdict, lower: _LowerBound) -> Verdict:
    bounded = replace(verdict, sure_share=lower.share, uncertainty=lower.uncertainty)
    if not lower.is_little:
        return bounded
    most = "medium" if lower.share >= context.min_impact_share else "low"
    little = Confidence(most, f"{100 * lower.share:.1f} % is sure")
    return replace(bounded, confidence=least([little, verdict.confidence]))


HIDDEN_BY_DEVICES = "hidden-by-other-devices"


def clear_behind_other_devices(
    con: duckdb.DuckDBPyConnection, context: PlanContext, verdicts: Sequence[Verdict]
) -> list[Verdict]:
    """Return verdicts, those clear that save nothing of a program with several devices.

    A thread that launches the work of several devices ends with the last of them. What a fix saves on one device is no
    more than what the others leave: their windows without what they compute, and without what the same fix saves there.
    """
    windows = context.run.windows
    if len({trace_id for trace_id, _ in windows}) == len(windows):
        return list(verdicts)
    rows = sandbox.query(con, read_query("launching_threads"), {}, sandbox.UNLIMITED).dicts()
    threads: dict[Device, int] = {(row["trace_id"], row["device"]): row["thread_id"] for row in rows}
    compute_ns: dict[Device, int] = {(row["trace_id"], row["device"]): row["compute_ns"] for row in rows}
    saved = {(v.rule.id, context.run.key(v.scope)): v.bound_ns or 0 for v in verdicts if v.state == FIRED}
    kept = []
    for verdict in verdicts:
        own = context.run.key(verdict.scope)
        others = [key for key in threads if key[0] == own[0] and key != own and threads[key] == threads.get(own)]
        if others and verdict.scope.device is not None and _can_save(verdict):
            left_ns = windows[own]["window_ns"] - max(
                compute_ns[key] - saved.get((verdict.rule.id, key), 0) for key in others
            )
            if left_ns < context.floor_ns(verdict.scope):
                detail = "saves nothing of the program: another device computes all the time for the same thread"
                verdict = replace(verdict, state=CLEAR, reason=HIDDEN_BY_DEVICES, detail=detail, interventions={})
        kept.append(verdict)
    return kept


def _can_save(verdict: Verdict) -> bool:
    rule = verdict.rule
    return (verdict.state, rule.kind, rule.scope) == (FIRED, FINDING, DEVICE) and verdict.bound_ns is not None


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
    interventions = {
        rule: Candidate(tuple(own), 0).interventions for rule, own in timed.items() if own[0].rule.scope == DEVICE
    }
    run_savings.prepare(interventions.values())
    saved = {rule: run_savings.saved_ns(interventions[rule]) if rule in interventions else None for rule in timed}
    open_ns = {rule: run_savings.open_ns(Candidate(tuple(own), 0).interventions) for rule, own in timed.items()}
    worst = {rule: max(verdict.bound_share or 0.0 for verdict in own) for rule, own in timed.items()}
    pooled_rows = {
        rule: pooled_row(context.run, [verdict.row for verdict in own], saved[rule] or 0)
        for rule, own in timed.items()
        if rule in interventions
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


def _weighed(context: PlanContext, verdict: Verdict, run_ns: int | None, worst_share: float) -> Verdict:
    run_ns = run_ns or 0
    window_ns = context.window_ns(Scope())
    share = run_ns / window_ns if window_ns else 0.0
    weighed = replace(verdict, run_ns=run_ns, run_share=share)
    if run_ns < context.floor_ns(Scope()):
        own = verdict.bound_share or 0.0
        rest = "of all recordings" if context.run.pooled else "of the run: other ranks are what it waits for"
        detail = f"saves {own:.1%} here and {share:.1%} {rest}"
        reason = TOO_LITTLE if context.run.pooled else "hidden-by-other-ranks"
        return replace(weighed, state=CLEAR, reason=reason, detail=detail.replace("%", " %"))
    if verdict.rule.severity != AUTO:
        return weighed
    own = verdict.bound_share or 0.0
    is_like_worst = verdict.in_turn or own >= (1 - SAME_SHARE) * worst_share
    return replace(weighed, severity=severity_of(share if is_like_worst else min(share, own)))
