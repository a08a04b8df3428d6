"""Asks the rules that explain what others found, and says under which findings each is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from traceanalyzer.rules.model import ABSTAINED, CLEAR, EXPLANATION, FIRED, Rule
from traceanalyzer.rules.places import Place
from traceanalyzer.rules.verdicts import Verdict

NOTHING_TO_EXPLAIN = "nothing-to-explain"


@dataclass(frozen=True)
class Explained:
    """What became of every explanation, and which are told under a finding (by rule id and place)."""

    verdicts: tuple[Verdict, ...] = ()
    under: Mapping[tuple[str, Place], tuple[Verdict, ...]] = field(default_factory=dict)


def explain_findings(
    rules: Sequence[Rule],
    verdicts: Sequence[Verdict],
    found: Sequence[Verdict],
    evaluate: Callable[[Rule], Sequence[Verdict]],
) -> Explained:
    """Return the explanations of what was found among all verdicts; one with nothing to explain is not asked."""
    known = {rule.id: rule for rule in rules}
    under: dict[tuple[str, Place], tuple[Verdict, ...]] = {}
    answers: list[Verdict] = []
    for rule in (rule for rule in rules if rule.kind == EXPLANATION):
        mine = [verdict for verdict in found if _lineage(verdict.rule, known) & set(rule.attaches_to)]
        if not mine:
            answers.append(_not_asked(rule, verdicts, known))
            continue
        for told in evaluate(rule):
            places = [verdict for verdict in mine if told.state == FIRED and _explains(told, verdict)]
            for verdict in places:
                key = (verdict.rule.id, verdict.place)
                under[key] = (*under.get(key, ()), told)
            if told.state == FIRED and not places:
                told = replace(told, state=CLEAR, reason=NOTHING_TO_EXPLAIN, detail="nothing was found here")
            answers.append(told)
    return Explained(tuple(answers), under)


def _explains(told: Verdict, found: Verdict) -> bool:
    """Tell whether an explanation is about a finding's place, and about its operations where it names one (op_id)."""
    if not told.place.meets(found.place):
        return False
    saved = [removal.savings for removal in found.removals.values() if removal.savings]
    return told.row.get("op_id") is None or not saved or any(told.row["op_id"] in savings for savings in saved)


def _not_asked(rule: Rule, verdicts: Sequence[Verdict], known: Mapping[str, Rule]) -> Verdict:
    """Return the verdict of an explanation without a finding: where nobody could look for that, it could not either."""
    looked_for = [verdict for verdict in verdicts if _lineage(verdict.rule, known) & set(rule.attaches_to)]
    if looked_for and all(verdict.state == ABSTAINED for verdict in looked_for):
        told = min(looked_for, key=lambda verdict: (verdict.reason or "", verdict.detail or ""))
        return replace(told, rule=rule, place=Place())
    detail = f"{', '.join(rule.attaches_to)} {'was' if len(rule.attaches_to) == 1 else 'were'} not found"
    return Verdict(rule, Place(), CLEAR, NOTHING_TO_EXPLAIN, detail)


def _lineage(rule: Rule, known: Mapping[str, Rule]) -> set[str]:
    """Return a rule and all that it refines: what explains these explains it."""
    found: set[str] = set()
    waiting = [rule.id]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += known[name].refines if name in known else ()
    return found
