"""tensorboard_steps, and what the TensorBoard plugin counts over them: utilisation, SM efficiency, occupancy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples

STEPS = "SELECT step, start_ns, dur_ns, op_count FROM tensorboard_steps"

#  host    ProfilerStep#1 [0, 50)          ProfilerStep#2 [50, 100)
#  calls   launch 1 at 10                  launch 2 at 60
#  GPU           a [20 ---- 70)                     b [80 -- 120)
TWO_STEPS = """
step  name            host_start_ns  host_end_ns
1     ProfilerStep#1  0              50
2     ProfilerStep#2  50             100
"""
CALLS = """
slice_id  category  name              start_ns  dur_ns
1         runtime   cudaLaunchKernel  10        5
2         runtime   cudaLaunchKernel  60        5
"""
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  blocks_per_sm  occupancy_percent
100    kernel  7       20        50      1          0.5            50
101    kernel  7       80        40      2          4              25
"""


def test_a_step_ends_with_the_work_launched_in_it_and_the_next_begins_there() -> None:
    con = connect(steps=TWO_STEPS, host_slices=CALLS, gpu_ops=OPS)
    assert ask(con, STEPS) == [(1, 0, 70, 1), (2, 70, 50, 1)]


def test_the_first_step_waits_for_work_launched_before_it() -> None:
    ops = OPS + "99     kernel  7       2         8       -          1              1\n"
    con = connect(steps=TWO_STEPS, host_slices=CALLS, gpu_ops=ops)
    assert ask(con, STEPS) == [(1, 10, 60, 1), (2, 70, 50, 1)]


def test_a_last_step_with_too_little_work_is_left_out() -> None:
    calls = CALLS + "3         runtime   cudaLaunchKernel  12        2\n"
    ops = OPS + "102    kernel  7       71        5       3          1              1\n"
    con = connect(steps=TWO_STEPS, host_slices=calls, gpu_ops=ops)
    assert ask(con, STEPS) == [(1, 0, 76, 2)]


def test_steps_without_work_after_the_last_launch_are_left_out() -> None:
    con = connect(steps=TWO_STEPS + "3     ProfilerStep#3  100            140\n", host_slices=CALLS, gpu_ops=OPS)
    assert ask(con, STEPS) == [(1, 0, 70, 1), (2, 70, 50, 1)]


def test_a_call_that_outlasts_its_step_belongs_to_none() -> None:
    calls = CALLS.replace("10        5", "48        5")
    con = connect(steps=TWO_STEPS, host_slices=calls, gpu_ops=OPS)
    # Its kernel ended before the first of the second step's began, and no step has matched work before that one.
    assert ask(con, STEPS) == [(1, 0, 50, 0), (2, 50, 70, 1)]


def test_a_trace_without_steps_is_one_step() -> None:
    slices = CALLS + "3         cpu_op    aten::add         8         9\n"
    con = connect(host_slices=slices, gpu_ops=OPS)
    assert ask(con, STEPS) == [(None, 8, 112, 2)]


def test_utilisation_is_the_share_of_the_steps_in_which_a_kernel_runs() -> None:
    ops = OPS + "102    memcpy  8       0         120     2          -              -\n"
    con = connect(steps=TWO_STEPS, host_slices=CALLS, gpu_ops=ops)
    assert ask(con, "SELECT steps_ns, kernel_ns, utilisation_share FROM device_utilisation") == [(120, 90, 0.75)]


def test_kernels_that_run_at_once_use_the_device_once() -> None:
    ops = OPS + "102    kernel  8       20        50      -          1              1\n"
    con = connect(steps=TWO_STEPS, host_slices=CALLS, gpu_ops=ops)
    assert ask(con, "SELECT kernel_ns FROM device_utilisation") == [(90,)]


def test_a_kernel_with_few_blocks_leaves_multiprocessors_empty() -> None:
    con = connect(steps=TWO_STEPS, host_slices=CALLS, gpu_ops=OPS)
    query = "SELECT efficient_ns, sm_efficiency_share, covered_share FROM sm_efficiency"
    assert ask(con, query) == [(0.5 * 50 + 40, 65 / 120, 1.0)]


def test_two_small_kernels_at_once_fill_more_multiprocessors() -> None:
    ops = OPS + "102    kernel  8       20        50      -          0.25           1\n"
    con = connect(steps=TWO_STEPS, host_slices=CALLS, gpu_ops=ops)
    assert ask(con, "SELECT efficient_ns FROM sm_efficiency") == [(0.75 * 50 + 40,)]


def test_blocks_per_sm_come_from_the_grid_where_the_profiler_wrote_none() -> None:
    con = connect(
        devices=[{"sm_count": 80}],
        gpu_ops="""
        op_id  kind    stream  start_ns  dur_ns  grid_x  grid_y  grid_z
        100    kernel  7       0         50      5       4       1
        101    kernel  7       50        50      -       -       -
        """,
    )
    query = "SELECT efficient_ns, sm_efficiency_share, covered_share FROM sm_efficiency"
    assert ask(con, query) == [(0.25 * 50, 0.125, 0.5)]


def test_without_any_blocks_the_efficiency_is_unknown() -> None:
    con = connect(gpu_ops="op_id  kind    start_ns  dur_ns\n100    kernel  0         50")
    assert ask(con, "SELECT efficient_ns, sm_efficiency_share, covered_share FROM sm_efficiency") == [(None, None, 0)]


def test_occupancy_is_weighted_by_the_time_within_the_steps() -> None:
    con = connect(steps=TWO_STEPS, host_slices=CALLS, gpu_ops=OPS)
    assert ask(con, "SELECT sum_ns, occupancy_percent FROM occupancy") == [(90, (50 * 50 + 25 * 40) / 90)]


def test_occupancy_that_was_not_recorded_is_unknown_not_zero() -> None:
    con = connect(gpu_ops="op_id  kind    start_ns  dur_ns\n100    kernel  0         50")
    assert ask(con, "SELECT sum_ns, occupancy_percent FROM occupancy") == [(0, None)]


@pytest.mark.check
@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 8), st.sampled_from([None, 0, 125, 250, 500, 3000])),
        min_size=1,
        max_size=8,
    )
)
@examples()
def test_efficiency_agrees_with_counting_every_nanosecond(kernels: list[tuple[int, int, int | None]]) -> None:
    con = connect(
        "sm_efficiency",
        gpu_ops=[
            {
                "op_id": i,
                "kind": "kernel",
                "stream": i,
                "start_ns": start,
                "dur_ns": dur,
                "blocks_per_sm": None if blocks is None else blocks / 1000,
            }
            for i, (start, dur, blocks) in enumerate(kernels)
        ],
    )
    first, last = min(start for start, _, _ in kernels), max(start + dur for start, dur, _ in kernels)
    thousandths = [
        min(1000, sum(blocks or 0 for start, dur, blocks in kernels if start <= at < start + dur))
        for at in range(first, last)
    ]
    steps_ns, efficient_ns = ask(con, "SELECT steps_ns, coalesce(efficient_ns, 0) FROM sm_efficiency")[0]
    assert (steps_ns, efficient_ns) == (last - first, pytest.approx(sum(thousandths) / 1000))
