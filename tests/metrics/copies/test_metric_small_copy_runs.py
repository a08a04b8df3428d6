"""small_copy_runs: small copies that the host launches one after the other."""

from __future__ import annotations

from text_tables import ask, connect

RUNS = "SELECT op_id, copy_kind, run, place, run_copies FROM small_copy_runs ORDER BY op_id"

#  launches  c1 c2 c3  kernel  c5 c6  big  c8  out
CALLS = """
slice_id  category  name             start_ns  dur_ns
1         runtime   cudaMemcpyAsync  10        2
2         runtime   cudaMemcpyAsync  20        2
3         runtime   cudaMemcpyAsync  30        2
4         runtime   cudaLaunchKernel  40        2
5         runtime   cudaMemcpyAsync  50        2
6         runtime   cudaMemcpyAsync  60        2
7         runtime   cudaMemcpyAsync  70        2
8         runtime   cudaMemcpyAsync  80        2
9         runtime   cudaMemcpyAsync  90        2
"""
# The device runs the kernel first, on another stream: what counts is the order in which the host launches.
OPS = """
op_id  kind    copy_kind  size_bytes  start_ns  dur_ns  launch_id
1      memcpy  HtoD       65536       100       5       1
2      memcpy  HtoD       4           110       5       2
3      memcpy  HtoD       4           120       5       3
4      kernel  -          -           45        9       4
5      memcpy  HtoD       4           130       5       5
6      memcpy  HtoD       0           140       5       6
7      memcpy  HtoD       65537       150       5       7
8      memcpy  HtoD       4           160       5       8
9      memcpy  DtoH       4           170       5       9
"""


def test_a_run_ends_at_other_work_at_a_large_copy_and_at_another_direction() -> None:
    assert ask(connect(host_slices=CALLS, gpu_ops=OPS), RUNS) == [
        (1, "HtoD", 1, 1, 3),
        (2, "HtoD", 1, 2, 3),
        (3, "HtoD", 1, 3, 3),
        (5, "HtoD", 5, 1, 2),
        (6, "HtoD", 5, 2, 2),
    ]


def test_a_copy_that_the_host_waits_for_belongs_to_no_run() -> None:
    waits = "wait_id  call_id  kind\n2        2        copy"
    run = connect(host_slices=CALLS, gpu_ops=OPS, host_waits=waits)
    assert [row[0] for row in ask(run, RUNS)] == [5, 6]


def test_outside_of_pytorch_copies_above_a_kibibyte_that_the_host_waits_for_are_a_run() -> None:
    ops = [
        {"op_id": i, "copy_kind": "HtoD", "size_bytes": size, "launch_id": i, "kind": "memcpy"}
        for i, size in enumerate((4096, 4096, 1024, 1024), 1)
    ]
    waits = [{"wait_id": i, "call_id": i, "kind": "copy"} for i in range(1, 5)]
    for is_pytorch, runs in ((False, [1, 2]), (True, [])):
        programs = [{"is_pytorch": is_pytorch}]
        run = connect(host_slices=CALLS, gpu_ops=ops, host_waits=waits, programs=programs)
        assert [row[0] for row in ask(run, RUNS)] == runs


def test_devices_have_their_own_runs() -> None:
    ops = [
        {"op_id": i, "device": i % 2, "copy_kind": "HtoD", "size_bytes": 4, "launch_id": 4 + i, "kind": "memcpy"}
        for i in range(1, 5)
    ]
    assert ask(connect(host_slices=CALLS, gpu_ops=ops), RUNS) == [
        (1, "HtoD", 1, 1, 2),
        (2, "HtoD", 2, 1, 2),
        (3, "HtoD", 1, 2, 2),
        (4, "HtoD", 2, 2, 2),
    ]


def test_copies_within_the_device_make_runs_too() -> None:
    ops = OPS.replace("HtoD", "DtoD").replace("DtoH", "DtoD")
    kinds = "SELECT copy_kind, run_copies, count(*) FROM small_copy_runs GROUP BY ALL ORDER BY run_copies"
    assert ask(connect(host_slices=CALLS, gpu_ops=ops), kinds) == [("DtoD", 2, 4), ("DtoD", 3, 3)]


def test_short_copies_of_unknown_size_are_small() -> None:
    copies = """
op_id  kind    copy_kind  size_bytes  start_ns  dur_ns  launch_id
1      memcpy  DtoD       -           100       6000    1
2      memcpy  DtoD       -           7000      4700    2
3      memcpy  DtoD       -           12000     6001    3
"""
    assert ask(connect(host_slices=CALLS, gpu_ops=copies), RUNS) == [(1, "DtoD", 1, 1, 2), (2, "DtoD", 1, 2, 2)]
