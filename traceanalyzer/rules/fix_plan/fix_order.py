"""Puts fixes in order, on a device or over all ranks of a run, with what each adds after those before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from traceanalyzer.rules.evaluation.run_savings import Removals, joined
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import EFFORTS, RUN, Rule

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

SavingsOf = Callable[[Removals], int]  # the nanoseconds that fixes save together


class Candidate(Struct, frozen=True, dict=True):
    """The fix of one rule: on one device, or on all ranks on which the rule fired."""

    verdicts: tuple[Verdict, ...]  # worst first
    bound_ns: int

    @property
    def rule(self) -> Rule:
        return self.verdicts[0].rule

    @cached_property
    def removals(self) -> Removals:
        """What the fix takes away, by device."""
        return joined(*(verdict.removals for verdict in self.verdicts))


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
    """The fixes of a place in order, and what each pair of them saves together."""

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
    pairs = tuple(_pairs(savings_of, rest))
    alternatives = _alternatives(pairs)
    ordered: list[Ordered] = []
    done: Removals = {}
    done_ns = 0
    while rest or tail:
        if not rest:
            rest, tail = tail[:1], tail[1:]
        totals = {item.rule.id: savings_of(joined(done, item.removals)) for item in rest}
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
        done, done_ns = joined(done, chosen.removals), totals[chosen.rule.id]
    return FixOrder(tuple(ordered), pairs)


def fixes_of(ordered: Sequence[Ordered]) -> Removals:
    """Return everything that these fixes take away, by device."""
    return joined(*(item.candidate.removals for item in ordered))


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
    return EFFORTS.index(worst.rule.fixes[worst.fix_order[0]].effort)


def _pairs(savings_of: SavingsOf, ranked: Sequence[Candidate]) -> Iterator[Combination]:
    for index, first in enumerate(ranked):
        for second in ranked[index + 1 :]:
            both_ns = savings_of(joined(first.removals, second.removals))
            yield Combination((first.rule.id, second.rule.id), (first.bound_ns, second.bound_ns), both_ns)


def _alternatives(pairs: Sequence[Combination]) -> dict[str, frozenset[str]]:
    """Return, for each fix, the fixes that save the same time."""
    alternatives: dict[str, set[str]] = {}
    for pair in pairs:
        if pair.are_alternatives:
            first, second = pair.rules
            alternatives.setdefault(first, set()).add(second)
            alternatives.setdefault(second, set()).add(first)
    return {rule_id: frozenset(others) for rule_id, others in alternatives.items()}
