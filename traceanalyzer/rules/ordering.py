"""Decides what is put in order together: the fixes of one device, or of a run whose ranks wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from traceanalyzer.diagnosis import Enabling, FixPlan, PlannedFix
from traceanalyzer.rules.bounds import Device, LeadScan, Removal
from traceanalyzer.rules.fix_order import (
    LATENT,
    PRIMARY,
    Candidate,
    FixOrder,
    Ordered,
    Worth,
    fixes_of,
    order_fixes,
)
from traceanalyzer.rules.model import AUTO, CLEAR, DEVICE, FINDING, FIRED, Rule
from traceanalyzer.rules.places import Place, Run
from traceanalyzer.rules.together import Removals, Together, joined
from traceanalyzer.rules.verdicts import Verdict, severity_of

# Bounds this close on two ranks are one finding on both.
SAME_SHARE = 0.2
# How often to ask again what matters once everything found so far is fixed.
LATENT_ROUNDS = 2

Key = tuple[str, Place]  # rule id and place
# A rule, what is fixed before it, and what it adds to that by device where this is known.
Reevaluate = Callable[[Rule, Removals, Mapping[Device, int] | None], Sequence[Verdict]]


@dataclass(frozen=True)
class Field:
    """What the order of fixes is worked out on: the run, its lead scans, and what is too little to tell."""

    run: Run
    scan: LeadScan
    together: Together | None  # None: ranks cannot be looked at together, and each device has an order of its own
    min_impact_share: float

    def place_of(self, verdict: Verdict) -> Place:
        """Return the place in whose order of fixes a verdict stands."""
        return verdict.place if self.together is None else Place()

    def worth(self, place: Place) -> Worth:
        """Return the function that tells what fixes save in a place."""
        if self.together is not None:
            return self.together.saved_ns
        return partial(_saved_on, self.scan, self.run.key(place))

    def window_ns(self, place: Place) -> int:
        """Return the window that savings are told of."""
        if self.together is not None:
            return self.together.window_ns
        return int(self.run.windows[self.run.key(place)]["window_ns"])

    def floor_ns(self, place: Place) -> float:
        """Return what a fix must save to be worth a word."""
        return max(1.0, self.min_impact_share * self.window_ns(place))


def _saved_on(scan: LeadScan, device: Device, removals: Removals) -> int:
    return removals.get(device, Removal()).bound_ns(scan, device)


def join_ranks(field: Field, verdicts: Sequence[Verdict], evaluate: Reevaluate) -> list[Verdict]:
    """Return verdicts with those fired, too, whose rank has a part in what fired on another one.

    Ranks that hold up the others in turn are worth little one by one. Where a rule fired on one, its fix is due on all
    on which it would fire if what the run saves by fixing all of them were theirs, as long as they add to it. Each
    keeps its own bound, and they are told as one.
    """
    together = field.together
    if together is None:
        return list(verdicts)
    in_turn: dict[str, set[Place]] = {}
    for rule, own in by_rule(verdicts).items():
        fired = [verdict for verdict in own if verdict.state == FIRED]
        clear = waiting_for_fixes(field, own)
        if not fired or not clear:
            continue
        places = {verdict.place for verdict in fired_after(field, [*fired, *clear], {}, evaluate).get(Place(), ())}
        late = [verdict for verdict in clear if verdict.place in places]
        alone, with_late = (Candidate(tuple(told), 0).removals for told in (fired, [*fired, *late]))
        if late and together.saved_ns(with_late) - together.saved_ns(alone) >= field.floor_ns(Place()):
            in_turn[rule] = {verdict.place for verdict in (*fired, *late)}
    return [
        replace(verdict, state=FIRED, reason=None, detail=None, in_turn=True)
        if verdict.place in in_turn.get(verdict.rule.id, ())
        else verdict
        for verdict in verdicts
    ]


def weigh_on_run(field: Field, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return verdicts with what their rule's fix saves of the run; those that save nothing of it are clear.

    A rank that only waits for others can be made faster without any gain.
    """
    together = field.together
    if together is None:
        return list(verdicts)
    told = by_rule(
        [item for item in verdicts if item.state == FIRED and item.rule.kind == FINDING and item.bound_ns is not None]
    )
    removals = {rule: Candidate(tuple(own), 0).removals for rule, own in told.items() if own[0].rule.scope == DEVICE}
    together.prepare(removals.values())
    saved = {rule: together.saved_ns(removals[rule]) if rule in removals else None for rule in told}
    worst = {rule: max(verdict.bound_share or 0.0 for verdict in own) for rule, own in told.items()}
    found = []
    weighed = {id(verdict) for own in told.values() for verdict in own}
    for verdict in verdicts:
        if id(verdict) in weighed:
            run_ns = saved[verdict.rule.id]
            verdict = _weighed(field, verdict, verdict.bound_ns if run_ns is None else run_ns, worst[verdict.rule.id])
        found.append(verdict)
    return found


def _weighed(field: Field, verdict: Verdict, run_ns: int | None, worst_share: float) -> Verdict:
    run_ns = run_ns or 0
    window_ns = field.window_ns(Place())
    share = run_ns / window_ns if window_ns else 0.0
    weighed = replace(verdict, run_ns=run_ns, run_share=share)
    if run_ns < field.floor_ns(Place()):
        own = verdict.bound_share or 0.0
        detail = f"saves {own:.1%} here and {share:.1%} of the run: other ranks are what it waits for"
        return replace(weighed, state=CLEAR, reason="hidden-by-other-ranks", detail=detail.replace("%", " %"))
    if verdict.rule.severity != AUTO:
        return weighed
    own = verdict.bound_share or 0.0
    is_like_worst = verdict.in_turn or own >= (1 - SAME_SHARE) * worst_share
    return replace(weighed, severity=severity_of(share if is_like_worst else min(share, own)))


def put_in_order(field: Field, told: Sequence[Verdict], owned: Mapping[Key, int]) -> dict[Place, FixOrder]:
    """Return the order of fixes in each place that has one."""
    by_place: dict[Place, dict[str, list[Verdict]]] = {}
    for verdict in told:
        if verdict.bound_ns is not None and (field.together is not None or verdict.place.device is not None):
            by_place.setdefault(field.place_of(verdict), {}).setdefault(verdict.rule.id, []).append(verdict)
    found = {}
    for place, by_rule in by_place.items():
        worth = field.worth(place)
        candidates = [_candidate(own, worth) for own in by_rule.values()]
        owned_ns = {rule: sum(owned.get((rule, verdict.place), 0) for verdict in own) for rule, own in by_rule.items()}
        found[place] = order_fixes(worth, candidates, owned_ns)
    return found


def _candidate(verdicts: Sequence[Verdict], worth: Worth) -> Candidate:
    ranked = sorted(verdicts, key=lambda item: (-(item.bound_share or 0.0), item.place.trace or "", item.place.device))
    fix = Candidate(tuple(ranked), 0)
    return replace(fix, bound_ns=worth(fix.removals))


def add_latent(
    field: Field, verdicts: Sequence[Verdict], orders: dict[Place, FixOrder], evaluate: Reevaluate
) -> list[Verdict]:
    """Append to each order what is worth nothing now and matters once the fixes before it are made."""
    # What is in an order already is fixed where it is worth it.
    ordered = {(item.rule, place) for place, order in orders.items() for item in order.items}
    waiting = [
        item
        for item in waiting_for_fixes(field, verdicts)
        if (place := field.place_of(item)) in orders and (item.rule.id, place) not in ordered
    ]
    latent: list[Verdict] = []
    for _ in range(LATENT_ROUNDS if orders else 0):
        done: Removals = {}
        for order in orders.values():
            done = joined(done, fixes_of(order.items))
        found: dict[Place, list[Ordered]] = {}
        if field.together is None:
            _scan_all_after(field, waiting, done)
        for own in by_rule(waiting).values():
            for place, fired in fired_after(field, own, done, evaluate).items():
                found.setdefault(place, []).append(_latent(field, place, fired, orders[place], done))
        # One a place and round: the next round knows what this one adds.
        for place, items in found.items():
            best = max(items, key=lambda item: (item.marginal_ns, item.rule))
            if best.marginal_ns < field.floor_ns(place):
                continue
            orders[place] = replace(orders[place], items=(*orders[place].items, best))
            told = {(best.rule, verdict.place) for verdict in best.candidate.verdicts}
            waiting = [item for item in waiting if (item.rule.id, item.place) not in told]
            latent += best.candidate.verdicts
    return latent


def waiting_for_fixes(field: Field, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return what is clear and may yet matter once other limits are gone."""
    return [
        verdict
        for verdict in verdicts
        if verdict.state == CLEAR
        and not verdict.rule.claims.is_empty
        and verdict.rule.scope == DEVICE
        and field.run.key(verdict.place) in verdict.removals
    ]


def by_rule(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.rule.id, []).append(verdict)
    return found


def fired_after(
    field: Field, waiting: Sequence[Verdict], done: Removals, evaluate: Reevaluate
) -> dict[Place, list[Verdict]]:
    """Return the verdicts of one rule that fire once other fixes are made, by the order in which they stand."""
    rule = waiting[0].rule
    if field.together is not None:
        added = _added_on_run(field.together, field.floor_ns(Place()), waiting, field.run, done)
        fired = evaluate(rule, done, added) if added else []
    else:
        fired = evaluate(rule, done, None) if any(_is_worth_more(field, v, done) for v in waiting) else []
    open_places = {verdict.place for verdict in waiting}
    found: dict[Place, list[Verdict]] = {}
    for verdict in fired:
        if verdict.state == FIRED and verdict.place in open_places:
            found.setdefault(field.place_of(verdict), []).append(verdict)
    return found


def _scan_all_after(field: Field, waiting: Sequence[Verdict], done: Removals) -> None:
    """Work out what every waiting rule saves after the other fixes: together, which is several times faster."""
    asked: dict[Device, list[Removal]] = {}
    for verdict in waiting:
        device = field.run.key(verdict.place)
        asked.setdefault(device, []).append(done.get(device, Removal()).joined(verdict.removals[device]))
    for device, removals in asked.items():
        field.scan.prepare(device, removals)


def _is_worth_more(field: Field, verdict: Verdict, done: Removals) -> bool:
    """Tell whether fixing a clear rule saves more after other fixes than now: only then can its verdict change."""
    device = field.run.key(verdict.place)
    added_ns = verdict.removals[device].added_ns(field.scan, device, done.get(device))
    floor_ns = max(1.0, field.min_impact_share * field.run.windows[device]["window_ns"])
    return added_ns >= floor_ns and added_ns != verdict.bound_ns


def _added_on_run(
    together: Together, floor_ns: float, waiting: Sequence[Verdict], run: Run, done: Removals
) -> dict[Device, int]:
    """Return what each rank has a part in, if a rule is fixed on all that it is clear on; nothing if that is little.

    Ranks that are late alike are worth nothing one by one: each is told what they save together, but no more than the
    fix takes out of its own time.
    """
    removals = {run.key(verdict.place): verdict.removals[run.key(verdict.place)] for verdict in waiting}
    taken = {device: together.taken_ns(device, removal) for device, removal in removals.items()}
    large = {device: removals[device] for device, taken_ns in taken.items() if taken_ns >= floor_ns}
    added_ns = together.saved_ns(joined(done, large)) - together.saved_ns(done) if large else 0
    return {device: min(added_ns, taken[device]) for device in large} if added_ns >= floor_ns else {}


def _latent(field: Field, place: Place, fired: Sequence[Verdict], order: FixOrder, done: Removals) -> Ordered:
    worth = field.worth(place)
    fix = Candidate(tuple(sorted(fired, key=lambda item: -(item.bound_ns or 0))), 0)
    added_ns = max(0, worth(joined(done, fix.removals)) - worth(done))
    if field.together is not None:
        window_ns = field.window_ns(place)
        share = added_ns / window_ns if window_ns else 0.0
        verdicts = [replace(verdict, run_ns=added_ns, run_share=share) for verdict in fix.verdicts]
        verdicts = [replace(v, severity=severity_of(share)) if v.rule.severity == AUTO else v for v in verdicts]
        fix = replace(fix, verdicts=tuple(verdicts))
    after = tuple(item.rule for item in order.items if item.status in (PRIMARY, LATENT))
    position = len(order.items) + 1
    return Ordered(replace(fix, bound_ns=added_ns), position, added_ns, status=LATENT, after=after)


def plan_of(field: Field, place: Place, order: FixOrder) -> FixPlan:
    """Return an order of fixes as the report tells it."""
    windows = field.run.windows
    slowest = max(windows, key=lambda key: windows[key]["window_ns"])
    window = windows[slowest if field.together is not None else field.run.key(place)]
    left_ns = field.window_ns(place)
    fixes = []
    for item in order.items:
        left_ns -= item.marginal_ns
        fixes.append(PlannedFix(item.rule, item.status, item.marginal_ns, left_ns, item.alternatives, item.after))
    floor_ns = field.floor_ns(place)
    enablers = tuple(
        Enabling(item.rules, item.alone_ns, item.together_ns)
        for item in order.combinations
        if item.enable and item.together_ns - sum(item.alone_ns) >= floor_ns
    )
    return FixPlan(
        trace=place.trace,
        rank=field.run.ranks.get(place.trace or ""),
        device=place.device,
        window_ns=field.window_ns(place),
        step_count=window["step_count"] or 0,
        fixes=tuple(fixes),
        enablers=enablers,
    )
