"""kernel_sequences: sequences by hand, and against a loop over all operators of real traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_metrics import run_of, table
from text_tables import ask, connect

from traceanalyzer.run import Run

__all__ = ["run_of"]

# linear 0     |--------------------------|      linear again  |--------|
# addmm 1          |-----------------|
# addmm inside 2       |---------|
SLICES = """
slice_id  category  name          start_ns  dur_ns  depth  op_id
0         cpu_op    aten::linear  0         100     0      -
1         cpu_op    aten::addmm   10        80      1      0
2         cpu_op    aten::addmm   20        40      2      1
3         cpu_op    aten::linear  200       50      0      -
4         cpu_op    aten::linear  300       60      0      -
"""
OPS = """
op_id  kind    name   start_ns  dur_ns  cpu_op_id
10     kernel  gemm   1000      5       2
11     kernel  bias   1010      3       1
12     kernel  relu   1020      2       0
13     kernel  gemm   2000      5       3
14     kernel  bias   2010      3       3
15     kernel  relu   2020      2       3
16     kernel  gemm   3000      7       4
17     kernel  relu   3010      2       4
"""


def test_a_call_has_what_the_operators_inside_launch_and_short_sequences_are_left_out() -> None:
    con = connect("FROM kernel_sequences", host_slices=SLICES, gpu_ops=OPS)
    query = "SELECT operator, sequence, sequence_length, call_count, device_sum_ns, host_sum_ns FROM kernel_sequences"
    assert ask(con, query) == [("aten::linear", "gemm|bias|relu", 3, 2, 20, 150)]


@pytest.mark.parametrize("name", ["two_ranks_2023_rank-0", "h100_vit", "mi300_resnet_ddp_checkpoint"])
def test_sequences_of_real_traces_are_those_of_a_loop(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    operators = {row["slice_id"]: row for row in table(run_of(name), "FROM host_slices WHERE category = 'cpu_op'")}
    launched: defaultdict[int, list[str]] = defaultdict(list)
    for op in table(run_of(name), "FROM gpu_ops WHERE cpu_op_id IS NOT NULL ORDER BY start_ns, op_id"):
        place, seen = op["cpu_op_id"], {}
        while place is not None:
            seen[operators[place]["name"]] = place  # of equal names, the outermost stays
            place = operators[place]["op_id"]
        for place in seen.values():
            launched[place].append(op["name"])
    counts: defaultdict[tuple[str, str, int], int] = defaultdict(int)
    for place, names in launched.items():
        if len(names) >= 3:
            counts[operators[place]["name"], "|".join(names[:64]), len(names)] += 1
    found: defaultdict[tuple[str, str, int], int] = defaultdict(int)
    for row in table(run_of(name), "FROM kernel_sequences"):
        found[row["operator"], row["sequence"], row["sequence_length"]] += row["call_count"]
    assert found == counts
