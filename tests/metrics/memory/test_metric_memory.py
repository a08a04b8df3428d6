"""Memory metrics: owners, peaks and leaks by hand, and owners against a search for the enclosing operator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples

READER = "FROM memory_at_peak JOIN memory_growth USING (trace_id)"
# add  |-----------------|
#   empty   |----|
# mm                        |-----|
OPERATORS = """
slice_id  thread_id  category  name         start_ns  dur_ns  depth  op_id  python_id
1         0          cpu_op    aten::add    10        100     0      -      -
2         0          cpu_op    aten::empty  30        20      1      1      -
3         0          cpu_op    aten::mm     120       30      0      -      4
4         0          python    net.py(3)    115       40      0      -      -
"""
EVENTS = """
event_id  thread_id  start_ns  kind   device_type  device  address  size_bytes  allocated_bytes  reserved_bytes
1         0          20        alloc  1            0       100      10          110              200
2         0          35        alloc  1            0       200      30          140              200
3         0          60        free   1            0       100      -10         130              200
4         0          125       alloc  1            0       100      50          180              300
5         0          160       free   1            0       100      -50         130              300
6         0          170       free   1            0       900      -40         90               300
"""


def test_an_allocation_belongs_to_the_innermost_open_operator() -> None:
    con = connect(READER, host_slices=OPERATORS, memory_events=EVENTS)
    assert ask(con, "SELECT event_id, operator, free_position FROM memory_allocations ORDER BY event_id") == [
        (1, "aten::add", 3),
        (2, "aten::empty", None),
        (4, "aten::mm", 5),
    ]


def test_an_operator_that_outlasts_the_one_around_it_owns_what_is_allocated_after_that() -> None:
    con = connect(
        "FROM memory_allocations",
        host_slices="""
        slice_id  thread_id  category  name    start_ns  dur_ns  depth  op_id
        1         0          cpu_op    around  0         10      0      -
        2         0          cpu_op    longer  5         10      1      1
        """,
        memory_events="""
        event_id  thread_id  start_ns  kind   device_type  device  address  size_bytes
        1         0          7         alloc  1            0       100      1
        2         0          12        alloc  1            0       200      1
        3         0          15        alloc  1            0       300      1
        """,
    )
    found = ask(con, "SELECT event_id, operator FROM memory_allocations ORDER BY event_id")
    assert found == [(1, "longer"), (2, "longer"), (3, None)]


def test_the_peak_has_the_reserved_total_of_its_own_event() -> None:
    con = connect(READER, host_slices=OPERATORS, memory_events=EVENTS)
    columns = (
        "before_bytes, peak_bytes, peak_position, reserved_at_peak_bytes, after_bytes, most_free_bytes, broken_count"
    )
    assert ask(con, f"SELECT {columns} FROM memory_peaks WHERE step IS NULL") == [(100, 180, 4, 300, 90, 210, 0)]


def test_what_is_alive_at_the_peak_has_an_owner_or_is_older() -> None:
    con = connect(READER, host_slices=OPERATORS, memory_events=EVENTS)
    assert ask(con, "SELECT category, operator, python, live_bytes FROM memory_at_peak") == [
        ("older", None, None, 100),
        ("other", "aten::mm", "net.py(3)", 50),
        ("other", "aten::empty", None, 30),
    ]


def test_only_what_outlives_the_backward_pass_is_a_gradient() -> None:
    # linear |--|  ReluBackward |-----|  MmBackward |-----|  AccumulateGrad |---|  Optimizer.step |----|
    con = connect(
        "FROM memory_allocations",
        host_slices="""
        slice_id  thread_id  category    name                    start_ns  dur_ns  depth  op_id  forward_thread
        1         0          cpu_op      aten::linear            10        20      0      -      -
        2         0          cpu_op      ReluBackward            100       50      0      -      1
        3         0          cpu_op      aten::threshold         110       10      1      2      -
        4         0          cpu_op      MmBackward              200       50      0      -      1
        5         0          cpu_op      aten::mm                210       10      1      4      -
        6         0          annotation  Optimizer.step#Adam     300       50      0      -      -
        7         0          cpu_op      AccumulateGrad          260       30      0      -      -
        """,
        memory_events="""
        event_id  thread_id  start_ns  kind   device_type  device  address  size_bytes
        1         0          20        alloc  1            0       100      1
        2         0          115       alloc  1            0       200      1
        3         0          130       free   1            0       100      -1
        4         0          215       alloc  1            0       300      1
        5         0          240       free   1            0       200      -1
        6         0          310       alloc  1            0       400      1
        7         0          218       alloc  1            0       500      1
        8         0          270       alloc  1            0       600      1
        9         0          280       free   1            0       500      -1
        10        0          400       free   1            0       300      -1
        11        0          400       free   1            0       600      -1
        """,
    )
    found = ask(con, "SELECT operator, category FROM memory_allocations ORDER BY event_id")
    assert found == [
        ("aten::linear", "activation"),
        ("aten::threshold", "other"),
        ("aten::mm", "gradient"),
        (None, "optimizer"),
        ("aten::mm", "other"),
        ("AccumulateGrad", "gradient"),
    ]


def test_events_without_totals_and_addresses_give_a_change_and_no_owner() -> None:
    con = connect(
        READER,
        memory_events="""
        event_id  thread_id  start_ns  kind   device_type  device  address  size_bytes  allocated_bytes  reserved_bytes
        1         0          20        alloc  1            0       -        10          -                -
        2         0          35        alloc  1            0       -        30          -                -
        3         0          60        free   1            0       -        -10         -                -
        """,
    )
    columns = "peak_bytes, peak_change_bytes, peak_position, before_bytes, broken_count"
    assert ask(con, f"SELECT {columns} FROM memory_peaks WHERE step IS NULL") == [(None, 40, 2, None, None)]
    assert ask(con, "FROM memory_at_peak") == []


@pytest.mark.parametrize(("steps", "suspected"), [(2, False), (3, True)])
def test_a_leak_is_suspected_after_three_steps_that_leave_memory(steps: int, suspected: bool) -> None:
    con = connect(
        READER,
        steps=[
            {"step": n, "host_start_ns": n * 100, "host_end_ns": n * 100 + 100, "start_ns": n * 100, "end_ns": 1}
            for n in range(5)
        ],
        memory_events=[
            {"event_id": n, "thread_id": 0, "start_ns": n * 100 + 5, "kind": "alloc", "device_type": 1, "device": 0}
            | {"address": n, "size_bytes": 8, "allocated_bytes": 8 * n, "reserved_bytes": 99}
            for n in range(steps)
        ],
    )
    rows = ask(con, "SELECT left_bytes, steps_in_row, is_suspected FROM memory_growth")
    assert rows == [(8, steps, suspected)] * steps


def nested(lengths: list[int]) -> list[dict[str, Any]]:
    """Return operators that lie in each other or follow each other: each length is a slice at the next free instant."""
    slices: list[dict[str, Any]] = []
    open_until: list[tuple[int, int]] = []
    at = 0
    for number, length in enumerate(lengths, 1):
        while open_until and open_until[-1][0] <= at:
            open_until.pop()
        end = min([at + length, *(until for until, _ in open_until)])
        parent = open_until[-1][1] if open_until else None
        slices.append(
            {"slice_id": number, "thread_id": 0, "category": "cpu_op", "name": str(number), "start_ns": at}
            | {"dur_ns": end - at, "depth": len(open_until), "op_id": parent}
        )
        open_until.append((end, number))
        at += 1 + length % 3
    return slices


@pytest.mark.check
@given(st.lists(st.integers(1, 12), min_size=1, max_size=12), st.lists(st.integers(0, 40), min_size=1, max_size=8))
@examples()
def test_owners_agree_with_a_search_for_the_innermost_open_operator(lengths: list[int], times: list[int]) -> None:
    slices = nested(lengths)
    con = connect(
        "FROM memory_allocations",
        host_slices=slices,
        memory_events=[
            {"event_id": n, "thread_id": 0, "start_ns": time, "kind": "alloc", "device_type": 1, "device": 0}
            | {"address": n, "size_bytes": 1}
            for n, time in enumerate(times)
        ],
    )
    found = dict(ask(con, "SELECT event_id, operator_id FROM memory_allocations"))
    for n, time in enumerate(times):
        around = [s for s in slices if s["start_ns"] <= time < s["start_ns"] + s["dur_ns"]]
        assert found[n] == max(around, key=lambda s: s["depth"], default={"slice_id": None})["slice_id"]
