"""Attaches explanations to findings: rules that say why a finding is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import ABSTAINED, CLEAR, EXPLANATION, FIRED, Rule

NOTHING_TO_EXPLAIN = "nothing-to-explain"


@dataclass(frozen=True)
class Explained:
    """The verdicts of all explanations, and those that belong under each finding (by rule id and place)."""

    verdicts: tuple[Verdict, ...] = ()
    under: Mapping[tuple[str, Place], tuple[Verdict, ...]] = field(default_factory=dict)


def attach_explanations(
    rules: Sequence[Rule],
    verdicts: Sequence[Verdict],
    fired: Sequence[Verdict],
    evaluate: Callable[[Rule], Sequence[Verdict]],
) -> Explained:
    """Return the explanations of what fired among all verdicts; one without a finding to explain is not evaluated."""
    known = {rule.id: rule for rule in rules}
    under: dict[tuple[str, Place], tuple[Verdict, ...]] = {}
    explanations: list[Verdict] = []
    for rule in (rule for rule in rules if rule.kind == EXPLANATION):
        findings = [verdict for verdict in fired if _belongs_to(verdict.rule, rule, known)]
        if not findings:
            explanations.append(_not_evaluated(rule, verdicts, known))
            continue
        for explanation in evaluate(rule):
            explained = [item for item in findings if explanation.state == FIRED and _explains(explanation, item)]
            for finding in explained:
                key = (finding.rule.id, finding.place)
                under[key] = (*under.get(key, ()), explanation)
            if explanation.state == FIRED and not explained:
                detail = "nothing was found here"
                explanation = replace(explanation, state=CLEAR, reason=NOTHING_TO_EXPLAIN, detail=detail)
            explanations.append(explanation)
    return Explained(tuple(explanations), under)


def _explains(explanation: Verdict, finding: Verdict) -> bool:
    """Return whether an explanation is about a finding's place, and about its operations where it names one (op_id)."""
    if not explanation.place.meets(finding.place):
        return False
    saved = [removal.savings for removal in finding.removals.values() if removal.savings]
    op_id = explanation.row.get("op_id")
    return op_id is None or not saved or any(op_id in savings for savings in saved)


def _not_evaluated(rule: Rule, verdicts: Sequence[Verdict], known: Mapping[str, Rule]) -> Verdict:
    """Return the verdict of an explanation without a finding: abstained where every rule that it explains abstained."""
    looked_for = [verdict for verdict in verdicts if _belongs_to(verdict.rule, rule, known)]
    if looked_for and all(verdict.state == ABSTAINED for verdict in looked_for):
        first = min(looked_for, key=lambda verdict: (verdict.reason or "", verdict.detail or ""))
        return replace(first, rule=rule, place=Place())
    detail = f"{', '.join(rule.attaches_to)} {'was' if len(rule.attaches_to) == 1 else 'were'} not found"
    return Verdict(rule, Place(), CLEAR, NOTHING_TO_EXPLAIN, detail)


def _belongs_to(finding: Rule, explanation: Rule, known: Mapping[str, Rule]) -> bool:
    """Return whether an explanation is of a finding or of what it refines.

    A finding of certain rows names their cause itself.
    """
    if finding.removes_claimed:
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
