"""The op that a call waited for last is that of looking at each stream, which takes no time for idle streams."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.attribution.columns import NO_ROW
from traceanalyzer.attribution.host import waited_ops
from traceanalyzer.attribution.host.waited_ops import _Numbers, _waited_until

NO_WAITS = SimpleNamespace(waits_for=lambda stream, until: {})
TIMES = st.integers(0, 12)
OPS = st.lists(st.tuples(st.integers(1, 4), TIMES, TIMES, st.booleans()), max_size=14)
CALLS = st.lists(
    st.tuples(st.sampled_from([NO_ROW, 1, 2, 3, 4, 5]), TIMES, TIMES, st.booleans()), min_size=1, max_size=8
)


def ops_of(rows: list[tuple[int, int, int, bool]]) -> Any:
    """Return operations of these streams, launches and ends; not all of them have a launch in the trace."""
    stream, launch, end, linked = (np.asarray([row[at] for row in rows], np.int64) for at in range(4))
    return SimpleNamespace(stream=stream, launch_start=launch, end=end, linked=linked.astype(np.bool_))


def calls_of(rows: list[tuple[int, int, int, bool]]) -> Any:
    """Return calls that wait for these streams, for launches until then, and their ends."""
    stream, until, end, of_event = (np.asarray([row[at] for row in rows], np.int64) for at in range(4))
    return SimpleNamespace(stream=stream, until=until, end=end, of_event=of_event.astype(np.bool_), count=len(rows))


def waited_for(call: tuple[int, int, int, bool], ops: list[tuple[int, int, int, bool]]) -> int:
    """Return the op that a call waited for last, by looking at each stream."""
    of, until, end, of_event = call
    found, found_end = NO_ROW, -1
    for stream in sorted({op[0] for op in ops}):
        if of not in (NO_ROW, stream):
            continue
        launched = sorted((op[1], at) for at, op in enumerate(ops) if op[0] == stream and op[3] and op[1] < until)
        last, last_end, reached = NO_ROW, -1, -1
        for _, at in launched:
            reached = max(reached, ops[at][2])
            if of_event and reached > end:
                break
            if ops[at][2] == reached:
                last, last_end = at, reached
        if found_end < last_end <= end:
            found, found_end = last, last_end
    return found


@given(OPS, CALLS)
def test_it_is_the_op_that_looking_at_each_stream_finds(
    ops: list[tuple[int, int, int, bool]], calls: list[tuple[int, int, int, bool]]
) -> None:
    found = _waited_until(calls_of(calls), ops_of(ops), NO_WAITS, calls_of(calls).end)  # type: ignore[arg-type]
    assert found.tolist() == [waited_for(call, ops) for call in calls]


def test_only_streams_with_new_work_are_looked_at_when_a_call_waits_for_all(monkeypatch: Any) -> None:
    count, looks = 2_000, 0

    class Counted(_Numbers):
        def add(self, number: int) -> None:
            nonlocal looks
            looks += 1
            super().add(number)

    monkeypatch.setattr(waited_ops, "_Numbers", Counted)
    ops = ops_of([(stream, 10 * stream, 10 * stream + 8, True) for stream in range(count)])
    calls = calls_of([(NO_ROW, 10 * at + 5, 10 * at + 9, False) for at in range(count)])
    found = _waited_until(calls, ops, NO_WAITS, calls.end)  # type: ignore[arg-type]
    assert found.tolist() == list(range(count))
    assert looks == count
