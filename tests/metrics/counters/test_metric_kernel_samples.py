"""kernel_samples: by hand on tiny tables, by brute force, and from a file as PyTorch's profiler writes it."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect

from traceanalyzer.run import open_run

KERNELS = """
op_id  device  kind    name  start_ns  dur_ns  stream
0      0       kernel  long  100       100     7
1      0       kernel  late  150       100     20
2      0       kernel  tiny  300       9       7
3      0       memcpy  copy  400       100     7
4      1       kernel  far   100       100     7
"""


def _sampled(samples: list[tuple[int, int, float]], device: int = 0) -> duckdb.DuckDBPyConnection:
    """Return kernels with samples of one counter: (time, device, value)."""
    return connect(
        gpu_ops=KERNELS,
        counters=[
            {
                "event_id": nth,
                "pid": f"GPU {of} Counters",
                "name": "sm__active",
                "series": "",
                "start_ns": at,
                "value": ns,
            }
            for nth, (at, of, ns) in enumerate(samples)
        ],
    )


def test_the_samples_while_a_kernel_runs_are_its_own() -> None:
    con = _sampled([(at, 0, float(at)) for at in range(0, 500, 10)])
    query = "SELECT op_id, name, counter, sample_count, mean_value, min_value, max_value FROM kernel_samples"
    assert ask(con, query) == [
        (0, "long", "sm__active", 10, 145.0, 100.0, 190.0),
        (1, "late", "sm__active", 10, 195.0, 150.0, 240.0),
    ]


def test_nine_samples_say_too_little() -> None:
    con = _sampled([(at, 0, 1.0) for at in range(101, 109)] + [(at, 0, 1.0) for at in range(300, 320)])
    assert ask(con, "SELECT count(*) FROM kernel_samples") == [(0,)]


def test_samples_belong_to_the_kernels_of_their_device() -> None:
    con = _sampled([(at, 1, 2.0) for at in range(100, 200, 5)])
    assert ask(con, "SELECT device, op_id, sample_count, mean_value FROM kernel_samples") == [(1, 4, 20, 2.0)]


def test_counters_of_nsight_systems_have_their_device_in_the_series() -> None:
    samples = [
        {"event_id": at, "pid": None, "name": "DRAM Read [%]", "series": series, "start_ns": at, "value": 50.0}
        for at in range(100, 120)
        for series in ("GPU 1", "NIC 1")
    ]
    con = connect(gpu_ops=KERNELS, counters=samples)
    assert ask(con, "SELECT op_id, counter, sample_count FROM kernel_samples") == [(4, "DRAM Read [%]", 20)]


@pytest.mark.check
@given(
    samples=st.lists(st.tuples(st.integers(80, 320), st.integers(0, 2), st.integers(0, 9)), max_size=120),
)
def test_each_kernel_has_what_a_search_through_all_samples_finds(samples: list[tuple[int, int, int]]) -> None:
    con = _sampled([(at, device, float(value)) for at, device, value in samples])
    expected = {}
    for op_id, device, start_ns, end_ns in ((0, 0, 100, 200), (1, 0, 150, 250), (2, 0, 300, 309), (4, 1, 100, 200)):
        own = [value for at, of, value in samples if of == device and start_ns <= at < end_ns]
        if len(own) >= 10:
            expected[op_id] = (len(own), statistics.fmean(own))
    found = ask(con, "SELECT op_id, sample_count, mean_value FROM kernel_samples")
    assert {op_id: count for op_id, count, _ in found} == {op_id: count for op_id, (count, _) in expected.items()}
    for op_id, _, mean in found:
        assert abs(mean - expected[op_id][1]) < 1e-9


@pytest.mark.check
def test_counters_of_a_profile_are_read_with_their_device(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100, "dur": 100}
    samples = [
        {
            "ph": "C",
            "cat": "hardware_counters",
            "name": name,
            "pid": "GPU 0 Counters",
            "tid": 0,
            "ts": 100 + 8 * nth,
            "args": {"": 10 * nth},
        }
        for name in ("sm__cycles_active.avg", "dram__bytes.sum")
        for nth in range(12)
    ]
    file = tmp_path / "rank0.json"
    file.write_text(
        json.dumps(
            {
                "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
                "traceEvents": [{**kernel, "args": {"device": 0, "stream": 7, "correlation": 1}}, *samples],
            }
        )
    )
    with open_run(file, store=tmp_path / "store") as run:
        rows = ask(
            run.connection, "SELECT name, counter, sample_count, mean_value FROM kernel_samples ORDER BY counter"
        )
    assert rows == [("gemm", "dram__bytes.sum", 12, 55.0), ("gemm", "sm__cycles_active.avg", 12, 55.0)]
