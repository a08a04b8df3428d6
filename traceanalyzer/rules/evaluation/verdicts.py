"""Evaluates one rule in every scope, by itself: it fires, is clear, or abstains with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import duckdb
from msgspec import Struct, field

from traceanalyzer.attribution.columns import MESSAGE
from traceanalyzer.attribution.replay.bounds import NOT_MATCHED
from traceanalyzer.diagnosis import LIMIT_REACHED, SEVERITIES
from traceanalyzer.metrics import sources_in
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import (
    Claimed,
    Device,
    DeviceBound,
    Intervention,
    RememberedScan,
    claimed_of,
    device_bounds,
    find_interventions,
    no_interventions,
    write_bound,
)
from traceanalyzer.rules.evaluation.run_savings import RunSavings, run_bounds
from traceanalyzer.rules.evaluation.sandbox import SharedMetrics
from traceanalyzer.rules.evaluation.scopes import MEASURED, Capability, Confidence, RunScopes, Scope, confidence_of
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
    TRACE,
    Rule,
    render,
)
from traceanalyzer.rules.rule_file.sql_text import lasting_conditions

_SEVERITY_SHARES = ((0.20, "critical"), (0.10, "high"), (0.03, "medium"), (0.01, "low"))
# Severities that need no SQL of the rule: the engine's own, and the fixed ones.
AUTO_SEVERITIES = (AUTO, *SEVERITIES)
# What to do about ranks that cannot be compared.
_UNLOCKS = {"missing-ranks": "write one trace per rank, all into one folder"}
# The reason of a rule that has nothing to look for in a run.
NOT_APPLICABLE = "not-applicable"
_OWN = "_rule_"  # prefix of the columns that evaluation adds to a rule's row
_SETTLED = f"{_OWN}settled"
_Bounds = Mapping[Device, DeviceBound]


class Verdict(Struct, frozen=True):
    """The verdict of one rule in one scope; `row` is what its select returned there.

    `interventions` is what its fix takes away, by device; of a finding about the whole run on each. `run_ns` is what
    the rule's fix saves of the run if it is made everywhere that the rule fired; None: the ranks cannot be compared; it
    is exact, or there is a `run_least_ns`. Of recordings of one rank whose steps are pooled, it is what all save. Ranks
    that hold up the others `in_turn` save little one by one, and are parts of one finding. `sure_share` is what is
    saved even if what the trace leaves open (`uncertainty`) turns out against the fix; None: about as much.
    """

    rule: Rule
    scope: Scope
    state: str
    reason: str | None = None
    detail: str | None = None
    unlock: str | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    severity: str | None = None
    confidence: Confidence = MEASURED
    fix_order: tuple[int, ...] = ()  # positions in rule.fixes of those that apply
    interventions: Mapping[Device, Intervention] = field(default_factory=dict)
    run_ns: int | None = None
    run_share: float | None = None
    run_least_ns: int | None = None
    in_turn: bool = False
    sure_share: float | None = None
    uncertainty: str | None = None
    pooled: Mapping[str, Any] = field(default_factory=dict)  # columns of `row` over all pooled recordings

    @property
    def bound_ns(self) -> int | None:
        """What removing only this finding's cause saves, in nanoseconds of the analysis window."""
        value = self.row.get("bound_ns")
        return None if value is None or self.rule.claims.is_empty else int(value)

    @property
    def bound_share(self) -> float | None:
        """What `bound_ns` is of the window."""
        value = self.row.get("bound_share")
        return None if value is None or self.rule.claims.is_empty else float(value)

    def devices(self, run: RunScopes) -> tuple[Device, ...]:
        """Return the devices that the verdict is about: one, or all of the run."""
        key = run.key(self.scope)
        return tuple(run.windows) if self.scope.device is None else (key,) if key in run.windows else ()


class Question(Struct, frozen=True):
    """Says how to evaluate a rule.

    What is `fixed` on a device counts as done: the verdict is about what the rule's fix adds to it, which is `added`
    where that is known already. Where fixing the rule saves a smaller share than `ignored_share`, the rule is clear
    whatever its condition says, and its select is not run. Rules about the run need `run_savings`. Without a scan the
    table `bound` stays as it is, and with `assume_requirements` every scope has all capabilities: both are for tests on
    literal rows. Time that rules `beside` it claim (by id) is not counted as claimed by this one. What each rule's fix
    takes away is kept in `interventions`, what it claims in `claimed`: both are the same whatever is fixed. Which rules
    have nothing to find (their `clear_without` has no row) is kept in `idle`; None: all SQL of a rule is run all the
    same, for its columns. Which rules stay clear whatever is fixed is kept in `settled`.
    `metrics` makes tables of the metrics that the rules share, as they are needed.
    """

    scan: RememberedScan | None
    fixed: Mapping[Device, Intervention] = field(default_factory=dict)
    added: Mapping[Device, int] | None = None
    ignored_share: float | None = None
    assume_requirements: bool = False
    run_savings: RunSavings | None = None
    beside: tuple[str, ...] = ()
    interventions: dict[str, Mapping[Device, Intervention]] = field(default_factory=dict)  # by rule id
    claimed: Claimed = field(default_factory=dict)
    idle: dict[str, bool] | None = None  # by rule id
    settled: dict[str, bool] = field(default_factory=dict)  # by rule id
    metrics: SharedMetrics | None = None


def evaluate(
    con: duckdb.DuckDBPyConnection, rule: Rule, run: RunScopes, values: Mapping[str, Any], question: Question
) -> list[Verdict]:
    """Return the rule's verdict in every scope that it is about.

    The rule abstains with the reason where a query fails or reaches a limit.
    """
    apart = _apart(rule, run, question)
    if apart is not None:
        return [apart]
    scopes = run.traces_without_devices if rule.scope == HOST else run.devices
    missing, open_scopes = ([], scopes) if question.assume_requirements else _requirements(rule, run)
    if not open_scopes and rule.kind != QUALITY:
        return missing
    scan = None if rule.claims.is_empty else question.scan
    try:
        is_idle = not run.unjudged and _is_idle(con, rule, values, question)
        bounds = {} if scan is None else _bounds(con, rule, run, values, question, is_idle=is_idle)
        if is_idle:
            return [*missing, *_without_find(rule, run, open_scopes, bounds, scan)]
        saves = scan is None or rule.says_its_bound or _saves(run, open_scopes, bounds, question.ignored_share)
        if scan is not None and not saves and not rule.abstain:
            return [*missing, *(_without_select(rule, run, scope, bounds, scan) for scope in open_scopes)]
        if question.metrics is not None:
            question.metrics.make_for(rule.reads)
        if scan is not None:
            # What a rule's own `abstain` says is worth knowing even where it saves nothing.
            claimed = claimed_of(con, rule, values, question.beside, question.claimed) if saves else {}
            write_bound(con, [bound.row(claimed.get(device, {})) for device, bound in bounds.items()])
        rows = sandbox.query(con, verdict_sql(rule), values).dicts()
    except sandbox.RuleQueryError as error:
        reason = LIMIT_REACHED if isinstance(error, sandbox.RuleLimitError) else "error"
        scopes = open_scopes or (Scope(),)
        return [*missing, *(Verdict(rule, scope, ABSTAINED, reason, error.what, error.hint) for scope in scopes)]
    question.settled[rule.id] = bool(rows) and all(row.get(_SETTLED) for row in rows)
    verdicts = []
    seen = set()
    closed = {verdict.scope for verdict in missing}
    for row in rows:
        scope = Scope(row.get("trace"), row.get("device"))
        is_listed_only = rule.kind != QUALITY and scope.trace in run.unjudged
        if scope in seen or is_listed_only or _is_closed(scope, closed, open_scopes):
            continue
        seen.add(scope)
        distrust = None if scan is None or scope.device is None else scan.abstains(*run.key(scope))
        window = run.windows.get(run.key(scope), {}) if scope.device is not None else {}
        interventions = _interventions(rule, run, scope, row, bounds)
        verdicts.append(_verdict(rule, scope, row, distrust, interventions, values, window.get("steps_in_all")))
    # A query without an order returns its rows in any order: of equal scopes the first one counts for all.
    verdicts.sort(key=lambda verdict: run.key(verdict.scope))
    by_device = rule.kind == FINDING and rule.scope != RUN
    unseen = [scope for scope in open_scopes if scope not in seen] if by_device else []
    return [*missing, *verdicts, *(_without_row(rule, run, scope) for scope in unseen)]


def _without_row(rule: Rule, run: RunScopes, scope: Scope) -> Verdict:
    """Return the abstention of a rule whose select has no row for a scope.

    The host of a trace has none where GPU work may be missing: its waits would look like work.
    """
    gpu = run.missing(scope, ("gpu_ops",)) if rule.scope == HOST else None
    if gpu is None:
        return Verdict(rule, scope, ABSTAINED, "no-row", "the rule's select returned no row for this device")
    return _lacking(rule, scope, *gpu)


def _lacking(rule: Rule, scope: Scope, name: str, capability: Capability) -> Verdict:
    """Return the abstention of a rule where something that it needs was not recorded."""
    return Verdict(rule, scope, ABSTAINED, f"missing-capability:{name}", capability.detail, capability.unlock)


def _apart(rule: Rule, run: RunScopes, question: Question) -> Verdict | None:
    """Return the abstention of a rule about the host in a run on GPUs, and about a run whose ranks cannot be compared.

    How long stages of a pipeline compute and wait is known without the pairs of sends and receives.
    """
    if rule.scope == HOST and run.devices:
        return Verdict(rule, Scope(), ABSTAINED, NOT_APPLICABLE, "the run has GPU work")
    compares_ranks = rule.scope == RUN and rule.kind != QUALITY
    why = None if question.run_savings is None or not compares_ranks else question.run_savings.abstains
    if why is None or not run.devices:
        return None
    if why == NOT_MATCHED and rule.says_its_bound and rule.claims.causes == (MESSAGE,):
        return None
    reason, _, detail = why.partition(": ")
    return Verdict(rule, Scope(), ABSTAINED, reason, detail, _UNLOCKS.get(reason))


def _is_idle(con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any], question: Question) -> bool:
    """Return whether a run has nothing of what the rule says that it is clear without."""
    if rule.clear_without is None or question.idle is None:
        return False
    if rule.id not in question.idle:
        first = f"FROM {rule.clear_without}\nLIMIT 1"
        if question.metrics is not None:
            question.metrics.make_for(sources_in(first))
        question.idle[rule.id] = not sandbox.query(con, f"SELECT 1 {first}", values).rows
    return question.idle[rule.id]


def _without_find(
    rule: Rule, run: RunScopes, scopes: Sequence[Scope], bounds: _Bounds, scan: RememberedScan | None
) -> list[Verdict]:
    """Return the clear verdicts of a rule in a run that has nothing for it to find."""
    if rule.kind == QUALITY:
        traces = [Scope(trace) for trace in run.trace_ids]
        scopes = {DEVICE: run.devices, TRACE: traces, RUN: [Scope()]}[rule.scope]
    scopes = sorted(scopes, key=run.key)
    if scan is not None:
        return [_without_select(rule, run, scope, bounds, scan) for scope in scopes]
    return [Verdict(rule, scope, CLEAR) for scope in scopes]


def _bounds(
    con: duckdb.DuckDBPyConnection,
    rule: Rule,
    run: RunScopes,
    values: Mapping[str, Any],
    question: Question,
    *,
    is_idle: bool,
) -> dict[Device, DeviceBound]:
    if rule.id not in question.interventions:
        if question.metrics is not None and not is_idle:
            question.metrics.make_for(sources_in(rule.intervention_sql))
        of_rule = no_interventions(rule, run.windows) if is_idle else find_interventions(con, rule, values, run.windows)
        question.interventions[rule.id] = of_rule
    interventions = question.interventions[rule.id]
    if rule.scope == RUN and question.run_savings is not None:
        return run_bounds(rule, interventions, question.run_savings, run.windows)
    assert question.scan is not None
    return device_bounds(interventions, question.scan, run.windows, question.fixed, question.added)


def _interventions(
    rule: Rule, run: RunScopes, scope: Scope, row: Mapping[str, Any], bounds: _Bounds
) -> dict[Device, Intervention]:
    """Return what the fix of a finding takes away: on its device, or on all where it is about the run."""
    key = run.key(scope)
    keys = list(bounds) if scope.device is None else [key] if key in bounds else []
    if rule.says_its_bound:
        return dict.fromkeys(keys, Intervention(stated_ns=int(row.get("bound_ns") or 0)))
    return {key: bounds[key].intervention for key in keys}


def _saves(run: RunScopes, scopes: Sequence[Scope], bounds: _Bounds, ignored_share: float | None) -> bool:
    if ignored_share is None:
        return True
    for scope in scopes:
        bound = bounds[run.key(scope)]
        floor_ns = ignored_share * bound.window["window_ns"]
        if max(bound.bound_ns or 0, bound.run_ns or 0) >= floor_ns and bound.bound_ns is not None:
            return True
    return False


def _without_select(rule: Rule, run: RunScopes, scope: Scope, bounds: _Bounds, scan: RememberedScan) -> Verdict:
    key = run.key(scope)
    distrust = scan.abstains(*key)
    row, interventions = bounds[key].row({}), {key: bounds[key].intervention}
    if distrust is not None:
        return Verdict(rule, scope, ABSTAINED, "untrusted-bound", distrust, row=row)
    return Verdict(rule, scope, CLEAR, row=row, severity=_severity(rule, row, {}), interventions=interventions)


def verdict_sql(rule: Rule) -> str:
    """Return the rule's select with its conditions as columns."""
    columns = ["subject.*", f"({rule.when}\n) AS {_OWN}fires"]
    columns += [f"({item.when}\n) AS {_OWN}abstain_{index}" for index, item in enumerate(rule.abstain)]
    columns += [f"({item.when}\n) AS {_OWN}lower_{index}" for index, item in enumerate(rule.lower)]
    columns += [f"({item.when or 'TRUE'}\n) AS {_OWN}fix_{index}" for index, item in enumerate(rule.fixes)]
    if rule.severity not in AUTO_SEVERITIES:
        columns.append(f"({rule.severity}\n) AS {_OWN}severity")
    lasting = lasting_conditions(rule.select, rule.when)
    if lasting:
        columns.append("((" + "\n) AND (".join(lasting) + f"\n)) IS FALSE AS {_SETTLED}")
    return f"WITH subject AS (\n{rule.select}\n) SELECT " + ",\n".join(columns) + " FROM subject"


def severity_of(bound_share: float) -> str:
    """Return the severity of a finding that can save this share of the analysis window."""
    return next((name for share, name in _SEVERITY_SHARES if bound_share >= share), "info")


def capabilities_of(rule: Rule, run: RunScopes) -> tuple[str, ...]:
    """Return what a rule needs in a run: what it says, and GPU work, but about the host of a run without any.

    What explains a finding is asked only where the finding is there.
    """
    is_of_host = rule.scope == HOST or (rule.kind == EXPLANATION and not run.devices)
    if rule.kind == QUALITY or is_of_host:
        return rule.requires
    return tuple(dict.fromkeys(("gpu_ops", *rule.requires)))


def _requirements(rule: Rule, run: RunScopes) -> tuple[list[Verdict], tuple[Scope, ...]]:
    # A device rule abstains once for each trace without devices, of which a rule about the host judges each.
    scopes = (*run.devices, *run.traces_without_devices) if rule.kind != QUALITY else ()
    requires = capabilities_of(rule, run)
    missing = []
    for scope in scopes:
        first_missing = run.missing(scope, requires)
        if first_missing is not None:
            missing.append(_lacking(rule, scope, *first_missing))
    unmet = {verdict.scope for verdict in missing}
    return missing, tuple(scope for scope in scopes if scope not in unmet)


def _is_closed(scope: Scope, closed: Set[Scope], open_scopes: Sequence[Scope]) -> bool:
    """Return whether a requirement is missing in a scope, or, for a trace, on each of its devices."""
    if scope.device is None and closed:
        closed_here = any(scope.trace in (None, item.trace) for item in closed)
        return closed_here and not any(scope.trace in (None, item.trace) for item in open_scopes)
    return scope in closed


def _verdict(
    rule: Rule,
    scope: Scope,
    row: dict[str, Any],
    distrust: str | None,
    interventions: Mapping[Device, Intervention],
    values: Mapping[str, Any],
    steps_in_all: int | None,
) -> Verdict:
    """Return the verdict of a row; `steps_in_all` are those of all recordings that are pooled with it."""
    own = {name.removeprefix(_OWN): row.pop(name) for name in list(row) if name.startswith(_OWN)}
    seen = {**values, **row}
    for index, item in enumerate(rule.abstain):
        if own[f"abstain_{index}"]:
            detail = None if item.detail is None else render(item.detail, seen)
            return Verdict(rule, scope, ABSTAINED, item.reason, detail, row=row)
    if distrust is not None:
        return Verdict(rule, scope, ABSTAINED, "untrusted-bound", distrust, row=row)
    if own["fires"] is None:
        return Verdict(rule, scope, ABSTAINED, "unknown", "the condition met an unknown value", row=row)
    fits = [own[f"fix_{index}"] for index in range(len(rule.fixes))]
    # Where none is known to fit, those may that depend on what the trace does not say.
    fixes = tuple(at for at, fit in enumerate(fits) if fit) or tuple(at for at, fit in enumerate(fits) if fit is None)
    return Verdict(
        rule,
        scope,
        FIRED if own["fires"] else CLEAR,
        row=row,
        severity=_severity(rule, row, own),
        confidence=confidence_of(
            rule,
            row if steps_in_all is None else {**row, "step_count": steps_in_all},
            [at for at in range(len(rule.lower)) if own[f"lower_{at}"]],
        ),
        fix_order=fixes,
        interventions=interventions,
    )


def _severity(rule: Rule, row: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    if "severity" in own:
        return str(own["severity"])
    if rule.severity != AUTO:
        return rule.severity
    return severity_of(float(row.get("bound_share") or 0.0))
