"""Puts the findings of one device in the order of fixes, with what each adds after those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceanalyzer.rules.bounds import Device, LeadScan, Removal
from traceanalyzer.rules.model import EFFORTS
from traceanalyzer.rules.verdicts import Verdict

# A fix that adds less than this share of its own bound after another one is the other's alternative.
ALTERNATIVE_SHARE = 0.1
# Savings this close count as equal: then the fix that is less work goes first.
EQUAL_SHARE = 0.1
# Joint scans grow with the square of the findings; later ones keep the order of their bounds.
JOINT_LIMIT = 12


PRIMARY, ALTERNATIVE, LATENT = "primary", "alternative", "latent"


@dataclass(frozen=True)
class Ordered:
    """One finding in the order of fixes."""

    verdict: Verdict
    order: int
    marginal_ns: int
    alternatives: tuple[str, ...] = ()
    status: str = PRIMARY
    after: tuple[str, ...] = ()  # of a latent finding: the fixes without which it saves nothing


def order_fixes(scan: LeadScan, place: Device, fired: Sequence[Verdict], owned_ns: Mapping[str, int]) -> list[Ordered]:
    """Return the findings in greedy order: each the one that adds most to those before it.

    Of findings that win the same time, the one goes first that owns more of it: it is the reason, the other only hides
    it. The marginals add up to the bound of all fixes together.
    """
    ranked = sorted(fired, key=lambda verdict: (-(verdict.bound_ns or 0), verdict.rule.id))
    rest, tail = ranked[:JOINT_LIMIT], ranked[JOINT_LIMIT:]
    alternatives = _alternatives(scan, place, rest)
    ordered: list[Ordered] = []
    done, done_ns = Removal(), 0
    while rest or tail:
        if not rest:
            rest, tail = tail[:1], tail[1:]
        totals = {verdict.rule.id: done.joined(verdict.removal).bound_ns(scan, place) for verdict in rest}
        gains = {rule_id: total - done_ns for rule_id, total in totals.items()}
        chosen = _next(rest, gains, alternatives, owned_ns)
        rest = [verdict for verdict in rest if verdict is not chosen]
        others = alternatives.get(chosen.rule.id, frozenset())
        before = {item.verdict.rule.id for item in ordered if item.status == PRIMARY}
        adds_little = gains[chosen.rule.id] <= ALTERNATIVE_SHARE * (chosen.bound_ns or 0)
        ordered.append(
            Ordered(
                chosen,
                order=len(ordered) + 1,
                marginal_ns=max(0, totals[chosen.rule.id] - done_ns),
                alternatives=tuple(sorted(others)),
                status=ALTERNATIVE if others & before and adds_little else PRIMARY,
            )
        )
        done, done_ns = done.joined(chosen.removal), max(done_ns, totals[chosen.rule.id])
    return ordered


def fixes_of(ordered: Sequence[Ordered]) -> Removal:
    """Return everything that the findings in this order take away."""
    total = Removal()
    for item in ordered:
        total = total.joined(item.verdict.removal)
    return total


def _next(
    rest: Sequence[Verdict],
    gains: Mapping[str, int],
    alternatives: Mapping[str, frozenset[str]],
    owned_ns: Mapping[str, int],
) -> Verdict:
    best = max(gains.values())
    close = [verdict for verdict in rest if gains[verdict.rule.id] >= best * (1 - EQUAL_SHARE)]
    first = min(close, key=lambda verdict: (_effort(verdict), -gains[verdict.rule.id], verdict.rule.id))
    same = alternatives.get(first.rule.id, frozenset())
    rivals = [verdict for verdict in rest if verdict is first or verdict.rule.id in same]
    return max(rivals, key=lambda verdict: (owned_ns.get(verdict.rule.id, 0), verdict is first))


def _effort(verdict: Verdict) -> int:
    return EFFORTS.index(verdict.rule.fixes[verdict.fix_order[0]].effort)


def _alternatives(scan: LeadScan, place: Device, fired: Sequence[Verdict]) -> dict[str, frozenset[str]]:
    """Return, for each finding, those whose fix wins the same time: after either, the other adds next to nothing."""
    found: dict[str, set[str]] = {}
    for index, first in enumerate(fired):
        for second in fired[index + 1 :]:
            # `fired` is sorted by bound: the second is the smaller one.
            joint_ns = first.removal.joined(second.removal).bound_ns(scan, place)
            added_ns = joint_ns - (first.bound_ns or 0)
            if added_ns <= ALTERNATIVE_SHARE * (second.bound_ns or 0):
                found.setdefault(first.rule.id, set()).add(second.rule.id)
                found.setdefault(second.rule.id, set()).add(first.rule.id)
    return {rule_id: frozenset(others) for rule_id, others in found.items()}
