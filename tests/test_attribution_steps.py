"""Steps on the host and on the device, and which of them count."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn


def loop(steps: int, name: str = "ProfilerStep#{0}", category: str = "annotation", tail: bool = False) -> Drawn:
    """Return a loop of steps of 100 us with one kernel of 50 us each, launched 10 us into the step."""
    slices = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    for i in range(steps + tail):
        if i < steps:
            slices.append(f"{i + 1} 0 {category} {name.format(i + 3)} {100 * i} {100 * i + 99}")
        slices.append(f"{i + 101} 0 runtime cudaLaunchKernel {100 * i + 10} {100 * i + 15}")
        ops.append(f"{i + 201} 7 kernel {100 * i + 20} {100 * i + 70} {i + 101}")
    return Drawn.of("\n".join(slices), "\n".join(ops))


STEPS = "SELECT step, (start_ns / 1000)::INT, (end_ns / 1000)::INT, drop_reason FROM attribution.steps ORDER BY step"


def test_step_on_the_device_runs_from_kernel_to_kernel() -> None:
    assert loop(3, tail=True).rows(STEPS) == [(3, 20, 120, None), (4, 120, 220, None), (5, 220, 320, None)]


def test_last_step_without_an_end_is_dropped_while_two_remain() -> None:
    assert [row[3] for row in loop(3).rows(STEPS)] == [None, None, "end not in the trace"]
    assert [row[3] for row in loop(2).rows(STEPS)] == [None, None]


def test_first_of_four_steps_is_warm_up() -> None:
    assert [row[3] for row in loop(4).rows(STEPS)] == ["warm-up", None, None, "end not in the trace"]


def test_single_step_is_the_window_up_to_the_end_of_its_work() -> None:
    drawn = loop(1)
    assert drawn.rows(STEPS) == [(3, 20, 70, None)]
    assert drawn.rows("SELECT step_count, window_ns, reading_op_id FROM windows") == [(1, 50_000, None)]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("ProfilerStep#{0}", "ProfilerStep"),
        ("step~{0}", "annotation"),
        ("execute_context_2(15)_generation_{0}({0})", "annotation"),
    ],
)
def test_steps_are_found_by_name(name: str, source: str) -> None:
    assert loop(3, name).rows("SELECT step_source, step_count FROM windows") == [(source, 2)]


def test_optimizer_ends_stand_in_for_steps() -> None:
    drawn = loop(4, "Optimizer.step#SGD.step")
    assert drawn.rows("SELECT step_source FROM windows") == [("optimizer",)]
    assert drawn.rows(STEPS) == [(0, 120, 220, None), (1, 220, 320, None), (2, 320, 370, "end not in the trace")]


def test_other_annotations_are_no_steps() -> None:
    drawn = loop(3, "forward")
    assert drawn.rows("SELECT step_source, step_count, window_ns FROM windows") == [(None, 0, 250_000)]
    assert drawn.rows("SELECT count(*) FROM ledger_rows WHERE NOT kept OR step IS NOT NULL") == [(0,)]


def test_step_written_in_two_categories_counts_once() -> None:
    drawn = Drawn.of(
        """
        id thread category   name             start end
        1  0      annotation ProfilerStep#1   0     100
        2  0      cpu_op     ProfilerStep#1   1     99
        3  0      annotation ProfilerStep#2   100   200
        4  0      cpu_op     ProfilerStep#2   101   199
        5  0      runtime    cudaLaunchKernel 10    12
        6  0      runtime    cudaLaunchKernel 110   112
        """,
        "id stream kind start end launch\n10 7 kernel 20 50 5\n11 7 kernel 120 150 6",
    )
    assert drawn.rows("SELECT step FROM attribution.steps ORDER BY 1") == [(1,), (2,)]


def test_copies_that_run_ahead_do_not_move_the_step() -> None:
    # copies  [c0][c1][c2]            issued early, on a stream of their own
    # compute     [==0==][==1==][==2==]
    slices = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    for i in range(3):
        slices += [
            f"{i + 1} 0 annotation ProfilerStep#{i} {10 * i} {10 * i + 10}",
            f"{i + 11} 0 runtime cudaMemcpyAsync {10 * i + 1} {10 * i + 2}",
            f"{i + 21} 0 runtime cudaLaunchKernel {10 * i + 3} {10 * i + 4}",
        ]
        ops += [
            f"{i + 31} 20 h2d {10 * i + 5} {10 * i + 9} {i + 11}",
            f"{i + 41} 7 kernel {200 + 100 * i} {300 + 100 * i} {i + 21}",
        ]
    drawn = Drawn.of("\n".join(slices), "\n".join(ops))
    assert [row[1:3] for row in drawn.rows(STEPS)] == [(200, 300), (300, 400), (400, 500)]


def test_step_that_launched_nothing_is_dropped_and_leaves_no_hole() -> None:
    drawn = Drawn.of(
        """
        id thread category   name             start end
        1  0      annotation ProfilerStep#1   0     100
        2  0      annotation ProfilerStep#2   100   200
        3  0      annotation ProfilerStep#3   200   300
        5  0      runtime    cudaLaunchKernel 10    12
        6  0      runtime    cudaLaunchKernel 210   212
        """,
        "id stream kind start end launch\n10 7 kernel 20 50 5\n11 7 kernel 220 250 6",
    )
    assert drawn.rows(STEPS) == [(1, 20, 220, None), (2, 220, 220, "no GPU work"), (3, 220, 250, None)]


def test_steps_of_a_trace_without_launches_are_all_dropped() -> None:
    drawn = Drawn.of(
        "id thread category name start end\n1 0 annotation ProfilerStep#1 0 100",
        "id stream kind start end launch\n10 7 kernel 20 50 -",
    )
    assert drawn.rows(STEPS) == [(1, None, None, "no GPU work")]
    assert drawn.rows("SELECT step_count, window_ns FROM windows") == [(0, 30_000)]


def test_rows_are_cut_at_the_bounds_of_steps() -> None:
    drawn = loop(3, tail=True)
    sums = drawn.rows("SELECT step, sum(dur_ns) FROM time_ledger WHERE step IS NOT NULL GROUP BY step ORDER BY step")
    assert sums == [(3, 100_000), (4, 100_000), (5, 100_000)]
    assert drawn.rows("SELECT sum(dur_ns) FROM time_ledger WHERE step IS NULL") == [(350_000,)]
