"""Evaluates one rule in every place, by itself: it fires, is clear, or abstains with the reason."""

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
from traceanalyzer.rules.evaluation.places import MEASURED, Capability, Confidence, Place, RunPlaces, confidence_of
from traceanalyzer.rules.evaluation.removals import (
    Device,
    DeviceBound,
    Removal,
    RunScan,
    WhatIfScan,
    device_bounds,
    fill_bound,
    find_removals,
    no_removals,
    run_bounds,
)
from traceanalyzer.rules.evaluation.sandbox import SharedMetrics
from traceanalyzer.rules.rule_file.model import (
    ABSTAINED,
    AUTO,
    CLEAR,
    DEVICE,
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


class Verdict(Struct, frozen=True):
    """The verdict of one rule in one place; `row` is what its select returned there.

    `removals` is what its fix takes away, by device; of a finding about the whole run on each. `run_ns` is what the
    rule's fix saves of the run if it is made everywhere that the rule fired; None: the ranks cannot be compared; it is
    exact, or there is a `run_least_ns`. Of recordings of one rank whose steps are pooled, it is what all save. Ranks
    that hold up the others `in_turn` save little one by one, and are parts of one finding. `sure_share` is what is
    saved even if what the trace leaves open (`uncertainty`) turns out against the fix; None: about as much.
    """

    rule: Rule
    place: Place
    state: str
    reason: str | None = None
    detail: str | None = None
    unlock: str | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    severity: str | None = None
    confidence: Confidence = MEASURED
    fix_order: tuple[int, ...] = ()  # positions in rule.fixes of those that apply
    removals: Mapping[Device, Removal] = field(default_factory=dict)
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

    def devices(self, run: RunPlaces) -> tuple[Device, ...]:
        """Return the devices that the verdict is about: one, or all of the run."""
        key = run.key(self.place)
        return tuple(run.windows) if self.place.device is None else (key,) if key in run.windows else ()


class Question(Struct, frozen=True):
    """Says how to evaluate a rule.

    What is `fixed` on a device counts as done: the verdict is about what the rule's fix adds to it, which is `added`
    where that is known already. Where fixing the rule saves a smaller share than `ignored_share`, the rule is clear
    whatever its condition says, and its select is not run. Rules about the run need `run_savings`. Without a scan the
    table `bound` stays as it is, and with `assume_requirements` every place has all capabilities: both are for tests on
    literal rows. Time that rules `beside` it claim (by id) is not counted as claimed by this one. What each rule's fix
    takes away is kept in `removals`: it is the same whatever is fixed. Which rules have nothing to find (their
    `clear_without` has no row) is kept in `idle`; None: all SQL of a rule is run all the same, for its columns. Which
    rules stay clear whatever is fixed is kept in `settled`.
    `metrics` makes tables of the metrics that the rules share, as they are needed.
    """

    scan: WhatIfScan | None
    fixed: Mapping[Device, Removal] = field(default_factory=dict)
    added: Mapping[Device, int] | None = None
    ignored_share: float | None = None
    assume_requirements: bool = False
    run_savings: RunScan | None = None
    beside: tuple[str, ...] = ()
    removals: dict[str, Mapping[Device, Removal]] = field(default_factory=dict)  # by rule id
    idle: dict[str, bool] | None = None  # by rule id
    settled: dict[str, bool] = field(default_factory=dict)  # by rule id
    metrics: SharedMetrics | None = None


def evaluate(
    con: duckdb.DuckDBPyConnection, rule: Rule, run: RunPlaces, values: Mapping[str, Any], question: Question
) -> list[Verdict]:
    """Return the rule's verdict in every place that it is about.

    The rule abstains with the reason where a query fails or reaches a limit.
    """
    apart = _apart(rule, run, question)
    if apart is not None:
        return [apart]
    places = run.traces_without_devices if rule.scope == HOST else run.devices
    missing, open_places = ([], places) if question.assume_requirements else _requirements(rule, run)
    if not open_places and rule.kind != QUALITY:
        return missing
    scan = None if rule.claims.is_empty else question.scan
    try:
        is_idle = not run.unjudged and _is_idle(con, rule, values, question)
        bounds = {} if scan is None else _bounds(con, rule, run, values, question, is_idle=is_idle)
        if is_idle:
            return [*missing, *_without_find(rule, run, open_places, bounds, scan)]
        saves = scan is None or rule.says_its_bound or _saves(run, open_places, bounds, question.ignored_share)
        if scan is not None and not saves and not rule.abstain:
            return [*missing, *(_without_select(rule, run, place, bounds, scan) for place in open_places)]
        if question.metrics is not None:
            question.metrics.make_for(rule.reads)
        if scan is not None:
            # What a rule's own `abstain` says is worth knowing even where it saves nothing.
            fill_bound(con, rule, values, bounds, with_claims=saves, beside=question.beside)
        rows = sandbox.query(con, verdict_sql(rule), values).dicts()
    except sandbox.RuleQueryError as error:
        reason = LIMIT_REACHED if isinstance(error, sandbox.RuleLimitError) else "error"
        places = open_places or (Place(),)
        return [*missing, *(Verdict(rule, place, ABSTAINED, reason, error.what, error.hint) for place in places)]
    question.settled[rule.id] = bool(rows) and all(row.get(_SETTLED) for row in rows)
    verdicts = []
    seen = set()
    closed = {verdict.place for verdict in missing}
    for row in rows:
        place = Place(row.get("trace"), row.get("device"))
        is_listed_only = rule.kind != QUALITY and place.trace in run.unjudged
        if place in seen or is_listed_only or _is_closed(place, closed, open_places):
            continue
        seen.add(place)
        distrust = None if scan is None or place.device is None else scan.abstains(*run.key(place))
        window = run.windows.get(run.key(place), {}) if place.device is not None else {}
        removals = _removals(rule, run, place, row, bounds)
        verdicts.append(_verdict(rule, place, row, distrust, removals, values, window.get("steps_in_all")))
    # A query without an order returns its rows in any order: of equal places the first one counts for all.
    verdicts.sort(key=lambda verdict: run.key(verdict.place))
    by_device = rule.kind == FINDING and rule.scope != RUN
    unseen = [place for place in open_places if place not in seen] if by_device else []
    return [*missing, *verdicts, *(_without_row(rule, run, place) for place in unseen)]


def _without_row(rule: Rule, run: RunPlaces, place: Place) -> Verdict:
    """Return the abstention of a rule whose select has no row for a place.

    The host of a trace has none where GPU work may be missing: its waits would look like work.
    """
    gpu = run.missing(place, ("gpu_ops",)) if rule.scope == HOST else None
    if gpu is None:
        return Verdict(rule, place, ABSTAINED, "no-row", "the rule's select returned no row for this device")
    return _lacking(rule, place, *gpu)


def _lacking(rule: Rule, place: Place, name: str, capability: Capability) -> Verdict:
    """Return the abstention of a rule where something that it needs was not recorded."""
    return Verdict(rule, place, ABSTAINED, f"missing-capability:{name}", capability.detail, capability.unlock)


def _apart(rule: Rule, run: RunPlaces, question: Question) -> Verdict | None:
    """Return the abstention of a rule about the host in a run on GPUs, and about a run whose ranks cannot be compared.

    How long stages of a pipeline compute and wait is known without the pairs of sends and receives.
    """
    if rule.scope == HOST and run.devices:
        return Verdict(rule, Place(), ABSTAINED, NOT_APPLICABLE, "the run has GPU work")
    compares_ranks = rule.scope == RUN and rule.kind != QUALITY
    why = None if question.run_savings is None or not compares_ranks else question.run_savings.abstains
    if why is None or not run.devices:
        return None
    if why == NOT_MATCHED and rule.says_its_bound and rule.claims.causes == (MESSAGE,):
        return None
    reason, _, detail = why.partition(": ")
    return Verdict(rule, Place(), ABSTAINED, reason, detail, _UNLOCKS.get(reason))


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
    rule: Rule, run: RunPlaces, places: Sequence[Place], bounds: Mapping[Device, DeviceBound], scan: WhatIfScan | None
) -> list[Verdict]:
    """Return the clear verdicts of a rule in a run that has nothing for it to find."""
    if rule.kind == QUALITY:
        traces = [Place(trace) for trace in run.trace_ids]
        places = {DEVICE: run.devices, TRACE: traces, RUN: [Place()]}[rule.scope]
    places = sorted(places, key=run.key)
    if scan is not None:
        return [_without_select(rule, run, place, bounds, scan) for place in places]
    return [Verdict(rule, place, CLEAR) for place in places]


def _bounds(
    con: duckdb.DuckDBPyConnection,
    rule: Rule,
    run: RunPlaces,
    values: Mapping[str, Any],
    question: Question,
    *,
    is_idle: bool,
) -> dict[Device, DeviceBound]:
    if rule.id not in question.removals:
        if question.metrics is not None and not is_idle:
            question.metrics.make_for(sources_in(rule.removal_sql))
        of_rule = no_removals(rule, run.windows) if is_idle else find_removals(con, rule, values, run.windows)
        question.removals[rule.id] = of_rule
    removals = question.removals[rule.id]
    if rule.scope == RUN and question.run_savings is not None:
        return run_bounds(rule, removals, question.run_savings, run.windows)
    assert question.scan is not None
    return device_bounds(removals, question.scan, run.windows, question.fixed, question.added)


def _removals(
    rule: Rule, run: RunPlaces, place: Place, row: Mapping[str, Any], bounds: Mapping[Device, DeviceBound]
) -> dict[Device, Removal]:
    """Return what the fix of a finding takes away: on its device, or on all where it is about the run."""
    key = run.key(place)
    keys = list(bounds) if place.device is None else [key] if key in bounds else []
    if rule.says_its_bound:
        return dict.fromkeys(keys, Removal(stated_ns=int(row.get("bound_ns") or 0)))
    return {key: bounds[key].removal for key in keys}


def _saves(
    run: RunPlaces, places: Sequence[Place], bounds: Mapping[Device, DeviceBound], ignored_share: float | None
) -> bool:
    if ignored_share is None:
        return True
    for place in places:
        bound = bounds[run.key(place)]
        floor_ns = ignored_share * bound.window["window_ns"]
        if max(bound.bound_ns or 0, bound.run_ns or 0) >= floor_ns and bound.bound_ns is not None:
            return True
    return False


def _without_select(
    rule: Rule, run: RunPlaces, place: Place, bounds: Mapping[Device, DeviceBound], scan: WhatIfScan
) -> Verdict:
    key = run.key(place)
    distrust = scan.abstains(*key)
    row, removals = bounds[key].row({}), {key: bounds[key].removal}
    if distrust is not None:
        return Verdict(rule, place, ABSTAINED, "untrusted-bound", distrust, row=row)
    return Verdict(rule, place, CLEAR, row=row, severity=_severity(rule, row, {}), removals=removals)


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


def _requirements(rule: Rule, run: RunPlaces) -> tuple[list[Verdict], tuple[Place, ...]]:
    # A device rule abstains once for each trace without devices, of which a rule about the host judges each.
    places = (*run.devices, *run.traces_without_devices) if rule.kind != QUALITY else ()
    requires = rule.requires if rule.scope == HOST else tuple(dict.fromkeys(("gpu_ops", *rule.requires)))
    missing = []
    for place in places:
        first_missing = run.missing(place, requires)
        if first_missing is not None:
            missing.append(_lacking(rule, place, *first_missing))
    unmet = {verdict.place for verdict in missing}
    return missing, tuple(place for place in places if place not in unmet)


def _is_closed(place: Place, closed: Set[Place], open_places: Sequence[Place]) -> bool:
    """Return whether a requirement is missing in a place, or, for a trace, on each of its devices."""
    if place.device is None and closed:
        closed_here = any(place.trace in (None, item.trace) for item in closed)
        return closed_here and not any(place.trace in (None, item.trace) for item in open_places)
    return place in closed


def _verdict(
    rule: Rule,
    place: Place,
    row: dict[str, Any],
    distrust: str | None,
    removals: Mapping[Device, Removal],
    values: Mapping[str, Any],
    steps_in_all: int | None,
) -> Verdict:
    """Return the verdict of a row; `steps_in_all` are those of all recordings that are pooled with it."""
    own = {name.removeprefix(_OWN): row.pop(name) for name in list(row) if name.startswith(_OWN)}
    seen = {**values, **row}
    for index, item in enumerate(rule.abstain):
        if own[f"abstain_{index}"]:
            detail = None if item.detail is None else render(item.detail, seen)
            return Verdict(rule, place, ABSTAINED, item.reason, detail, row=row)
    if distrust is not None:
        return Verdict(rule, place, ABSTAINED, "untrusted-bound", distrust, row=row)
    if own["fires"] is None:
        return Verdict(rule, place, ABSTAINED, "unknown", "the condition met an unknown value", row=row)
    fits = [own[f"fix_{index}"] for index in range(len(rule.fixes))]
    # Where none is known to fit, those may that depend on what the trace does not say.
    fixes = tuple(at for at, fit in enumerate(fits) if fit) or tuple(at for at, fit in enumerate(fits) if fit is None)
    return Verdict(
        rule,
        place,
        FIRED if own["fires"] else CLEAR,
        row=row,
        severity=_severity(rule, row, own),
        confidence=confidence_of(
            rule,
            row if steps_in_all is None else {**row, "step_count": steps_in_all},
            [at for at in range(len(rule.lower)) if own[f"lower_{at}"]],
        ),
        fix_order=fixes,
        removals=removals,
    )


def _severity(rule: Rule, row: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    if "severity" in own:
        return str(own["severity"])
    if rule.severity != AUTO:
        return rule.severity
    return severity_of(float(row.get("bound_share") or 0.0))
