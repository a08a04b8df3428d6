"""kernel_counters and operator_counters: by hand on tiny tables, and against numbers of an independent script."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import duckdb
from corpus_metrics import expected, run_of
from text_tables import ask, connect

from traceanalyzer.run import Run

__all__ = ["run_of"]
TRACE = "cupti_range_profiler"
ADD, MULTIPLY, FUSED = (f"smsp__sass_thread_inst_executed_op_f{op}_pred_on.sum" for op in ("add", "mul", "fma"))

# Ranges lie after all launches: the device replays each kernel alone. The first launched is the first counted.
SLICES = """
slice_id  category  name              start_ns  dur_ns  depth  parent_id  op_id
1         cpu_op    aten::mm          0         30      0      -          -
2         runtime   cudaLaunchKernel  10        5       1      1          1
3         runtime   cudaLaunchKernel  40        5       0      -          -
4         runtime   cudaMemcpyAsync   50        5       0      -          -
"""
RANGES = """
event_id  category        name         start_ns  dur_ns
11        profiler_range  __missing__  2000      1000
10        profiler_range  gemm         1000      1000
"""


def _counted(ranges: str = RANGES) -> duckdb.DuckDBPyConnection:
    return connect(
        host_slices=SLICES,
        async_slices=ranges,
        event_args=[
            {"event_id": 10, "args": f'{{"{ADD}":3,"{MULTIPLY}":4,"{FUSED}":100}}'},
            {"event_id": 11, "args": f'{{"{ADD}":1,"{MULTIPLY}":0}}'},
            {"event_id": 1, "args": '{"Input Dims":[]}'},
        ],
    )


def test_the_nth_range_belongs_to_the_nth_launch() -> None:
    query = "SELECT event_id, position, name, launch_id, operator, value FROM kernel_counters WHERE counter = ?"
    assert _counted().execute(query, [ADD]).fetchall() == [
        (10, 1, "gemm", 2, "aten::mm", 3.0),
        (11, 2, None, 3, None, 1.0),
    ]


def test_ranges_have_no_launch_if_there_are_not_as_many() -> None:
    con = _counted("\n".join(RANGES.strip().splitlines()[:2]))
    assert ask(con, "SELECT DISTINCT launch_id, operator FROM kernel_counters") == [(None, None)]


def test_a_fused_operation_counts_twice_and_a_counter_that_is_missing_makes_a_sum_unknown() -> None:
    query = "SELECT operator, kernel_count, fp32_flops, fp16_flops FROM operator_counters"
    assert ask(_counted(), query) == [("aten::mm", 1, 3 + 4 + 2 * 100, None), (None, 1, None, None)]


def test_counters_equal_independent_numbers(corpus: Path, run_of: Callable[[str], Run]) -> None:
    numbers = expected("counters", TRACE)
    con = run_of(TRACE).connection
    assert ask(con, "SELECT count(DISTINCT event_id), count(DISTINCT launch_id) FROM kernel_counters") == [
        (numbers["ranges"], numbers["launches"])
    ]
    assert dict(ask(con, "SELECT counter, sum(value) FROM kernel_counters GROUP BY counter")) == numbers["sums"]
    fifth = ask(con, "SELECT name, counter, value FROM kernel_counters WHERE position = 5")
    assert {name for name, *_ in fifth} == {numbers["fifth"]["name"]}
    assert {counter: value for _, counter, value in fifth} == numbers["fifth"]["args"]
    query = "SELECT operator, counter, sum(value), count(*) FROM kernel_counters GROUP BY ALL"
    by_operator: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for operator, counter, value, count in ask(con, query):
        by_operator[operator] |= {counter: value, "kernels": count}
    assert by_operator == numbers["by_operator"]
    # Additions, multiplications, and fused ones twice: 964,651,656 + 430,063,616 + 2 · 39,142,369,720.
    flops = "SELECT sum(fp32_flops), sum(fp64_flops), sum(fp16_flops), sum(kernel_count) FROM operator_counters"
    assert ask(con, flops) == [(79_679_454_712, 0, 2 * 275_791_872, 77)]
