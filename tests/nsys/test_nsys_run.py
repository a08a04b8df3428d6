"""Runs with Nsight Systems exports: the same program recorded by both profilers gives the same answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nsys_export import (
    KERNEL,
    RUNTIME,
    STRINGS,
    Rows,
    Tables,
    global_pid,
    global_tid,
    launched,
    nvtx,
    write_parquet_folder,
    write_sqlite,
)

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.run import Run, open_run
from tracesim import SimulatedRun, simulate

_COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
_MEMORY_KINDS = {"pageable": 0, "pinned": 1, "device": 2}
SLOW_LOADER = {"steps": 8, "loader_us": 25_000, "kernels": 120, "kernel_us": 80}


def as_nsys_records_it(run: SimulatedRun) -> dict[str, Rows]:
    """Return the export that nsys would have given of a simulated program, PyTorch's operators as NVTX ranges."""
    tables = {name: table.to_pylist() for name, table in run.canonical_tables().items()}
    base = tables["traces"][0]["base_ns"]
    threads = {row["thread_id"]: global_tid(int(row["pid"]), int(row["tid"])) for row in tables["threads"]}
    process = next(int(row["pid"]) for row in tables["threads"] if row["process_name"] == "python")
    strings: dict[str, int] = {}

    def name_id(name: str) -> int:
        return strings.setdefault(name, len(strings) + 1)

    exported: dict[str, list[dict[str, Any]]] = {"NVTX_EVENTS": [], "CUPTI_ACTIVITY_KIND_RUNTIME": []}
    for row in tables["host_slices"]:
        times = {"start": row["start_ns"] - base, "end": row["start_ns"] + row["dur_ns"] - base}
        owner = {"globalTid": threads[row["thread_id"]]}
        if row["category"] in ("runtime", "driver"):
            call = {"eventClass": 0, "correlationId": row["correlation"], "nameId": name_id(row["name"] + "_v7000")}
            exported["CUPTI_ACTIVITY_KIND_RUNTIME"].append({**times, **owner, **call})
        elif row["category"] in ("cpu_op", "annotation"):
            text = row["name"] + (f", op_id = {row['slice_id']}" if row["category"] == "cpu_op" else "")
            exported["NVTX_EVENTS"].append({**times, **owner, "eventType": 59, "text": text, "domainId": 0})
    for row in tables["gpu_ops"]:
        table, record = _gpu_record(row, base, process, name_id)
        exported.setdefault(table, []).append(record)
    exported["StringIds"] = [{"id": place, "value": name} for name, place in strings.items()]
    exported["TARGET_INFO_SESSION_START_TIME"] = [{"utcEpochNs": base}]
    device = tables["devices"][0]
    exported["TARGET_INFO_GPU"] = [{"id": 0, "name": device["name"], "smCount": device["sm_count"], "cuDevice": 0}]
    return {name: rows for name, rows in exported.items() if rows}


def _gpu_record(row: dict[str, Any], base: int, process: int, name_id: Any) -> tuple[str, dict[str, Any]]:
    record = {
        "start": row["start_ns"] - base,
        "end": row["start_ns"] + row["dur_ns"] - base,
        "deviceId": row["device"],
        "contextId": row["context"],
        "streamId": row["stream"],
        "correlationId": row["correlation"],
        "globalPid": global_pid(process),
    }
    if row["kind"] == "kernel":
        sizes = {f"{what}{axis.upper()}": row[f"{what}_{axis}"] for what in ("grid", "block") for axis in "xyz"}
        return "CUPTI_ACTIVITY_KIND_KERNEL", {**record, "demangledName": name_id(row["name"]), **sizes}
    if row["kind"] == "memset":
        return "CUPTI_ACTIVITY_KIND_MEMSET", {**record, "bytes": row["size_bytes"], "memKind": 2}
    kinds = {"srcKind": _MEMORY_KINDS[row["src_kind"]], "dstKind": _MEMORY_KINDS[row["dst_kind"]]}
    copy = {"bytes": row["size_bytes"], "copyKind": _COPY_KINDS[row["copy_kind"]], **kinds}
    return "CUPTI_ACTIVITY_KIND_MEMCPY", {**record, **copy}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Diagnosis]]:
    """One run of two ranks: the first recorded by PyTorch's profiler, the second by nsys."""
    folder = tmp_path_factory.mktemp("run42")
    simulated = simulate(SLOW_LOADER)
    simulated.write_kineto(folder / "rank0.json")
    write_sqlite(folder / "rank1.sqlite", as_nsys_records_it(simulated))
    with open_run(folder, store=tmp_path_factory.mktemp("store"), jobs=1) as run:
        yield run, run.diagnose()


@pytest.mark.check
def test_both_formats_are_one_run(both: tuple[Run, Diagnosis]) -> None:
    run, _ = both
    assert run.sql("SELECT trace, rank, format FROM canonical.traces").fetchall() == [
        ("rank0.json", 0, "kineto"),
        ("rank1.sqlite", 1, "nsys"),
    ]


@pytest.mark.check
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * EXCLUDE (trace, rank) FROM device_time WHERE rank = {rank}",
        "SELECT * EXCLUDE (trace, rank) FROM kernel_gaps WHERE rank = {rank}",
        "SELECT * EXCLUDE (trace, rank) FROM engine_time WHERE rank = {rank}",
        "SELECT * EXCLUDE (trace, rank) FROM cuda_gpu_kern_sum WHERE rank = {rank}",
        "SELECT * EXCLUDE (trace, rank) FROM cuda_api_sum WHERE rank = {rank}",
        "SELECT * EXCLUDE (trace, rank) FROM cuda_gpu_mem_time_sum WHERE rank = {rank}",
        "SELECT * EXCLUDE (trace, rank) FROM cuda_gpu_mem_size_sum WHERE rank = {rank}",
        "SELECT * EXCLUDE (trace, rank, pid, tid) FROM cuda_kern_exec_sum WHERE rank = {rank}",
        "SELECT step, bucket, dur_ns FROM time_ledger WHERE rank = {rank} ORDER BY ALL",
        "SELECT cause, bound_ns, owned_ns FROM host_cause_bounds WHERE rank = {rank} ORDER BY ALL",
    ],
)
def test_metrics_agree(both: tuple[Run, Diagnosis], query: str) -> None:
    run, _ = both
    kineto, nsys = (_without_ids(run.sql(query.format(rank=rank)).to_arrow_table()) for rank in (0, 1))
    assert nsys == kineto
    assert kineto


@pytest.mark.check
def test_one_rule_fires_on_both(both: tuple[Run, Diagnosis]) -> None:
    _, diagnosis = both
    fired = [finding for finding in diagnosis.findings if finding.rule == "dataloader-bound"]
    ranks = {rank for finding in fired for rank in (finding.same_on_ranks or (finding.rank,))}
    assert ranks == {0, 1}


def _without_ids(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows without the numbers of events, which are positions in the file."""
    kept = [name for name in table.column_names if not name.endswith("_id")]
    return [json.loads(json.dumps(row).replace("_v7000", "")) for row in table.select(kept).to_pylist()]


@pytest.mark.check
def test_an_export_and_its_report_are_one_trace(tmp_path: Path) -> None:
    tables: Tables = as_nsys_records_it(simulate({"steps": 3, "kernels": 5}))
    write_sqlite(tmp_path / "report.sqlite", tables)
    (tmp_path / "report.nsys-rep").write_bytes(b"\x00binary")
    with open_run(tmp_path, store=tmp_path / "store", jobs=1) as run:
        assert [trace.trace for trace in run.traces] == ["report.sqlite"]


@pytest.mark.check
@pytest.mark.parametrize("named", ["folder", "run"])
def test_a_parquet_folder_is_a_trace(tmp_path: Path, named: str) -> None:
    folder = write_parquet_folder(tmp_path / "report_pqtdir", launched(3))
    for _ in range(2):
        with open_run(folder if named == "folder" else tmp_path, jobs=1) as run:
            assert [trace.trace for trace in run.traces] == ["report_pqtdir"]
            assert run.sql("SELECT count(*) FROM gpu_ops").fetchall() == [(3,)]


@pytest.mark.check
def test_operators_their_shapes_and_products_are_the_same(tmp_path: Path) -> None:
    program = {"steps": 3, "kernels": 12, "item_per_step": 1}
    simulate(program).write_kineto(tmp_path / "rank0.json")
    simulate(program).write_nsys(tmp_path / "rank0.sqlite")
    queries = (
        "SELECT name, nullif(input_shapes, '[]'), call_count, device_sum_ns FROM op_summary",
        "SELECT operator, batch, m, n, k, count(*) FROM matrix_products GROUP BY ALL",
        "SELECT name, count(sequence), count(external_id) FROM host_slices WHERE category = 'cpu_op' GROUP BY ALL",
    )
    with open_run(tmp_path / "rank0.json") as kineto, open_run(tmp_path / "rank0.sqlite") as nsys:
        for query in queries:
            rows = nsys.sql(f"FROM ({query}) ORDER BY ALL").fetchall()
            assert rows == kineto.sql(f"FROM ({query}) ORDER BY ALL").fetchall()
            assert rows


@pytest.mark.check
@pytest.mark.parametrize(
    ("tables", "event_count"),
    [
        ({"GPU_METRICS": [{"timestamp": at, "typeId": 1, "metricId": 0, "value": 80} for at in (100, 200)]}, 2),
        ({"NVTX_EVENTS": [nvtx(100, None, "here", eventType=34)]}, 1),
        (
            {
                "COMPOSITE_EVENTS": [{"id": 1, "start": 100, "globalTid": global_tid(10)}],
                "SAMPLING_CALLCHAINS": [{"id": 1, "symbol": 1, "stackDepth": 0}],
            },
            1,
        ),
        ({"NVTX_EVENTS": [nvtx(100, 200, "a range"), nvtx(300, None, "here", eventType=34)]}, 2),
        ({}, 0),
    ],
)
def test_a_recording_of_samples_or_marks_alone_is_not_said_to_be_empty(
    tables: Tables, event_count: int, tmp_path: Path
) -> None:
    path = write_sqlite(tmp_path / "report.sqlite", {"StringIds": STRINGS, **tables})
    with open_run(path, store=tmp_path / "store") as run:
        diagnosis = run.diagnose()
    assert [trace.event_count for trace in diagnosis.traces] == [event_count]
    assert ("is empty" in judge(diagnosis).sentence) == (event_count == 0)


@pytest.mark.check
@pytest.mark.parametrize(
    ("hosts", "second_begins_ns", "ranks"),
    [
        (("node0", "node1"), 0, [None] * 4),
        (("node0", "node0"), 0, [None] * 4),
        (("node0", "node0"), 60 * 10**9, [0, 0, 1, 1]),
    ],
    ids=["two hosts of one job", "two jobs of one host at once", "one job again, later"],
)
def test_places_on_a_host_are_no_ranks_of_a_job_on_several(
    hosts: tuple[str, str], second_begins_ns: int, ranks: list[int | None], tmp_path: Path
) -> None:
    for number, (host, begins_ns) in enumerate(zip(hosts, (0, second_begins_ns), strict=True)):
        first, second = launched(pid=10 + number), launched(pid=20 + number)
        tables: Tables = {
            "StringIds": STRINGS,
            KERNEL: [*first[KERNEL], *({**row, "deviceId": 1} for row in second[KERNEL])],
            RUNTIME: [*first[RUNTIME], *second[RUNTIME]],
            "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_760_000_000_000_000_000 + begins_ns}],
            "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": host}],
        }
        write_sqlite(tmp_path / f"node{number}.sqlite", tables)
    with open_run(tmp_path, store=tmp_path / "store", jobs=1) as run:
        assert [trace.rank for trace in run.traces] == ranks
