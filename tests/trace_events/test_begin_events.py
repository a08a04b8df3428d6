"""Ends find their begin events as a look through all open ones does, in time that does not grow with their number."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.ingest.trace_events.frames import OpenBegins, Row

WORDS = st.sampled_from([None, "a", "b"])


def taken_from(stack: list[Row], name: str | None, category: str | None) -> Row | None:
    """Look through all open events, the innermost first."""
    for at in range(len(stack) - 1, -1, -1):
        if name in (None, stack[at][0]) and category in (None, stack[at][1]):
            return stack.pop(at)
    return None


@given(st.lists(st.tuples(st.booleans(), WORDS, WORDS), max_size=40))
@examples(500)
def test_an_end_closes_the_innermost_open_event_of_its_name_and_category(turns: list[Row]) -> None:
    begins, stack = OpenBegins(), list[Row]()
    for number, (opens, name, category) in enumerate(turns):
        if opens:
            begins.add((name, category, number), name, category)
            stack.append((name, category, number))
        else:
            assert begins.take(name, category) == taken_from(stack, name, category)
    assert begins.left() == stack


def test_ends_without_a_begin_take_time_as_their_number() -> None:
    begins = OpenBegins()
    started_s = time.process_time()
    for number in range(50_000):
        begins.add((number,), "open", "cat")
    assert all(begins.take("other", "cat") is None for _ in range(50_000))
    assert all(begins.take("open", "cat") == (number,) for number in reversed(range(50_000)))
    assert time.process_time() - started_s < 5
