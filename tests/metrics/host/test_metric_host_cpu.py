"""thread_roles, thread_time, host_samples, os_waits, off_cpu and its intervals: what host threads did, by hand."""

from __future__ import annotations

from typing import Any

import duckdb
from text_tables import ask, connect

THREADS = """
thread_id  pid  tid  thread_name
0          p10  t10  train
1          p10  t11  [NSys]
2          p10  t12  worker
"""
TRACE = [{"trace": "test", "format": "nsys", "recorder": "nsys"}]
#  time      0    10   20   30   40   50   60   70   80   90   100
#  train     |CPU 0----|    |CPU 1---------|    |CPU 1---------...      off-CPU [20,30) and [60,70)
#  [NSys]    .....|                                                     first seen when it leaves the CPU at 10
#  unseen              |CPU 2----|                                      nothing but its scheduling was recorded
SCHEDULED = """
event_id  pid  tid  category  raw_category  name   start_ns  dur_ns
101       p10  t10  sched     SCHED_EVENTS  CPU 0  0         20
103       p10  t10  sched     SCHED_EVENTS  CPU 1  30        30
105       p10  t10  sched     SCHED_EVENTS  CPU 1  70        -
107       p10  t13  sched     SCHED_EVENTS  CPU 2  20        10
"""
#  train     [cudaStreamSynchronize 15 ------ 45)  [poll 55 --- 75)
SLICES = """
slice_id  thread_id  category  raw_category   name                   start_ns  dur_ns
1         0          runtime   CUPTI          cudaStreamSynchronize  15        30
102       0          os        SCHED_EVENTS   off-CPU                20        10
2         0          os        OSRT_API       poll                   55        20
104       0          os        SCHED_EVENTS   off-CPU                60        10
3         0          os        OSRT_API       sem_wait               80        5
106       1          os        SCHED_EVENTS   off-CPU                10        90
4         1          os        OSRT_API       poll                   5         90
5         1          os        OSRT_API       poll                   96        1
"""


def _connect(**more: Any) -> duckdb.DuckDBPyConnection:
    return connect(traces=TRACE, threads=THREADS, async_slices=SCHEDULED, host_slices=SLICES, **more)


def test_a_thread_launches_if_it_calls_the_runtime_and_is_the_profilers_by_its_name() -> None:
    assert ask(_connect(), "SELECT tid, thread_id, role FROM thread_roles ORDER BY tid") == [
        ("t10", 0, "launching"),
        ("t11", 1, "profiler"),
        ("t12", 2, "other"),
        ("t13", None, "other"),
    ]


def test_time_on_a_cpu_is_cut_where_the_recording_begins_and_ends() -> None:
    # The recording is [0, 100): the last event is the end of the [NSys] thread's off-CPU interval.
    columns = "tid, role, recorded_ns, on_cpu_ns, slice_count, longest_slice_ns, migration_count, open_count, ready_ns"
    assert ask(_connect(), f"SELECT {columns} FROM thread_time") == [
        ("t10", "launching", 100, 20 + 30 + 30, 3, 30, 1, 1, None),
        ("t13", "other", 100, 10, 1, 10, 0, 0, None),
        ("t11", "profiler", 100, 10, 1, 10, 0, 1, None),
    ]
    assert ask(_connect(), "SELECT on_cpu_share FROM thread_time WHERE tid = 't10'") == [(0.8,)]


def test_a_thread_that_could_run_was_ready() -> None:
    con = _connect(
        event_args=[{"event_id": 102, "args": '{"thread_state":2}'}, {"event_id": 104, "args": '{"thread_state":1}'}]
    )
    assert ask(con, "SELECT tid, ready_ns FROM thread_time ORDER BY tid") == [("t10", 10), ("t11", 0), ("t13", 0)]
    assert ask(con, "SELECT off_cpu_ns, ready_ns, gpu_wait_ns, os_call_ns FROM off_cpu") == [(20, 10, 10, 0)]


def test_intervals_off_the_cpu_say_whether_the_thread_could_run() -> None:
    intervals = "SELECT tid, start_ns, dur_ns, is_ready FROM off_cpu_intervals"
    unknown = [("t10", 20, 10, None), ("t10", 60, 10, None), ("t11", 10, 90, None)]
    assert ask(_connect(), intervals) == unknown
    con = _connect(event_args=[{"event_id": 104, "args": '{"thread_state":1}'}])
    assert ask(con, intervals) == [("t10", 20, 10, False), ("t10", 60, 10, True), ("t11", 10, 90, False)]


def test_how_threads_ended_does_not_say_when_they_were_ready() -> None:
    con = _connect(event_args=[{"event_id": 106, "args": '{"thread_state":5}'}])
    assert {row[0] for row in ask(con, "SELECT ready_ns FROM thread_time")} == {None}


def test_time_off_the_cpu_has_one_cause_each() -> None:
    causes = "off_count, off_cpu_ns, longest_ns, ready_ns, gpu_wait_ns, os_call_ns, api_call_ns, other_ns"
    assert ask(_connect(), f"SELECT tid, {causes} FROM off_cpu") == [("t10", 2, 20, 10, None, 10, 10, 0, 0)]


def test_an_api_call_that_waits_for_no_device_is_the_drivers_unless_it_is_in_the_system() -> None:
    con = connect(
        traces=TRACE,
        threads=THREADS,
        host_slices="""
        slice_id  thread_id  category  raw_category   name              start_ns  dur_ns
        1         0          runtime   CUPTI          cudaMalloc        0         40
        2         0          os        OSRT_API       ioctl             10        10
        3         0          os        SCHED_EVENTS   off-CPU           12        3
        4         0          os        SCHED_EVENTS   off-CPU           30        4
        5         0          os        SCHED_EVENTS   off-CPU           40        5
        """,
    )
    assert ask(con, "SELECT gpu_wait_ns, os_call_ns, api_call_ns, other_ns FROM off_cpu") == [(0, 3, 4, 5)]


def test_os_calls_are_counted_by_thread_with_their_kind() -> None:
    columns = "tid, role, name, kind, call_count, sum_ns, max_ns, in_steps_ns"
    assert ask(_connect(), f"SELECT {columns} FROM os_waits") == [
        ("t10", "launching", "poll", "poll", 1, 20, 20, None),
        ("t10", "launching", "sem_wait", "lock", 1, 5, 5, None),
        ("t11", "profiler", "poll", "poll", 2, 91, 90, None),
    ]


def test_os_calls_in_analysed_steps_are_told_apart() -> None:
    step = {"step": 1, "host_start_ns": 50, "host_end_ns": 80, "kept": True}
    con = _connect(steps=[step, {**step, "device": 1}, {**step, "step": 2, "host_start_ns": 80, "kept": False}])
    # sem_wait starts where the step has ended; poll counts once, though two devices have the step.
    assert ask(con, "SELECT tid, name, in_steps_ns FROM os_waits") == [
        ("t10", "poll", 20),
        ("t10", "sem_wait", 0),
        ("t11", "poll", 0),
    ]


def test_samples_count_for_their_innermost_function() -> None:
    con = connect(
        traces=TRACE,
        threads=THREADS,
        host_slices=SLICES,
        cpu_samples="""
        event_id  thread_id  start_ns  function  module     own_function  stack
        1         0          1         memcpy    libc.so.6  fill          main;fill;memcpy
        2         0          2         memcpy    libc.so.6  fill          main;fill;memcpy
        3         0          3         memcpy    libc.so.6  load          main;load;memcpy
        4         0          4         main      train      main          main
        5         1          5         poll      libc.so.6  -             poll
        6         -          6         main      train      main          main
        """,
    )
    columns = "tid, role, function, own_function, sample_count, thread_share, stack_count"
    assert ask(con, f"SELECT {columns} FROM host_samples") == [
        ("t10", "launching", "memcpy", "fill", 3, 0.75, 2),
        ("t10", "launching", "main", "main", 1, 0.25, 1),
        (None, "other", "main", "main", 1, 1.0, 1),
        ("t11", "profiler", "poll", None, 1, 1.0, 1),
    ]


def test_samples_of_launching_threads_belong_to_the_wait_in_which_they_lie() -> None:
    #  waits of device 0  [host.other 0 ---- 100)[compute][host.sync 150 - 200)      device 1 waits all the time
    con = connect(
        traces=TRACE,
        threads=THREADS,
        host_slices=SLICES,
        ledger_rows="""
        device  row_id  bucket      cause       start_ns  dur_ns  kept
        0       0       host.other  host.other  0         100     true
        0       1       compute     -           100       50      true
        0       2       host.sync   host.sync   150       50      true
        1       0       host.other  host.other  0         200     true
        """,
        cpu_samples="""
        event_id  thread_id  start_ns  function  own_function
        1         0          0         memcpy    fill
        2         0          50        memcpy    fill
        3         0          99        main      main
        4         0          100       main      main
        5         0          199       ioctl     -
        6         0          200       main      main
        7         1          60        poll      -
        8         2          60        work      work
        """,
    )
    columns = "device, row_id, cause, function, sample_count, wait_sample_count"
    assert ask(con, f"SELECT {columns} FROM wait_samples") == [
        (0, 0, "host.other", "fill", 2, 3),
        (0, 0, "host.other", "main", 1, 3),
        (0, 2, "host.sync", None, 1, 1),
        (1, 0, "host.other", "fill", 2, 5),
        (1, 0, "host.other", "main", 2, 5),
        (1, 0, "host.other", None, 1, 5),
    ]
