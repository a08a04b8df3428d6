"""Begin and end events are read as the whole events that they stand for.

Ends find their begin events as a look through all open ones does, in time that does not grow with their number.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples
from trace_event_tables import Tables, events, read

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


Event = dict[str, Any]


def tables(rows: Sequence[Event]) -> Tables:
    return read(events(*map(json.dumps, rows)))


def whole() -> list[Event]:
    """Return four launches from an operator in a Python function, each of a kernel or a copy."""
    here = {"ph": "X", "pid": 1, "tid": 1}
    rows: list[Event] = [
        {**here, "cat": "python_function", "name": "train.py(3): step", "ts": 5, "dur": 400, "args": {"Python id": 1}}
    ]
    for at in range(4):
        ts, ids = 100 * at, {"correlation": at + 1, "External id": at + 1}
        work = {"ph": "X", "pid": 0, "tid": 7, "ts": ts + 40, "dur": 30, "args": {**ids, "device": 0, "stream": 7}}
        rows += [
            {**here, "cat": "cpu_op", "name": "aten::mm", "ts": ts + 10, "dur": 20, "args": {"External id": at + 1}},
            {**here, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts + 12, "dur": 5, "args": ids},
            {**work, "cat": "kernel", "name": "gemm"}
            if at
            else {**work, "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)"},
        ]
    return rows


def begun(rows: Sequence[Event], *, has_ends: bool = True) -> list[Event]:
    """Return whole events as begin and end events."""
    turns: list[Event] = []
    for row in rows:
        turns.append({key: value for key, value in row.items() if key != "dur"} | {"ph": "B"})
        if has_ends:
            same = {key: row[key] for key in ("pid", "tid", "cat", "name")}
            turns.append({**same, "ph": "E", "ts": row["ts"] + row["dur"]})
    return turns


def without_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the numbers of events, of which there are more."""
    numbers = ("op_id", "launch_id", "cpu_op_id", "python_id", "slice_id", "parent_id", "stack_id", "module_id")
    return sorted(({**row, **{key: row.get(key) is None for key in numbers}} for row in rows), key=str)


@pytest.mark.parametrize("categories", [{"kernel", "gpu_memcpy"}, {"cuda_runtime"}, {"python_function"}, None])
def test_begin_and_end_events_are_read_as_whole_ones(categories: set[str] | None) -> None:
    """Tools that write a trace again may write every event as its begin and its end."""
    expected = tables(whole())
    changed = [row for row in whole() if categories is None or row["cat"] in categories]
    found = tables([row for row in whole() if row not in changed] + begun(changed))
    assert found.defects == expected.defects == {}
    for table in ("gpu_ops", "host_slices"):
        assert without_ids(found[table]) == without_ids(expected[table])


def test_gpu_work_that_never_ends_has_an_unknown_length_and_is_counted() -> None:
    work = [row for row in whole() if row["pid"] == 0]
    found = tables([row for row in whole() if row not in work] + begun(work[:-1]) + begun(work[-1:], has_ends=False))
    assert found.defects == {"unfinished-begin": 1}
    assert [row["dur_ns"] for row in found["gpu_ops"]] == [30_000, 30_000, 30_000, 0]


def test_categories_of_gpu_work_of_other_tools_begin_no_gpu_work() -> None:
    rows: list[Event] = [{"ph": "X", "cat": "kernel", "name": "sched", "pid": 4242, "tid": 1, "ts": 5, "dur": 3}]
    found = tables(begun([{**rows[0], "args": {"cpu": 3}}]))
    assert found["gpu_ops"] == []
    assert [(row["name"], row["category"]) for row in found["host_slices"]] == [("sched", "other")]


def test_annotations_on_a_device_that_begin_and_end_are_no_slices_of_the_host() -> None:
    mark = {"ph": "X", "cat": "gpu_user_annotation", "name": "forward", "pid": 0, "tid": 7, "ts": 40, "dur": 90}
    expected, found = tables([*whole(), mark]), tables(whole() + begun([mark]))
    assert [(row["name"], row["category"]) for row in found["async_slices"]] == [("forward", "gpu_annotation")]
    for table in ("async_slices", "host_slices", "gpu_ops"):
        assert without_ids(found[table]) == without_ids(expected[table])
