"""Checks of bounds: removing nothing saves nothing, no bound exceeds its window, and removing more saves more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.kernel import replay_alone
from traceanalyzer.attribution.replay.scan import WhatIf

DeviceKey = tuple[int, int]  # trace_id, device


def too_long(bounds: Bounds, device_keys: Sequence[DeviceKey], windows: Mapping[DeviceKey, int]) -> tuple[str, ...]:
    """Return the places where one cause, or all causes together, save more than the window or less than nothing."""
    broken = []
    for device_key in device_keys:
        causes = sorted(bounds.causes(*device_key))
        interventions = [*(frozenset({cause}) for cause in causes), frozenset(causes)]
        savings = bounds.bounds(*device_key, [WhatIf(removed) for removed in interventions])
        longest = max(savings, default=0)
        if longest > windows[device_key] or min(savings, default=0) < 0:
            broken.append(f"trace {device_key[0]} device {device_key[1]}: {longest} ns of {windows[device_key]} ns")
    return tuple(broken)


def for_nothing(bounds: Bounds, device_keys: Sequence[DeviceKey]) -> tuple[str, ...]:
    """Return the places where removing nothing saves something."""
    savings = {device_key: bounds.bound(*device_key, frozenset()) for device_key in device_keys}
    return tuple(
        f"trace {device_key[0]} device {device_key[1]}: {saved_ns} ns"
        for device_key, saved_ns in savings.items()
        if saved_ns
    )


def shrinking(bounds: Bounds, device_keys: Sequence[DeviceKey]) -> tuple[str, ...]:
    """Return the places where a larger set of causes saves less than a smaller one, growing the set in both orders.

    A larger set may save less by as much as the window begins earlier. Real runs behave like that too: the simulator
    has jobs that take longer between two steps without a cause, because the first step comes earlier and the second
    does not. But nothing may come later.
    """
    broken = []
    for device_key in device_keys:
        causes = sorted(bounds.causes(*device_key))
        for order in (causes, causes[::-1]):
            what_ifs = [WhatIf(frozenset(order[: i + 1])) for i in range(len(order))]
            savings = zip(
                bounds.bounds(*device_key, what_ifs), _begins_earlier(bounds, device_key, what_ifs), strict=True
            )
            for last, (less, more) in zip(order[1:], pairwise(savings), strict=True):
                added_ns = more[0] - less[0]
                # Scaled savings are rounded.
                if added_ns < min(0, less[1] - more[1] - 2):
                    broken.append(f"trace {device_key[0]} device {device_key[1]}: {last} adds {added_ns} ns")
    return tuple(broken)


def _begins_earlier(bounds: Bounds, device_key: DeviceKey, what_ifs: Sequence[WhatIf]) -> list[int]:
    """Return how many ns earlier the window of a device begins in each what-if."""
    scan, window = bounds.devices[device_key].scan, bounds.devices[device_key].window
    first = None if window["first_op_id"] is None else scan.position_of(window["first_op_id"])
    begins = []
    for changes in map(scan.changes, what_ifs):
        ends = replay_alone(scan.events, changes)
        earlier_ns = 0 if first is None else ends[first] - changes.shorter_ns[first]
        begins.append(int(earlier_ns * window["measure_scale"]))
    return begins
