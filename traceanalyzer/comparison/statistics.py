"""Whether a change is real: from captures, not from steps, by tests and intervals from SciPy's distributions.

Steps of one capture agree with each other and not with the next capture of the same program, so a test over steps calls
chance a change. The verdict compares logarithms of the captures' mean steps.

`scipy.special` holds the normal distribution, Student's t and its noncentral form. `scipy.stats` takes a second to
import, several times as long as a comparison; the two of its functions that are needed are small, and a test compares
them with it.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError

ALPHA = 0.05
POWER = 0.8
MOST_CAPTURES = 1000
# Mann–Whitney over fewer steps a side cannot reach ALPHA.
LEAST_STEPS = 4
# Steps that depend on those before them count as fewer; from this autocorrelation time on they are thinned.
LONGEST_FREE_TIME = 1.5
# Beyond this product of counts the exact distribution costs more than it gains.
MOST_EXACT_PAIRS = 10_000


@dataclass(frozen=True)
class Interval:
    """A change with its 95 % interval and the probability of one as large by chance."""

    change: float
    low: float
    high: float
    p_value: float | None = None


def scipy(part: str) -> Any:
    """Import a part of SciPy; raises TraceAnalyzerError where it is not installed."""
    try:
        return importlib.import_module(f"scipy.{part}")
    except ImportError as error:
        raise TraceAnalyzerError(
            "the statistics of a comparison need SciPy, which is not installed",
            "diff",
            "pip install 'gpu-traceanalyzer[stats]'",
        ) from error


def welch(base: Sequence[float], new: Sequence[float]) -> Interval:
    """Return Welch's test of two means, of two values a side and more."""
    change = _mean(new) - _mean(base)
    errors = [_variance(side) / len(side) for side in (base, new)]
    error = math.sqrt(sum(errors))
    if error <= 1e-15 * max(1.0, abs(_mean(base)), abs(_mean(new))):
        return Interval(change, change, change, 1.0 if change == 0 else 0.0)
    freedom = sum(errors) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(errors, (base, new), strict=True))
    return _student(change, error, freedom)


def prediction(many: Sequence[float], one: float) -> Interval:
    """Return by how much one value differs from the next one that `many` of the same kind predict."""
    change = one - _mean(many)
    error = math.sqrt(_variance(many) * (1 + 1 / len(many)))
    if error == 0:
        return Interval(change, change, change, 1.0 if change == 0 else 0.0)
    return _student(change, error, len(many) - 1)


def known_spread(change: float, spread: float) -> Interval:
    """Return the interval of a change between two single values whose standard deviation is known."""
    half = NormalDist().inv_cdf(1 - ALPHA / 2) * spread * math.sqrt(2)
    return Interval(change, change - half, change + half)


def captures_needed(spread: float, change: float) -> int | None:
    """Return how many captures a side show a change of a logarithm in POWER of the cases; None: over MOST_CAPTURES."""
    special = scipy("special")

    def shows(count: int) -> bool:
        freedom = 2 * count - 2
        limit = special.stdtrit(freedom, 1 - ALPHA / 2)
        shift = abs(change) / (spread * math.sqrt(2 / count))
        missed = special.nctdtr(freedom, shift, limit)
        # Not a number: so far beyond the limit that SciPy has no value for it.
        return math.isnan(missed) or bool(missed <= 1 - POWER)

    if not spread:
        return 2
    low, high = 2, MOST_CAPTURES
    if not shows(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle + 1, high)
    return low


def rank_test(base: Sequence[float], new: Sequence[float]) -> float | None:
    """Return the p-value of Mann–Whitney over thinned steps; None: too few are left."""
    base, new = thinned(base), thinned(new)
    if min(len(base), len(new)) < LEAST_STEPS:
        return None
    return mann_whitney(base, new)


def mann_whitney(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the two-sided p-value of Mann–Whitney's U: exact, or for many values by the normal distribution."""
    fewer, more = sorted((base, new), key=len)
    pairs, count = len(fewer) * len(more), len(fewer) + len(more)
    ranks, tied = _middle_ranks([*fewer, *more])
    smaller = sum(ranks[: len(fewer)]) - len(fewer) * (len(fewer) + 1) / 2
    u = max(smaller, pairs - smaller)
    if pairs <= MOST_EXACT_PAIRS:
        ways = _ways_to_interleave(len(fewer), len(more))
        return min(1.0, 2 * sum(ways[int(u) :]) / math.comb(count, len(fewer)))
    variance = pairs / 12 * (count + 1 - tied / (count * (count - 1)))
    return min(1.0, 2 * float(scipy("special").ndtr((pairs / 2 + 0.5 - u) / math.sqrt(variance)))) if variance else 1.0


def _middle_ranks(values: Sequence[float]) -> tuple[list[float], int]:
    """Return the rank of each value from 1 on, equal ones with the mean of theirs, and Σ t³ − t over t equal ones."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    ranks, tied, first = [0.0] * len(values), 0, 0
    for _, group in itertools.groupby(order, key=lambda at: values[at]):
        same = list(group)
        for at in same:
            ranks[at] = first + (len(same) + 1) / 2
        tied += len(same) ** 3 - len(same)
        first += len(same)
    return ranks, tied


def _ways_to_interleave(fewer: int, more: int) -> list[int]:
    """Return by U in how many ways two sides interleave: the coefficients of the Gaussian binomial."""
    ways = [1] + [0] * (fewer * more)
    for i in range(1, fewer + 1):
        for u in range(len(ways) - 1, more + i - 1, -1):
            ways[u] -= ways[u - more - i]
        for u in range(i, len(ways)):
            ways[u] += ways[u - i]
    return ways


def thinned(steps: Sequence[float]) -> Sequence[float]:
    """Return every k-th step where steps depend on each other: k is their integrated autocorrelation time."""
    time = autocorrelation_time(steps)
    return steps if time <= LONGEST_FREE_TIME else steps[:: math.ceil(time)]


def autocorrelation_time(steps: Sequence[float]) -> float:
    """Return 1 + 2 Σ of the autocorrelations up to the first that is not positive."""
    count, mean = len(steps), _mean(steps)
    free = [step - mean for step in steps]
    whole = sum(x * x for x in free)
    time = 1.0
    for lag in range(1, count // 2):
        part = sum(free[at] * free[at + lag] for at in range(count - lag)) / whole if whole else 0.0
        if part <= 0:
            break
        time += 2 * part
    return time


def holm(p_values: Sequence[float]) -> list[bool]:
    """Return which of several changes are shown, so that a single wrong one has probability ALPHA (Holm)."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    shown = [False] * len(p_values)
    for position, at in enumerate(order):
        if p_values[at] > ALPHA / (len(p_values) - position):
            break
        shown[at] = True
    return shown


def false_discoveries(p_values: Sequence[float]) -> list[bool]:
    """Return which of several changes are shown, so that ALPHA of those are wrong (Benjamini–Hochberg)."""
    in_order = sorted(p_values)
    passing = [p for rank, p in enumerate(in_order, 1) if p * len(in_order) / rank <= ALPHA]
    return [bool(passing) and p <= passing[-1] for p in p_values]


def pooled_spread(sides: Sequence[Sequence[float]]) -> float | None:
    """Return the standard deviation within sides; None where no side has two values."""
    freedom = sum(len(side) - 1 for side in sides)
    if not freedom:
        return None
    return math.sqrt(sum(_variance(side) * (len(side) - 1) for side in sides if len(side) > 1) / freedom)


def _student(change: float, error: float, freedom: float) -> Interval:
    special = scipy("special")
    half = float(special.stdtrit(freedom, 1 - ALPHA / 2)) * error
    p_value = 2 * float(special.stdtr(freedom, -abs(change) / error))
    return Interval(change, change - half, change + half, p_value)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


# So many captures of one side predict the next one.
LEAST_HISTORY = 2
# As much as captures of one program on one machine were measured to differ: two of them by 11 % and by 14 %.
# One capture a side has no spread of its own, and a change that is beyond this one is no chance.
ASSUMED_SPREAD = 0.10
# Changes of which a report says how many captures a side would show them.
SHOWN_EFFECTS = (0.05, 0.10, 0.20)


@dataclass(frozen=True)
class Needed:
    """How many captures a side show a change of the step, in four of five cases."""

    effect_share: float
    captures: int | None  # None: more than a thousand
    is_measured: bool = False  # the change that this comparison measured


@dataclass(frozen=True)
class Judgement:
    """The verdict on the step, or on the unit of work."""

    verdict: str  # faster, slower, same, unsure, these captures differ, or not comparable
    change_share: float | None  # new over base, less 1; of the geometric means where there are several captures
    low_share: float | None = None  # 95 % interval of change_share
    high_share: float | None = None
    p_value: float | None = None
    test: str | None = None
    because: str = ""
    spread: float | None = None  # standard deviation between captures of a side, as a share
    needed: tuple[Needed, ...] = ()

    def could_be_slower(self, min_effect_share: float) -> bool:
        """Return whether a slowdown of this much is not ruled out."""
        return self.high_share is None or self.high_share >= min_effect_share


def judge(
    base_ns: Sequence[float],
    new_ns: Sequence[float],
    *,
    steps_ns: tuple[Sequence[float], Sequence[float]] = ((), ()),
    min_effect_share: float,
    capture_spread: float | None = None,
    identical: bool = False,
    is_unit_sure: bool = True,
) -> Judgement:
    """Return the verdict on captures with these mean steps; `steps_ns` are those of one capture a side.

    Where it is not sure that a unit of both sides holds the same work, one capture a side says little.
    """
    if identical:
        return Judgement("same", 0.0, 0.0, 0.0, because="both sides are the same captures")
    if min(*base_ns, *new_ns) <= 0:
        return Judgement("not comparable", None, because="a side has a step of no length")
    base, new = ([math.log(value) for value in side] for side in (base_ns, new_ns))
    floor = math.log1p(min_effect_share)
    change = math.fsum(new) / len(new) - math.fsum(base) / len(base)
    counts = len(base), len(new)
    if min(counts) >= 2:
        interval, test = welch(base, new), "Welch's t over captures"
    elif max(counts) >= LEAST_HISTORY:
        interval, test = _against_history(base, new), "prediction interval of the side with more captures"
    elif capture_spread is not None:
        interval, test = known_spread(change, capture_spread), "the given spread between captures"
    else:
        far = _far_apart(change, floor) if is_unit_sure else None
        return far or _of_two_captures(change, steps_ns, floor)
    spread = pooled_spread((base, new)) if capture_spread is None else capture_spread
    return Judgement(
        _verdict(interval, floor),
        _share(change),
        _share(interval.low),
        _share(interval.high),
        interval.p_value,
        test,
        spread=spread,
        needed=_needed(spread, change, floor),
    )


def _against_history(base: Sequence[float], new: Sequence[float]) -> Interval:
    if len(new) == 1:
        return prediction(base, new[0])
    mirrored = prediction(new, base[0])
    return Interval(-mirrored.change, -mirrored.high, -mirrored.low, mirrored.p_value)


def _verdict(interval: Interval, floor: float) -> str:
    if interval.low > 0 and interval.change >= floor:
        return "slower"
    if interval.high < 0 and interval.change <= -floor:
        return "faster"
    return "same" if -floor <= interval.low and interval.high <= floor else "unsure"


def _far_apart(change: float, floor: float) -> Judgement | None:
    """Return the verdict on a change that is too large for the spread of captures elsewhere; None: it is not."""
    interval = known_spread(change, ASSUMED_SPREAD)
    verdict = _verdict(interval, floor)
    if verdict not in ("slower", "faster"):
        return None
    return Judgement(
        verdict,
        _share(change),
        _share(interval.low),
        _share(interval.high),
        test=f"captures assumed to differ by {ASSUMED_SPREAD:.0%}, standard deviation".replace("%", " %"),
        because=(
            "one capture a side does not show how much captures of this program differ by chance; the new side is "
            f"{verdict} even if they differ as much as any that were measured, and by how much cannot be known closer"
        ),
    )


def _of_two_captures(change: float, steps_ns: tuple[Sequence[float], Sequence[float]], floor: float) -> Judgement:
    """Return at most that these two captures differ: the spread between captures is not known."""
    p_value = rank_test(*steps_ns) if abs(change) >= floor and min(map(len, steps_ns)) else None
    differ = p_value is not None and p_value <= ALPHA
    return Judgement(
        "these captures differ" if differ else "unsure",
        _share(change),
        p_value=p_value,
        test=None if p_value is None else "exact Mann–Whitney over steps",
        because="one capture a side does not show how much captures differ by chance",
    )


def _needed(spread: float | None, change: float, floor: float) -> tuple[Needed, ...]:
    """Return the captures that show the usual changes and the one that was measured, the largest change first."""
    if spread is None:
        return ()
    needed = [Needed(effect, captures_needed(spread, math.log1p(effect))) for effect in SHOWN_EFFECTS]
    seen = abs(math.expm1(change))
    if abs(change) >= floor and not any(math.isclose(seen, item.effect_share, rel_tol=0.05) for item in needed):
        needed.append(Needed(seen, captures_needed(spread, change), is_measured=True))
    return tuple(sorted(needed, key=lambda item: -item.effect_share))


def _share(log_change: float) -> float:
    return math.expm1(log_change)
