"""The metrics named after the reports of `nsys stats`, on timelines small enough to reckon by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nsys_export import (
    KERNEL,
    MEMCPY,
    RUNTIME,
    STRINGS,
    call,
    global_tid,
    kernel,
    launched,
    name_id,
    nvtx,
    write_sqlite,
)

from traceanalyzer.run import Run, open_run


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    tmp_path = tmp_path_factory.mktemp("opened")
    #  host   [step                                    ]
    #           [forward          ]   [loss  ]
    #            (1)      (2)           (3)              calls
    #  gpu             [k1 ] [k2   ]        [copy]
    tables = {
        "StringIds": STRINGS,
        "NVTX_EVENTS": [
            nvtx(0, 1000, "step 0"),
            nvtx(10, 400, "aten::linear, seq = 1, op_id = 2"),
            nvtx(500, 700, "loss", domainId=1),
            nvtx(0, None, "Mine", eventType=75, domainId=1),
        ],
        RUNTIME: [
            call(20, 60, 1),
            call(100, 300, 2),
            call(510, 550, 3, "cudaMemcpyAsync_v3020"),
        ],
        KERNEL: [kernel(200, 250, 1), kernel(280, 480, 2)],
        MEMCPY: [{**kernel(600, 650, 3), "bytes": 1500, "copyKind": 1, "srcKind": 0, "dstKind": 2}],
        "OSRT_API": [
            {"start": 0, "end": 0, "eventClass": 31, "globalTid": global_tid(10), "nameId": name_id("nanosleep")},
            {"start": 5, "end": 9, "eventClass": 27, "globalTid": global_tid(10, 11), "nameId": name_id("nanosleep")},
        ],
    }
    with open_run(write_sqlite(tmp_path / "report.sqlite", tables), store=tmp_path / "store", jobs=1) as run:
        yield run


@pytest.mark.check
def test_kernels(opened: Run) -> None:
    assert opened.sql("FROM cuda_gpu_kern_sum").fetchall() == [
        ("report.sqlite", None, "gemm_kernel", 100.0, 250, 2, 125.0, 125.0, 50, 200, 106.1)
    ]


@pytest.mark.check
def test_calls_lose_the_suffix_of_four_digits(opened: Run) -> None:
    assert opened.sql("SELECT name, time_percent, sum_ns, call_count, stddev_ns FROM cuda_api_sum").fetchall() == [
        ("cudaLaunchKernel", 85.7, 240, 2, 113.1),
        ("cudaMemcpyAsync", 14.3, 40, 1, 0.0),
    ]


@pytest.mark.check
def test_copies(opened: Run) -> None:
    assert opened.sql("SELECT operation, sum_ns, operation_count FROM cuda_gpu_mem_time_sum").fetchall() == [
        ("[CUDA memcpy HtoD]", 50, 1)
    ]
    assert opened.sql("SELECT operation, sum_mb, size_bytes FROM cuda_gpu_mem_size_sum").fetchall() == [
        ("[CUDA memcpy HtoD]", 0.002, 1500)
    ]


@pytest.mark.check
def test_the_queue_counts_only_where_the_kernel_waited_for_it(opened: Run) -> None:
    columns = "api_ns, queue_ns, kernel_ns, total_ns"
    assert opened.sql(f"SELECT {columns} FROM cuda_kern_exec_trace").fetchall() == [
        (40, 140, 50, 230),
        (200, None, 200, 380),
    ]
    assert opened.sql(
        "SELECT pid, tid, launch_count, queued_count, queue_mean_ns FROM cuda_kern_exec_sum"
    ).fetchall() == [("10", "10", 2, 1, 140.0)]


def test_ranges_lose_the_operators_numbers(opened: Run) -> None:
    assert opened.sql("SELECT domain, name, style, sum_ns, range_count FROM nvtx_sum").fetchall() == [
        ("", "step 0", "PushPop", 1000, 1),
        ("", "aten::linear", "PushPop", 390, 1),
        ("Mine", "loss", "PushPop", 200, 1),
    ]


def test_ranges_projected_onto_the_gpu(opened: Run) -> None:
    rows = opened.sql(
        "SELECT name, projected_sum_ns, range_sum_ns, op_count, mean_level, mean_child_count FROM nvtx_gpu_proj_sum"
    ).fetchall()
    assert rows == [
        ("step 0", 450, 1000, 3, 0.0, 2.0),
        ("aten::linear", 280, 390, 2, 1.0, 0.0),
        ("loss", 50, 200, 1, 1.0, 0.0),
    ]


def test_operating_system_calls_without_the_tracers_marks(opened: Run) -> None:
    assert opened.sql("SELECT name, sum_ns, call_count FROM osrt_sum").fetchall() == [("nanosleep", 4, 1)]


def test_engines(opened: Run) -> None:
    rows = opened.sql("SELECT engine, op_count, busy_ns, hidden_ns, span_ns, idle_ns FROM engine_time").fetchall()
    assert rows == [
        ("HtoD", 1, 50, 0, 50, 0),
        ("compute", 2, 250, None, 280, 30),
        ("kernel", 2, 250, None, 280, 30),
        ("memcpy", 1, 50, 0, 50, 0),
        ("op", 3, 300, None, 450, 150),
        ("op_no_graph", 3, 300, None, 450, 150),
    ]


@pytest.mark.check
def test_gaps_are_counted_by_size(tmp_path: Path) -> None:
    tables = {**launched(1), KERNEL: [kernel(start, start + 10, 0) for start in (0, 20_000, 2_000_000, 8_000_000)]}
    with open_run(write_sqlite(tmp_path / "report.sqlite", tables), store=tmp_path / "store", jobs=1) as run:
        rows = run.sql("SELECT at_least_ns, gap_count, gap_sum_ns FROM gap_sizes WHERE engine = 'kernel'").fetchall()
    assert rows == [
        (10_000, 3, 7_999_970),
        (100_000, 2, 7_979_980),
        (1_000_000, 2, 7_979_980),
        (5_000_000, 1, 5_999_990),
        (500_000_000, 0, 0),
    ]


@pytest.mark.check
def test_a_file_of_several_processes_is_counted_as_one(tmp_path: Path) -> None:
    first, second = launched(2, pid=10), launched(3, pid=20)
    tables = {
        "StringIds": STRINGS,
        KERNEL: [*first[KERNEL], *second[KERNEL]],
        RUNTIME: [*first[RUNTIME], *second[RUNTIME]],
    }
    with open_run(write_sqlite(tmp_path / "report.sqlite", tables), store=tmp_path / "store", jobs=1) as run:
        assert run.sql("SELECT trace, rank, instance_count FROM cuda_gpu_kern_sum").fetchall() == [
            ("report.sqlite", None, 5)
        ]
        assert run.sql("SELECT trace, file, process_count FROM trace_files").fetchall() == [
            ("report.sqlite#pid10", "report.sqlite", 2),
            ("report.sqlite#pid20", "report.sqlite", 2),
        ]
