"""Whether bounds can be believed: nothing for nothing, never more than there is, and more for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from traceanalyzer.attribution import Bounds, Scenario

Place = tuple[int, int]  # trace_id, device


def too_long(bounds: Bounds, places: Sequence[Place], windows: Mapping[Place, int]) -> tuple[str, ...]:
    """Return the places where one cause, or all together, save more than the window."""
    broken = []
    for place in places:
        causes = sorted(bounds.causes(*place))
        scenarios = [*(frozenset({cause}) for cause in causes), frozenset(causes)]
        found = bounds.bounds(*place, [Scenario(removed) for removed in scenarios])
        longest = max(found, default=0)
        if longest > windows[place] or min(found, default=0) < 0:
            broken.append(f"trace {place[0]} device {place[1]}: {longest} ns of {windows[place]} ns")
    return tuple(broken)


def for_nothing(bounds: Bounds, places: Sequence[Place]) -> tuple[str, ...]:
    """Return the places where removing nothing saves something."""
    found = {place: bounds.bound(*place, frozenset()) for place in places}
    return tuple(f"trace {place[0]} device {place[1]}: {saved_ns} ns" for place, saved_ns in found.items() if saved_ns)


def shrinking(bounds: Bounds, places: Sequence[Place]) -> tuple[str, ...]:
    """Return the places where a larger set of causes saves less than a smaller one, growing the set both ways.

    It may save less by what the window begins earlier: that the whole difference never shrinks is not true of real
    runs either. The simulator has jobs that take longer between two steps without a cause than with it, because the
    first of them comes earlier and the second one does not. What must not be is that anything comes later.
    """
    broken = []
    for place in places:
        causes = sorted(bounds.causes(*place))
        for order in (causes, causes[::-1]):
            found = bounds.readings(*place, [Scenario(frozenset(order[: i + 1])) for i in range(len(order))])
            for last, less, more in zip(order[1:], found, found[1:], strict=False):
                added_ns = more.saved_ns - less.saved_ns
                # Scaled readings are rounded.
                if added_ns < min(0, less.begins_earlier_ns - more.begins_earlier_ns - 2):
                    broken.append(f"trace {place[0]} device {place[1]}: {last} adds {added_ns} ns")
    return tuple(broken)
