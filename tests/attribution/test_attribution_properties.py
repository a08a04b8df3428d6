"""What holds for every timeline: the ledger closes, bounds keep their order, and row order changes nothing."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from drawn_timeline import tables
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.attribution.replay.bounds import Bounds
from tracesim.in_memory import derive

KINDS = ("kernel", "kernel", "kernel", "comm", "h2d", "d2h", "memset", "graph")
CALLS = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaMalloc")
SLICES = "id thread category name start end"
OPS = "id stream kind start end launch"


@st.composite
def timelines(draw: st.DrawFn) -> tuple[str, str]:
    """Return text tables of random host calls, annotations and GPU ops: ties, overlaps and zero lengths included."""
    calls = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12), st.sampled_from(CALLS)), max_size=12))
    at = {0: 0, 1: 0}
    slices = [SLICES]
    for i, (gap, length, name) in enumerate(calls):
        thread = i % 7 == 6
        start = at[thread] + gap
        at[thread] = start + length
        slices.append(f"{i + 1} {int(thread)} runtime {name} {start} {start + length}")
    for i in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, 300))
        names = ("ProfilerStep#{0}", "enumerate(DataLoader)#x", "aten::mm")
        name = draw(st.sampled_from(names)).format(i)
        slices.append(f"{i + 500} 0 annotation {name} {start} {start + draw(st.integers(0, 200))}")
    launch = st.sampled_from(["-", *(str(i + 1) for i in range(len(calls)))])
    times = st.tuples(st.integers(0, 400), st.integers(0, 60))
    ops = [OPS]
    for i, (stream, kind, (start, length), call) in enumerate(
        draw(
            st.lists(st.tuples(st.sampled_from([0, 7]), st.sampled_from(KINDS), times, launch), min_size=1, max_size=14)
        )
    ):
        ops.append(f"{i + 900} {stream} {kind} {start} {start + length} {call}")
    return "\n".join(slices), "\n".join(ops)


def union_ns(ops: list[dict[str, Any]]) -> int:
    """Return the length of the union of compute, counted instant by instant."""
    covered: set[int] = set()
    for op in ops:
        if op["kind"] in ("kernel", "graph") and not op["is_comm"]:
            covered.update(range(op["start_ns"] // 1000, (op["start_ns"] + op["dur_ns"]) // 1000))
    return 1000 * len(covered)


def busiest_stream_ns(ops: list[dict[str, Any]]) -> int:
    """Return the longest such union of one stream."""
    return max(union_ns([op for op in ops if op["stream"] == stream]) for stream in {op["stream"] for op in ops})


@pytest.mark.check
@examples()
@given(timelines())
def test_ledger_is_disjoint_and_covers_the_span(timeline: tuple[str, str]) -> None:
    made = tables(*timeline)
    ops = made["gpu_ops"].to_pylist()
    derived = derive(made)
    rows = derived["ledger_rows"].to_pylist()
    # The window begins ahead of the first op where the first step is kept.
    at = min(op["start_ns"] for op in (*ops, *derived["windows"].to_pylist()))
    for row in rows:
        assert row["start_ns"] == at
        assert row["dur_ns"] > 0
        at += row["dur_ns"]
    assert at == max(op["start_ns"] + op["dur_ns"] for op in ops)
    assert sum(row["dur_ns"] for row in rows if row["bucket"] == "compute") == union_ns(ops)


@pytest.mark.check
@examples()
@given(timelines())
def test_computing_time_of_a_window_is_that_of_its_instants(timeline: tuple[str, str]) -> None:
    made = tables(*timeline)
    (window,) = derive(made)["windows"].to_pylist()
    first, last = window["start_ns"], window["end_ns"]
    within = []
    for op in made["gpu_ops"].to_pylist():
        start, end = (min(max(at, first), last) for at in (op["start_ns"], op["start_ns"] + op["dur_ns"]))
        within.append(op | {"start_ns": start, "dur_ns": end - start})
    assert window["compute_ns"] == union_ns(within)
    assert window["busiest_stream_ns"] == busiest_stream_ns(within)


@pytest.mark.check
@examples()
@given(timelines(), st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(timeline: tuple[str, str], chance: random.Random) -> None:
    made = tables(*timeline)
    shuffled = {}
    for name, table in made.items():
        order = list(range(table.num_rows))
        chance.shuffle(order)
        shuffled[name] = table.take(pa.array(order, pa.int64()))
    assert {n: t.to_pylist() for n, t in derive(made).items()} == {
        n: t.to_pylist() for n, t in derive(shuffled).items()
    }


@pytest.mark.check
@examples()
@given(timelines(), st.data())
def test_bounds_grow_with_what_is_removed_and_stay_inside_the_window(
    timeline: tuple[str, str], data: st.DataObject
) -> None:
    found = derive(tables(*timeline))
    bounds = Bounds.of_tables(found["windows"], found["replay_events"], found["replay_costs"], found["replay_needs"])
    causes = sorted(bounds.causes(0, 0))
    fewer = frozenset(data.draw(st.sets(st.sampled_from(causes)))) if causes else frozenset()
    more = fewer | (frozenset(data.draw(st.sets(st.sampled_from(causes)))) if causes else frozenset())
    (window,) = found["windows"].to_pylist()
    assert bounds.bound(0, 0, frozenset()) == 0
    assert 0 <= bounds.bound(0, 0, fewer) <= bounds.bound(0, 0, more) <= window["window_ns"]
