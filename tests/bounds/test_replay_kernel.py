"""The replay: the library gives what the plain pass gives, and both what the definition of a shift gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.attribution.columns import NO_ROW, Ints
from traceanalyzer.attribution.replay import kernel
from traceanalyzer.attribution.replay.kernel import NO_LIMIT, Changes, DeviceReplay, Need, Points, ScanEvents

SMALL = st.integers(0, 9)


@st.composite
def devices(draw: st.DrawFn, count: int) -> tuple[ScanEvents, Changes | None]:
    """Return a device with this many events, every second one of which is an op at least, and what changes."""

    def column(values: st.SearchStrategy[Any], kind: Any = np.int64) -> Any:
        return np.asarray(draw(st.lists(values, min_size=count, max_size=count)), kind)

    is_op = column(st.booleans(), np.bool_)
    is_op[1::2] = True
    before = [np.asarray([draw(st.integers(NO_ROW, at - 1)) for at in range(count)], np.int64) for _ in range(2)]
    limited = st.one_of(SMALL, st.just(NO_LIMIT))
    more = [tuple(Need(draw(st.integers(0, at - 1)), 2) for _ in range(draw(st.integers(0, min(2, at)))))
            if is_op[at] else () for at in range(count)]  # fmt: skip
    wait_ns = column(SMALL)
    # A wait ends no earlier than what it waited for, so that nothing moves where nothing changes.
    limit = np.where(is_op, column(limited), 0)
    events = ScanEvents(
        is_op, column(limited), limit, before[0], column(SMALL), before[1], column(SMALL), more, wait_ns
    )
    if draw(st.booleans()):
        return events, None
    earlier, shorter = (np.where(is_op, column(SMALL), 0) for _ in range(2))
    return events, Changes(column(SMALL), column(st.booleans(), np.bool_) & ~is_op, earlier, shorter)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[tuple[ScanEvents, Changes | None]], Points, int]:
    """Return three devices of six events that meet at their second and sixth, and the bits of a shift."""
    made = [draw(devices(6)) for _ in range(3)]
    waits = np.asarray(draw(st.lists(SMALL, min_size=6, max_size=6)), np.int64)
    waits[[0, 3]] = 0  # of the last ones
    flags = [np.asarray(draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_) for n in (2, 3)]
    transfer = np.asarray(draw(st.lists(SMALL, min_size=2, max_size=2)), np.int64)
    given = np.asarray(draw(st.lists(SMALL, min_size=2, max_size=2)), np.int64) if draw(st.booleans()) else None
    members = np.arange(0, 7, 3), np.tile(np.arange(3), 2), np.repeat([1, 5], 3)
    return made, Points(*members, waits, transfer, flags[0], flags[1], given), draw(st.integers(0, 3))


def replayed(run: Any, by: Any) -> tuple[list[list[int]], list[int]]:
    made, points, bits = run
    of_devices = [DeviceReplay(events, changes) for events, changes in made]
    begun: Ints = by(of_devices, points, 1 << bits)
    return [one.ends.tolist() if one.moves else [0] * len(one.ends) for one in of_devices], begun.tolist()


@pytest.mark.skipif(kernel._library() is None, reason="no C compiler built the library")
@given(runs())
@examples()
def test_the_library_gives_what_the_plain_pass_gives(run: Any) -> None:
    library = kernel._library()
    assert library is not None
    found = replayed(run, lambda *arguments: kernel._compiled(library, *arguments))
    assert found == replayed(run, kernel._plain)


def shift(events: ScanEvents, changes: Changes, at: int) -> tuple[int, int]:
    """Return the shifts of the host after an event and of the event's end, as the definition has them."""
    host = (shift(events, changes, at - 1)[0] if at else 0) + int(changes.host_gain_ns[at])
    needs = [(events.pred1[at], events.pred1_slack_ns[at]), (events.pred2[at], events.pred2_slack_ns[at])]
    if not events.is_op[at]:
        ready = [host + int(events.explained_wait_ns[at]), int(events.shift_limit_ns[at])]
        ready += [shift(events, changes, int(p))[1] + int(slack) for p, slack in needs[:1] if p != NO_ROW]
        host = host if changes.wait_removed[at] else min(ready)
        return host, max([host, *(shift(events, changes, int(p))[1] for p, _ in needs[1:] if p != NO_ROW)])
    awaited = [
        (shift(events, changes, int(p))[1], int(slack)) for p, slack in [*needs, *events.more[at]] if p != NO_ROW
    ]
    awaited += [(host, int(events.host_slack_ns[at]))] if events.host_slack_ns[at] < NO_LIMIT else []
    least = min([int(events.shift_limit_ns[at]), *(one + slack for one, slack in awaited)])
    start = min(least, max([0, *(one for one, _ in awaited)])) + int(changes.earlier_ns[at])
    return host, start + int(changes.shorter_ns[at])


@given(devices(7))
@examples()
def test_each_event_has_the_lead_that_the_definition_gives_it(device: tuple[ScanEvents, Changes | None]) -> None:
    events, changes = device
    if changes is not None:
        expected = [shift(events, changes, at)[1] for at in range(events.count)]
        assert kernel.replay_alone(events, changes).tolist() == expected
