"""One simulated run written by both profilers: read back, they tell the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import Run, open_run
from tracesim import simulate, simulate_job

BASE: dict[str, Any] = {"steps": 6, "kernels": 60}
SCENARIOS: dict[str, dict[str, Any]] = {
    "loader": {**BASE, "loader_us": 9_000},
    "workers": {**BASE, "steps": 9, "loader_us": 50, "loader_workers": 2, "worker_us": 12_000, "pin_us": 400},
    "item": {**BASE, "item_per_step": 1, "loader_us": 1_000, "op_us": 4},
    "launch-bound": {**BASE, "kernels": 120, "kernel_us": 5, "host_us": 5, "op_us": 3, "jitter": 0.1},
    "pageable copies": {**BASE, "h2d_mb": 32, "h2d_pinned": False},
    "pinned copies": {**BASE, "h2d_mb": 200, "kernel_us": 30},
    "pinned copies with events": {**BASE, "h2d_mb": 200, "kernel_us": 30, "sync_events": True},
    "graph": {**BASE, "kernel_us": 300, "graph": True, "loader_us": 5_000, "item_per_step": 1},
    "every trouble": {
        **BASE,
        "op_us": 3,
        "item_per_step": 1,
        "gc_us": 800,
        "gc_every": 2,
        "malloc_per_step": 2,
        "free_per_step": 1,
        "overhead_us": 300,
        "compile_us": 900,
        "module_load_us": 500,
        "sync_per_step": 2,
        "kernel_class": "conv",
        "jitter": 0.1,
    },
    "collectives beside": {
        **BASE,
        "ranks": 2,
        "comm_us": 4_000,
        "comm_count": 4,
        "comm_blocking": False,
        "faults": {"rank": 1, "loader_us": 3_000},
        "clock_offset_us": [0, 3e6],
    },
    "collectives between": {**BASE, "ranks": 2, "comm_us": 900, "faults": {"rank": 1, "loader_us": 3_000}},
    "blocking launches": {**BASE, "blocking_launches": True},
    "captured again": {
        "steps": 6,
        "program": [{"next": 300}, {"capture": {}, "do": [{"repeat": 40, "do": [{"kernel": 40}]}]}, {"graph": {}}],
    },
    "out of memory": {
        "steps": 6,
        "program": [{"oom": {"frees": 3}}, {"free": 100}, {"repeat": 40, "do": [{"kernel": 80}]}],
    },
    "several devices": {
        "steps": 6,
        "device_count": 3,
        "program": [
            {"next": 300},
            {"replicas": {"mb": 50}, "do": [{"repeat": 20, "do": [{"kernel": 40}]}]},
            {"backward": {}, "do": [{"replicas": {"mb": 50}, "do": [{"repeat": 40, "do": [{"kernel": 40}]}]}]},
        ],
    },
    "lost kernels": {**BASE, "drop_kernels": 0.02},
    "carried in": {**BASE, "carry_in": 7},
}

DEVICE_TIME = "SELECT * EXCLUDE (trace) FROM device_time ORDER BY rank, device"
LEDGER = """
SELECT coalesce(rank, 0), step, bucket, share FROM time_ledger
WHERE step IS NULL OR kept
"""
BOUNDS = "SELECT coalesce(rank, 0), cause, bound_share FROM host_cause_bounds WHERE bound_ns IS NOT NULL"
OWNED = "SELECT coalesce(rank, 0), cause, owned_share FROM host_cause_bounds"


@contextmanager
def both(
    scenario: dict[str, Any],
    folder: Path,
    graph_mode: Any = "node",
    schema: Any = "2026.2",
    *,
    attribution: bool = True,
) -> Iterator[tuple[Run, Run]]:
    """Open one simulated run twice: as PyTorch's profiler and as Nsight Systems recorded it."""
    job = simulate_job(scenario, seed=4)
    job.write_kineto(folder / "kineto")
    job.write_nsys(folder / "nsys", graph_mode, schema)
    with (
        open_run(folder / "kineto", store=folder / "kineto_store", jobs=1, attribution=attribution) as kineto,
        open_run(folder / "nsys", store=folder / "nsys_store", jobs=1, attribution=attribution) as nsys,
    ):
        yield kineto, nsys


def shares(run: Run, query: str) -> dict[tuple[Any, ...], float]:
    return {tuple(row[:-1]): row[-1] for row in run.sql(query).fetchall()}


def furthest_apart(kineto: Run, nsys: Run, query: str) -> float:
    """Return the largest difference between two answers; what one of them does not have is 0 there."""
    told, read = shares(kineto, query), shares(nsys, query)
    assert told
    assert read
    return max(abs(told.get(key, 0.0) - read.get(key, 0.0)) for key in told.keys() | read.keys())


@pytest.mark.check
@pytest.mark.parametrize(
    "name", ["loader", *(pytest.param(name, marks=pytest.mark.check) for name in SCENARIOS if name != "loader")]
)
def test_both_profilers_tell_the_same(name: str, tmp_path: Path) -> None:
    with both(SCENARIOS[name], tmp_path) as (kineto, nsys):
        assert nsys.sql(DEVICE_TIME).fetchall() == kineto.sql(DEVICE_TIME).fetchall()
        for query in (LEDGER, OWNED, BOUNDS):
            assert furthest_apart(kineto, nsys, query) < 0.01


@pytest.mark.check
def test_whole_replays_hide_the_gaps_between_their_kernels_alone(tmp_path: Path) -> None:
    with both(SCENARIOS["graph"], tmp_path, graph_mode="graph") as (kineto, nsys):
        columns = "rank, device, first_ns, last_ns, span_ns, memcpy_ns, comm_ns"
        query = f"SELECT {columns} FROM device_time"
        assert nsys.sql(query).fetchall() == kineto.sql(query).fetchall()
        assert furthest_apart(kineto, nsys, "SELECT device, busy_share FROM device_time") < 0.01
        for shared in (LEDGER, OWNED, BOUNDS):
            assert furthest_apart(kineto, nsys, shared) < 0.01


@pytest.mark.check
def test_an_older_export_tells_the_same(tmp_path: Path) -> None:
    with both(SCENARIOS["pinned copies with events"], tmp_path, schema="2024.5") as (kineto, nsys):
        query = "SELECT kind, stream, wait_on_stream, count(*) FROM syncs GROUP BY ALL ORDER BY ALL"
        assert nsys.sql(query).fetchall() == kineto.sql(query).fetchall()
        assert furthest_apart(kineto, nsys, LEDGER) < 0.01


@pytest.mark.check
def test_ranks_and_clocks_reach_the_other_side(tmp_path: Path) -> None:
    with both(SCENARIOS["collectives beside"], tmp_path, attribution=False) as (kineto, nsys):
        query = "SELECT rank, world_size FROM canonical.traces ORDER BY rank"
        assert nsys.sql(query).fetchall() == kineto.sql(query).fetchall() == [(0, 2), (1, 2)]
        ((apart,),) = nsys.sql("SELECT max(first_ns) - min(first_ns) FROM device_time").fetchall()
        assert apart > 2_900_000_000


@pytest.mark.check
def test_collectives_are_operators_though_their_tensors_are_a_list(tmp_path: Path) -> None:
    with both(SCENARIOS["collectives beside"], tmp_path, attribution=False) as (kineto, nsys):
        query = "SELECT name, category, count(*) FROM host_slices WHERE name LIKE 'c10d::%' GROUP BY ALL"
        assert nsys.sql(query).fetchall() == kineto.sql(query).fetchall() != []


def table(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_operators_are_ranges_as_emit_nvtx_writes_them(tmp_path: Path) -> None:
    path = simulate({"steps": 1, "kernels": 6, "item_per_step": 1}).write_nsys(tmp_path / "run.sqlite")
    texts = [text for (text,) in table(path, "SELECT text FROM NVTX_EVENTS ORDER BY start")]
    assert "step 0" in texts
    assert any(text.startswith("aten::addmm, op_id = ") and ", sizes = [[" in text for text in texts)
    assert any(text.startswith("autograd::engine::evaluate_function: AddmmBackward0, seq = ") for text in texts)
    assert any(text.startswith("Optimizer.step#AdamW.step, op_id = ") for text in texts)


def test_tables_without_rows_are_not_written(tmp_path: Path) -> None:
    path = simulate({"steps": 1, "kernels": 3, "h2d_mb": 0}).write_nsys(tmp_path / "run.sqlite")
    names = {name for (name,) in table(path, "SELECT name FROM sqlite_master")}
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in names
    assert not {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "OSRT_API"} & names


@pytest.mark.parametrize(("mode", "kernels", "replays"), [("node", 20, 0), ("graph", 0, 2)])
def test_graphs_are_recorded_kernel_by_kernel_or_as_replays(
    mode: Any, kernels: int, replays: int, tmp_path: Path
) -> None:
    run = simulate({"steps": 2, "kernels": 10, "graph": True})
    path = run.write_nsys(tmp_path / "run.sqlite", graph_mode=mode)
    counts = {
        name: table(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{name}")[0][0]
        for (name,) in [("KERNEL",), ("GRAPH_TRACE",)]
        if table(path, f"SELECT 1 FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_{name}'")
    }
    assert counts == {name: count for name, count in (("KERNEL", kernels), ("GRAPH_TRACE", replays)) if count}


def test_lost_kernels_are_warned_of(tmp_path: Path) -> None:
    path = simulate({"steps": 2, "kernels": 50, "drop_kernels": 0.1}).write_nsys(tmp_path / "run.sqlite")
    assert table(path, "SELECT severity, text FROM DIAGNOSTIC_EVENT") == [
        (2, "Not all CUDA events might have been collected.")
    ]


def test_workers_are_processes_that_wait_for_work(tmp_path: Path) -> None:
    told = {"steps": 9, "kernels": 9, "item_per_step": 1, "loader_us": 0, "loader_workers": 2, "worker_us": 100}
    path = simulate(told).write_nsys(tmp_path / "run.sqlite")
    assert [pid for (pid,) in table(path, "SELECT pid FROM PROCESSES ORDER BY pid")] == [4242, 4401, 4402]
    names = "SELECT DISTINCT value FROM OSRT_API JOIN StringIds ON id = nameId"
    assert table(path, names) == [("poll",)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "2019"}, "unknown schema '2019'"),
        ({"graph_mode": "kernel"}, "unknown graph_mode 'kernel'"),
    ],
)
def test_what_cannot_be_written_is_told(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match=message):
        simulate({"steps": 1}).write_nsys(tmp_path / "run.sqlite", **changes)


def test_only_nvidia_devices_are_recorded(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="nsys records NVIDIA devices only"):
        simulate({"steps": 1, "device": "MI300X"}).write_nsys(tmp_path / "run.sqlite")


def test_the_same_run_is_exported_as_the_same_bytes(tmp_path: Path) -> None:
    paths = [simulate({"steps": 1}).write_nsys(tmp_path / name / "t.sqlite") for name in ("a", "b")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.check
def test_nsys_tells_messages_by_the_range_around_them(tmp_path: Path) -> None:
    send, receive = {"send": {"to": 1, "us": 900}}, {"recv": {"from": 0, "us": 900}}
    programs = [[{"kernel": {"us": 500}}, message, {"kernel": {"us": 500}}] for message in (send, receive)]
    with both({"ranks": 2, "steps": 6, "programs": programs}, tmp_path) as (kineto, nsys):
        found = shares(nsys, LEDGER)
        assert {bucket for (*_, bucket) in found if bucket.startswith("dev.comm")} == {"dev.comm_p2p"}
        assert furthest_apart(kineto, nsys, LEDGER) < 0.01
        assert furthest_apart(kineto, nsys, BOUNDS) < 0.01
