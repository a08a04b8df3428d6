"""Whether a change is real: from captures, not from steps.

Steps of one capture agree with each other and not with the next capture of the same program, so a test over steps calls
chance a change. The verdict compares logarithms of the captures' mean steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.comparison import statistics

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
        interval, test = statistics.welch(base, new), "Welch's t over captures"
    elif max(counts) >= LEAST_HISTORY:
        interval, test = _against_history(base, new), "prediction interval of the side with more captures"
    elif capture_spread is not None:
        interval, test = statistics.known_spread(change, capture_spread), "the given spread between captures"
    else:
        far = _far_apart(change, floor) if is_unit_sure else None
        return far or _of_two_captures(change, steps_ns, floor)
    spread = statistics.pooled_spread((base, new)) if capture_spread is None else capture_spread
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


def _against_history(base: Sequence[float], new: Sequence[float]) -> statistics.Interval:
    if len(new) == 1:
        return statistics.prediction(base, new[0])
    mirrored = statistics.prediction(new, base[0])
    return statistics.Interval(-mirrored.change, -mirrored.high, -mirrored.low, mirrored.p_value)


def _verdict(interval: statistics.Interval, floor: float) -> str:
    if interval.low > 0 and interval.change >= floor:
        return "slower"
    if interval.high < 0 and interval.change <= -floor:
        return "faster"
    return "same" if -floor <= interval.low and interval.high <= floor else "unsure"


def _far_apart(change: float, floor: float) -> Judgement | None:
    """Return the verdict on a change that is too large for the spread of captures elsewhere; None: it is not."""
    interval = statistics.known_spread(change, ASSUMED_SPREAD)
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
    p_value = statistics.rank_test(*steps_ns) if abs(change) >= floor and min(map(len, steps_ns)) else None
    differ = p_value is not None and p_value <= statistics.ALPHA
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
    needed = [Needed(effect, statistics.captures_needed(spread, math.log1p(effect))) for effect in SHOWN_EFFECTS]
    seen = abs(math.expm1(change))
    if abs(change) >= floor and not any(math.isclose(seen, item.effect_share, rel_tol=0.05) for item in needed):
        needed.append(Needed(seen, statistics.captures_needed(spread, change), is_measured=True))
    return tuple(sorted(needed, key=lambda item: -item.effect_share))


def _share(log_change: float) -> float:
    return math.expm1(log_change)
