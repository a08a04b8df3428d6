"""Builds the diagnosis out of what the passes before found: findings, outcomes of every rule, plans and overview.

What it shows besides is read here: traces, the ledger of each device, defects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
from msgspec import Struct

from traceanalyzer.diagnosis import (
    BelowNoise,
    DetailRanks,
    DeviceLedger,
    Diagnosis,
    Finding,
    HostFunction,
    HostLedger,
    KernelClass,
    LateBegin,
    Outcome,
    Recording,
    RunLedger,
    Screening,
    SharedGpu,
    TopKernel,
    TopOperator,
    TraceDefect,
    TraceSummary,
)
from traceanalyzer.rules.diagnosis import planning
from traceanalyzer.rules.diagnosis.explaining import Explained
from traceanalyzer.rules.diagnosis.findings import (
    build_explanation,
    build_finding,
    dialect_at,
    merge_ranks,
    sort_findings,
    with_evidence,
)
from traceanalyzer.rules.diagnosis.firing import BELOW_NOISE, Evaluator
from traceanalyzer.rules.diagnosis.planning import Planned
from traceanalyzer.rules.diagnosis.ranks import choose_detail_ranks, judged_ledgers, pooled_ledger, rank_steps
from traceanalyzer.rules.dialects import spoken
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import write_bound
from traceanalyzer.rules.evaluation.sandbox import read_query
from traceanalyzer.rules.evaluation.scopes import RunScopes, Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import FINER_SHARE, LATENT, FixOrder, Key, Ordered, PlanContext, key_of
from traceanalyzer.rules.fix_plan.ordering import plan_of
from traceanalyzer.rules.rule_file.model import ABSTAINED, CLEAR, FIRED, HOST, Rule
from traceanalyzer.rules.rule_set.settings_in_force import Overrides


def traces(con: duckdb.DuckDBPyConnection) -> tuple[TraceSummary, ...]:
    """Return what each trace of the run is, in the run's order."""
    return tuple(TraceSummary(*row) for row in con.execute(read_query("trace_summaries")).fetchall())


def ledgers(con: duckdb.DuckDBPyConnection) -> tuple[DeviceLedger, ...]:
    """Return the analysis window of each device, cut into buckets that add up to it, with what computes in it."""
    kernels = {(row["trace"], row["device"]): row for row in _rows(con, "device_kernels")}
    shared = {(row.pop("trace"), row.pop("device")): SharedGpu(**row) for row in _rows(con, "shared_gpu_times")}
    devices = []
    for row in _rows(con, "device_ledgers"):
        buckets = tuple(zip(row.pop("names"), row.pop("durations"), strict=True))
        found = kernels[(row["trace"], row["device"])]
        devices.append(
            DeviceLedger(
                **row,
                buckets=buckets,
                kernel_classes=tuple(KernelClass(**item) for item in found["kernel_classes"]),
                top_kernels=tuple(TopKernel(**item) for item in found["top_kernels"]),
                peaks_known=found["peaks_known"],
                unjudged_share=found["unjudged_share"],
                shared_gpu=shared.get((row["trace"], row["device"])),
            )
        )
    return tuple(devices)


def _rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = con.sql(read_query(query)).to_arrow_table().to_pylist()
    return rows


def run_ledger(con: duckdb.DuckDBPyConnection, devices: Sequence[DeviceLedger]) -> RunLedger | None:
    """Return where the run's time went, if its ranks wait for each other and can be followed."""
    rows = con.execute(read_query("run_path")).fetchall()
    if not rows or not devices:
        return None
    buckets: Counter[str] = Counter()
    ranks: Counter[int | None] = Counter()
    for rank, bucket, dur_ns in rows:
        buckets[bucket] += dur_ns
        ranks[rank] += dur_ns
    slowest = max(devices, key=lambda device: device.window_ns)
    begins = con.execute(read_query("run_begin")).fetchall()
    late = [LateBegin(rank, slowest.rank, dur_ns) for rank, dur_ns in begins if rank != slowest.rank]
    in_order = (tuple(buckets.most_common()), tuple(ranks.most_common()))
    return RunLedger(slowest.window_ns, slowest.step_count, *in_order, late_begin=late[0] if late else None)


def host_ledgers(con: duckdb.DuckDBPyConnection) -> tuple[HostLedger, ...]:
    """Return what the threads that run the steps do, in a run without GPU work."""
    rows = con.sql("FROM host_ledger").to_arrow_table().to_pylist()
    operators: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(con, "host_operators") if rows else ():
        operators.setdefault(row["trace"], []).append(row)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["trace"], []).append(row)
    return tuple(
        HostLedger(
            trace,
            buckets[0]["rank"],
            buckets[0]["window_ns"],
            buckets[0]["step_count"],
            tuple((row["bucket"], row["dur_ns"]) for row in buckets),
            tuple(
                TopOperator(row["name"], row["self_ns"], row["shared_ns"] / buckets[0]["window_ns"], row["call_count"])
                for row in operators.get(trace, ())
            ),
        )
        for trace, buckets in found.items()
    )


def defects(con: duckdb.DuckDBPyConnection) -> tuple[TraceDefect, ...]:
    """Return the kinds of defects found in each trace, losses first."""
    return tuple(TraceDefect(*row) for row in con.execute(read_query("trace_defects")).fetchall())


def captured_share(con: duckdb.DuckDBPyConnection) -> float | None:
    """Return for which part of the time in replayed graphs captures tell the operators; None: no capture fits."""
    if not con.execute("FROM attribution.captured_owners LIMIT 1").fetchall():
        return None
    share: float | None = con.execute(read_query("captured_share")).fetchall()[0][0]
    return share


def host_hint(con: duckdb.DuckDBPyConnection) -> str | None:
    """Return how to record what the host does between recorded calls, in the words of each profiler of the run."""
    hints = [hint for (hint,) in con.execute(read_query("host_hints")).fetchall()]
    return "; ".join(dict.fromkeys(hints)) or None


def host_functions(con: duckdb.DuckDBPyConnection) -> tuple[HostFunction, ...]:
    """Return what CPU samples found where a device waited for a host of which nothing else was recorded."""
    return tuple(HostFunction(*row) for row in con.execute(read_query("host_functions")).fetchall())


AFTER_OTHER_FIXES = "after-other-fixes"


class Results(Struct, frozen=True):
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
    detail_ranks: DetailRanks,
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
        plan_of(context, scope, order) for scope, order in sorted(results.planned.orders.items(), key=_scope_order)
    )
    device_ledgers = judged_ledgers(run, ledgers(con))
    ledger_of_run = pooled_ledger(run, device_ledgers)
    if ledger_of_run is None and context.run_savings is not None:
        ledger_of_run = run_ledger(con, device_ledgers)
    ranks = rank_steps(con, device_ledgers)
    found = [_findings(evaluator, visible, results, ranked), _findings(evaluator, silent, results, {})]
    screening = choose_detail_ranks(detail_ranks, run.ranks, ranks, ledger_of_run, sort_findings(found[0], plans))
    findings, suppressed = (_proven(evaluator, of_kind, results, screening) for of_kind in found)
    suppressed = sort_findings(suppressed)
    blocked = {finding.trace for finding in findings if finding.severity == "blocker"}
    return Diagnosis(
        run=run.name,
        traces=traces(con),
        ledgers=device_ledgers,
        run_ledger=ledger_of_run,
        findings=tuple(sort_findings(findings, plans)),
        outcomes=tuple(outcomes),
        below_noise=_below_noise(run, [verdict for verdict in results.verdicts if key_of(verdict) not in latent]),
        not_explained=planning.unexplained(con, run),
        recordings=tuple(recordings),
        defects=defects(con),
        ranks=ranks,
        host_ledgers=()
        if run.devices
        else tuple(ledger for ledger in host_ledgers(con) if ledger.trace not in blocked),
        host_hint=host_hint(con),
        host_functions=host_functions(con),
        captured_share=captured_share(con),
        suppressed=tuple(suppressed),
        overrides=overrides.changes(rules, suppressed),
        plans=plans,
        screening=screening,
    )


def _scope_order(item: tuple[Scope, FixOrder]) -> tuple[str, int]:
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
        covered_by = _covered_by(verdict, verdicts)
        findings.append(
            build_finding(run, verdict, values[verdict.rule.id], owned, ordered, explanations, said, covered_by)
        )
    return merge_ranks(findings)


def selected_over_all(
    con: duckdb.DuckDBPyConnection, run: RunScopes, verdict: Verdict, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the row that a rule selects where the table `bound` has the means of all pooled recordings.

    Of what the rule selects besides, the row has the numbers of the verdict's recording. Where nothing is pooled, and
    where the query fails, it is the verdict's own row.
    """
    if not verdict.pooled:
        return verdict.row
    scope = verdict.scope
    trace_id, device = run.key(scope)
    whole = {**verdict.row, **_of_one_recording(verdict)}
    write_bound(con, [{**whole, "trace": scope.trace, "device": device, "trace_id": trace_id}])
    try:
        rows = sandbox.query(con, verdict.rule.select, values).dicts()
    except sandbox.RuleQueryError:
        rows = []
    own = (row for row in rows if (row.get("trace"), row.get("device")) == (scope.trace, scope.device))
    return next(own, {name: whole.get(name) for name in verdict.row})


# Sums over recordings. What a rule counts besides is of one recording, and so are its steps and its longest row.
_SUMS = ("window_ns", "bound_ns", "saving_sum_ns", "claimed_ns", "claimed_count")
_OF_THE_RECORDING = ("step_count", "worst_ms")


def _of_one_recording(verdict: Verdict) -> dict[str, Any]:
    """Return the columns of `bound` over all pooled recordings for as many steps as the verdict's recording has."""
    steps, pooled = verdict.row.get("step_count"), verdict.pooled
    if not steps:
        return dict(pooled)
    scaled = {name: round(pooled[name] * steps / pooled["step_count"]) for name in _SUMS}
    own = {name: verdict.row[name] for name in _OF_THE_RECORDING if name in verdict.row}
    return {**pooled, **scaled, **own}


def _covered_by(verdict: Verdict, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the rules that say more exactly what costs the time of a bucket of the host's ledger in this recording.

    One that saves less than half of it says too little about the rest, and is itself covered.
    """
    alike = (
        other
        for other in verdicts
        if verdict.rule.scope == HOST == other.rule.scope
        and other.scope == verdict.scope
        and other.row.get("bucket") == verdict.row.get("bucket")
    )
    return tuple(sorted(other.rule.id for other in alike if _is_ahead(other, verdict)))


def _is_ahead(one: Verdict, other: Verdict) -> bool:
    if other.rule.id in one.rule.refines:
        return bool(one.row["bound_ns"] > FINER_SHARE * other.row["bound_ns"])
    return one.rule.id in other.rule.refines and other.row["bound_ns"] <= FINER_SHARE * one.row["bound_ns"]


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


def _below_noise(run: RunScopes, verdicts: Sequence[Verdict]) -> tuple[BelowNoise, ...]:
    """Return what fired and saves too little to be more than chance, largest first; of two rules for it the finer."""
    hidden = [verdict for verdict in verdicts if verdict.reason == BELOW_NOISE]
    finer = {(rule, verdict.scope) for verdict in hidden for rule in verdict.rule.refines}
    items = [
        BelowNoise(
            rule=verdict.rule.id,
            title=verdict.rule.title,
            trace=verdict.scope.trace,
            rank=run.ranks.get(verdict.scope.trace or ""),
            device=verdict.scope.device,
            saving_ns=verdict.bound_ns or 0,
            saving_share=verdict.bound_share or 0.0,
            noise_share=verdict.row["noise_share"],
        )
        for verdict in hidden
        if key_of(verdict) not in finer
    ]
    return tuple(sorted(items, key=lambda item: (-item.saving_share, item.rule, item.trace or "", item.device or 0)))


def _outcome(
    run: RunScopes, verdict: Verdict, overrides: Overrides, refined: Mapping[Key, str], latent: Mapping[Key, Ordered]
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
        title=spoken(verdict.rule.title, dialect_at(run, verdict.scope.trace)),
        state=state,
        trace=verdict.scope.trace,
        rank=run.ranks.get(verdict.scope.trace or ""),
        device=verdict.scope.device,
        kind=verdict.rule.kind,
        **reasons,
    )
