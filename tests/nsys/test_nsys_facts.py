"""What an export says about itself, who drove the GPU, and which files are taken for exports."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nsys_export import (
    KERNEL,
    RUNTIME,
    STRINGS,
    Ingested,
    call,
    global_tid,
    ingest,
    kernel,
    launched,
    nvtx,
    write_parquet_folder,
    write_sqlite,
)

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.nsys import NsysIngester
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.facts import count_diagnostics
from traceanalyzer.ingest.unread_formats import SQLITE_HEAD, unread_database
from traceanalyzer.text.visible import MASK


def test_times_are_utc_where_the_session_says_when_it_began(tmp_path: Path) -> None:
    found = ingest(
        tmp_path, {**launched(1), "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}]}
    )
    assert found.column("gpu_ops", "start_ns") == [1_700_000_000_000_000_500]
    assert found.column("traces", "base_ns") == [1_700_000_000_000_000_000]


def test_without_the_sessions_start_times_count_from_an_unknown_zero(tmp_path: Path) -> None:
    found = ingest(tmp_path, launched(1))
    assert found.column("gpu_ops", "start_ns") == [500]
    assert found.column("traces", "base_ns") == [None]
    assert "unknown-clock" in found.notes()


def test_the_environment_is_kept_by_an_allow_list_only(tmp_path: Path) -> None:
    tables = {
        **launched(1),
        "META_DATA_CAPTURE": [
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'CUDA_LAUNCH_BLOCKING="1"'},
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'HF_TOKEN="hf_secret"'},
            {"name": "PROCESS_0:USER_NAME", "value": "somebody"},
            {"name": "PROCESS_0:ARGUMENT_0", "value": "--api-key"},
            {"name": "PROCESS_0:ARGUMENT_1", "value": "hunter2"},
            {"name": "PROCESS_0:ARGUMENT_2", "value": "--token=abc"},
            {"name": "PROCESS_0:ARGUMENT_3", "value": "train.py"},
        ],
        "TARGET_INFO_SYSTEM_ENV": [
            {"name": "DeviceEnvironment", "value": "NCCL_ALGO=Ring;AWS_SECRET_ACCESS_KEY=secret2"},
            {"name": "Hostname", "value": "node7"},
        ],
    }
    found = ingest(tmp_path, tables)
    said = {row["key"]: json.loads(row["value"]) for row in found.rows("metadata")}
    assert said["nsys.environment"] == {"CUDA_LAUNCH_BLOCKING": "1", "NCCL_ALGO": "Ring"}
    assert found.column("traces", "host") == ["node7"]
    everything = json.dumps(said)
    assert not any(secret in everything for secret in ("hf_secret", "secret2", "somebody", "hunter2", "abc"))
    assert said["nsys.capture_options"]["PROCESS_0:ARGUMENT_3"] == "train.py"


def test_secrets_among_the_arguments_of_a_program_are_not_stored(tmp_path: Path) -> None:
    programs = {
        0: ["/usr/bin/python", "train.py", "--wandb_key", "swordfish", "--max-tokens", "512", "--pass"],
        1: ["/usr/bin/mysql", "-pswordfish", "jobs", "HF_TOKEN=swordfish", "--cluster-key", "swordfish"],
    }
    rows = [
        {"name": f"PROCESS_{number}:{name}", "value": value}
        for number, words in programs.items()
        for name, value in zip(["COMMAND", *(f"ARGUMENT_{i}" for i in range(9))], words, strict=False)
    ]
    found = ingest(tmp_path, {**launched(1), "META_DATA_CAPTURE": rows})
    stored = {row["key"]: json.loads(row["value"]) for row in found.rows("metadata")}["nsys.capture_options"]
    words = [
        *(["/usr/bin/python", "train.py", "--wandb_key", MASK, "--max-tokens", "512", "--pass"]),
        *(["/usr/bin/mysql", f"-p{MASK}", "jobs", f"HF_TOKEN={MASK}", "--cluster-key", MASK]),
    ]
    assert stored == {row["name"]: word for row, word in zip(rows, words, strict=True)}


def test_what_nsys_complained_about_is_a_defect(tmp_path: Path) -> None:
    told = [
        {"timestamp": 1, "source": 1, "severity": 1, "text": "Profiling has started.", "globalPid": 0},
        {"timestamp": 2, "source": 1, "severity": 2, "text": "12 CUDA events were dropped.", "globalPid": 0},
        {"timestamp": 3, "source": 1, "severity": 3, "text": "CUPTI failed.", "globalPid": 0},
        {"timestamp": 4, "source": 1, "severity": 2, "text": "No OpenGL events.", "globalPid": 0},
    ]
    found = ingest(tmp_path, {**launched(1), "DIAGNOSTIC_EVENT": told})
    assert found.defects() == {"events-dropped": 1, "profiler-error": 1}
    assert found.notes()["profiler-warning"] == "No OpenGL events."
    assert len(json.loads({r["key"]: r["value"] for r in found.rows("metadata")}["nsys.diagnostics"])) == 4


@pytest.mark.check
@pytest.mark.parametrize(
    ("environment", "rank", "world_size"),
    [
        ("SLURM_PROCID=3;SLURM_NTASKS=8", 3, 8),
        ("RANK=5;WORLD_SIZE=16;SLURM_PROCID=0", 5, 16),
        ("OMPI_COMM_WORLD_RANK=1;OMPI_COMM_WORLD_SIZE=2", 1, 2),
        ("PATH=/bin", None, None),
    ],
)
def test_the_launchers_environment_tells_the_rank(
    tmp_path: Path, environment: str, rank: int | None, world_size: int | None
) -> None:
    found = ingest(
        tmp_path, {**launched(1), "TARGET_INFO_SYSTEM_ENV": [{"name": "DeviceEnvironment", "value": environment}]}
    )
    (trace,) = found.rows("traces")
    assert (trace["rank"], trace["world_size"]) == (rank, world_size)


@pytest.mark.check
def test_under_one_launcher_the_environment_is_nobodys(tmp_path: Path) -> None:
    first, second = launched(1, pid=10), launched(1, pid=20)
    tables = {
        "StringIds": STRINGS,
        KERNEL: [{**first[KERNEL][0], "deviceId": 6}, {**second[KERNEL][0], "deviceId": 4}],
        "TARGET_INFO_SYSTEM_ENV": [{"name": "DeviceEnvironment", "value": "SLURM_PROCID=0"}],
    }
    found = ingest(tmp_path, tables)
    assert [found.rows("traces", trace)[0]["rank"] for trace in found.names] == [1, 0]


def test_nccls_payload_tells_the_rank(tmp_path: Path) -> None:
    found = ingest(tmp_path, {**launched(1), **_nccl_init(rank=6, ranks=8, device=2)})
    (trace,) = found.rows("traces")
    assert (trace["rank"], trace["world_size"]) == (6, 8)
    (said,) = [json.loads(row["args"]) for row in found.rows("event_args")]
    assert said["payload"] == {"NCCL communicator ID": 77, "No. of ranks": 8, "Rank": 6, "CUDA device": 2}


def test_the_largest_communicator_is_the_world(tmp_path: Path) -> None:
    group, world = _nccl_init(rank=1, ranks=2, device=0), _nccl_init(rank=5, ranks=8, device=0)
    tables = {**launched(1), **world, "NVTX_EVENTS": [*group["NVTX_EVENTS"], *world["NVTX_EVENTS"]]}
    (trace,) = ingest(tmp_path, tables).rows("traces")
    assert (trace["rank"], trace["world_size"]) == (5, 8)


def test_mpi_tracing_names_the_rank_of_a_thread(tmp_path: Path) -> None:
    ranges = [nvtx(5, None, "MPI Rank 2", eventType=39), nvtx(6, 9, "work")]
    assert ingest(tmp_path, {**launched(1), "NVTX_EVENTS": ranges}).column("traces", "rank") == [2]


def test_minimal_columns_are_enough(tmp_path: Path) -> None:
    tables = {
        "StringIds": STRINGS,
        KERNEL: [{"start": 10, "end": 20, "correlationId": 1, "shortName": 2}],
        RUNTIME: [{"start": 1, "end": 2, "correlationId": 1, "globalTid": 1, "nameId": 1}],
    }
    found = ingest(tmp_path, tables)
    (op,) = found.rows("gpu_ops")
    assert (op["name"], op["device"], op["stream"]) == ("gemm_kernel", 0, None)
    assert op["launch_id"] == found.column("host_slices", "slice_id")[0]
    assert "unknown-process" in found.notes()
    assert "globalPid" in str(found.notes()["missing-columns"])


def test_a_table_without_its_times_is_left_out_and_said(tmp_path: Path) -> None:
    tables = {**launched(2), "OSRT_API": [{"nameId": 1, "globalTid": global_tid(10)}]}
    found = ingest(tmp_path, tables)
    assert len(found.rows("gpu_ops")) == 2
    assert found.defects() == {"unreadable-table": 1}


def test_tables_that_are_not_read_are_said(tmp_path: Path) -> None:
    found = ingest(tmp_path, {**launched(1), "DX12_API": [{"start": 1, "end": 2}]})
    said = {row["key"]: json.loads(row["value"]) for row in found.rows("metadata")}
    assert said["nsys.tables_not_read"] == {"DX12_API": 1}


def test_an_export_without_gpu_work_keeps_its_host_events(tmp_path: Path) -> None:
    found = ingest(tmp_path, {"StringIds": STRINGS, "NVTX_EVENTS": [nvtx(0, 5, "work")]})
    assert found.column("host_slices", "name") == ["work"]
    assert found.rows("gpu_ops") == []
    assert "no-gpu-work" in found.notes()


@pytest.mark.check
def test_a_parquet_folder_gives_the_same_as_sqlite(tmp_path: Path) -> None:
    tables = {**launched(3), "NVTX_EVENTS": [nvtx(0, 5, "wörk"), nvtx(6, 9, "more", domainId=1)]}
    sqlite = ingest(tmp_path, tables)
    folder = write_parquet_folder(tmp_path / "report_pqtdir", tables)
    parquet = Ingested(folder, tmp_path / "other")
    for table in ("gpu_ops", "host_slices", "threads", "event_args"):
        assert parquet.rows(table) == sqlite.rows(table)


@pytest.mark.check
def test_a_damaged_database_is_read_up_to_the_damage(tmp_path: Path) -> None:
    count = 20_000
    tables = {
        "StringIds": STRINGS,
        KERNEL: [kernel(10 * i, 10 * i + 5, 0) for i in range(count)],
        RUNTIME: [call(0, 5, 1)],
    }
    whole = write_sqlite(tmp_path / "report.sqlite", tables)
    data = bytearray(whole.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 8192] = os.urandom(8192)
    whole.write_bytes(data)
    found = Ingested(whole, tmp_path / "store")
    assert 0 < len(found.rows("gpu_ops")) < count
    assert found.rows("traces")[0]["truncated"] is True
    assert "unreadable-rows" in found.defects()


@pytest.mark.check
def test_a_database_that_was_cut_short_is_read_up_to_the_cut(tmp_path: Path) -> None:
    count = 20_000
    tables = {
        "StringIds": STRINGS,
        RUNTIME: [call(0, 5, 1)],
        KERNEL: [kernel(10 * i, 10 * i + 5, 0) for i in range(count)],
    }
    whole = write_sqlite(tmp_path / "report.sqlite", tables)
    data = whole.read_bytes()
    whole.write_bytes(data[: len(data) // 2])
    found = Ingested(whole, tmp_path / "store")
    assert count // 4 < len(found.rows("gpu_ops")) < count
    assert found.rows("traces")[0]["truncated"] is True


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _replace_by_broken_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("missing")


def _damage_pages(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(b"PAR1" + bytes(len(data) // 2) + data[4 + len(data) // 2 :])


@pytest.mark.sampled
@pytest.mark.parametrize("harm", [_cut, _replace_by_pipe, _replace_by_broken_link, _damage_pages])
def test_a_parquet_table_that_cannot_be_read_costs_itself(harm: Callable[[Path], None], tmp_path: Path) -> None:
    tables = {**launched(3), "NVTX_EVENTS": [nvtx(0, 5, "range")], "OSRT_API": [call(0, 5, 1)]}
    folder = write_parquet_folder(tmp_path / "report_pqtdir", tables)
    harm(folder / "NVTX_EVENTS.parquet")
    found = Ingested(folder, tmp_path / "store")
    assert len(found.rows("gpu_ops")) == 3
    assert "range" not in found.column("host_slices", "name")
    assert found.rows("traces")[0]["truncated"] is True
    (defect,) = [row for row in found.rows("defects") if row["defect"] == "unreadable-rows"]
    assert defect["example"].startswith("NVTX_EVENTS.parquet: ")


def test_a_parquet_export_without_a_readable_table_is_an_error(tmp_path: Path) -> None:
    folder = write_parquet_folder(tmp_path / "report_pqtdir", launched(3))
    for file in folder.iterdir():
        _cut(file)
    with pytest.raises(TraceAnalyzerError, match="no Parquet file can be read"):
        Ingested(folder, tmp_path / "store")


def test_a_database_that_cannot_be_read_at_all_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(50))
    with pytest.raises(TraceAnalyzerError, match="cannot be read"):
        Ingested(path, tmp_path / "store")


def test_only_databases_of_nsys_are_taken(tmp_path: Path) -> None:
    export = write_sqlite(tmp_path / "trace.db", launched(1))
    other = write_sqlite(tmp_path / "other.sqlite", {"users": [{"id": 1}]})
    ingester = NsysIngester()
    assert ingester.sniff(export.read_bytes()[:100], export)
    assert not ingester.sniff(other.read_bytes()[:100], other)
    assert not ingester.sniff(b'{"traceEvents": [', tmp_path / "trace.json")


@pytest.mark.parametrize("table", ["ENUM_NSYS_EVENT_TYPE", "META_DATA_EXPORT", "TARGET_INFO_GPU"])
def test_an_export_that_was_interrupted_is_told_from_other_databases(table: str, tmp_path: Path) -> None:
    begun = write_sqlite(tmp_path / "report.sqlite", {table: [{"id": 1}]})
    what, hint = unread_database(begun, SQLITE_HEAD) or ("", "")
    assert "an export of nsys without its tables" in what
    assert hint.startswith("export the report again")


def test_reports_beside_their_export_are_passed_over(tmp_path: Path) -> None:
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(b"\x00binary")
    assert NsysIngester().sniff(b"\x00binary", report)
    write_sqlite(tmp_path / "report.sqlite", launched(1))
    assert not NsysIngester().sniff(b"\x00binary", report)


def test_without_nsys_a_report_asks_for_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(b"\x00binary")
    with pytest.raises(TraceAnalyzerError) as told:
        NsysIngester().ingest(report, tmp_path / "store", IngestOptions())
    assert "nsys is not on the PATH" in told.value.what
    assert "nsys export --type sqlite" in str(told.value.hint)


def test_with_nsys_a_report_is_exported_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = write_sqlite(tmp_path / "made.sqlite", launched(2))
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nwhile [ "$1" != "--output" ]; do shift; done\ncp {export} "$2"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(b"\x00binary")
    found = Ingested(report, tmp_path / "store")
    assert len(found.rows("gpu_ops")) == 2
    assert found.column("traces", "path") == [str(report)]
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["0"]


def test_inputs_are_never_written(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "report.sqlite", launched(2))
    before = path.read_bytes()
    path.chmod(0o444)
    Ingested(path, tmp_path / "store")
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.sqlite", "store"]


def _nccl_init(*, rank: int, ranks: int, device: int) -> dict[str, Any]:
    fields = struct.pack("<Qiiii", 77, ranks, rank, device, 0)
    header = struct.pack("<IIIIQQ", 1, 0, 16777218, 0, len(fields), 32 + len(fields))
    entries = [("NCCL communicator ID", 18, None), ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16)]
    return {
        "NVTX_EVENTS": [nvtx(0, 5, "ncclCommInitRank", domainId=1, binaryData=header + fields)],
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": [
            {"domainId": 1, "schemaId": 16777218, "idx": place, "type": kind, "name": name, "offset": offset}
            for place, (name, kind, offset) in enumerate(entries)
        ],
    }


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ("CPU IP/backtrace sampling not supported, disabling.", "profiler-warning"),
        ("ActivityFlushAll returned 2: CUPTI_ERROR_INVALID_DEVICE", "profiler-error"),
        ("CUDA device sampling is not supported on this CPU", "profiler-error"),
    ],
)
def test_what_is_missing_of_the_host_is_no_loss(text: str, defect: str) -> None:
    defects = Defects()
    count_diagnostics([{"severity": 3, "text": text}], defects)
    assert defects.counts == {defect: 1}
