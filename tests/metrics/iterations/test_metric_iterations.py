"""Iterations of engines, graph replays and compiled code, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from text_tables import ask, connect

LAUNCH = {"category": "runtime", "name": "cudaLaunchKernel", "thread_id": 0}


def annotated(*names: str) -> list[dict[str, Any]]:
    """Return annotations of 100 ns one after the other, each with one launch inside."""
    slices: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        at = number * 200
        slices += [
            {"slice_id": 2 * number, "thread_id": 0, "category": "annotation", "name": name}
            | {"start_ns": at, "dur_ns": 100},
            {"slice_id": 2 * number + 1, "start_ns": at + 10, "dur_ns": 5} | LAUNCH,
        ]
    return slices


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk99sqsq32sqsk99)", ("decode", 32, 32, 99)),
        ("execute_8_context_2(sq7sk9sqsq25sqsk35)_generation_1(sq1sk4sqsq1sqsk4)", ("mixed", 8, 3, 35 - 9 + 4)),
        ("execute_context_2(10)_generation_0(0)", ("prefill", 10, 2, None)),
        ("execute_context_1(888_788544)_generation_0(0)", ("prefill", 888, 1, None)),
        ("execute_context_0(0_0)_generation_3(3)", ("decode", 3, 3, None)),
        ("step[DECODE bs=4 toks=4]", ("decode", 4, 4, None)),
        ("step[DECODE bs=4]", ("decode", 4, 4, None)),
        ("step[TARGET_VERIFY bs=4]", (None, None, None, None)),
        ("[Executor] _forward_step 7: 2 ctx reqs, 90 ctx tokens, 0 gen reqs", ("prefill", 90, 2, None)),
        ("[Executor] _forward_step 8: 2 ctx reqs, 90 ctx tokens, 3 gen reqs", ("mixed", None, 5, None)),
        ("[Executor] _forward_step 9: 0 ctx reqs, 3 gen reqs", ("decode", None, 3, None)),
        ("[Executor] _forward_step: 1 ctx reqs, 0 gen reqs", ("prefill", None, 1, None)),
        ("step[EXTEND bs=2 toks=9]", ("prefill", 9, 2, None)),
        ("execute_model", None),
    ],
)
def test_an_annotation_tells_what_an_iteration_computes(name: str, row: tuple[Any, ...] | None) -> None:
    con = connect("FROM iterations", host_slices=annotated(name))
    rows = ask(con, "SELECT kind, tokens, new_tokens_at_most, attention_pairs FROM iterations")
    assert rows == ([] if row is None else [row])


def test_latency_of_an_iteration_is_the_time_of_the_device() -> None:
    #            0        200       400  500   600    700
    # host       |step|   |step|
    # device                        |----------|  |------|
    name = "step[DECODE bs=4 toks=4]"
    con = connect(
        "FROM inference_summary",
        host_slices=annotated(name, name),
        gpu_ops="""
        op_id  kind    start_ns  dur_ns  launch_id
        1      kernel  400       200     1
        2      kernel  450       50      1
        3      kernel  650       100     3
        """,
    )
    columns = "host_dur_ns, op_count, first_wait_ns, span_ns, busy_ns, gap_before_ns"
    assert ask(con, f"SELECT {columns} FROM iterations") == [
        (100, 2, 400, 200, 200, None),
        (100, 1, 450, 100, 100, 50),
    ]
    columns = "kind, iteration_count, tokens, p50_ns, busy_share, gap_sum_ns, tokens_per_s"
    assert ask(con, f"SELECT {columns} FROM inference_summary") == [
        ("decode", 2, 8, 150.0, 1.0, 50, pytest.approx(8e9 / (250 + 100)))
    ]


def test_an_iteration_inside_another_is_not_outermost() -> None:
    slices = annotated("execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk9sqsq4sqsk9)")
    inner = {"slice_id": 9, "thread_id": 0, "category": "annotation", "name": "step[DECODE bs=4 toks=4]"}
    con = connect(
        "FROM inference_summary",
        host_slices=[*slices, inner | {"start_ns": 5, "dur_ns": 50}],
        gpu_ops="""
        op_id  kind    start_ns  dur_ns  launch_id
        1      kernel  400       200     1
        """,
    )
    assert ask(con, "SELECT is_outermost, op_count FROM iterations") == [(True, 1), (False, 1)]
    assert ask(con, "SELECT iteration_count FROM inference_summary") == [(1,)]


GRAPHS = [
    {"slice_id": n, "thread_id": 0, "category": "runtime", "name": "cudaGraphLaunch", "start_ns": 100 * n, "dur_ns": 9}
    for n in (1, 2, 3)
]


def test_a_replay_with_fewer_operations_than_most_is_under_recorded() -> None:
    con = connect(
        "FROM graph_kernels",
        host_slices=GRAPHS,
        gpu_ops="""
        op_id  kind    name  start_ns  dur_ns  launch_id  graph_id
        1      kernel  a     150       10      1          7
        2      kernel  b     160       20      1          7
        3      kernel  a     250       14      2          7
        4      kernel  b     270       20      2          7
        5      kernel  a     350       10      3          7
        """,
    )
    columns = "occurrence, op_count, first_wait_ns, span_ns, busy_ns, is_under_recorded"
    assert ask(con, f"SELECT {columns} FROM graph_launches") == [
        (1, 2, 50, 30, 30, False),
        (2, 2, 50, 40, 34, False),
        (3, 1, 50, 10, 10, True),
    ]
    assert ask(con, "SELECT position, name, replay_count, sum_ns, max_ns FROM graph_kernels") == [
        (1, "a", 2, 24, 14),
        (2, "b", 2, 40, 20),
    ]


def test_a_launch_without_operations_is_shown_and_unknown() -> None:
    con = connect("FROM graph_launches", host_slices=GRAPHS[:1])
    assert ask(con, "SELECT graph, op_count, busy_ns, is_under_recorded FROM graph_launches") == [(None, 0, None, None)]


def test_bytes_of_a_triton_kernel_are_its_tensors_once() -> None:
    name = "triton_red_fused_add_0"
    con = connect(
        "FROM triton_kernels",
        host_slices=[
            {"slice_id": 1, "thread_id": 0, "category": "cpu_op", "name": name, "start_ns": 0, "dur_ns": 9}
            | {"input_shapes": "[[8, 4], [8], [], []]"}
        ],
        event_args=[{"event_id": 1, "args": '{"Input type": ["float", "c10::BFloat16", "Scalar", "Scalar"]}'}],
        gpu_ops=[
            {"op_id": 2, "kind": "kernel", "name": name, "start_ns": 5, "dur_ns": 16, "cpu_op_id": 1},
            {"op_id": 3, "kind": "kernel", "name": name, "start_ns": 50, "dur_ns": 10},
        ],
    )
    assert ask(con, "SELECT kind, kernel_count, sum_ns, size_bytes, gb_per_s FROM triton_kernels") == [
        ("red", 2, 26, 144, 144 / 16)
    ]


def test_a_region_that_was_compiled_again_says_so() -> None:
    con = connect("FROM compiled_regions", host_slices=annotated("Torch-Compiled Region: 3/2"))
    assert ask(con, "SELECT kind, name, recompile_count, call_count, op_count FROM compiled_regions") == [
        ("region", "3/2", 2, 1, 0)
    ]


def _replays(*starts_and_names: tuple[int, str], extra: str = "") -> list[tuple[object, ...]]:
    ops = "\n".join(
        f"{launch * 10 + at}  kernel  {name}  {start + 100 * at}  100  {launch}"
        for launch, (start, names) in enumerate(starts_and_names, 1)
        for at, name in enumerate(names)
    )
    con = connect(
        "FROM graph_launches",
        host_slices=[
            {"slice_id": at, "category": "runtime", "name": "hipGraphLaunch", "start_ns": start - 50, "dur_ns": 9}
            for at, (start, _) in enumerate(starts_and_names, 1)
        ],
        gpu_ops=f"op_id  kind  name  start_ns  dur_ns  launch_id\n{ops}\n{extra}",
    )
    return ask(con, "SELECT graph = max(graph) OVER (), is_under_recorded FROM graph_launches")


def test_a_beginning_of_another_replay_and_then_nothing_is_under_recorded() -> None:
    rows = _replays((1000, "abcdef"), (2000, "ab"), (3000, "abcdef"), (4000, "abc"))
    assert rows == [(True, False), (True, True), (True, False), (True, True)]


def test_a_beginning_that_is_followed_by_the_next_work_is_a_graph_of_its_own() -> None:
    (first, second, third) = _replays((1000, "abcdef"), (2000, "ab"), (2250, "abcdef"))
    assert (first[1], second[1], third[1]) == (False, False, False)
    assert first[0] == third[0] != second[0]


def test_other_names_are_another_graph() -> None:
    assert [row[1] for row in _replays((1000, "abcdef"), (2000, "xb"), (3000, "abcdef"))] == [False] * 3
