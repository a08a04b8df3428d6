"""Attaches explanations to findings, and explains how one rule came to its verdict on a run, with the values it saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
from msgspec import Struct, field
from msgspec.structs import replace

from traceanalyzer.attribution.replay.bounds import Bounds, ScansOf
from traceanalyzer.rules.diagnosis.firing import MIN_IMPACT_SHARE, clear_if_little, measure_run_savings
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import RememberedScan
from traceanalyzer.rules.evaluation.run_savings import RunSavings
from traceanalyzer.rules.evaluation.sandbox import lock_workspace
from traceanalyzer.rules.evaluation.scopes import RunScopes, Scope, read_scopes
from traceanalyzer.rules.evaluation.verdicts import Question, Verdict, capabilities_of, evaluate
from traceanalyzer.rules.fix_plan.fix_order import PlanContext
from traceanalyzer.rules.rule_file import sql_text
from traceanalyzer.rules.rule_file.model import ABSTAINED, AUTO, CLEAR, EXPLANATION, FIRED, ParamValue, Rule


class Seen(Struct, frozen=True):
    """A condition, whether it holds (None: unknown), and the values of the columns and parameters that it names."""

    text: str
    holds: bool | None
    values: Mapping[str, Any]
    meaning: str = ""  # what follows where it holds


class Explanation(Struct, frozen=True):
    """How a rule came to its verdict in one scope."""

    rule: Rule
    verdict: Verdict
    requirements: tuple[tuple[str, bool, str | None], ...]  # capability, there or not, what was seen
    abstains: tuple[Seen, ...]
    when: tuple[Seen, ...]  # the parts of `when` that AND joins
    lowers: tuple[Seen, ...]
    fixes: tuple[Seen, ...]


def explain(
    con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, ParamValue], scans_of: ScansOf | None = None
) -> list[Explanation]:
    """Return how the rule came to its verdict, in every scope that it is about; for the arguments see `diagnose`."""
    bounds = None if rule.claims.is_empty else Bounds.load(con, scans_of)
    question = Question(
        None if bounds is None else RememberedScan(bounds), run_savings=None if bounds is None else RunSavings(bounds)
    )
    lock_workspace(con)
    run = read_scopes(con)
    verdicts = evaluate(con, rule, run, values, question)
    seen = _seen(con, rule, values) if any(verdict.row for verdict in verdicts) else {}
    return [
        _explanation(rule, run, verdict, seen.get((verdict.scope.trace, verdict.scope.device)))
        for verdict in _weighed(run, question, [clear_if_little(verdict, MIN_IMPACT_SHARE) for verdict in verdicts])
    ]


def _weighed(run: RunScopes, question: Question, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return verdicts as a diagnosis has them where ranks wait for each other."""
    run_savings = question.run_savings
    if run_savings is None or question.scan is None or run_savings.abstains is not None:
        return list(verdicts)
    return measure_run_savings(PlanContext(run, question.scan, run_savings, MIN_IMPACT_SHARE), verdicts)


def unmet(con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, ParamValue], verdict: Verdict) -> list[str]:
    """Return the parts of `when` that do not hold in a scope, with what they saw; right after the evaluation."""
    seen = _seen(con, rule, values).get((verdict.scope.trace, verdict.scope.device), {}).get("when", ())
    return [
        f"{part.text} {'is unknown' if part.holds is None else 'does not hold'}: "
        + ", ".join(f"{name} = {_short(value)}" for name, value in part.values.items())
        for part in seen
        if not part.holds
    ]


def _explanation(
    rule: Rule, run: RunScopes, verdict: Verdict, seen: Mapping[str, tuple[Seen, ...]] | None
) -> Explanation:
    conditions = seen or {}
    requirements = []
    for name in capabilities_of(rule, run):
        missing = run.missing(verdict.scope, [name])
        requirements.append((name, missing is None, None if missing is None else missing[1].detail))
    return Explanation(
        rule,
        verdict,
        tuple(requirements),
        *(conditions.get(name, ()) for name in ("abstains", "when", "lowers", "fixes")),
    )


def _seen(
    con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, ParamValue]
) -> dict[tuple[Any, Any], dict[str, tuple[Seen, ...]]]:
    """Return every condition with its values, by scope; the table `bound` holds the rule's rows."""
    groups: dict[str, Sequence[tuple[str, str]]] = {
        "abstains": [(item.when, item.reason) for item in rule.abstain],
        "when": [(part, "") for part in sql_text.and_parts(rule.when)],
        "lowers": [(item.when, f"{item.to} confidence: {item.because}") for item in rule.lower],
        "fixes": [(item.when or "TRUE", " ".join(item.text.split())) for item in rule.fixes],
    }
    conditions = [text for group in groups.values() for text, _ in group]
    columns = ", ".join(f"({text}\n) AS _part_{index}" for index, text in enumerate(conditions))
    sql = f"WITH subject AS (\n{rule.select}\n) SELECT subject.*, {columns} FROM subject"
    by_scope: dict[tuple[Any, Any], dict[str, tuple[Seen, ...]]] = {}
    for row in sandbox.query(con, sql, values).dicts():
        holds = iter([row.pop(f"_part_{index}") for index in range(len(conditions))])
        known = {**values, **row}
        by_scope[(row.get("trace"), row.get("device"))] = {
            name: tuple(Seen(sql_text.on_one_line(text), next(holds), _named(text, known), why) for text, why in group)
            for name, group in groups.items()
        }
    return by_scope


def _named(text: str, known: Mapping[str, Any]) -> dict[str, Any]:
    names = [word.strip('"') for kind, word in sql_text.words(text) if kind == sql_text.NAME]
    return {name: known[name] for name in dict.fromkeys(names) if name in known}


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


NOTHING_TO_EXPLAIN = "nothing-to-explain"


class Explained(Struct, frozen=True):
    """The verdicts of all explanations, and those that belong under each finding (by rule id and scope)."""

    verdicts: tuple[Verdict, ...] = ()
    under: Mapping[tuple[str, Scope], tuple[Verdict, ...]] = field(default_factory=dict)


def attach_explanations(
    rules: Sequence[Rule],
    verdicts: Sequence[Verdict],
    fired: Sequence[Verdict],
    evaluate: Callable[[Rule], Sequence[Verdict]],
) -> Explained:
    """Return the explanations of what fired among all verdicts; one without a finding to explain is not evaluated."""
    known = {rule.id: rule for rule in rules}
    judged = {verdict.rule.id: verdict.rule for verdict in (*verdicts, *fired)}
    under: dict[tuple[str, Scope], tuple[Verdict, ...]] = {}
    explanations: list[Verdict] = []
    for rule in (rule for rule in rules if rule.kind == EXPLANATION):
        of_rules = {rule_id for rule_id, finding in judged.items() if _belongs_to(finding, rule, known)}
        findings = [verdict for verdict in fired if verdict.rule.id in of_rules]
        if not findings:
            explanations.append(_not_evaluated(rule, [item for item in verdicts if item.rule.id in of_rules]))
            continue
        for explanation in evaluate(rule):
            explained = [item for item in findings if explanation.state == FIRED and _explains(explanation, item)]
            for finding in explained:
                key = (finding.rule.id, finding.scope)
                under[key] = (*under.get(key, ()), explanation)
            if explanation.state == FIRED and not explained:
                detail = "nothing was found here"
                explanation = replace(explanation, state=CLEAR, reason=NOTHING_TO_EXPLAIN, detail=detail)
            explanations.append(explanation)
    return Explained(tuple(explanations), under)


def _explains(explanation: Verdict, finding: Verdict) -> bool:
    """Return whether an explanation is about a finding's scope, and about its operations where it names one (op_id).

    What explains time that shows now does not explain a limit that shows only after other fixes.
    """
    bound_ns, claimed_ns = finding.bound_ns or 0, finding.row.get("claimed_ns") or 0
    is_hidden = finding.row.get("after_fixes") and 2 * claimed_ns < bound_ns
    if is_hidden or not explanation.scope.meets(finding.scope):
        return False
    saved = [intervention.savings for intervention in finding.interventions.values() if intervention.savings]
    op_id = explanation.row.get("op_id")
    return op_id is None or not saved or any(op_id in savings for savings in saved)


def _not_evaluated(rule: Rule, looked_for: Sequence[Verdict]) -> Verdict:
    """Return the verdict of an explanation without a finding: abstained where every rule that it explains abstained."""
    if looked_for and all(verdict.state == ABSTAINED for verdict in looked_for):
        first = min(looked_for, key=lambda verdict: (verdict.reason or "", verdict.detail or ""))
        return replace(first, rule=rule, scope=Scope())
    detail = f"{', '.join(rule.attaches_to)} {'was' if len(rule.attaches_to) == 1 else 'were'} not found"
    return Verdict(rule, Scope(), CLEAR, NOTHING_TO_EXPLAIN, detail)


def _belongs_to(finding: Rule, explanation: Rule, known: Mapping[str, Rule]) -> bool:
    """Return whether an explanation is of a finding or of what it refines.

    A finding about given rows says their cause itself. One that promises no saving, and so says its severity, has none.
    """
    if finding.removes_claimed or (finding.severity != AUTO and not finding.removes):
        return finding.id in explanation.attaches_to
    return not _lineage(finding, known).isdisjoint(explanation.attaches_to)


def _lineage(rule: Rule, known: Mapping[str, Rule]) -> set[str]:
    """Return the ids of a rule and of all that it refines: what explains these explains it."""
    ids: set[str] = set()
    waiting = [rule.id]
    while waiting:
        name = waiting.pop()
        if name not in ids:
            ids.add(name)
            waiting += known[name].refines if name in known else ()
    return ids
