"""Finds limits that balance each other: no fix saves anything by itself, and two or three of them together do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from traceanalyzer.rules.bounds import Device
from traceanalyzer.rules.fix_order import JOINT, JOINT_LIMIT, Candidate, Combination, FixOrder, order_fixes
from traceanalyzer.rules.model import FIRED, Rule
from traceanalyzer.rules.ordering import Field, Reevaluate, by_rule, fired_after, waiting_for_fixes
from traceanalyzer.rules.places import Place
from traceanalyzer.rules.together import Removals, joined
from traceanalyzer.rules.verdicts import Verdict

# More limits than these are never quite alike, and nobody mends them all before the first gain.
MOST_LIMITS = 3


@dataclass(frozen=True)
class _Limit:
    """One rule's fix on the devices of a place: what it takes away, and how much time that is."""

    verdicts: tuple[Verdict, ...]
    removals: Removals
    taken_ns: int

    @property
    def rule(self) -> Rule:
        return self.verdicts[0].rule


def add_balanced(
    field: Field, verdicts: Sequence[Verdict], orders: dict[Place, FixOrder], evaluate: Reevaluate
) -> list[Verdict]:
    """Add an order of fixes wherever no fix begins one, and two or three together are worth it.

    Three lanes of a step (the host, the copies or collectives, the kernels) that take the same time hide each other:
    each is worth next to nothing, for the next one takes over. Fixes are told together only where each of them is a
    finding of its rule once the others are made, so that none is there in vain.
    """
    by_place: dict[Place, list[Verdict]] = {}
    for verdict in waiting_for_fixes(field, verdicts):
        if field.place_of(verdict) not in orders:
            by_place.setdefault(field.place_of(verdict), []).append(verdict)
    told: list[Verdict] = []
    for place, waiting in by_place.items():
        order = _balanced(field, place, waiting, evaluate)
        if order is not None:
            orders[place] = order
            told += [verdict for item in order.items for verdict in item.candidate.verdicts]
    return told


def _balanced(field: Field, place: Place, waiting: Sequence[Verdict], evaluate: Reevaluate) -> FixOrder | None:
    limits = _limits(field, place, waiting)
    if not _is_worth_telling(field, place, limits):
        return None
    possible = [limit for limit in limits if _could_fire(field, limit, evaluate)]
    while len(possible) >= 2 and _is_worth_telling(field, place, possible):
        total_ns = field.worth(place)(_all_of(possible))
        lost_ns = {limit.rule.id: total_ns - field.worth(place)(_all_but(limit, possible)) for limit in possible}
        needless = possible
        if len(possible) <= MOST_LIMITS:
            fired = {limit.rule.id: _fired(field, place, limit, possible, evaluate) for limit in possible}
            if all(fired.values()):
                return _joint_order(field, place, possible, fired)
            needless = [limit for limit in possible if not fired[limit.rule.id]]
        # What adds least to the others goes; of fixes for the same time, the one that takes away more than it wins.
        least = min(needless, key=lambda limit: (lost_ns[limit.rule.id], -limit.taken_ns, limit.rule.id))
        possible = [limit for limit in possible if limit is not least]
    return None


def _limits(field: Field, place: Place, waiting: Sequence[Verdict]) -> list[_Limit]:
    """Return what could save anything at all, the largest first: a fix wins no more than the time that it takes out."""
    found = []
    for own in by_rule(waiting).values():
        removals: Removals = {}
        taken_ns = 0
        for verdict in own:
            device = field.run.key(verdict.place)
            removals = joined(removals, {device: verdict.removals[device]})
            taken_ns = max(taken_ns, field.scan.taken_ns(device, verdict.removals[device]))
        if taken_ns >= field.floor_ns(place):
            found.append(_Limit(tuple(own), removals, taken_ns))
    return sorted(found, key=lambda limit: (-limit.taken_ns, limit.rule.id))[:JOINT_LIMIT]


def _is_worth_telling(field: Field, place: Place, limits: Sequence[_Limit]) -> bool:
    return len(limits) >= 2 and field.worth(place)(_all_of(limits)) >= field.floor_ns(place)


def _could_fire(field: Field, limit: _Limit, evaluate: Reevaluate) -> bool:
    """Tell whether a rule would fire if all the time were won that its fix takes out; most have other conditions."""
    added: dict[Device, int] = {}
    for verdict in limit.verdicts:
        device = field.run.key(verdict.place)
        added[device] = field.scan.taken_ns(device, verdict.removals[device])
    places = {verdict.place for verdict in limit.verdicts}
    return any(found.state == FIRED and found.place in places for found in evaluate(limit.rule, {}, added))


def _fired(
    field: Field, place: Place, limit: _Limit, limits: Sequence[_Limit], evaluate: Reevaluate
) -> Sequence[Verdict]:
    """Return the findings of a rule in a place once the other limits are gone."""
    return fired_after(field, limit.verdicts, _all_but(limit, limits), evaluate).get(place, ())


def _joint_order(
    field: Field, place: Place, limits: Sequence[_Limit], fired: Mapping[str, Sequence[Verdict]]
) -> FixOrder:
    """Return the limits as one order of fixes, in which each names the others."""
    worth = field.worth(place)
    candidates = []
    for limit in limits:
        verdicts = sorted(fired[limit.rule.id], key=lambda verdict: (-(verdict.bound_share or 0.0), verdict.place))
        fix = Candidate(tuple(verdicts), 0)
        candidates.append(replace(fix, bound_ns=worth(fix.removals)))
    rules = sorted(limit.rule.id for limit in limits)
    items = tuple(
        replace(item, status=JOINT, alternatives=(), after=tuple(rule for rule in rules if rule != item.rule))
        for item in order_fixes(worth, candidates, {}).items
    )
    alone = {item.rule.id: item.bound_ns for item in candidates}
    named = tuple(item.rule for item in items)
    return FixOrder(items, (Combination(named, tuple(alone[rule] for rule in named), worth(_all_of(limits))),))


def _all_of(limits: Sequence[_Limit]) -> Removals:
    total: Removals = {}
    for limit in limits:
        total = joined(total, limit.removals)
    return total


def _all_but(left_out: _Limit, limits: Sequence[_Limit]) -> Removals:
    return _all_of([limit for limit in limits if limit is not left_out])
