"""Measures what each rule's fix saves of the run, whose ranks wait for each other.

Measures how much of a saving is sure, whatever the trace leaves open; where it is little, confidence falls.

Clears what would save nothing of a program, as another device of the same thread computes all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution.replay.scan import LOADER_WORKERS, UNCERTAINTIES
from traceanalyzer.rules.diagnosis.firing import TOO_LITTLE
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.confidence import Confidence, least
from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.removals import Device, RememberedScan
from traceanalyzer.rules.evaluation.run_savings import PooledSavings, Removals, RunSavings, pooled_row
from traceanalyzer.rules.evaluation.verdicts import Verdict, severity_of
from traceanalyzer.rules.fix_plan.fix_order import Candidate
from traceanalyzer.rules.fix_plan.plan_context import SAME_SHARE, PlanContext, group_by_rule
from traceanalyzer.rules.rule_file.model import AUTO, CLEAR, DEVICE, FINDING, FIRED
from traceanalyzer.rules.sql import read_query

if TYPE_CHECKING:
    from traceanalyzer.attribution import Bounds


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
    by_fix: dict[tuple[Place, str], list[Verdict]] = {}
    for verdict in verdicts:
        if _has_saving(context, verdict):
            by_fix.setdefault((context.place_of(verdict), verdict.rule.id), []).append(verdict)
    lower_bounds: dict[int, _LowerBound] = {}
    for (place, _), own in by_fix.items():
        removals = Candidate(tuple(own), 0).removals
        most_ns = left_ns = context.savings_of(place)(removals)
        falls = {}
        for uncertainty, at_least_context in contexts.items():
            least_ns = min(left_ns, _at_least(at_least_context, place, removals))
            falls[uncertainty], left_ns = left_ns - least_ns, least_ns
        is_little = left_ns < _SURE_SHARE * most_ns
        if is_little or most_ns - left_ns >= context.min_impact_share * context.window_ns(place):
            lower = _LowerBound(left_ns / context.window_ns(place), max(falls, key=falls.__getitem__), is_little)
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


def _at_least(context: PlanContext, place: Place, removals: Removals) -> int:
    saved_ns = context.savings_of(place)(removals)
    return saved_ns if context.run_savings is None else max(0, saved_ns - context.run_savings.open_ns(removals))


def _has_saving(context: PlanContext, verdict: Verdict) -> bool:
    is_timed = verdict.state == FIRED and verdict.rule.kind == FINDING and verdict.bound_ns is not None
    return is_timed and (context.run_savings is not None or verdict.place.device is not None)


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
    saved = {(v.rule.id, context.run.key(v.place)): v.bound_ns or 0 for v in verdicts if v.state == FIRED}
    kept = []
    for verdict in verdicts:
        own = context.run.key(verdict.place)
        others = [key for key in threads if key[0] == own[0] and key != own and threads[key] == threads.get(own)]
        if others and verdict.place.device is not None and _can_save(verdict):
            left_ns = windows[own]["window_ns"] - max(
                compute_ns[key] - saved.get((verdict.rule.id, key), 0) for key in others
            )
            if left_ns < context.floor_ns(verdict.place):
                detail = "saves nothing of the program: another device computes all the time for the same thread"
                verdict = replace(verdict, state=CLEAR, reason=HIDDEN_BY_DEVICES, detail=detail, removals={})
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


def _weighed(context: PlanContext, verdict: Verdict, run_ns: int | None, worst_share: float) -> Verdict:
    run_ns = run_ns or 0
    window_ns = context.window_ns(Place())
    share = run_ns / window_ns if window_ns else 0.0
    weighed = replace(verdict, run_ns=run_ns, run_share=share)
    if run_ns < context.floor_ns(Place()):
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
