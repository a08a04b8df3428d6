"""captured_launches, graph_operators and their coverage: what a graph's operations were launched for when captured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from text_tables import ask, connect

from traceanalyzer.run import open_run

MATCHES = "SELECT position, name, matched_by, operator, input_shapes FROM graph_operators ORDER BY position"
COVERAGE = "SELECT op_count, matched_count, operator_count, capture_count, matched_share FROM graph_operator_coverage"
TRACES = [{"trace_id": 0, "trace": "run", "rank": 0}, {"trace_id": 1, "trace": "capture", "rank": 0}]


def capture(*launches: tuple[str | None, str], trace_id: int = 1, shape: int = 32, first: int = 0) -> dict[str, Any]:
    """Return the tables of a capture: each launch with its kernel, where recorded, and its operator."""
    slices: list[dict[str, Any]] = [_call(trace_id, first + 1, "hipStreamBeginCapture", 0)]
    args = []
    for at, (kernel, operator) in enumerate(launches, 1):
        number = first + 10 * at
        shapes = f"[[{shape}]]"
        start = {"trace_id": trace_id, "thread_id": 1, "start_ns": first * 100 + 100 * at}
        slices.append(start | {"slice_id": number, "category": "cpu_op", "name": operator, "input_shapes": shapes})
        slices[-1] |= {"dur_ns": 90}
        slices.append(_call(trace_id, number + 1, "hipLaunchKernel", first * 100 + 100 * at + 10) | {"op_id": number})
        args += [{"trace_id": trace_id, "event_id": number + 1, "args": f'{{"kernel": "{kernel}"}}'}] if kernel else []
    end = 100 * (len(launches) + 1)
    slices.append(_call(trace_id, first + 10 * len(launches) + 10, "hipStreamEndCapture", first * 100 + end))
    slices[0]["start_ns"] = first * 100
    return {"host_slices": slices, "event_args": args}


def _call(trace_id: int, slice_id: int, name: str, start_ns: int) -> dict[str, Any]:
    at = {"trace_id": trace_id, "slice_id": slice_id, "start_ns": start_ns, "dur_ns": 5}
    return at | {"thread_id": 1, "category": "runtime", "name": name}


def replays(*names: str, count: int = 1, nodes: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return the tables of replays of one graph, one operation of 10 ns after the other."""
    slices, ops = [], []
    for replay in range(count):
        slices.append(_call(0, 1_000 + replay, "hipGraphLaunch", 10_000 * (replay + 1)))
        for at, name in enumerate(names):
            op = {"op_id": 100 * replay + at, "kind": "memcpy" if name == "copy" else "kernel", "name": name}
            op |= {"trace_id": 0, "start_ns": 10_000 * (replay + 1) + 100 + 10 * at, "dur_ns": 10}
            ops.append(op | {"launch_id": 1_000 + replay} | ({"graph_node_id": nodes[at]} if nodes else {}))
    return {"host_slices": slices, "gpu_ops": ops}


def run(*parts: dict[str, Any], traces: list[dict[str, Any]] = TRACES) -> duckdb.DuckDBPyConnection:
    """Return a connection over a run of these parts."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        for name, rows in part.items():
            tables[name] = tables.get(name, []) + rows
    return connect("FROM graph_operators; FROM graph_operator_coverage", traces=traces, **tables)


def test_operations_of_a_graph_are_matched_by_name_in_the_order_of_the_capture() -> None:
    con = run(replays("a", "b", "a", count=3), capture(("a", "aten::mm"), ("b", "aten::add"), ("a", "aten::bmm")))
    assert ask(con, MATCHES) == [
        (1, "a", "name", "aten::mm", "[[32]]"),
        (2, "b", "name", "aten::add", "[[32]]"),
        (3, "a", "name", "aten::bmm", "[[32]]"),
    ]
    assert ask(con, COVERAGE) == [(3, 3, 3, 1, 1.0)]
    assert ask(con, "SELECT DISTINCT replay_count, sum_ns, capture_trace FROM graph_operators") == [(3, 30, "capture")]


def test_the_order_of_nodes_counts_before_that_of_starts() -> None:
    con = run(replays("a", "a", nodes=(2, 1)), capture(("a", "aten::mm"), ("a", "aten::bmm")))
    assert [row[3] for row in ask(con, MATCHES)] == ["aten::bmm", "aten::mm"]


def test_a_kernel_that_another_number_of_launches_names_stays_open() -> None:
    con = run(replays("a", "b", "b", "c"), capture(("a", "aten::mm"), ("b", "aten::add"), ("d", "aten::mul")))
    assert [(row[1], row[3]) for row in ask(con, MATCHES)] == [("a", "aten::mm"), ("b", None), ("b", None), ("c", None)]
    assert ask(con, COVERAGE) == [(4, 1, 1, 1, 0.25)]


@pytest.mark.check
def test_without_names_only_a_capture_of_as_many_launches_fits() -> None:
    launches = ((None, "aten::mm"), (None, "aten::add"))
    assert [row[2:4] for row in ask(run(replays("a", "b"), capture(*launches)), MATCHES)] == [
        ("order", "aten::mm"),
        ("order", "aten::add"),
    ]
    con = run(replays("a", "b", "c"), capture(*launches))
    assert ask(con, COVERAGE) == [(3, 0, 0, 0, 0.0)]
    con = run(replays("a", "copy"), capture(*launches))
    assert ask(con, COVERAGE) == [(2, 0, 0, 0, 0.0)]


def test_of_captures_that_fit_equally_only_what_they_agree_on_counts() -> None:
    launches = (("a", "aten::mm"), ("b", "aten::add"))
    con = run(replays("a", "b"), capture(*launches, shape=1), capture(*launches, shape=2, first=500))
    assert [row[3:] for row in ask(con, MATCHES)] == [("aten::mm", None), ("aten::add", None)]
    assert ask(con, COVERAGE) == [(2, 2, 2, 2, 1.0)]


def test_the_capture_with_most_of_the_operations_counts() -> None:
    smaller = capture(("a", "aten::mm"), ("e", "aten::add"), shape=1)
    con = run(replays("a", "b"), smaller, capture(("a", "aten::mm"), ("b", "aten::add"), shape=2, first=500))
    assert [row[4] for row in ask(con, MATCHES)] == ["[[2]]", "[[2]]"]


def test_a_capture_of_another_rank_or_none_matches_nothing() -> None:
    traces = [TRACES[0], TRACES[1] | {"rank": 1}]
    con = run(replays("a"), capture(("a", "aten::mm")), traces=traces)
    assert ask(con, MATCHES) == [(1, "a", None, None, None)]
    assert ask(run(replays("a")), COVERAGE) == [(1, 0, 0, 0, 0.0)]


def test_a_graph_may_be_captured_in_the_trace_of_its_replays() -> None:
    con = run(replays("a"), capture(("a", "aten::mm"), trace_id=0), traces=TRACES[:1])
    assert [row[3] for row in ask(con, MATCHES)] == ["aten::mm"]


LAUNCHES_OF_A_CAPTURE = """
slice_id  category  thread_id  name                             start_ns  dur_ns  parent_id  python_id  module_id
1         python    1          train.py(7): step                0         990     -          -          -
2         python    1          nn.Module: Linear_0              1         980     1          1          -
3         python    1          <built-in function linear>       2         970     2          2          2
4         runtime   1          cudaStreamBeginCapture           10        2       3          3          2
5         runtime   1          cudaLaunchKernelExC              20        8       3          3          2
6         driver    1          cuLaunchKernelEx                 22        2       5          3          2
7         runtime   1          cudaMemcpyAsync                  30        2       3          3          2
8         runtime   1          cudaLaunchCooperativeKernel      40        2       3          3          2
9         runtime   1          cudaMemsetAsync                  50        2       3          3          2
10        runtime   1          cudaStreamEndCapture             60        2       3          3          2
11        runtime   1          cudaLaunchKernel                 70        2       3          3          2
"""


def test_launches_of_a_capture_are_numbered_with_their_module_and_line() -> None:
    ran = [{"op_id": 1, "kind": "kernel", "name": "beside", "start_ns": 45, "launch_id": 8}]
    con = connect("FROM captured_launches", host_slices=LAUNCHES_OF_A_CAPTURE, gpu_ops=ran)
    assert ask(con, "SELECT position, launch_id, kind, module, python FROM captured_launches") == [
        (1, 5, "kernel", "Linear_0", "train.py(7): step"),
        (2, 7, "memcpy", "Linear_0", "train.py(7): step"),
        (3, 9, "memset", "Linear_0", "train.py(7): step"),
    ]


@pytest.mark.parametrize(
    ("replayed", "captured", "count"),
    [
        ("kineto/mi300_vllm_full_graph", "more/mi300_vllm_graph_capture", 421),
        ("more/mi300_sglang_decode", "more/mi300_sglang_graph_capture", 544),
    ],
)
def test_graphs_of_real_servers_are_matched_whole(
    corpus: Path, replayed: str, captured: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run leaves captures out as they are no work of a rank; here both are its traces.
    monkeypatch.setattr("traceanalyzer.opening.contents._CAPTURE", "no role")
    paths = [corpus / f"{name}.json.gz" for name in (replayed, captured)]
    with open_run(paths, store=tmp_path) as opened:
        rows = opened.sql("SELECT op_count, matched_count, operator_count, matched_share FROM graph_operator_coverage")
        assert rows.fetchall() == [(count, count, count, 1.0)]
        lines = opened.sql("SELECT count(input_shapes), count(module), count(python) FROM graph_operators").fetchall()
        assert lines == [(count, count, count)]
