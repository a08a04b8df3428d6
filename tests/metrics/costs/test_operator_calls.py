"""Which recorded operators are calls that computed: under autocast, with overload names, and inside a compilation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from text_tables import ask, connect

from traceanalyzer.query import engine

SHAPES = "[[2,3,5],[2,5,7]]"
FLOPS = 2 * 2 * 3 * 5 * 7
LAUNCH = {"category": "runtime", "name": "cudaLaunchKernel"}


def operator(slice_id: int, name: str, start: int, end: int, around: int | None = None, **more: Any) -> dict[str, Any]:
    row = {"category": "cpu_op", "name": name, "input_shapes": SHAPES, "op_id": around}
    return {"slice_id": slice_id, "start_ns": start, "dur_ns": end - start} | row | more


def modelled(slices: list[dict[str, Any]], types: dict[int, str], ops: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    args = [
        {"event_id": slice_id, "args": json.dumps({"Input type": [name, name]})} for slice_id, name in types.items()
    ]
    con = connect("FROM operator_costs", host_slices=slices, event_args=args, gpu_ops=ops)
    return ask(con, "SELECT slice_id, operator, element_type, flops, dur_ns FROM operator_costs ORDER BY slice_id")


# bmm (float)  |---------------------|      gpu  cast cast gemm
# copy_          |-|  |-|
# bmm (half)               |------|
def test_of_an_operator_that_autocast_writes_twice_the_inner_counts() -> None:
    rows = modelled(
        [
            operator(1, "aten::bmm", 0, 100),
            operator(2, "aten::copy_", 10, 20, 1, input_shapes="[[2,3,5],[2,3,5],[]]"),
            operator(3, "aten::bmm", 50, 90, 1),
            {"slice_id": 4, "start_ns": 12, "dur_ns": 2, "op_id": 2, **LAUNCH},
            {"slice_id": 5, "start_ns": 60, "dur_ns": 2, "op_id": 3, **LAUNCH},
        ],
        {1: "float", 3: "c10::BFloat16"},
        [
            {"op_id": 10, "kind": "kernel", "start_ns": 20, "dur_ns": 30, "launch_id": 4},
            {"op_id": 11, "kind": "kernel", "start_ns": 70, "dur_ns": 40, "launch_id": 5},
        ],
    )
    assert rows == [(2, "aten::copy_", None, None, 30), (3, "aten::bmm", "c10::BFloat16", FLOPS, 40)]


# div (tensor, number)  |---------------------|      gpu  kernel
# div (tensor, tensor)         |------|
@pytest.mark.sampled
@pytest.mark.parametrize(("inner", "counts"), [("long int", 1), ("Scalar", 2)])
def test_an_operator_that_was_given_a_number_counts_outside_where_it_becomes_a_tensor(inner: str, counts: int) -> None:
    shapes = "[[10,512],[]]"
    calls = [
        operator(1, "aten::div", 0, 100, input_shapes=shapes),
        operator(2, "aten::div", 50, 90, 1, input_shapes=shapes),
        {"slice_id": 3, "start_ns": 60, "dur_ns": 2, "op_id": 2, **LAUNCH},
    ]
    args = [
        {"event_id": number, "args": json.dumps({"Input type": ["c10::BFloat16", second]})}
        for number, second in ((1, "Scalar"), (2, inner))
    ]
    ops = [{"op_id": 10, "kind": "kernel", "start_ns": 70, "dur_ns": 40, "launch_id": 3}]
    con = connect("FROM operator_costs", host_slices=calls, event_args=args, gpu_ops=ops)
    assert ask(con, "SELECT slice_id, size_bytes, dur_ns FROM operator_costs") == [(counts, 2 * 2 * 5120, 40)]


def test_an_operator_three_times_inside_itself_is_the_innermost() -> None:
    nested = [
        operator(1, "aten::bmm", 0, 100),
        operator(2, "aten::bmm", 10, 90, 1),
        operator(3, "aten::bmm", 20, 80, 2),
    ]
    rows = modelled(nested, dict.fromkeys((1, 2, 3), "float"), [])
    assert [row[:2] for row in rows] == [(3, "aten::bmm")]


def test_an_operator_that_calls_itself_with_other_shapes_or_twice_counts_once_outside() -> None:
    other = [
        operator(1, "aten::bmm", 0, 100),
        operator(2, "aten::bmm", 10, 90, 1, input_shapes="[[1,3,5],[1,5,7]]"),
        operator(3, "aten::copy_", 200, 300),
        operator(4, "aten::copy_", 210, 230, 3),
        operator(5, "aten::copy_", 240, 260, 3),
    ]
    rows = modelled(other, dict.fromkeys(range(1, 6), "float"), [])
    assert [row[:2] for row in rows] == [(1, "aten::bmm"), (3, "aten::copy_")]


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["aten::bmm.out", "aten::bmm.dtype", "aten::bmm"])
def test_an_overload_has_the_model_of_its_operator(name: str) -> None:
    rows = modelled([operator(1, name, 0, 100)], {1: "float"}, [])
    assert rows == [(1, "aten::bmm", "float", FLOPS, None)]


def test_only_the_name_of_an_overload_is_cut_off() -> None:
    names = {
        "aten::add.Tensor": "aten::add",
        "aten::add": "aten::add",
        "model.layer.0": "model.layer.0",
        "void ns::f<4, ns::g<float>>(a...)": "void ns::f<4, ns::g<float>>(a...)",
        "torch::autograd::F.x": "torch::autograd::F.x",
    }
    con = engine.connect_empty()
    assert {name: con.execute("SELECT operator_base(?)", [name]).fetchall()[0][0] for name in names} == names


# compile        |---------------------------|
# mm (fake)        |--|
# mm (measured)          |----|  with a launch inside
# mm (after it)                                 |--|
COMPILING = [
    {
        "slice_id": 1,
        "category": "cpu_op",
        "name": "_compile.compile_inner (dynamo_timed)",
        "start_ns": 0,
        "dur_ns": 100,
    },
    operator(2, "aten::bmm", 10, 20, 1),
    operator(3, "aten::bmm", 40, 60, 1),
    {"slice_id": 4, "start_ns": 50, "dur_ns": 2, "op_id": 3, **LAUNCH},
    operator(5, "aten::bmm", 120, 130),
]
MEASURED = [{"op_id": 10, "kind": "kernel", "start_ns": 70, "dur_ns": 5, "launch_id": 4, "cpu_op_id": 3}]


@pytest.mark.check
@pytest.mark.parametrize(
    "phase",
    [
        {"name": "_compile.compile_inner (dynamo_timed)"},
        {"name": "entire_frame_compile (dynamo_timed)", "category": "annotation"},
        {"name": "torch/_dynamo/convert_frame.py(1290): _compile", "category": "python"},
        {"name": "/usr/lib/torch/_subclasses/fake_tensor.py(1400): dispatch", "category": "python"},
    ],
)
def test_operators_on_tensors_without_data_are_no_calls(phase: dict[str, Any]) -> None:
    slices = [COMPILING[0] | phase, *COMPILING[1:]]
    assert [row[0] for row in modelled(slices, {}, MEASURED)] == [3, 5]
    con = connect("FROM op_summary", host_slices=slices, gpu_ops=MEASURED)
    assert ask(con, "SELECT call_count, host_sum_ns FROM op_summary WHERE name = 'aten::bmm'") == [(2, 40)]


def test_a_compilation_on_another_thread_makes_no_call_a_traced_one() -> None:
    slices = [COMPILING[0] | {"thread_id": 7}, *COMPILING[1:]]
    assert [row[0] for row in modelled(slices, {}, MEASURED)] == [2, 3, 5]


def test_a_range_that_was_cut_counts_but_is_in_no_mean() -> None:
    con = connect(
        "FROM nvtx_sum",
        host_slices="""
        slice_id  category    name     start_ns  dur_ns
        1         annotation  forward  0         400
        2         annotation  forward  1000      400
        3         annotation  forward  2000      100
        4         annotation  last     2000      100
        """,
        event_args=[
            {"event_id": 2, "args": '{"finished": true}'},
            {"event_id": 3, "args": '{"External id": 5, "finished": false}'},
            {"event_id": 4, "args": '{"finished": false}'},
        ],
    )
    rows = ask(con, "SELECT name, range_count, sum_ns, mean_ns, min_ns FROM nvtx_sum ORDER BY name")
    assert rows == [("forward", 3, 900, 400, 400), ("last", 1, 100, None, None)]
