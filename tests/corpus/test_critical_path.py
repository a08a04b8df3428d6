"""The critical path by HTA's definition: by hand on a tiny trace, against independent numbers, and as files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from corpus_metrics import EXPECTED, expected, run_of
from hypothesis import given
from hypothesis import strategies as st
from text_tables import connect
from tiers import examples

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.hta import critical_path, longest_path
from traceanalyzer.hta.edges import Edge
from traceanalyzer.run import Run

__all__ = ["run_of"]

#  time  0        20       40       60       80       100      120      140
#  host  [op 0 ------------ 40) [cudaStreamSynchronize 45 ----------- 125) [op 130 - 140)
#          [10-20)     [32-36)   launches of gemm and relu
#  GPU                [gemm 30 ------------- 80)
#                                               [relu 90 ------- 120)
SLICES = """
slice_id  category  name                   start_ns  dur_ns  correlation
1         cpu_op    aten::mm               0         40      -
2         runtime   cudaLaunchKernel       10        10      7
3         runtime   cudaLaunchKernel       32        4       8
4         runtime   cudaStreamSynchronize  45        80      9
5         cpu_op    aten::add              130       10      -
"""
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  correlation  name
10     kernel  7       30        50      2          7            gemm
11     kernel  7       90        30      3          8            relu
"""
SYNCS = """
sync_id  kind    stream  start_ns  dur_ns  correlation
12       stream  7       46        78      9
"""


def _tiny(**other: Any) -> duckdb.DuckDBPyConnection:
    return connect("gpu_ops", **{"host_slices": SLICES, "gpu_ops": OPS, "syncs": SYNCS, **other})


def test_the_path_leads_through_the_device_and_leaves_out_waits_and_gaps() -> None:
    path = critical_path(_tiny(), 0)
    assert [(part.kind, part.source, part.target, part.weight_ns) for part in path.parts if part.weight_ns] == [
        ("host", "aten::mm", "cudaLaunchKernel", 10),
        ("launch", "cudaLaunchKernel", "gemm", 20),
        ("device", "gemm", "gemm", 50),
        ("kernel_kernel", "gemm", "relu", 10),
        ("device", "relu", "relu", 30),
        ("host", "aten::add", "aten::add", 10),
    ]
    assert (path.length_ns, path.window_ns, path.span_ns) == (130, 140, 140)
    # 5 ns from relu's end to the wait's end, and 5 ns to the next operator.
    assert path.kind_ns == {"host": 20, "device": 80, "launch": 20, "kernel_kernel": 10, "left_out": 10}
    assert sum(path.kind_ns.values()) == path.span_ns


def test_without_the_synchronisation_nothing_leads_back_to_the_host() -> None:
    path = critical_path(_tiny(syncs=[]), 0)
    assert path.parts[-1].target == "relu"
    assert (path.length_ns, path.kind_ns["left_out"]) == (120, 20)


def test_an_operation_launched_into_a_busy_queue_follows_the_one_before_it() -> None:
    # The queue is empty again before the second launch, which therefore counts from the start of its call.
    later = SLICES.replace(
        "3         runtime   cudaLaunchKernel       32        4",
        "3         runtime   cudaLaunchKernel       82        4",
    )
    path = critical_path(_tiny(host_slices=later, syncs=[]), 0)
    assert path.edge_counts["launch"] == 2
    assert "kernel_kernel" not in path.edge_counts


def test_an_operation_does_not_follow_one_that_ended_more_than_1500_us_before() -> None:
    def counts(start_ns: int) -> dict[str, int]:
        ops = OPS.replace("90        30", f"{start_ns}  30")
        return critical_path(_tiny(gpu_ops=ops, syncs=[]), 0).edge_counts

    assert counts(80 + 1_499_999)["kernel_kernel"] == 1
    assert "kernel_kernel" not in counts(80 + 1_500_000)


def test_overlapping_launches_of_two_threads_share_a_lock() -> None:
    #  thread 0  [cudaLaunchKernel 0 ---------- 50)
    #  thread 1      [cudaLaunchKernel 10 - 30)           ended first, so it had the lock
    con = connect(
        "gpu_ops",
        host_slices="""
        slice_id  thread_id  category  name              start_ns  dur_ns
        1         0          runtime   cudaLaunchKernel  0         50
        2         1          runtime   cudaLaunchKernel  10        20
        """,
    )
    path = critical_path(con, 0)
    assert path.edge_counts == {"operator": 1, "dependency": 2}
    assert (path.length_ns, path.kind_ns["left_out"]) == (20, 30)


def test_a_window_is_an_instance_of_an_annotation() -> None:
    marks = """
        6         annotation  step A                0         40      -
        7         annotation  step B                128       20      -
    """
    con = _tiny(host_slices=SLICES.rstrip() + marks.replace("annotation  ", "annotation  "))
    path = critical_path(con, 0, "step", 1)
    assert (path.window.annotation, path.window_ns, path.length_ns) == ("step B", 20, 10)
    # Work that was launched in the window belongs to it, and the span ends with it.
    first = critical_path(con, 0, "step", 0)
    assert (first.window_ns, first.span_ns, first.length_ns) == (40, 120, 120)
    with pytest.raises(TraceAnalyzerError, match="2 annotations"):
        critical_path(con, 0, "step", 2)


def test_an_empty_trace_has_an_empty_path() -> None:
    path = critical_path(connect("gpu_ops"), 0)
    assert (path.parts, path.length_ns, path.span_ns) == ((), 0, 0)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 9)), max_size=20))
@examples()
def test_the_longest_path_is_that_of_trying_all(drawn: list[tuple[int, int, int]]) -> None:
    edges = [Edge(min(a, b), max(a, b), "operator", weight) for a, b, weight in drawn if a != b]

    def longest_from(node: int) -> int:
        return max((edge.weight_ns + longest_from(edge.target) for edge in edges if edge.source == node), default=0)

    path, left_out = longest_path(8, edges)
    assert sum(edge.weight_ns for edge in path) == max(longest_from(node) for node in range(8))
    assert all(first.target == second.source for first, second in pairwise(path))
    assert left_out == 0


def test_edges_that_close_a_circle_are_left_out_and_counted() -> None:
    edges = [Edge(0, 1, "operator", 5), Edge(1, 2, "operator", 5), Edge(2, 1, "sync", 0)]
    path, left_out = longest_path(3, edges)
    assert (sum(edge.weight_ns for edge in path), left_out) == (10, 1)


# Its two synchronisations of the whole device are written with the stream 4294967295, which HTA takes for a stream.
_EXTRA_NODES = {"cuda_sync_events_2023": 4}


@pytest.mark.parametrize("name", ["cuda_event_sync_multi_stream", "cuda_sync_events_2023"])
def test_length_and_kinds_equal_independent_numbers(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("critical_path", name)
    path = critical_path(run_of(name).connection, 0, numbers["annotation"], numbers["instance"])
    assert (path.window_ns, path.length_ns) == (numbers["window_ns"], numbers["length_ns"])
    assert path.edge_counts == numbers["edges"]
    assert path.node_count + _EXTRA_NODES.get(name, 0) == numbers["nodes"]
    kinds = numbers["by_kind_ns_one_of_the_longest"]
    assert {kind: path.kind_ns.get(kind, 0) for kind in kinds} == kinds
    assert sum(path.kind_ns.values()) == path.span_ns
    assert path.circle_edge_count == 0


@pytest.mark.parametrize(
    ("name", "step", "window_us", "length_us", "kinds_us", "edges"),
    [
        (
            "two_ranks_2023_rank-0",
            551,
            607_312,
            301_476,
            {"host": 300_492, "device": 948, "kernel_kernel": 30, "launch": 6},
            {"operator": 3865, "dependency": 266, "launch": 133, "kernel_kernel": 440},
        ),
        (
            "v100_training_2022",
            1009,
            75_473,
            39_243,
            {"host": 27_847, "device": 10_799, "kernel_kernel": 584, "launch": 13},
            {"operator": 16_639, "dependency": 1_669, "launch": 352, "kernel_kernel": 1_220},
        ),
    ],
)
def test_steps_equal_what_hta_and_an_independent_script_computed(
    corpus: Path,
    run_of: Callable[[str], Run],
    name: str,
    step: int,
    window_us: int,
    length_us: int,
    kinds_us: dict[str, int],
    edges: dict[str, int],
) -> None:
    path = critical_path(run_of(name).connection, 0, f"ProfilerStep#{step}")
    assert (path.window_ns, path.length_ns) == (window_us * 1000, length_us * 1000)
    assert {kind: path.kind_ns[kind] for kind in kinds_us} == {kind: us * 1000 for kind, us in kinds_us.items()}
    assert path.edge_counts == edges


@pytest.mark.check
def test_a_path_is_exported_as_a_table_and_as_a_track(
    corpus: Path, store_of: Callable[[Path], Path], tmp_path: Path
) -> None:
    trace = corpus / "kineto" / "cuda_event_sync_multi_stream.json.gz"
    numbers = json.loads((EXPECTED / "critical_path.cuda_event_sync_multi_stream.json").read_text())
    command = ["export", "critical-path", str(trace), "--store", str(store_of(trace)), "-q", "-o"]
    assert main([*command, str(tmp_path / "path.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "path.csv").open()))
    weights = [int(row["weight_ns"]) for row in rows]
    assert sum(weights[:-1]) == numbers["length_ns"]
    assert (rows[-1]["kind"], weights[-1]) == ("left_out", numbers["window_ns"] - numbers["length_ns"])
    assert main([*command, str(tmp_path / "path.json")]) == 0
    events = json.loads((tmp_path / "path.json").read_text())["traceEvents"]
    critical = [event for event in events if event.get("args", {}).get("critical") == 1]
    assert sum(event["args"]["weight_ns"] for event in critical) == numbers["length_ns"]
    boxes = {(event["tid"], event["ts"]): event["args"]["kind"] for event in critical}
    arrows = [event for event in events if event.get("cat") == "traceanalyzer" and event["ph"] in "sf"]
    ends = [boxes[event["tid"], event["ts"]] for event in arrows]
    # The launch of the last kernel is on the path, and nothing that the host does after it.
    assert list(zip(ends[::2], ends[1::2], strict=True))[-1] == ("launch", "device")
    assert all(arrow["ts"] <= other["ts"] for arrow, other in zip(arrows[::2], arrows[1::2], strict=True))
