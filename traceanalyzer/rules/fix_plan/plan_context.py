"""What an order of fixes is worked out on: one device, or a run whose ranks wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from traceanalyzer.rules.evaluation.places import Place, RunPlaces
from traceanalyzer.rules.evaluation.removals import Device, LeadScan, Removal
from traceanalyzer.rules.evaluation.run_savings import Removals, RunSavings, joined
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import SavingsOf
from traceanalyzer.rules.rule_file.model import CLEAR, DEVICE, FIRED, Rule

# Savings this close on two ranks are one finding on both.
SAME_SHARE = 0.2

Key = tuple[str, Place]  # rule id and place
# Evaluates a rule as if fixes were made before it, with what it adds to these by device where this is known.
Reevaluate = Callable[[Rule, Removals, Mapping[Device, int] | None], Sequence[Verdict]]


@dataclass(frozen=True)
class PlanContext:
    """What an order of fixes is worked out on: the run, its lead scans, and the least saving worth a word."""

    run: RunPlaces
    scan: LeadScan
    run_savings: RunSavings | None  # None: ranks cannot be compared, and each device has an order of its own
    min_impact_share: float

    def place_of(self, verdict: Verdict) -> Place:
        """Return the place in whose order of fixes a verdict stands."""
        return verdict.place if self.run_savings is None else Place()

    def savings_of(self, place: Place) -> SavingsOf:
        """Return the function that measures what fixes save in a place."""
        if self.run_savings is not None:
            return self.run_savings.saved_ns
        return partial(_saved_on, self.scan, self.run.key(place))

    def window_ns(self, place: Place) -> int:
        """Return the window of which savings are shares."""
        if self.run_savings is not None:
            return self.run_savings.window_ns
        return int(self.run.windows[self.run.key(place)]["window_ns"])

    def floor_ns(self, place: Place) -> float:
        """Return the least saving worth a word."""
        return max(1.0, self.min_impact_share * self.window_ns(place))


def _saved_on(scan: LeadScan, device: Device, removals: Removals) -> int:
    return removals.get(device, Removal()).bound_ns(scan, device)


def prepare_scans(context: PlanContext, asked: Iterable[Removals]) -> None:
    """Work out what each of these saves, several in one scan, which is several times faster than one by one."""
    if context.run_savings is not None:
        context.run_savings.prepare(asked)
        return
    by_device: dict[Device, list[Removal]] = {}
    for removals in asked:
        for device, removal in removals.items():
            by_device.setdefault(device, []).append(removal)
    for device, of_device in by_device.items():
        context.scan.prepare(device, of_device)


def key_of(verdict: Verdict) -> Key:
    """Return the rule id and the place of a verdict, which no other verdict of a diagnosis has."""
    return verdict.rule.id, verdict.place


def group_by_rule(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Return verdicts by the id of their rule."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.rule.id, []).append(verdict)
    return groups


def waiting_for_fixes(context: PlanContext, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the clear verdicts that may fire once other limits are gone."""
    return [
        verdict
        for verdict in verdicts
        if verdict.state == CLEAR
        and not verdict.rule.claims.is_empty
        and verdict.rule.scope == DEVICE
        and context.run.key(verdict.place) in verdict.removals
    ]


def fired_after(
    context: PlanContext, waiting: Sequence[Verdict], done: Removals, evaluate: Reevaluate
) -> dict[Place, list[Verdict]]:
    """Return the verdicts of one rule that fire once other fixes are made, by the place of their order of fixes."""
    rule = waiting[0].rule
    if context.run_savings is not None:
        added = _added_on_run(context.run_savings, context.floor_ns(Place()), waiting, context.run, done)
        verdicts = evaluate(rule, done, added) if added else []
    else:
        verdicts = evaluate(rule, done, None) if any(_saves_more(context, v, done) for v in waiting) else []
    open_places = {verdict.place for verdict in waiting}
    fired: dict[Place, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.state == FIRED and verdict.place in open_places:
            fired.setdefault(context.place_of(verdict), []).append(verdict)
    return fired


def _saves_more(context: PlanContext, verdict: Verdict, done: Removals) -> bool:
    """Return whether fixing a clear rule saves more after other fixes than now: only then can its verdict change."""
    device = context.run.key(verdict.place)
    added_ns = verdict.removals[device].added_ns(context.scan, device, done.get(device))
    floor_ns = max(1.0, context.min_impact_share * context.run.windows[device]["window_ns"])
    return added_ns >= floor_ns and added_ns != verdict.bound_ns


def _added_on_run(
    run_savings: RunSavings, floor_ns: float, waiting: Sequence[Verdict], run: RunPlaces, done: Removals
) -> dict[Device, int]:
    """Return each rank's part of what the run saves if a rule is fixed wherever it is clear; empty if that is little.

    Ranks that are equally late save nothing one by one: each is assigned what they save together, but no more than the
    fix takes out of its own time.
    """
    removals = {run.key(verdict.place): verdict.removals[run.key(verdict.place)] for verdict in waiting}
    taken = {device: run_savings.taken_ns(device, removal) for device, removal in removals.items()}
    large = {device: removals[device] for device, taken_ns in taken.items() if taken_ns >= floor_ns}
    added_ns = run_savings.saved_ns(joined(done, large)) - run_savings.saved_ns(done) if large else 0
    return {device: min(added_ns, taken[device]) for device in large} if added_ns >= floor_ns else {}
