"""External ids: those of operators, and where nothing has a correlation id, those that calls and their work share.

PyTorch for ROCm wrote kernels without arguments besides `External id`, which is the number of the launch; operators
have numbers of their own. Tools that write traces for tests give an operator's number to all that it caused.
"""

from __future__ import annotations

from typing import Any

import pytest
from trace_event_tables import events, read, slice_text


def operator(ts: int, external_id: int | None, name: str = "aten::mm") -> str:
    return slice_text(name, ts, 10, args="{}" if external_id is None else f'{{"External id": {external_id}}}')


def call(ts: int, external_id: int, name: str = "hipExtModuleLaunchKernel") -> str:
    return slice_text(name, ts, 2, cat='"cuda_runtime"', args=f'{{"External id": {external_id}, "stream": "0x0"}}')


def kernel(ts: int, external_id: int, name: str = "gemm", args: str = "", category: str = "kernel") -> str:
    text = f'{{"External id": {external_id}{args}}}'
    return slice_text(name, ts, 5, cat=f'"{category}"', pid=2, tid=0, args=text)


def links(*texts: str) -> list[tuple[Any, Any]]:
    """Return of each piece of GPU work when its call began, and when its operator did."""
    tables = read(events(*texts))
    assert tables.defects == {}
    starts = {row["slice_id"]: row["start_ns"] // 1000 for row in tables["host_slices"]} | {None: None}
    return [(starts[row["launch_id"]], starts[row["cpu_op_id"]]) for row in tables["gpu_ops"]]


@pytest.mark.parametrize("arguments", ["", ', "stream": 0, "device": 2'])
@pytest.mark.parametrize(
    "ids", [pytest.param((513, 514), id="unlike those of calls"), pytest.param((26, 25), id="those of other calls")]
)
def test_work_has_the_call_with_its_external_id_and_the_operator_around_it(
    ids: tuple[int, int], arguments: str
) -> None:
    first, second = ids
    assert links(
        *(operator(100, first), call(102, 24, "hipGetDevicePropertiesR0600"), call(105, 25)),
        *(operator(200, second), call(205, 26)),
        *(kernel(210, 25, args=arguments), kernel(220, 26, args=arguments)),
    ) == [(105, 100), (205, 200)]


def test_the_device_is_the_process_of_the_work() -> None:
    tables = read(events(call(105, 25), kernel(210, 25)))
    assert [(row["device"], row["stream"], row["correlation"]) for row in tables["gpu_ops"]] == [(2, 0, 25)]


def test_work_without_its_call_has_no_operator_by_the_number_of_a_launch() -> None:
    assert links(operator(100, 24), call(105, 25), kernel(90, 24), kernel(210, 25)) == [(None, None), (105, 100)]


@pytest.mark.parametrize("of_operator", [100, None])
def test_the_number_of_an_operator_may_be_that_of_its_only_launch(of_operator: int | None) -> None:
    assert links(operator(1000, of_operator), call(1001, 100), kernel(1050, 100, args=', "stream": 7')) == [
        (1001, 1000)
    ]


def test_calls_that_launch_nothing_may_have_the_same_number() -> None:
    others = call(101, 5, "cudaMalloc"), call(107, 5, "cudaStreamIsCapturing")
    assert links(operator(100, 5), *others, call(104, 5, "cudaLaunchKernel"), kernel(120, 5)) == [(104, 100)]


def test_launches_with_the_number_of_their_operator_are_taken_in_their_order() -> None:
    assert links(operator(100, 5), call(101, 5), call(104, 5), kernel(120, 5), kernel(130, 5)) == [
        (101, 100),
        (104, 100),
    ]


def test_a_graph_has_all_kernels_with_its_number() -> None:
    assert links(call(101, 5, "hipGraphLaunch"), kernel(120, 5), kernel(130, 5, "add")) == [(101, None), (101, None)]


def test_kernels_of_one_plain_launch_have_their_operator_alone() -> None:
    assert links(operator(100, 5), call(101, 5), kernel(120, 5), kernel(130, 5, "add")) == [(None, 100), (None, 100)]


def test_copies_and_fills_are_linked_likewise() -> None:
    assert links(
        *(operator(100, 513, "aten::copy_"), call(101, 30, "hipMemcpyWithStream")),
        kernel(120, 30, "Memcpy HtoD (Host -> Device)", category="gpu_memcpy"),
    ) == [(101, 100)]


def test_ids_link_as_before_where_work_has_correlation_ids() -> None:
    texts = operator(100, 5), call(101, 6), kernel(120, 5, args=', "correlation": 9'), kernel(130, 6)
    assert links(*texts) == [(None, 100), (None, None)]


def test_work_without_its_call_has_no_operator_by_an_external_id_that_is_its_correlation_id() -> None:
    # PyTorch of 2022 wrote both alike on work and calls, beside other numbers of operators.
    same = ', "device": 0, "stream": 7, "correlation": {}'
    launch = slice_text("cudaLaunchKernel", 105, 2, cat='"cuda_runtime"', args='{"External id": 9, "correlation": 9}')
    texts = operator(100, 7), launch, kernel(90, 7, args=same.format(7)), kernel(120, 9, args=same.format(9))
    assert links(*texts) == [(None, None), (105, 100)]


def arrow(number: int, called_ts: int, work_ts: int, category: str = "ac2g") -> str:
    ends = (("s", 1, 1, called_ts, ""), ("f", 2, 0, work_ts, ', "bp": "e"'))
    return ",".join(
        f'{{"ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {ts}, "cat": "{category}", '
        f'"name": "{category}"{more}}}'
        for phase, pid, tid, ts, more in ends
    )


@pytest.mark.parametrize("category", ["ac2g", "async_cpu_to_gpu", "async"])
def test_work_without_ids_has_the_call_in_which_its_arrow_begins(category: str) -> None:
    calls = [slice_text("cudaLaunchKernel", ts, 2, cat='"cuda_runtime"') for ts in (101, 201)]
    works = [slice_text("gemm", ts, 5, cat='"kernel"', pid=2, tid=0) for ts in (210, 215)]
    arrows = arrow(7, 101, 210, category), arrow(8, 201, 215, category)
    others = operator(100, None), operator(200, None), arrow(9, 100, 200, "fwdbwd")
    assert links(*others, *calls, *works, *arrows) == [(101, 100), (201, 200)]


def test_arrows_from_work_to_itself_link_nothing() -> None:
    start = '{"ph": "s", "id": 7, "pid": 2, "tid": 0, "ts": 210, "cat": "ac2g", "name": "ac2g"}'
    end = start.replace('"s"', '"f"')
    texts = (
        slice_text("cudaLaunchKernel", 101, 2, cat='"cuda_runtime"'),
        slice_text("k", 210, cat='"kernel"', pid=2, tid=0),
    )
    assert links(operator(100, None), *texts, start, end) == [(None, None)]


@pytest.mark.parametrize("has_others", [False, True])
def test_work_written_as_begin_and_end_is_linked_by_its_external_id(has_others: bool) -> None:
    begin = '{"ph": "B", "name": "k", "cat": "kernel", "pid": 2, "tid": 0, "ts": 110, "args": {"External id": 25}}'
    end = begin.replace('"B"', '"E"').replace("110", "120")
    others = [kernel(210, 26), call(205, 26)] if has_others else []
    found = links(operator(100, 513), call(105, 25), begin, end, *others)
    assert found == [(105, 100), *([(205, None)] if has_others else [])]
