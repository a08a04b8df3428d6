"""What differs between two sides: the ledger to the nanosecond, kernels and operators by count and by duration.

Sides are compared per step, or per unit of work where steps are not known: a window without steps is only as long as
the recording. The launches of kernels that both sides have then show how much work each window holds. The unit is the
work of the side that holds less, so both directions give the same numbers. Ranks are matched where both sides have the
same ranks, else compared as worst, mean and spread.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from traceanalyzer.comparison.summary import (
    CompareOptions,
    DeviceTimes,
    Ledger,
    Named,
    Summary,
    mean_named,
    place_words,
)

# Names that hold less of a side's kernel time do not show whether both sides do the same.
LEAST_MATCHED_SHARE = 0.5
# From this ratio of the quartiles on, kernels disagree on how much work there is.
WIDEST_WORK = 1.10
NARROW_WORK = 1.01


@dataclass(frozen=True)
class Alignment:
    """The unit of a comparison, and how many units each capture's window holds."""

    kind: str  # steps or work
    base_scales: tuple[Fraction, ...]  # one over the units in the window of each capture
    new_scales: tuple[Fraction, ...]
    matched_base: float | None  # share of a side's kernel time in names that the other side has; None: no kernels
    matched_new: float | None
    work_ratio: float | None = None  # work of a new window over that of a base window
    work_quartiles: tuple[float, float] | None = None
    problem: str | None = None  # why the windows cannot be aligned

    @property
    def confidence(self) -> str:
        """How well the unit is known: high, medium or low."""
        if self.kind == "steps":
            return "high"
        narrow = self.work_quartiles is not None and self.work_quartiles[1] <= NARROW_WORK * self.work_quartiles[0]
        return "medium" if narrow else "low"


def align(
    base: Sequence[Summary],
    new: Sequence[Summary],
    ledgers: tuple[Sequence[Ledger], Sequence[Ledger]],
    options: CompareOptions,
) -> Alignment:
    """Return the unit in which two sides are compared."""
    whole = [[Fraction(1)] * len(side) for side in (base, new)]
    # Launches in all windows, not per step: steps are what is in question.
    kernels = [
        mean_named([item.kernels for item in side], scales) for side, scales in zip((base, new), whole, strict=True)
    ]
    matched = [_matched_share(own, other) for own, other in (kernels, kernels[::-1])]
    has_steps = all(ledger.step_count for side in ledgers for ledger in side)
    if options.align == "steps" or (options.align == "auto" and has_steps):
        scales = [tuple(Fraction(1, max(ledger.step_count, 1)) for ledger in side) for side in ledgers]
        problem = None if has_steps else "a side has no steps"
        return Alignment("steps", scales[0], scales[1], matched[0], matched[1], problem=problem)
    return _align_by_work(base, new, kernels[0], kernels[1], (matched[0], matched[1]))


def _align_by_work(
    base: Sequence[Summary],
    new: Sequence[Summary],
    base_kernels: Mapping[str, Named],
    new_kernels: Mapping[str, Named],
    matched: tuple[float | None, float | None],
) -> Alignment:
    weights = {
        name: float(kernel.dur_ns + new_kernels[name].dur_ns)
        for name, kernel in base_kernels.items()
        if name in new_kernels and kernel.kind != "comm"
    }
    if not weights:
        ones = tuple((Fraction(1),) * len(side) for side in (base, new))
        nothing = "neither steps nor kernels of the same names are in the windows"
        return Alignment("work", ones[0], ones[1], *matched, problem=nothing)
    logs = {name: _log(new_kernels[name].launches) - _log(base_kernels[name].launches) for name in weights}
    low, high = (_quantile(logs, weights, share) for share in (0.25, 0.75))
    # Each capture's work, in units of what an average capture of both sides holds.
    common = {name: base_kernels[name].launches + new_kernels[name].launches for name in weights}
    work = [[_work(item, common, weights) for item in side] for side in (base, new)]
    base_work, new_work = (sum(side) / len(side) for side in work)
    unit = min(base_work, new_work)
    scales = [tuple(Fraction(unit / units) for units in side) for side in work]
    problem: str | None = None
    if math.exp(high - low) > WIDEST_WORK:
        spread = f"{math.exp(low):.2f} to {math.exp(high):.2f}"
        problem = f"kernels disagree on how much more work the new windows hold ({spread} times)"
    quartiles = math.exp(low), math.exp(high)
    return Alignment("work", scales[0], scales[1], *matched, new_work / base_work, quartiles, problem)


def _work(summary: Summary, common: Mapping[str, Fraction], weights: Mapping[str, float]) -> float:
    counts = {row.name: row.launch_count for row in summary.kernels.rows if row.name in common}
    logs = {name: math.log(count) - _log(common[name]) for name, count in counts.items()}
    return math.exp(_quantile(logs, {name: weights[name] for name in counts}, 0.5)) if counts else 1.0


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _quantile(values: Mapping[str, float], weights: Mapping[str, float], share: float) -> float:
    """Return a weighted quantile; where the weight ends between two neighbours, their mean: 1 − share mirrors it."""
    ordered = sorted(values, key=lambda name: (values[name], name))
    half = share * math.fsum(weights.values())
    reached = 0.0
    for at, name in enumerate(ordered):
        reached += weights[name]
        if math.isclose(reached, half, rel_tol=1e-9) and at + 1 < len(ordered):
            return (values[name] + values[ordered[at + 1]]) / 2
        if reached >= half:
            return values[name]
    return values[ordered[-1]]


def _matched_share(own: Mapping[str, Named], other: Mapping[str, Named]) -> float | None:
    total = sum((kernel.dur_ns for kernel in own.values()), Fraction(0))
    if not total:
        return None
    return float(sum((kernel.dur_ns for name, kernel in own.items() if name in other), Fraction(0)) / total)


Role = tuple[int, int]  # rank, and which of its devices


@dataclass(frozen=True)
class RankRow:
    """The mean step of one rank and device on both sides."""

    place: str
    base_ns: int
    new_ns: int


@dataclass(frozen=True)
class RankChanges:
    """All ranks of both sides; times are means over the captures of a side, a step or unit of work."""

    base_count: int  # devices
    new_count: int
    base_mean_ns: int
    new_mean_ns: int
    base_worst: str
    base_worst_ns: int
    new_worst: str
    new_worst_ns: int
    base_spread_share: float  # slowest over fastest, less 1
    new_spread_share: float
    rows: tuple[RankRow, ...]  # matched ranks, largest change first; empty where their numbers differ
    # Of another number of devices with steps: how much of the added devices' speed arrives, where each does the same
    # work a step (weak scaling) and where the work is shared out (strong scaling).
    weak_efficiency: float | None = None
    strong_efficiency: float | None = None


def compare_ranks(
    base: Sequence[Summary], new: Sequence[Summary], alignment: Alignment, *, is_comparable: bool = True
) -> RankChanges | None:
    """Return how ranks changed; None where both sides have a single device.

    Efficiency is that of one program on more devices: sides that are not comparable have none.
    """
    scales = alignment.base_scales, alignment.new_scales
    by_steps = alignment.kind == "steps"
    units = [_unit_ns(side, None if by_steps else scale) for side, scale in zip((base, new), scales, strict=True)]
    if not all(units) or max(map(len, units)) < 2:
        return None
    means = [sum(unit_ns.values()) / len(unit_ns) for unit_ns in units]
    worst = [max(unit_ns, key=lambda role: (unit_ns[role], role)) for unit_ns in units]
    spreads = [max(unit_ns.values()) / max(min(unit_ns.values()), 1.0) - 1 for unit_ns in units]
    counts = [len(unit_ns) for unit_ns in units]
    words = [
        {role: place_words(device) for summary in reversed(side) for role, device in _by_role(summary).items()}
        for side in (base, new)
    ]
    rows: list[RankRow] = []
    weak = strong = None
    if units[0].keys() == units[1].keys():
        rows = [RankRow(words[1][role], round(units[0][role]), round(units[1][role])) for role in units[0]]
        rows.sort(key=lambda row: (-abs(row.new_ns - row.base_ns), row.place))
    elif is_comparable and counts[0] != counts[1] and all(item.has_steps for side in (base, new) for item in side):
        weak = units[0][worst[0]] / units[1][worst[1]]
        strong = weak * counts[0] / counts[1]
    return RankChanges(
        counts[0],
        counts[1],
        round(means[0]),
        round(means[1]),
        words[0][worst[0]],
        round(units[0][worst[0]]),
        words[1][worst[1]],
        round(units[1][worst[1]]),
        spreads[0],
        spreads[1],
        tuple(rows),
        weak,
        strong,
    )


def _by_role(summary: Summary) -> dict[Role, DeviceTimes]:
    """Return the devices with steps, else all, by rank and by which of the rank's devices each is."""
    devices = [device for device in summary.devices if device.step_count] or summary.devices
    ranks = {device.rank for device in devices}
    roles: dict[Role, DeviceTimes] = {}
    seen: dict[int, int] = defaultdict(int)
    for device in devices:
        # A single rank has the same role whether or not its number was recorded.
        rank = 0 if len(ranks) == 1 or device.rank is None else device.rank
        roles[rank, seen[rank]] = device
        seen[rank] += 1
    return roles


def _unit_ns(side: Sequence[Summary], scales: Sequence[Fraction] | None) -> dict[Role, float]:
    """Return the mean time of each device a step, or a unit of work, over the captures that have it."""
    found: dict[Role, list[float]] = defaultdict(list)
    for at, summary in enumerate(side):
        for role, device in _by_role(summary).items():
            found[role].append(device.step_ns if scales is None else float(device.window_ns * scales[at]))
    return {role: sum(times) / len(times) for role, times in found.items()}


# Rows of the ledger that differ by less of the step are shown together.
SMALL_LEDGER_SHARE = 0.003

_TEMPLATE = re.compile(r"<[^<>]*>")
_ARGUMENTS = re.compile(r"\([^()]*\)")
_TAGS = re.compile(r"(?:sm|cc|compute|gfx)_?\d+[a-z]?|\d+x\d+(?:x\d+)?", re.IGNORECASE)
_NUMBERING = re.compile(r"(?:_\d+)+(?=_|$)|_?0d\d+(?:d\d+)*(?:de)?$")


@dataclass(frozen=True)
class LedgerRow:
    """A bucket on both sides, in integer nanoseconds a unit."""

    bucket: str
    base_ns: int
    new_ns: int
    shown: str = "not tested"  # shown, not shown, not tested: whether captures show that it changed

    @property
    def delta_ns(self) -> int:
        return self.new_ns - self.base_ns


@dataclass(frozen=True)
class NamedRow:
    """A kernel or operator on both sides: its change is what other counts and what other durations explain."""

    name: str
    kind: str
    state: str  # changed, added, removed, renamed
    base_launches: float
    new_launches: float
    base_ns: int
    new_ns: int
    count_ns: int  # of the change: more or fewer launches, at the base's mean duration
    length_ns: int  # of the change: each launch longer or shorter
    base_name: str | None = None  # of a renamed one
    shown: str = "not tested"

    @property
    def delta_ns(self) -> int:
        return self.new_ns - self.base_ns


@dataclass(frozen=True)
class NamedDifference:
    """All kernels, or all operators."""

    rows: tuple[NamedRow, ...]  # largest change first
    base_ns: int
    new_ns: int
    matched_base: float | None  # share of the side's time in names that both have
    matched_new: float | None


def whole_ns(parts: Mapping[str, Fraction]) -> dict[str, int]:
    """Round times to whole nanoseconds so that they add up to their rounded sum (largest remainder)."""
    total = round(sum(parts.values(), Fraction(0)))
    whole = {name: part.numerator // part.denominator for name, part in parts.items()}
    left = total - sum(whole.values())
    for name in sorted(parts, key=lambda name: (whole[name] - parts[name], name))[:left]:
        whole[name] += 1
    return whole


def ledger_difference(base: Mapping[str, Fraction], new: Mapping[str, Fraction]) -> tuple[LedgerRow, ...]:
    """Return a row for each bucket, the largest change first; their changes add up to that of the unit."""
    base_ns, new_ns = whole_ns(base), whole_ns(new)
    rows = [LedgerRow(name, base_ns.get(name, 0), new_ns.get(name, 0)) for name in base_ns.keys() | new_ns.keys()]
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta_ns), row.bucket)))


def named_difference(base: Mapping[str, Named], new: Mapping[str, Named]) -> NamedDifference:
    """Return an outer join by name; what is left is joined by normalised name, and else was added or removed."""
    rows = [_row(name, base[name], new[name]) for name in base.keys() & new.keys()]
    matched = [sum((side[row.name].dur_ns for row in rows), Fraction(0)) for side in (base, new)]
    old_left, new_left = (_by_plain_name(own, other) for own, other in ((base, new), (new, base)))
    for plain in old_left.keys() | new_left.keys():
        old, fresh = old_left.get(plain), new_left.get(plain)
        row = _row((fresh or old or Named("", "", Fraction(0), Fraction(0))).name, old, fresh)
        rows.append(replace(row, base_name=old.name) if old and fresh else row)
    totals = [sum((item.dur_ns for item in side.values()), Fraction(0)) for side in (base, new)]
    return NamedDifference(
        tuple(sorted(rows, key=lambda row: (-abs(row.delta_ns), -row.base_ns, row.name))),
        round(totals[0]),
        round(totals[1]),
        *(float(part / total) if total else None for part, total in zip(matched, totals, strict=True)),
    )


def _row(name: str, base: Named | None, new: Named | None) -> NamedRow:
    kind = (new or base).kind  # type: ignore[union-attr]
    base_ns, new_ns = (round(side.dur_ns) if side else 0 for side in (base, new))
    counts = [float(side.launches) if side else 0.0 for side in (base, new)]
    delta_ns = new_ns - base_ns
    if base is None or new is None:
        state = "added" if base is None else "removed"
        return NamedRow(name, kind, state, counts[0], counts[1], base_ns, new_ns, delta_ns, 0)
    count_ns = round((new.launches - base.launches) * base.dur_ns / base.launches)
    state = "changed" if base.name == new.name else "renamed"
    return NamedRow(name, kind, state, counts[0], counts[1], base_ns, new_ns, count_ns, delta_ns - count_ns)


def _by_plain_name(own: Mapping[str, Named], other: Mapping[str, Named]) -> dict[str, Named]:
    """Return what only one side has, added up where normalised names are the same, under the name with most time."""
    groups: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for name, item in own.items():
        if name not in other:
            groups[(item.kind, plain_name(name))].append(item)
    merged = {}
    for (kind, plain), items in groups.items():
        longest = max(items, key=lambda item: (item.dur_ns, item.name))
        launches = sum((item.launches for item in items), Fraction(0))
        merged[f"{kind} {plain}"] = Named(longest.name, kind, launches, sum((i.dur_ns for i in items), Fraction(0)))
    return merged


def plain_name(name: str) -> str:
    """Return a kernel's name without return type, template and function arguments, architecture, tiles and numbers."""
    before = None
    while before != name:
        before, name = name, _TEMPLATE.sub("", name)
    before = None
    while before != name:
        before, name = name, _ARGUMENTS.sub("", name)
    words = name.split()
    name = words[-1] if words else name
    return _NUMBERING.sub("", _TAGS.sub("", name)).strip("_") or name
