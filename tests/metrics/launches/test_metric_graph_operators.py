"""captured_launches, graph_operators and their coverage: what a graph's operations were launched for when captured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from text_tables import ask, connect

from traceanalyzer.rules.diagnosis.reporting import captured_share
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
    readers = "graph_operators graph_operator_coverage op_summary operators_by_step op_owners flame operator_costs"
    return connect(f"{readers} cost_coverage captured_owners captured_calls", traces=traces, **tables)


@pytest.mark.check
def test_operations_of_a_graph_are_matched_by_name_in_the_order_of_the_capture() -> None:
    con = run(replays("a", "b", "a", count=3), capture(("a", "aten::mm"), ("b", "aten::add"), ("a", "aten::bmm")))
    assert ask(con, MATCHES) == [
        (1, "a", "name", "aten::mm", "[[32]]"),
        (2, "b", "name", "aten::add", "[[32]]"),
        (3, "a", "name", "aten::bmm", "[[32]]"),
    ]
    assert ask(con, COVERAGE) == [(3, 3, 3, 1, 1.0)]
    assert ask(con, "SELECT DISTINCT replay_count, sum_ns, capture_trace FROM graph_operators") == [(3, 30, "capture")]


@pytest.mark.check
def test_a_diagnosis_tells_for_how_much_of_replayed_graphs_a_capture_tells_operators() -> None:
    replayed = replays("a", "b", "c", "e", count=3)
    con = run(replayed, capture(("a", "aten::mm"), ("b", "aten::add"), ("c", "aten::mul")))
    assert captured_share(con) == 0.75
    assert captured_share(run(replayed)) is None


@pytest.mark.check
def test_the_order_of_nodes_counts_before_that_of_starts() -> None:
    con = run(replays("a", "a", nodes=(2, 1)), capture(("a", "aten::mm"), ("a", "aten::bmm")))
    assert [row[3] for row in ask(con, MATCHES)] == ["aten::bmm", "aten::mm"]


@pytest.mark.check
def test_a_kernel_that_another_number_of_launches_names_stays_open() -> None:
    launches = (("a", "aten::mm"), ("e", "aten::bmm"), ("b", "aten::add"))
    con = run(replays("a", "e", "b", "b"), capture(*launches, ("d", "aten::mul")))
    known = [("a", "aten::mm", None), ("e", "aten::bmm", None), ("b", None, None), ("b", None, None)]
    assert [(row[1], *row[3:]) for row in ask(con, MATCHES)] == known
    assert ask(con, COVERAGE) == [(4, 2, 2, 1, 0.5)]


@pytest.mark.check
def test_a_capture_of_another_graph_matches_nothing() -> None:
    con = run(replays("a", "b", "c"), capture(("a", "aten::mm"), ("d", "aten::add"), ("e", "aten::mul")))
    assert ask(con, COVERAGE) == [(3, 0, 0, 0, 0.0)]
    con = run(replays("a"), capture(("a", "aten::mm"), ("d", "aten::add"), ("e", "aten::mul")))
    assert ask(con, COVERAGE) == [(1, 0, 0, 0, 0.0)]


@pytest.mark.check
def test_of_captures_with_the_same_kernels_the_one_in_the_same_order_counts() -> None:
    other = capture(("a", "aten::mm"), ("a", "aten::mm"), ("b", "aten::add"), ("c", "aten::mul"), shape=1)
    same = capture(("a", "aten::mm"), ("b", "aten::add"), ("a", "aten::mm"), ("c", "aten::mul"), shape=2, first=500)
    con = run(replays("a", "b", "a", "c"), other, same)
    assert {row[4] for row in ask(con, MATCHES)} == {"[[2]]"}
    assert ask(con, COVERAGE) == [(4, 4, 4, 1, 1.0)]


@pytest.mark.check
def test_a_kernel_that_stands_elsewhere_in_the_capture_stays_open() -> None:
    launches = [(name, f"aten::{at}") for at, name in enumerate("abcadeaf")]
    launches[1], launches[6] = launches[6], launches[1]  # the second and third a would get each other's operators
    con = run(replays(*"abcadeaf"), capture(*launches))
    known = "aten::0 - aten::2 - aten::4 aten::5 - aten::7"
    assert " ".join(row[3] or "-" for row in ask(con, MATCHES)) == known
    assert ask(con, COVERAGE) == [(8, 5, 5, 1, 0.625)]
    assert ask(con, "SELECT DISTINCT input_shapes FROM graph_operators") == [(None,)]
    # Of a graph that matches in part, calls are known by their operators, and the arguments of none.
    calls = ask(con, "SELECT name, input_shapes, is_whole FROM captured_calls ORDER BY name")
    assert calls == [(f"aten::{at}", None, False) for at in (0, 2, 4, 5, 7)]


@pytest.mark.check
def test_of_graphs_with_the_same_kernels_and_fewer_captures_none_is_matched() -> None:
    replayed = replays("a", "b", count=2)
    for op in replayed["gpu_ops"]:
        op["graph_id"] = op["launch_id"]
    launches = (("a", "aten::mm"), ("b", "aten::add"))
    con = run(replayed, capture(*launches))
    assert ask(con, COVERAGE) == [(2, 0, 0, 1, 0.0)] * 2
    # A capture each: what both say is right for either.
    con = run(replayed, capture(*launches), capture(("a", "aten::bmm"), ("b", "aten::add"), shape=2, first=500))
    assert ask(con, COVERAGE) == [(2, 2, 1, 2, 1.0)] * 2
    assert {row[3] for row in ask(con, MATCHES)} == {None, "aten::add"}


@pytest.mark.check
def test_starts_on_several_streams_tell_no_order_of_nodes() -> None:
    replayed = replays("a", "b", "a", "b")
    for op, stream in zip(replayed["gpu_ops"], (1, 1, 2, 1), strict=True):
        op["stream"] = stream
    launches = (("a", "aten::mm"), ("b", "aten::add"), ("a", "aten::bmm"), ("b", "aten::mul"))
    con = run(replayed, capture(*launches))
    assert [row[3] for row in ask(con, MATCHES)] == [None, "aten::add", None, "aten::mul"]
    con = run(replayed, capture(*((None, operator) for _, operator in launches)))
    assert ask(con, COVERAGE) == [(4, 0, 0, 0, 0.0)]
    for number, op in enumerate(replayed["gpu_ops"]):
        op["graph_node_id"] = number
    con = run(replayed, capture(*((None, operator) for _, operator in launches)))
    assert ask(con, COVERAGE) == [(4, 4, 4, 1, 1.0)]


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


@pytest.mark.check
def test_of_captures_that_fit_equally_only_what_they_agree_on_counts() -> None:
    launches = (("a", "aten::mm"), ("b", "aten::add"))
    con = run(replays("a", "b"), capture(*launches, shape=1), capture(*launches, shape=2, first=500))
    assert [row[3:] for row in ask(con, MATCHES)] == [("aten::mm", None), ("aten::add", None)]
    assert ask(con, COVERAGE) == [(2, 2, 2, 2, 1.0)]


@pytest.mark.check
def test_the_capture_with_most_of_the_operations_counts() -> None:
    smaller = capture(("a", "aten::mm"), ("e", "aten::add"), shape=1)
    con = run(replays("a", "b"), smaller, capture(("a", "aten::mm"), ("b", "aten::add"), shape=2, first=500))
    assert [row[4] for row in ask(con, MATCHES)] == ["[[2]]", "[[2]]"]


@pytest.mark.check
def test_a_capture_of_another_rank_or_none_matches_nothing() -> None:
    traces = [TRACES[0], TRACES[1] | {"rank": 1}]
    con = run(replays("a"), capture(("a", "aten::mm")), traces=traces)
    assert ask(con, MATCHES) == [(1, "a", None, None, None)]
    assert ask(run(replays("a")), COVERAGE) == [(1, 0, 0, 0, 0.0)]


@pytest.mark.check
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
    corpus: Path, replayed: str, captured: str, count: int, tmp_path: Path
) -> None:
    paths = [corpus / f"{name}.json.gz" for name in (replayed, captured)]
    with open_run(paths, store=tmp_path) as opened:
        # The capture is no rank of the run, and its operators count for the graph all the same.
        assert (len(opened.traces), len(opened.captures), len(opened.set_aside)) == (1, 1, 1)
        rows = opened.sql("SELECT op_count, matched_count, operator_count, matched_share FROM graph_operator_coverage")
        assert rows.fetchall() == [(count, count, count, 1.0)]
        lines = opened.sql("SELECT count(input_shapes), count(module), count(python) FROM graph_operators").fetchall()
        assert lines == [(count, count, count)]
        assert opened.sql("SELECT count(call_id), count(module_id) FROM captured_owners").fetchall() == [(count, count)]
        assert "Replayed graphs  captures name the operators for 100.0 % of their time" in str(opened.diagnose())


def capture_file(*launches: tuple[str | None, str], shape: int = 32) -> dict[str, Any]:
    """Return the tables of a capture that lies beside the traces, as `capture` does."""
    made = capture(*launches, trace_id=7, shape=shape)
    renamed = {"host_slices": "capture_slices", "event_args": "capture_args"}
    left_out = {"trace_id"}
    tables = {
        renamed[name]: [
            {"capture_id": 7} | {key: value for key, value in row.items() if key not in left_out} for row in table
        ]
        for name, table in made.items()
    }
    return tables | {"capture_files": [{"capture_id": 7, "trace": "capture_traces/bs1", "path": "bs1", "rank": 0}]}


MATMULS = (("gemm", "aten::mm"), ("add", "aten::add"), ("gemm", "aten::mm"))


def test_operators_of_a_replayed_graph_are_those_of_its_capture() -> None:
    con = run(replays("gemm", "add", "gemm", count=2), capture_file(*MATMULS), traces=TRACES[:1])
    calls = "SELECT name, call_count, device_self_sum_ns, host_sum_ns FROM op_summary ORDER BY name"
    assert ask(con, calls) == [("aten::add", 2, 20, 0), ("aten::mm", 4, 40, 0)]
    by_step = "SELECT name, call_count, launch_count, sum_ns FROM operators_by_step ORDER BY name"
    assert ask(con, by_step) == [("aten::add", 2, 2, 20), ("aten::mm", 4, 4, 40)]
    owners = "SELECT op_id, owner_id, operator_id < 0, module_link FROM op_owners ORDER BY op_id LIMIT 2"
    assert ask(con, owners) == [(0, 7, True, None), (1, 7, True, None)]
    stacks = "SELECT stack, value FROM flame WHERE kind = 'device' ORDER BY stack"
    assert ask(con, stacks) == [
        ("(not linked);aten::add (in the capture);add", 20),
        ("(not linked);aten::mm (in the capture);gemm", 40),
    ]


@pytest.mark.check
def test_without_a_capture_the_launches_of_a_graph_stay_without_operators() -> None:
    con = run(replays("gemm", "add", "gemm", count=2), traces=TRACES[:1])
    assert ask(con, "FROM op_summary") == ask(con, "FROM operators_by_step") == []
    assert ask(con, "SELECT DISTINCT owner_id, operator_id FROM op_owners") == [(0, None)]
    assert ask(con, "SELECT status, op_count FROM cost_coverage") == [("graph", 6)]
    assert ask(con, "SELECT stack FROM flame WHERE kind = 'device' ORDER BY 1") == [
        ("(not linked);add",),
        ("(not linked);gemm",),
    ]


@pytest.mark.check
def test_calls_of_a_graph_have_costs_where_all_of_their_work_is_there() -> None:
    shapes = "[[32, 64], [64, 16]]"
    beside = capture_file(("gemm", "aten::mm"), ("tail", "aten::mm"))
    for row in beside["capture_slices"]:
        row |= {"input_shapes": shapes} if row["category"] == "cpu_op" else {}
    types = '{"Input type": ["float", "float"]}'
    operators = [row["slice_id"] for row in beside["capture_slices"] if row["category"] == "cpu_op"]
    beside["capture_args"] += [{"capture_id": 7, "event_id": number, "args": types} for number in operators]
    con = run(replays("gemm", "tail", count=2), beside, traces=TRACES[:1])
    costs = "SELECT operator, flops, size_bytes, dur_ns, host_dur_ns FROM operator_costs"
    assert ask(con, costs) == [("aten::mm", 2 * 32 * 64 * 16, 4 * (32 * 64 + 64 * 16 + 32 * 16), 10, 0)] * 4
    assert ask(con, "SELECT status, call_count, op_count FROM cost_coverage") == [("modelled", 4, 4)]
    # Both kernels of one operator, of which the graph has the first alone.
    for row in beside["capture_slices"]:
        row |= {"op_id": operators[0]} if row.get("op_id") else {}
    con = run(replays("gemm", "other"), beside, traces=TRACES[:1])
    assert ask(con, costs) == []
    assert ask(con, "SELECT status, op_count FROM cost_coverage ORDER BY 1") == [("graph", 1), ("no model", 1)]


# div (tensor, number)  |----------------|
# div (tensor, inner)       |--------|        launch
@pytest.mark.check
@pytest.mark.parametrize(("inner", "size_bytes"), [("long int", 2 * 2 * 5120), ("Scalar", 2 * 4 * 5120)])
def test_an_operator_of_a_graph_that_was_given_a_number_counts_as_the_host_calls_it(
    inner: str, size_bytes: int
) -> None:
    beside = capture_file(("divide", "aten::div"))
    (called,) = [row for row in beside["capture_slices"] if row["category"] == "cpu_op"]
    called["input_shapes"] = "[[10,512],[]]"
    around = called | {"slice_id": 9, "start_ns": called["start_ns"] - 5, "dur_ns": called["dur_ns"] + 10}
    called["op_id"] = around["slice_id"]
    beside["capture_slices"].append(around)
    types = {around["slice_id"]: ["c10::BFloat16", "Scalar"], called["slice_id"]: ["float", inner]}
    beside["capture_args"] += [
        {"capture_id": 7, "event_id": number, "args": json.dumps({"Input type": names})}
        for number, names in types.items()
    ]
    con = run(replays("divide"), beside, traces=TRACES[:1])
    assert ask(con, "SELECT operator, size_bytes, dur_ns FROM operator_costs") == [("aten::div", size_bytes, 10)]


@pytest.mark.check
def test_captures_that_differ_in_shapes_tell_operators_without_costs() -> None:
    launches = (("gemm", "aten::mm"),)
    con = run(replays("gemm"), capture(*launches, shape=1), capture(*launches, shape=2, first=500))
    rows = "SELECT name, input_shapes, is_whole FROM captured_calls"
    assert ask(con, rows) == [("aten::mm", None, False)]
    assert ask(con, "FROM operator_costs WHERE slice_id < 0") == []


@pytest.mark.check
def test_of_a_replay_that_is_cut_only_nodes_tell_the_place() -> None:
    def cut(tables: dict[str, Any]) -> dict[str, Any]:
        return tables | {"gpu_ops": [op | {"graph_id": 5} for op in tables["gpu_ops"] if op["op_id"] != 200]}

    three = (("a", "aten::mm"), ("a", "aten::bmm"))
    known = "SELECT op_id FROM captured_owners WHERE op_id >= 200"
    con = run(cut(replays("a", "a", count=3, nodes=(1, 2))), capture_file(*three), traces=TRACES[:1])
    assert ask(con, known) == [(201,)]
    con = run(cut(replays("a", "a", count=3)), capture_file(*three), traces=TRACES[:1])
    assert ask(con, known) == []
