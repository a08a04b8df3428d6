"""Puts fixes in order, on a device or over all ranks of a run, with what each adds after those before it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.rules.evaluation.interventions import Device, Intervention, RememberedScan
from traceanalyzer.rules.evaluation.run_savings import (
    Interventions,
    PooledSavings,
    RunSavings,
    by_device,
    joined,
    pooled_row,
)
from traceanalyzer.rules.evaluation.scopes import RunScopes, Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import CLEAR, DEVICE, EFFORTS, FIRED, RUN, Rule

# A fix that adds less than this share of its own bound after another one is the other's alternative.
ALTERNATIVE_SHARE = 0.1
FINER_SHARE = 0.5
# Two fixes that save this much more together than the sum of both enable each other.
ENABLING_SHARE = 0.1
# Savings this close count as equal: then the fix that is less work goes first.
EQUAL_SHARE = 0.1
# Joint scans grow with the square of the findings; later ones keep the order of their bounds.
JOINT_LIMIT = 12

PRIMARY, ALTERNATIVE, LATENT = "primary", "alternative", "latent"

SavingsOf = Callable[[Interventions], int]  # the nanoseconds that fixes save together


class Candidate(Struct, frozen=True, dict=True):
    """The fix of one rule: on one device, or on all ranks on which the rule fired."""

    verdicts: tuple[Verdict, ...]  # worst first
    bound_ns: int

    @property
    def rule(self) -> Rule:
        return self.verdicts[0].rule

    @cached_property
    def interventions(self) -> Interventions:
        """What the fix takes away, by device."""
        return joined(*(verdict.interventions for verdict in self.verdicts))


class Ordered(Struct, frozen=True):
    """One fix in the order of fixes."""

    candidate: Candidate
    order: int
    marginal_ns: int  # negative: the window is longer with it, after those before it
    alternatives: tuple[str, ...] = ()
    status: str = PRIMARY
    after: tuple[str, ...] = ()  # of a latent fix: those without which it saves nothing

    @property
    def rule(self) -> str:
        return self.candidate.rule.id


class Combination(Struct, frozen=True):
    """Two fixes and what they save: each alone, and both together."""

    rules: tuple[str, ...]
    alone_ns: tuple[int, ...]
    together_ns: int

    @property
    def are_alternatives(self) -> bool:
        """Whether the second adds next to nothing after the first."""
        return self.together_ns - max(self.alone_ns) <= ALTERNATIVE_SHARE * min(self.alone_ns)

    @property
    def enable(self) -> bool:
        """Whether both together save more than the sum."""
        return self.together_ns > (1 + ENABLING_SHARE) * sum(self.alone_ns)


class FixOrder(Struct, frozen=True):
    """The fixes of a scope in order, and what each pair of them saves together."""

    items: tuple[Ordered, ...] = ()
    combinations: tuple[Combination, ...] = ()


def order_fixes(savings_of: SavingsOf, candidates: Sequence[Candidate], owned_ns: Mapping[str, int]) -> FixOrder:
    """Return fixes in greedy order: each the one that adds most to those before it.

    A finer rule goes before the one that it refines if it saves more than half as much. Of fixes that save the same
    time, one is enough. First goes what holds up the whole run; then the fix that is less
    work; then the one whose finding owns more of the time, as it is the reason that the other only hides; then the
    larger gain, and the first by id. The marginals add up to the bound of all fixes together, so that one of them may
    be negative: nothing comes later by a fix, but where it makes the first step earlier and the last one not, the
    window between them is longer.
    """
    ranked = sorted(candidates, key=lambda item: (-item.bound_ns, item.rule.id))
    rest, tail = ranked[:JOINT_LIMIT], ranked[JOINT_LIMIT:]
    pairs = tuple(
        Combination(
            (a.rule.id, b.rule.id), (a.bound_ns, b.bound_ns), savings_of(joined(a.interventions, b.interventions))
        )
        for a, b in itertools.combinations(rest, 2)
    )
    alternatives = _alternatives(pairs)
    ordered: list[Ordered] = []
    done: Interventions = {}
    done_ns = 0
    while rest or tail:
        if not rest:
            rest, tail = tail[:1], tail[1:]
        totals = {item.rule.id: savings_of(joined(done, item.interventions)) for item in rest}
        gains = {rule_id: total - done_ns for rule_id, total in totals.items()}
        chosen = _next(rest, gains, alternatives, owned_ns)
        rest = [item for item in rest if item is not chosen]
        others = alternatives.get(chosen.rule.id, frozenset())
        before = {item.rule for item in ordered if item.status == PRIMARY}
        adds_little = gains[chosen.rule.id] <= ALTERNATIVE_SHARE * chosen.bound_ns
        ordered.append(
            Ordered(
                chosen,
                order=len(ordered) + 1,
                marginal_ns=gains[chosen.rule.id],
                alternatives=tuple(sorted(others)),
                status=ALTERNATIVE if others & before and adds_little else PRIMARY,
            )
        )
        done, done_ns = joined(done, chosen.interventions), totals[chosen.rule.id]
    return FixOrder(tuple(ordered), pairs)


def fixes_of(ordered: Sequence[Ordered]) -> Interventions:
    """Return everything that these fixes take away, by device.

    An alternative shortens no operation that another fix shortens: it is another way to the same time.
    """
    ordered = list(ordered)
    made = joined(*(item.candidate.interventions for item in ordered if item.status != ALTERNATIVE))
    others = joined(*(item.candidate.interventions for item in ordered if item.status == ALTERNATIVE))
    return joined(made, {device: intervention.without(made.get(device)) for device, intervention in others.items()})


def _next(
    rest: Sequence[Candidate],
    gains: Mapping[str, int],
    alternatives: Mapping[str, frozenset[str]],
    owned_ns: Mapping[str, int],
) -> Candidate:
    best = max(gains.values())
    largest = [item for item in rest if gains[item.rule.id] == best]
    # A finer rule that accounts for most of the largest gain says what to do; the general one keeps what is left.
    finer = [
        item
        for item in rest
        if gains[item.rule.id] > FINER_SHARE * best and any(of.rule.id in item.rule.refines for of in largest)
    ]
    if finer:
        return min(finer, key=lambda item: (-gains[item.rule.id], item.rule.id))
    # Nothing may be left to save: then the best gain is 0, or a bound's rounding below it.
    close = [item for item in rest if gains[item.rule.id] >= best - EQUAL_SHARE * abs(best)]
    # Of equal ones the special case goes before what it is a case of.
    rules = {item.rule.id for item in close}
    first = min(
        close, key=lambda item: (_effort(item), rules.isdisjoint(item.rule.refines), -gains[item.rule.id], item.rule.id)
    )
    same = alternatives.get(first.rule.id, frozenset())
    rivals = [item for item in close if item is first or item.rule.id in same]
    # What holds up the run comes before what is slow on the rank that does. Work comes before ownership: of a wait
    # and the host's work behind it either owns the idle time by convention, and ending either is the cure.
    return min(
        rivals,
        key=lambda item: (
            item.rule.scope != RUN,
            _effort(item),
            -owned_ns.get(item.rule.id, 0),
            -gains[item.rule.id],
            item.rule.id,
        ),
    )


def _effort(item: Candidate) -> int:
    worst = item.verdicts[0]
    # Where no known fix fits, finding one is more work than any of them.
    return EFFORTS.index(worst.rule.fixes[worst.fix_order[0]].effort) if worst.fix_order else len(EFFORTS)


def _alternatives(pairs: Sequence[Combination]) -> dict[str, frozenset[str]]:
    """Return, for each fix, the fixes that save the same time."""
    alternatives: dict[str, set[str]] = {}
    for pair in pairs:
        if pair.are_alternatives:
            first, second = pair.rules
            alternatives.setdefault(first, set()).add(second)
            alternatives.setdefault(second, set()).add(first)
    return {rule_id: frozenset(others) for rule_id, others in alternatives.items()}


# Savings this close on two ranks are one finding on both.
SAME_SHARE = 0.2

Key = tuple[str, Scope]  # rule id and scope
# Evaluates a rule as if fixes were made before it, with what it adds to these by device where this is known.
Reevaluate = Callable[[Rule, Interventions, Mapping[Device, int] | None], Sequence[Verdict]]


class PlanContext(Struct, frozen=True):
    """What an order of fixes is worked out on: the run, its replays, and the least saving worth a word."""

    run: RunScopes
    scan: RememberedScan
    # None: ranks cannot be compared, and each device has an order of its own.
    run_savings: RunSavings | PooledSavings | None
    min_impact_share: float

    def scope_of(self, verdict: Verdict) -> Scope:
        """Return the scope in whose order of fixes a verdict stands."""
        return verdict.scope if self.run_savings is None else Scope()

    def savings_of(self, scope: Scope) -> SavingsOf:
        """Return the function that measures what fixes save in a scope."""
        if self.run_savings is not None:
            return self.run_savings.saved_ns
        device = self.run.key(scope)
        return lambda interventions: interventions.get(device, Intervention()).bound_ns(self.scan, device)

    def window_ns(self, scope: Scope) -> int:
        """Return the window of which savings are shares."""
        if self.run_savings is not None:
            return self.run_savings.window_ns
        return int(self.run.windows[self.run.key(scope)]["window_ns"])

    def step_count(self, scope: Scope) -> int:
        """Return the kept steps of that window."""
        if isinstance(self.run_savings, PooledSavings):
            return self.run_savings.step_count
        windows = self.run.windows
        slowest = max(windows, key=lambda key: windows[key]["window_ns"])
        return int(windows[slowest if self.run_savings is not None else self.run.key(scope)]["step_count"] or 0)

    def pooled(self, verdicts: Sequence[Verdict], saved_ns: int) -> list[Verdict]:
        """Return the verdicts of one rule, whose messages have the numbers of all pooled recordings."""
        row = pooled_row(self.run, [verdict.row for verdict in verdicts], saved_ns) if verdicts else {}
        return [replace(verdict, pooled=row) for verdict in verdicts]

    def floor_ns(self, scope: Scope) -> float:
        """Return the least saving worth a word."""
        return max(1.0, self.min_impact_share * self.window_ns(scope))


def prepare_scans(context: PlanContext, queries: Iterable[Interventions]) -> None:
    """Work out what each of these saves, several in one scan, which is several times faster than one by one."""
    if context.run_savings is not None:
        context.run_savings.prepare(queries)
    else:
        context.scan.prepare(by_device(queries))


def key_of(verdict: Verdict) -> Key:
    """Return the rule id and the scope of a verdict, which no other verdict of a diagnosis has."""
    return verdict.rule.id, verdict.scope


def group_by_rule(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
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
        and context.run.key(verdict.scope) in verdict.interventions
    ]


def fired_after(
    context: PlanContext, groups: Iterable[Sequence[Verdict]], done: Interventions, evaluate: Reevaluate
) -> Iterator[dict[Scope, list[Verdict]]]:
    """Return the verdicts of each rule that fire once other fixes are made, by the scope of their order of fixes.

    A group is the waiting verdicts of one rule. What all of them add to the run is measured at once.
    """
    groups = list(groups)
    on_run: Sequence[dict[Device, int] | None] = [None] * len(groups)
    if isinstance(context.run_savings, PooledSavings):
        on_run = _added_to_recordings(context, context.run_savings, groups, done)
    elif context.run_savings is not None:
        on_run = _added_on_run(context, context.run_savings, groups, done)
    for waiting, added in zip(groups, on_run, strict=True):
        saves = any(saves_more(context, verdict, done) for verdict in waiting) if added is None else bool(added)
        verdicts = evaluate(waiting[0].rule, done, added) if saves else []
        open_scopes = {verdict.scope for verdict in waiting}
        fired: dict[Scope, list[Verdict]] = {}
        for verdict in verdicts:
            if verdict.state == FIRED and verdict.scope in open_scopes:
                fired.setdefault(context.scope_of(verdict), []).append(verdict)
        yield fired


def saves_more(context: PlanContext, verdict: Verdict, done: Interventions) -> bool:
    """Return whether fixing a clear rule saves more after other fixes than now: only then can its verdict change."""
    device = context.run.key(verdict.scope)
    added_ns = verdict.interventions[device].added_ns(context.scan, device, done.get(device))
    floor_ns = max(1.0, context.min_impact_share * context.run.windows[device]["window_ns"])
    return added_ns >= floor_ns and added_ns != verdict.bound_ns


def _added_to_recordings(
    context: PlanContext, savings: PooledSavings, groups: Sequence[Sequence[Verdict]], done: Interventions
) -> list[dict[Device, int]]:
    """Return, by rule, what each pooled recording gains if it is fixed wherever it is clear; empty if it is little."""
    queries = [{context.run.key(verdict.scope): verdict for verdict in waiting} for waiting in groups]
    interventions = [{device: of[device].interventions[device] for device in of} for of in queries]
    savings.prepare([done, *(joined(done, of_rule) for of_rule in interventions)])
    floor_ns = context.floor_ns(Scope())
    added = [savings.added_ns(of_rule, done) for of_rule in interventions]
    return [of_rule if sum(of_rule.values()) >= floor_ns else {} for of_rule in added]


def _added_on_run(
    context: PlanContext, run_savings: RunSavings, groups: Sequence[Sequence[Verdict]], done: Interventions
) -> list[dict[Device, int]]:
    """Return, by rule, each rank's part of what the run saves if it is fixed wherever it is clear.

    Empty if that is little. Ranks that are equally late save nothing one by one: each is assigned what they save
    together, but no more than the fix takes out of its own time.
    """
    floor_ns = context.floor_ns(Scope())
    keys = [[context.run.key(verdict.scope) for verdict in waiting] for waiting in groups]
    interventions = [
        {device: verdict.interventions[device] for device, verdict in zip(devices, waiting, strict=True)}
        for devices, waiting in zip(keys, groups, strict=True)
    ]
    queries: dict[Device, dict[int, Intervention]] = {}
    for rule, of_rule in enumerate(interventions):
        for device, intervention in of_rule.items():
            queries.setdefault(device, {})[rule] = intervention
    taken_ns = run_savings.taken_ns({device: [*queries[device].values()] for device in sorted(queries)})
    taken = {
        (device, rule): ns
        for device, of_device in queries.items()
        for rule, ns in zip(of_device, taken_ns[device], strict=True)
    }
    large = [
        {device: intervention for device, intervention in of_rule.items() if taken[device, rule] >= floor_ns}
        for rule, of_rule in enumerate(interventions)
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
