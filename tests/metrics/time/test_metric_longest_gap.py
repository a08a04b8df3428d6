"""longest_gap: the longest stretch without compute, what is around it, and what the host can be blamed for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from text_tables import ask, connect

from traceanalyzer.run import open_run

GAP = """
    SELECT start_ns, dur_ns, cause, next_ns, kernels_before, kernels_after, host_ns
    FROM longest_gap
"""

#  device  [a 0 - 10)  - 2 -  [b 12 - 22)  sync 18, Python 80  [c 120 - 130)
#  host    launches a, b at [2 - 6)   cudaStreamSynchronize [8 - 23)   Python   launches c [115 - 119)
WINDOWS = """
start_ns  end_ns  window_ns
0         130     130
"""
LEDGER = """
row_id  kept  start_ns  dur_ns  bucket        cause
0       true  0         10      compute       -
1       true  10        2       dev.dispatch  dev.dispatch
2       true  12        10      compute       -
3       true  22        18      host.sync     host.sync
4       true  40        80      host.python   host.python
5       true  120       10      compute       -
"""
CALLS = """
slice_id  category  name                   thread_id  start_ns  dur_ns
1         runtime   cudaLaunchKernel       1          0         1
2         runtime   cudaLaunchKernel       1          2         4
3         runtime   cudaStreamSynchronize  1          8         15
4         runtime   cudaLaunchKernel       1          115       4
5         runtime   cudaMemcpyAsync        2          50        60
"""
OPS = """
op_id  kind    start_ns  dur_ns  launch_id  name
1      kernel  0         10      1          a
2      kernel  12        10      2          b
3      kernel  120       10      4          c
"""


def test_a_gap_with_several_reasons_is_one_and_the_next_longest_row_lies_outside() -> None:
    run = connect(windows=WINDOWS, ledger_rows=LEDGER, host_slices=CALLS, gpu_ops=OPS)
    # The host alone: from 6, when b was launched, to 115, without 15 in the synchronization; thread 2 does not count.
    assert ask(run, GAP) == [(22, 98, "host.python", 2, 2, 1, 94)]


def test_a_gap_at_the_end_of_the_window_ends_there_and_no_launch_follows_it() -> None:
    ledger = LEDGER.replace("5       true  120", "5       false  120")
    ops = "\n".join(OPS.splitlines()[:-1]) + "\n"
    run = connect(
        windows=WINDOWS.replace("130     130", "120     120"), ledger_rows=ledger, host_slices=CALLS, gpu_ops=ops
    )
    assert ask(run, GAP) == [(22, 98, "host.python", 2, 2, 0, None)]


def test_a_gap_at_the_start_begins_with_the_window() -> None:
    ledger = """
    row_id  kept  start_ns  dur_ns  bucket     cause
    0       true  5         20      host.op    host.op
    1       true  25        10      compute    -
    """
    run = connect(windows="start_ns  end_ns\n5         35", ledger_rows=ledger)
    assert ask(run, GAP) == [(5, 20, "host.op", 0, 0, 0, None)]


def test_a_device_that_computes_all_the_time_has_no_gap() -> None:
    ledger = "row_id  kept  start_ns  dur_ns  bucket\n0       true  0         130     compute"
    assert ask(connect(windows=WINDOWS, ledger_rows=ledger, gpu_ops=OPS), GAP) == []


def test_it_goes_through_few_rows_for_each_call_of_a_real_export(
    corpus: Path, store_of: Callable[[Path], Path]
) -> None:
    path = corpus / "nsys" / "h100x2_training_2026.2.sqlite"
    with open_run(path, store=store_of(path)) as run:
        ((calls,),) = run.sql("SELECT count(*) FROM host_slices").fetchall()
        ((_, plan),) = run.sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {GAP}").fetchall()
    passed = sum(int(rows) for rows in re.findall(r'"intermediate_rows": (\d+)', plan))
    assert calls < passed < 20 * calls  # calls of a thread joined with each other: 1,005 rows for each call
