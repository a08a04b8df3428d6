"""What an order of fixes is worked out on: one device, or a run whose ranks wait for each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.rules.evaluation.places import Place, RunPlaces
from traceanalyzer.rules.evaluation.removals import Device, LeadScan, Removal
from traceanalyzer.rules.evaluation.run_savings import PooledSavings, Removals, RunSavings, joined, pooled_row
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import SavingsOf
from traceanalyzer.rules.rule_file.model import CLEAR, DEVICE, FIRED, Rule

# Savings this close on two ranks are one finding on both.
SAME_SHARE = 0.2

Key = tuple[str, Place]  # rule id and place
# Evaluates a rule as if fixes were made before it, with what it adds to these by device where this is known.
Reevaluate = Callable[[Rule, Removals, Mapping[Device, int] | None], Sequence[Verdict]]


class PlanContext(Struct, frozen=True):
    """What an order of fixes is worked out on: the run, its replays, and the least saving worth a word."""

    run: RunPlaces
    scan: LeadScan
    # None: ranks cannot be compared, and each device has an order of its own.
    run_savings: RunSavings | PooledSavings | None
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

    def step_count(self, place: Place) -> int:
        """Return the kept steps of that window."""
        if isinstance(self.run_savings, PooledSavings):
            return self.run_savings.step_count
        windows = self.run.windows
        slowest = max(windows, key=lambda key: windows[key]["window_ns"])
        return int(windows[slowest if self.run_savings is not None else self.run.key(place)]["step_count"] or 0)

    def pooled(self, verdicts: Sequence[Verdict], saved_ns: int) -> list[Verdict]:
        """Return the verdicts of one rule, whose messages have the numbers of all pooled recordings."""
        row = pooled_row(self.run, verdicts, saved_ns) if verdicts else {}
        return [replace(verdict, pooled=row) for verdict in verdicts]

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
    context.scan.prepare(by_device)


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
    context: PlanContext, groups: Iterable[Sequence[Verdict]], done: Removals, evaluate: Reevaluate
) -> Iterator[dict[Place, list[Verdict]]]:
    """Return the verdicts of each rule that fire once other fixes are made, by the place of their order of fixes.

    A group is the waiting verdicts of one rule. What all of them add to the run is measured at once.
    """
    groups = list(groups)
    on_run: Sequence[dict[Device, int] | None] = [None] * len(groups)
    if isinstance(context.run_savings, PooledSavings):
        on_run = _added_to_recordings(context, context.run_savings, groups, done)
    elif context.run_savings is not None:
        on_run = _added_on_run(context, context.run_savings, groups, done)
    for waiting, added in zip(groups, on_run, strict=True):
        saves = any(_saves_more(context, verdict, done) for verdict in waiting) if added is None else bool(added)
        verdicts = evaluate(waiting[0].rule, done, added) if saves else []
        open_places = {verdict.place for verdict in waiting}
        fired: dict[Place, list[Verdict]] = {}
        for verdict in verdicts:
            if verdict.state == FIRED and verdict.place in open_places:
                fired.setdefault(context.place_of(verdict), []).append(verdict)
        yield fired


def _saves_more(context: PlanContext, verdict: Verdict, done: Removals) -> bool:
    """Return whether fixing a clear rule saves more after other fixes than now: only then can its verdict change."""
    device = context.run.key(verdict.place)
    added_ns = verdict.removals[device].added_ns(context.scan, device, done.get(device))
    floor_ns = max(1.0, context.min_impact_share * context.run.windows[device]["window_ns"])
    return added_ns >= floor_ns and added_ns != verdict.bound_ns


def _added_to_recordings(
    context: PlanContext, savings: PooledSavings, groups: Sequence[Sequence[Verdict]], done: Removals
) -> list[dict[Device, int]]:
    """Return, by rule, what each pooled recording gains if it is fixed wherever it is clear; empty if it is little."""
    asked = [{context.run.key(verdict.place): verdict for verdict in waiting} for waiting in groups]
    removals = [{device: of[device].removals[device] for device in of} for of in asked]
    savings.prepare([done, *(joined(done, of_rule) for of_rule in removals)])
    floor_ns = context.floor_ns(Place())
    added = [savings.added_ns(of_rule, done) for of_rule in removals]
    return [of_rule if sum(of_rule.values()) >= floor_ns else {} for of_rule in added]


def _added_on_run(
    context: PlanContext, run_savings: RunSavings, groups: Sequence[Sequence[Verdict]], done: Removals
) -> list[dict[Device, int]]:
    """Return, by rule, each rank's part of what the run saves if it is fixed wherever it is clear.

    Empty if that is little. Ranks that are equally late save nothing one by one: each is assigned what they save
    together, but no more than the fix takes out of its own time.
    """
    floor_ns = context.floor_ns(Place())
    keys = [[context.run.key(verdict.place) for verdict in waiting] for waiting in groups]
    removals = [
        {device: verdict.removals[device] for device, verdict in zip(devices, waiting, strict=True)}
        for devices, waiting in zip(keys, groups, strict=True)
    ]
    asked: dict[Device, dict[int, Removal]] = {}
    for rule, of_rule in enumerate(removals):
        for device, removal in of_rule.items():
            asked.setdefault(device, {})[rule] = removal
    taken_ns = run_savings.taken_ns({device: [*asked[device].values()] for device in sorted(asked)})
    taken = {
        (device, rule): ns
        for device, of_device in asked.items()
        for rule, ns in zip(of_device, taken_ns[device], strict=True)
    }
    large = [
        {device: removal for device, removal in of_rule.items() if taken[device, rule] >= floor_ns}
        for rule, of_rule in enumerate(removals)
    ]
    after = [joined(done, of_rule) for of_rule in large]
    run_savings.prepare([done, *itertools.compress(after, large)] if any(large) else [])
    added_ns = [
        run_savings.saved_ns(fixes) - run_savings.saved_ns(done) if of_rule else 0
        for fixes, of_rule in zip(after, large, strict=True)
    ]
    return [
        {device: min(saved_ns, taken[device, rule]) for device in large[rule]} if saved_ns >= floor_ns else {}
        for rule, saved_ns in enumerate(added_ns)
    ]
