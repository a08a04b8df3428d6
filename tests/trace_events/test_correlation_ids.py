"""Ids that link GPU work to its launch: some stand for none, and a plain launch call launches one kernel."""

from __future__ import annotations

import pytest
from trace_event_tables import events, read


def call(correlation: object, ts: int, name: str = "hipLaunchKernel", category: str = "cuda_runtime") -> str:
    """Return a call on a host thread as JSON."""
    return (
        f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 3241, "tid": 3241, "ts": {ts}, "dur": 2, '
        f'"args": {{"correlation": {correlation}, "External id": 11}}}}'
    )


def operator(ts: int) -> str:
    """Return an operator as JSON."""
    return (
        f'{{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 3241, "tid": 3241, "ts": {ts}, "dur": 5, '
        '"args": {"External id": 11}}'
    )


def kernel(correlation: object, ts: int, name: str = "gemm", stream: int = 7, category: str = "kernel") -> str:
    """Return an operation on a device as JSON."""
    return (
        f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 0, "tid": {stream}, "ts": {ts}, "dur": 3, "args": '
        f'{{"device": 0, "stream": {stream}, "correlation": {correlation}, "External id": 11}}}}'
    )


@pytest.mark.check
@pytest.mark.parametrize("written", ["0", "-1", "4294967295", '"0"', "18446744073709551615"])
def test_numbers_that_stand_for_no_id_link_nothing(written: str) -> None:
    tables = read(events(call(written, 1, "hipGetDeviceProperties"), kernel(written, 5), call(8, 9), kernel(8, 12)))
    first, second = tables["gpu_ops"]
    assert (first["correlation"], first["launch_id"]) == (None, None)
    assert (second["correlation"], second["launch_id"]) == (8, 2)
    assert tables.defects == {}


@pytest.mark.check
def test_an_id_of_more_than_63_bits_is_counted_and_links_nothing() -> None:
    tables = read(events(call(2**63, 1), kernel(2**63, 5), call(8, 9), kernel(8, 12)))
    assert [(row["correlation"], row["launch_id"]) for row in tables["gpu_ops"]] == [(None, None), (8, 2)]
    assert tables.defects == {"bad-number": 2}


@pytest.mark.check
@pytest.mark.parametrize(
    "others",
    [
        pytest.param([kernel(8, 12, "add", 9)], id="another kernel on another stream"),
        pytest.param([kernel(8, 12, "add")], id="another kernel"),
        pytest.param([kernel(8, 12, stream=9)], id="the kernel on another stream"),
        pytest.param([kernel(8, 12)], id="the kernel once more"),
        pytest.param([kernel(8, 12, "Memcpy HtoD", category="gpu_memcpy")], id="a copy"),
    ],
)
@pytest.mark.parametrize("name", ["hipExtModuleLaunchKernel", "hipLaunchKernel", "cuLaunchKernelEx"])
def test_work_that_shares_the_id_of_a_plain_launch_stays_without_links(others: list[str], name: str) -> None:
    tables = read(events(operator(1), call(8, 2, name), kernel(8, 5), *others, call(9, 20), kernel(9, 25)))
    shared = [row for row in tables["gpu_ops"] if row["correlation"] == 8]
    own = next(row for row in tables["gpu_ops"] if row["correlation"] == 9)
    assert {(row["launch_id"], row["cpu_op_id"], row["link_source"]) for row in shared} == {(None, None, None)}
    assert own["launch_id"] is not None


@pytest.mark.check
@pytest.mark.parametrize(
    "name", ["hipGraphLaunch", "cudaGraphLaunch", "cudaLaunchCooperativeKernelMultiDevice", "hipMemcpyAsync"]
)
def test_a_call_that_may_launch_more_keeps_its_links(name: str) -> None:
    tables = read(events(call(8, 2, name), kernel(8, 5), kernel(8, 12, "add", 9)))
    assert [row["launch_id"] for row in tables["gpu_ops"]] == [0, 0]


@pytest.mark.parametrize("count", [30, 200])
def test_an_id_that_all_calls_share_ties_nothing_and_makes_no_ranks(count: int) -> None:
    shared = [event for at in range(count) for event in (call(5, 20 * at + 1), kernel(5, 20 * at + 9, stream=at % 3))]
    own = [call(900, 20 * count), kernel(900, 20 * count + 9)]
    tables = read(events(*shared, *own))
    assert [row["launch_id"] is None for row in tables["gpu_ops"]].count(False) == 1
    assert tables.defects == {}


@pytest.mark.parametrize(
    ("calls", "is_linked"),
    [
        pytest.param([call(8, 2), call(8, 20)], False, id="two calls, one after the other"),
        pytest.param([call(8, 2), call(8, 20, "hipMalloc"), *(call(8, at) for at in (30, 40, 50))], False, id="many"),
        pytest.param([call(8, 2), call(8, 2, "hipModuleLaunchKernel")], True, id="a call inside another one"),
        pytest.param([call(8, 2), call(8, 20, "hipEventRecord")], True, id="another call"),
    ],
)
@pytest.mark.check
def test_a_kernel_whose_id_calls_share_is_that_of_none(calls: list[str], is_linked: bool) -> None:
    (row,) = read(events(operator(1), *calls, kernel(8, 60)))["gpu_ops"]
    assert (row["launch_id"] == 1) is is_linked
    assert (row["cpu_op_id"] == 0) is is_linked


@pytest.mark.check
@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_kernel_without_a_call_is_of_no_operator_where_several_share_its_external_id(count: int) -> None:
    (row,) = read(events(*(operator(10 * at + 1) for at in range(count)), kernel(8, 400)))["gpu_ops"]
    assert row["cpu_op_id"] == (0 if count == 1 else None)


def test_a_record_written_twice_is_one_kernel() -> None:
    tables = read(events(call(8, 2), kernel(8, 5), kernel(8, 5)))
    assert [row["launch_id"] for row in tables["gpu_ops"]] == [0]
    assert tables.defects == {"repeated-record": 1}


@pytest.mark.check
@pytest.mark.parametrize(
    ("calls", "kernels", "linked"),
    [
        pytest.param([call(31, 2)], [kernel(0, 9)], [1], id="one of each"),
        pytest.param([call(31, 2), call(32, 4)], [kernel(0, 9), kernel(0, 14)], [1, 2], id="in their order"),
        pytest.param([call(31, 2), call(32, 4)], [kernel(0, 9), kernel(32, 14)], [1, 2], id="the other one has its id"),
        pytest.param([call(31, 2), call(32, 4)], [kernel(0, 9)], [None], id="too many calls"),
        pytest.param([call(31, 2)], [kernel(0, 9), kernel(0, 14)], [None, None], id="too many kernels"),
        pytest.param([call(31, 2, "hipMemcpyAsync")], [kernel(0, 9)], [None], id="no launch"),
        pytest.param([call(31, 2)], [kernel(0, 1)], [None], id="a kernel before the call"),
    ],
)
def test_a_kernel_without_an_id_is_that_of_the_launch_in_its_operator(
    calls: list[str], kernels: list[str], linked: list[int | None]
) -> None:
    tables = read(events(operator(1), *calls, *kernels))
    assert [row["launch_id"] for row in tables["gpu_ops"]] == linked
    assert {row["cpu_op_id"] for row in tables["gpu_ops"]} == {0}


@pytest.mark.parametrize(
    ("rounds", "lag", "is_ranks"), [(10, 0, False), (3, 0, False), (3, 7, True), (2, 7, True), (3, 750, True)]
)
def test_ids_that_begin_anew_after_few_are_no_ranks(rounds: int, lag: int, is_ranks: bool) -> None:
    """Ids of ranks that launch together fall or stay with each launch; one counter falls once a round."""
    size = 16
    starts = [
        (n + 1, (100 * n + lag * r if lag else 100 * (n + size * r)) + 1) for r in range(rounds) for n in range(size)
    ]
    lines = [line for id_, ts in starts for line in (call(id_, ts, "cudaLaunchKernel"), kernel(id_, ts + 30))]
    tables = read(events(*lines))
    assert ("several-processes" in tables.defects) == is_ranks
    assert {row["launch_id"] for row in tables["gpu_ops"]} == {None}
