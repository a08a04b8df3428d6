"""Which files are AMD's, and what is said of files that are of other tools."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from test_amd_bad_input import read, tool

from traceanalyzer.discovery import find_run
from traceanalyzer.discovery.naming import other_format
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.amd.csv_processes import set_of
from traceanalyzer.ingest.amd.writing import write_recordings

KERNELS = "Kind,Agent_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
CALLS = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'


def database(path: Path, *tables: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for table in tables:
            connection.execute(f'CREATE TABLE "{table}" (id INTEGER)')
        connection.commit()
    return path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("report.h5", "nsys export --type sqlite"),
        ("report.arrow", "nsys export --type sqlite"),
        ("report.jsonl", "nsys export --type sqlite"),
        ("out.pftrace", "database"),
        ("out.proto", "traceconv"),
        ("7_kernel_stats.csv", "a summary of rocprofv3"),
        ("7_domain_stats.csv", "a summary of rocprofv3"),
        ("7_agent_info.csv", "4711_kernel_trace.csv"),
        ("7_scratch_memory_trace.csv", "without kernels and calls"),
        ("trace.otf2", "rocprofv3"),
        ("proton.hatchet", "without times"),
        ("old.nvvp", "nsys profile"),
        ("old.nvprof", "nsys profile"),
    ],
)
def test_files_of_other_tools_have_a_hint(tmp_path: Path, name: str, said: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\x0a\x01")
    assert said in " ".join(other_format(file) or ())


@pytest.mark.parametrize(
    ("table", "said"),
    [("compute_workload", "ROCm Compute Profiler"), ("KERN", "rocprof 1"), ("STRING_IDS", "Ascend")],
)
def test_databases_of_other_tools_are_refused_by_name(tmp_path: Path, table: str, said: str) -> None:
    file = database(tmp_path / "results.db", table)
    with pytest.raises(TraceAnalyzerError, match=said):
        find_run([file])


def test_databases_are_told_apart_by_their_tables(tmp_path: Path) -> None:
    guid = "_0000cffb_c705_7dba_a6bc_8787feeb5e5b"
    database(tmp_path / "a.db", f"rocpd_metadata{guid}", f"rocpd_region{guid}")
    database(tmp_path / "b.db", "rocpd_op", "rocpd_api", "rocpd_metadata")
    database(tmp_path / "c.db", "users")
    assert [source.name for source, _ in find_run([tmp_path]).sources] == ["a.db", "b.db"]


@pytest.mark.parametrize("tables", [("rocpd_op",), ("rocpd_api", "rocpd_string")])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_database_with_some_tables_of_a_recorder_is_refused_by_name(
    tmp_path: Path, tables: tuple[str, ...], is_packed: bool
) -> None:
    file = database(tmp_path / "results.db", *tables)
    if is_packed:
        file = file.rename(tmp_path / "results")
        packed = tmp_path / "results.db.gz"
        packed.write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
        file = packed
    with pytest.raises(TraceAnalyzerError, match="rocmProfileData that lacks the tables"):
        find_run([file])


def test_a_database_without_a_process_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="holds no process"):
        write_recordings(iter(()), tmp_path / "a.db", "a.db", tmp_path / "out", IngestOptions())


@pytest.mark.parametrize("beside", [False, True])
def test_samples_of_program_counters_alone_are_no_empty_recording(tmp_path: Path, beside: bool) -> None:
    sample = {"inst_index": 3, "record": {"dispatch_id": 1, "timestamp": 932}}
    one = tool() if beside else {"kernel_symbols": [], "buffer_records": {}}
    one["buffer_records"]["pc_sample_stochastic"] = [sample]
    file = tmp_path / "a_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [one]}))
    found = read(file)
    assert ("samples of program counters alone" in found) if isinstance(found, str) else beside


def test_tables_of_one_prefix_are_one_source(tmp_path: Path) -> None:
    for name, head in (("a_kernel_trace", KERNELS), ("a_hip_api_trace", CALLS), ("b_hip_api_trace", CALLS)):
        (tmp_path / f"{name}.csv").write_text(head)
    (tmp_path / "a_kernel_stats.csv").write_text("Name,Calls\n")
    found = [source.name for source, _ in find_run([tmp_path]).sources]
    assert found == ["a_kernel_trace.csv", "b_hip_api_trace.csv"]
    assert [source.name for source, _ in find_run([tmp_path / "a_hip_api_trace.csv"]).sources] == [
        "a_hip_api_trace.csv"
    ]


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_table_alone_that_lacks_a_column_names_it(tmp_path: Path, is_folder: bool) -> None:
    file = tmp_path / "a_kernel_trace.csv"
    file.write_text(KERNELS.replace("Start_Timestamp,", "") + "\n")
    with pytest.raises(TraceAnalyzerError) as error:
        find_run([tmp_path if is_folder else file])
    said = f"{error.value.where} {error.value.what} {error.value.hint}"
    assert "a_kernel_trace.csv" in said
    assert "a table of rocprofv3 that lacks what it is read by (Start_Timestamp)" in said


def test_a_table_of_others_is_no_table_of_rocprofv3(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("Kind,Name,Start_Timestamp\n")
    with pytest.raises(TraceAnalyzerError, match="is no trace that traceanalyzer reads"):
        find_run([file])


def test_a_pipe_beside_tables_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "1_kernel_trace.csv").write_text(KERNELS)
    os.mkfifo(tmp_path / "1_hip_api_trace.csv")
    assert list(set_of(tmp_path / "1_kernel_trace.csv")) == [tmp_path / "1_kernel_trace.csv"]
