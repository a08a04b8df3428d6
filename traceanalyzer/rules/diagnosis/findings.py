"""Turns verdicts that fired into findings: words, evidence, fixes, and how evenly the time lies over the steps.

Equal findings of several ranks become one, and all are sorted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np

from traceanalyzer.attribution.columns import Ints
from traceanalyzer.attribution.replay.scan import LOADER_WORKERS, STREAM_WAITS
from traceanalyzer.diagnosis import SEVERITIES, AttachedExplanation, Evidence, Finding, Fix, FixPlan, plan_of_finding
from traceanalyzer.diagnosis.findings import weight_of_fix
from traceanalyzer.rules.dialects import in_dialect, is_possible, read_on, spoken
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import Device, claim_values, claimed_sql
from traceanalyzer.rules.evaluation.sandbox import read_query
from traceanalyzer.rules.evaluation.scopes import RunScopes, Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import ALTERNATIVE, LATENT, PRIMARY, SAME_SHARE, Key, Ordered
from traceanalyzer.rules.rule_file.model import (
    EXPERIMENTAL,
    HOST,
    QUALITY,
    RUN,
    EvidenceQuery,
    ParamValue,
    Rule,
    RuleFix,
    render,
    with_trace_names,
)
from traceanalyzer.text.words import listed, readable

# Percentiles of fewer steps are the steps themselves.
LEAST_STEPS = 8


def step_spread(
    con: duckdb.DuckDBPyConnection, run: RunScopes, verdict: Verdict, values: Mapping[str, ParamValue]
) -> dict[str, Any]:
    """Return how the time that a finding claims lies over the kept steps of its device, or of all, as fields of it.

    They are how many of all steps have some, and the tenth and ninetieth percentile of all. Of recordings whose steps
    are pooled, over the steps of all: where its rule claims none, each has none of the time.
    """
    sql = claimed_sql(verdict.rule)
    recordings: list[Sequence[Device]] = [(device,) for device in run.pooled] or [verdict.devices(run)]
    if sql is None:
        return {}
    known = claim_values(verdict.rule, values)
    of_recordings = [_claimed_ns(con, run, sql, known, devices) for devices in recordings]
    times, hits = np.concatenate([times for times, _ in of_recordings]), sum(hits for _, hits in of_recordings)
    if not len(times):
        return {}
    spread = {"step_hits": hits, "step_count": len(times)}
    if len(times) >= LEAST_STEPS:
        spread["step_p10_ns"], spread["step_p90_ns"] = (int(value) for value in np.percentile(times, (10, 90)))
    return spread


def _claimed_ns(
    con: duckdb.DuckDBPyConnection, run: RunScopes, sql: str, known: Mapping[str, ParamValue], devices: Sequence[Device]
) -> tuple[Ints, int]:
    """Return the claimed time of each kept step of some devices, and how many steps have some."""
    count = max((run.windows[key]["step_count"] or 0 for key in devices), default=0)
    if not count:
        return np.zeros(0, np.int64), 0
    of_devices = [f"{trace_id}/{device}" for trace_id, device in devices]
    query = read_query("claimed_steps").replace("SELECT NULL /* claimed */", sql)
    rows = sandbox.query(con, query, {**known, "devices": of_devices}).rows
    times = np.zeros(max(count, len(rows)), np.int64)
    times[: len(rows)] = [dur_ns for _, dur_ns in rows]
    return times, len(rows)


EVIDENCE_ROWS = 20
# nsys names a call with the version of its interface: cudaLaunchKernel_v7000.
_CALL_VERSION = re.compile(r"\b(cu[A-Za-z]\w*?)_v\d{4,}\b")
# A number by itself: digits in names (rank0.json, H200) and in versions distinguish things.
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|[.,]\w)")
_WEIGHTS = {"high": 1.0, "medium": 0.7, "low": 0.4}
_NOTHING = 0.001
_OPEN_QUESTIONS = {
    LOADER_WORKERS: "some batches were late, and whether the loader's workers could have others ready earlier is in no "
    "trace.",
    STREAM_WAITS: "the trace does not say what some streams and calls waited for.",
}


def build_finding(
    run: RunScopes,
    verdict: Verdict,
    values: Mapping[str, ParamValue],
    owned_buckets: Mapping[str, int],
    ordered: Ordered | None,
    explanations: tuple[AttachedExplanation, ...] = (),
    said: Mapping[str, Any] | None = None,
    covered_by: tuple[str, ...] = (),
) -> Finding:
    """Return the finding of a verdict that fired, without what `with_evidence` adds.

    The message takes its numbers from the row `said`, where there is one, instead of the verdict's. Of a run without
    GPU work, whose fixes have no order, `covered_by` names rules whose findings save the same time.
    """
    rule, row = verdict.rule, verdict.row
    shared = _shared_fields(run, verdict, values, row if said is None else said)
    of_host = rule.scope == HOST
    timed = not rule.claims.is_empty
    windows = run.windows.values() if rule.scope == RUN and rule.kind != QUALITY else [row]
    window_ns = sum(window.get("window_ns") or 0 for window in windows)
    owned = sum(owned_buckets.values()) if timed else None
    return Finding(
        **{**shared, "message": _limited(shared["message"], verdict, ordered)},
        kind=rule.kind,
        severity=verdict.severity or "info",
        saving_ns=row["bound_ns"] if of_host else verdict.bound_ns,
        saving_share=row["bound_share"] if of_host else verdict.bound_share,
        run_saving_ns=verdict.run_ns,
        run_saving_share=verdict.run_share,
        run_saving_least_ns=verdict.run_least_ns,
        owned_ns=owned,
        owned_share=owned / window_ns if owned is not None and window_ns else None,
        owned_buckets=dict(owned_buckets),
        # Only a rule's worst scope says what the fix adds.
        marginal_ns=ordered.marginal_ns if ordered is not None and ordered.candidate.verdicts[0] == verdict else None,
        marginal_order=None if ordered is None else ordered.order,
        status=ordered.status if ordered is not None else ALTERNATIVE if covered_by else PRIMARY,
        is_experimental=rule.status == EXPERIMENTAL,
        alternatives=covered_by if ordered is None else ordered.alternatives,
        explanations=explanations,
    )


def _limited(message: str, verdict: Verdict, ordered: Ordered | None) -> str:
    """Return the message of a finding with what limits its promise."""
    if ordered is not None and ordered.after:
        verb = "is" if len(ordered.after) == 1 else "are"
        message = f"Once {listed(ordered.after)} {verb} fixed: {message}"
    if verdict.sure_share is not None and verdict.uncertainty is not None:
        sure = f"Only {100 * verdict.sure_share:.1f} % is" if verdict.sure_share >= _NOTHING else "Nothing is"
        message = f"{message} {sure} sure to be saved: {_OPEN_QUESTIONS[verdict.uncertainty]}"
    if verdict.run_least_ns is not None and verdict.run_ns:
        least_share = (verdict.run_share or 0.0) * verdict.run_least_ns / verdict.run_ns
        message = f"{message} What the run saves lies between {100 * least_share:.1f} % and what is said here."
    return message


def build_explanation(run: RunScopes, verdict: Verdict, values: Mapping[str, ParamValue]) -> AttachedExplanation:
    """Return the explanation of a verdict, to stand under the finding that it explains, without its evidence."""
    return AttachedExplanation(**_shared_fields(run, verdict, values, verdict.row))


def _shared_fields(
    run: RunScopes, verdict: Verdict, values: Mapping[str, ParamValue], said: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a finding and an explanation say alike; the message takes its numbers from the row `said`."""
    rule, trace = verdict.rule, verdict.scope.trace
    dialect = dialect_at(run, trace)
    return {
        "rule": rule.id,
        "title": spoken(rule.title, dialect),
        "confidence": verdict.confidence.level,
        "confidence_because": verdict.confidence.because,
        "trace": trace,
        "rank": verdict.row.get("rank", run.ranks.get(trace or "")),
        "device": verdict.scope.device,
        "message": message_of(rule, values, said, dialect),
        "why": spoken(" ".join(rule.why.split()), dialect),
        "fixes": _fixes(run, verdict),
        "references": _references(run, verdict, dialect),
        "params": dict(values),
    }


def message_of(rule: Rule, values: Mapping[str, ParamValue], row: Mapping[str, Any], dialect: str | None = None) -> str:
    """Return a rule's message with the values of its parameters and of a row, and calls as programs write them."""
    names = {column: readable(value) for column, value in row.items() if isinstance(value, str)}
    return _CALL_VERSION.sub(r"\1", render(spoken(rule.message, dialect), {**values, **row, **names}))


def references_of(rule: Rule, fix_order: Sequence[int]) -> tuple[str, ...]:
    """Return where to read on; where all fixes that apply are in C++, PyTorch's pages are about another program."""
    if not fix_order or any(rule.fixes[index].lang != "cpp" for index in fix_order):
        return rule.references
    return tuple(address for address in rule.references if "pytorch.org" not in address)


def _references(run: RunScopes, verdict: Verdict, dialect: str | None) -> tuple[str, ...]:
    trace = verdict.scope.trace
    without = trace in run.without_torch if trace else len(run.without_torch) == len(run.trace_ids)
    return read_on(references_of(verdict.rule, verdict.fix_order), dialect, with_torch=not without)


def with_evidence(
    con: duckdb.DuckDBPyConnection,
    run: RunScopes,
    finding: Finding,
    verdicts: Mapping[Key, Verdict],
    values: Mapping[str, Mapping[str, ParamValue]],
) -> Finding:
    """Return the finding with the tables that prove it and its explanations, and how its time lies over the steps.

    `verdicts` are those that fired. Of findings that are one on several ranks only the worst is shown, so only for that
    one its tables are asked.
    """
    verdict = verdicts[finding.rule, Scope(finding.trace, finding.device)]
    spread: dict[str, Any] = {}
    unknown_spread = []
    try:
        if not verdict.rule.claims.is_empty:
            spread = step_spread(con, run, verdict, values[finding.rule])
    except sandbox.RuleQueryError as error:
        unknown_spread = [_missing_evidence("Claimed time of each step", error.what)]
    explanations = []
    for item in finding.explanations:
        explaining = verdicts[item.rule, Scope(item.trace, item.device)]
        tables = evidence(con, run, explaining, values[item.rule])
        explanations.append(replace(item, evidence=tuple(tables)))
    return replace(
        finding,
        **spread,
        explanations=tuple(explanations),
        evidence=(*evidence(con, run, verdict, values[finding.rule]), *unknown_spread),
    )


def evidence(
    con: duckdb.DuckDBPyConnection, run: RunScopes, verdict: Verdict, values: Mapping[str, ParamValue]
) -> list[Evidence]:
    """Return the tables that prove a finding: those of its rule, or the longest rows that it claims."""
    rule = verdict.rule
    trace_id = run.trace_ids.get(verdict.scope.trace or "")
    known = {**claim_values(rule, values), **verdict.row, "trace_id": trace_id, "rule": rule.id}
    tables = []
    for item in rule.evidence or _default_evidence(rule):
        title = spoken(item.title, dialect_at(run, verdict.scope.trace))
        try:
            rows = sandbox.query(con, item.select, known)
        except sandbox.RuleQueryError as error:
            tables.append(_missing_evidence(title, error.what))
            continue
        if rows.rows:
            tables.append(Evidence(title, rows.columns, rows.rows[:EVIDENCE_ROWS]))
    return tables


def _missing_evidence(title: str, why: str) -> Evidence:
    """Return a table that says why there is none: its finding stands without it."""
    return Evidence(title, ("not shown",), ((why,),))


def merge_ranks(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with equal ones merged: the worst stands for all, with their ranks or devices."""
    groups: list[list[Finding]] = []
    for finding in sorted(findings, key=lambda item: -(item.saving_share or 0.0)):
        group = next((group for group in groups if _same(group[0], finding)), None)
        if group is None:
            groups.append([finding])
        else:
            group.append(finding)
    return [_merged(group) for group in groups]


def sort_findings(findings: Sequence[Finding], plans: Sequence[FixPlan] = ()) -> list[Finding]:
    """Return quality findings first, worst first; then the others in the order of fixes.

    Where several devices have orders of their own, that of the device where most can be saved goes first, and then what
    is found on others alone: what saves more comes first, surer ones before equal ones.
    """
    ranked = sorted(findings, key=_sort_key)
    first = next((finding for finding in ranked if finding.marginal_order is not None), None)
    plan = None if first is None else plan_of_finding(plans, first)
    order = {} if plan is None else {fix.rule: at for at, fix in enumerate(plan.fixes)}
    return sorted(ranked, key=lambda finding: (finding.kind != QUALITY, order.get(finding.rule, len(order))))


def _sort_key(finding: Finding) -> tuple[Any, ...]:
    if finding.kind == QUALITY:
        return (0, -SEVERITIES.index(finding.severity), finding.rule, finding.trace or "")
    saving = -(finding.saving_share or 0.0) * _WEIGHTS[finding.confidence] * weight_of_fix(finding)
    # What claims no time has no place in the order of fixes and comes after them.
    order = float("inf") if finding.marginal_order is None else finding.marginal_order
    status = (PRIMARY, LATENT, ALTERNATIVE).index(finding.status)
    # The worst scope of a rule comes first: only it says what the fix adds.
    rest = finding.marginal_ns is None, -(finding.saving_share or 0.0), finding.trace or "", finding.device or 0
    # Findings without a saving are sorted by severity.
    return (1, status, saving, order, -SEVERITIES.index(finding.severity), finding.rule, *rest)


def _same(first: Finding, second: Finding) -> bool:
    if (first.rule, first.status) != (second.rule, second.status):
        return False
    of_one_fix = first.run_saving_ns is not None and first.run_saving_ns == second.run_saving_ns
    apart = abs(SEVERITIES.index(first.severity) - SEVERITIES.index(second.severity))
    if apart > (1 if of_one_fix else 0):
        return False
    if first.trace is None or second.trace is None:
        return False
    # Of two traces the device is left out: rank 3 usually runs on device 3.
    if first.trace == second.trace and (None in (first.device, second.device) or first.device == second.device):
        return False
    if first.saving_share is None or second.saving_share is None:
        return _NUMBER.sub("0", first.message) == _NUMBER.sub("0", second.message)
    # What each rank gains by itself of one fix of the run is a matter of who is last.
    if of_one_fix:
        return True
    return second.saving_share >= (1 - SAME_SHARE) * first.saving_share


def _merged(group: Sequence[Finding]) -> Finding:
    worst = group[0]
    if len(group) == 1:
        return worst
    explanations = {item.rule: item for finding in reversed(group) for item in finding.explanations}
    ranks = tuple(sorted({item.rank for item in group if item.rank is not None}))
    traces = tuple(sorted({item.trace for item in group if item.trace is not None}))
    per_trace = Counter(item.trace for item in group)
    devices = {item.device for item in group if item.device is not None} if max(per_trace.values()) > 1 else set()
    return replace(
        worst,
        message=worst.message if worst.saving_share is not None else ranged([item.message for item in group]),
        same_on_ranks=ranks if len(traces) > 1 else (),
        same_on_traces=traces if len(traces) > 1 else (),
        same_on_devices=tuple(sorted(devices)),
        # Another scope may say what the fix adds: windows differ in length, and so do shares of one saving.
        marginal_ns=next((item.marginal_ns for item in group if item.marginal_ns is not None), None),
        explanations=tuple(explanations.values()),
    )


def ranged(messages: Sequence[str]) -> str:
    """Return one message for several that differ in numbers only, with the range of each number."""
    columns = iter(list(zip(*(_NUMBER.findall(message) for message in messages), strict=True)))

    def range_of(_: re.Match[str]) -> str:
        ordered = sorted(dict.fromkeys(next(columns)), key=lambda text: float(text.replace(",", "")))
        return ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}"

    return _NUMBER.sub(range_of, messages[0])


def dialect_at(run: RunScopes, trace: str | None) -> str | None:
    """Return the dialect of a trace; None: that of the run's first one."""
    return run.dialects.get(trace) if trace is not None else next(iter(run.dialects.values()), None)


def _fixes(run: RunScopes, verdict: Verdict) -> tuple[Fix, ...]:
    """Return the fixes that apply, in the names of the device's vendor and of the program's framework."""
    dialect = dialect_at(run, verdict.scope.trace)
    framework = run.frameworks.get(verdict.scope.trace or next(iter(run.frameworks), ""))
    fixes = [_fix(verdict.rule.fixes[index], verdict.row, run.name) for index in verdict.fix_order]
    spoken_of = (in_dialect(fix, dialect, framework) for fix in fixes)
    return tuple(fix for fix in spoken_of if is_possible(fix, dialect))


def _fix(fix: RuleFix, row: Mapping[str, Any], run: str) -> Fix:
    named = with_trace_names(fix, row, run)
    return Fix(" ".join(named.text.split()), named.code, fix.lang, fix.effort)


def _default_evidence(rule: Rule) -> tuple[EvidenceQuery, ...]:
    claimed = claimed_sql(rule)
    if claimed is None:
        return ()
    if rule.claims.compute_ops is not None:
        sql = read_query("longest_kernels").replace("TRUE /* compute_ops */", f"({rule.claims.compute_ops}\n)")
        return (EvidenceQuery("Kernels that take the most time", sql),)
    where = f"({rule.claims.where or 'TRUE'}\n) AND row_id NOT IN (\n{read_query('claimed_by_finer')})"
    sql = read_query("longest_rows").replace("TRUE /* where */", where)
    return (EvidenceQuery("Longest stretches", sql),)
