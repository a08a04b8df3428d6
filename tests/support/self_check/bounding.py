"""Checks of bounds: removing nothing saves nothing, no bound exceeds its window, and removing more saves more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.scan import WhatIf

Place = tuple[int, int]  # trace_id, device


def too_long(bounds: Bounds, places: Sequence[Place], windows: Mapping[Place, int]) -> tuple[str, ...]:
    """Return the places where one cause, or all causes together, save more than the window or less than nothing."""
    broken = []
    for place in places:
        causes = sorted(bounds.causes(*place))
        removals = [*(frozenset({cause}) for cause in causes), frozenset(causes)]
        savings = bounds.bounds(*place, [WhatIf(removed) for removed in removals])
        longest = max(savings, default=0)
        if longest > windows[place] or min(savings, default=0) < 0:
            broken.append(f"trace {place[0]} device {place[1]}: {longest} ns of {windows[place]} ns")
    return tuple(broken)


def for_nothing(bounds: Bounds, places: Sequence[Place]) -> tuple[str, ...]:
    """Return the places where removing nothing saves something."""
    savings = {place: bounds.bound(*place, frozenset()) for place in places}
    return tuple(
        f"trace {place[0]} device {place[1]}: {saved_ns} ns" for place, saved_ns in savings.items() if saved_ns
    )


def shrinking(bounds: Bounds, places: Sequence[Place]) -> tuple[str, ...]:
    """Return the places where a larger set of causes saves less than a smaller one, growing the set in both orders.

    A larger set may save less by as much as the window begins earlier. Real runs behave like that too: the simulator
    has jobs that take longer between two steps without a cause, because the first step comes earlier and the second
    does not. But nothing may come later.
    """
    broken = []
    for place in places:
        causes = sorted(bounds.causes(*place))
        for order in (causes, causes[::-1]):
            savings = bounds.window_savings(*place, [WhatIf(frozenset(order[: i + 1])) for i in range(len(order))])
            for last, less, more in zip(order[1:], savings, savings[1:], strict=False):
                added_ns = more.saved_ns - less.saved_ns
                # Scaled savings are rounded.
                if added_ns < min(0, less.begins_earlier_ns - more.begins_earlier_ns - 2):
                    broken.append(f"trace {place[0]} device {place[1]}: {last} adds {added_ns} ns")
    return tuple(broken)
