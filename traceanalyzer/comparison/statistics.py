"""Tests and intervals, from SciPy's distributions; SciPy is imported when two sides are compared.

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
