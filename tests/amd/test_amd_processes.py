"""Files of several processes, and ranks of several machines: a trace a process, and no clocks of two machines."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_amd_bad_input import CALLS, KERNELS, read, rpd, tool

from traceanalyzer.cli import cli
from traceanalyzer.ingest.amd.csv_processes import set_of
from traceanalyzer.run import open_run
from tracesim import simulate_job

KERNELS_OF_THREADS = KERNELS.replace("Queue_Id", "Thread_Id")
COUNTS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Process_Id","Thread_Id","Kernel_Name","Counter_Name","Counter_Value",'
    '"Start_Timestamp","End_Timestamp"'
)


def table(file: Path, head: str, *rows: str) -> Path:
    file.write_text("\n".join([head, *rows]) + "\n")
    return file


def launches(file: Path) -> list[str]:
    """Return the traces of a file, whose kernels all begin 100 ns after the call that launched them."""
    with open_run(file, store=file.parent / "store", attribution=False) as run:
        apart = """SELECT DISTINCT ops.start_ns - calls.start_ns FROM gpu_ops AS ops
            LEFT JOIN host_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id"""
        assert run.sql(apart).fetchall() == [(100,)]
        return [name for (name,) in run.sql("SELECT trace FROM traces ORDER BY trace").fetchall()]


@pytest.mark.check
def test_tables_of_two_processes_are_two_traces(tmp_path: Path) -> None:
    calls = [f"HIP_RUNTIME_API,hipLaunchKernel,{pid},{pid},1,{900 + pid},{950 + pid}" for pid in (7, 8)]
    table(tmp_path / "a_hip_api_trace.csv", CALLS, *calls)
    kernels = [f"KERNEL_DISPATCH,Agent {pid},{pid},1,gemm,1,{1000 + pid},{1050 + pid}" for pid in (7, 8)]
    file = table(tmp_path / "a_kernel_trace.csv", KERNELS_OF_THREADS, *kernels)
    assert launches(file) == ["a_kernel_trace.csv#pid7", "a_kernel_trace.csv#pid8"]


@pytest.mark.check
def test_tables_of_rocpd_convert_tell_processes_by_their_guids(tmp_path: Path) -> None:
    calls = [f"g{pid},HIP_RUNTIME_API,hipLaunchKernel,{pid},5,1,{900 + pid},{950 + pid}" for pid in (7, 8)]
    table(tmp_path / "a_hip_api_trace.csv", f'"Guid",{CALLS}', *calls)
    kernels = [f"g{pid},KERNEL_DISPATCH,Agent 1,1,1,gemm,1,{1000 + pid},{1050 + pid}" for pid in (7, 8)]
    file = table(tmp_path / "a_kernel_trace.csv", f"Guid,{KERNELS}", *kernels)
    assert launches(file) == ["a_kernel_trace.csv#pid7-g7", "a_kernel_trace.csv#pid8-g8"]


@pytest.mark.parametrize("prefix", ["out_", ""])
def test_regions_of_rocpd_convert_are_the_calls_of_its_kernels_whatever_the_prefix(tmp_path: Path, prefix: str) -> None:
    calls = ["g7,HIP_RUNTIME_API_EXT,hipLaunchKernel,7,5,1,900,950", "g7,MARKER_CORE_RANGE_API,step 1,7,5,2,800,990"]
    regions = table(tmp_path / f"{prefix}regions_trace.csv", f'"Guid",{CALLS}', *calls)
    kernel = "g7,KERNEL_DISPATCH,Agent 1,1,1,gemm,1,1000,1050"
    file = table(tmp_path / f"{prefix}kernel_trace.csv", f"Guid,{KERNELS}", kernel)
    assert launches(file) == launches(tmp_path) == [f"{prefix}kernel_trace.csv"]
    assert set_of(regions) == {file: "kernel", regions: "api"}


def test_kernels_that_name_no_process_are_counted(tmp_path: Path) -> None:
    calls = [f"HIP_RUNTIME_API,hipLaunchKernel,{pid},{pid},1,{900 + pid},{950 + pid}" for pid in (7, 8)]
    table(tmp_path / "a_hip_api_trace.csv", CALLS, *calls)
    file = table(tmp_path / "a_kernel_trace.csv", KERNELS, "KERNEL_DISPATCH,Agent 1,1,1,gemm,1,1000,1050")
    tables = read(file)
    assert not isinstance(tables, str)
    assert len(tables["gpu_ops"]) == 1
    assert ("unknown-process", 1) in [(row["defect"], row["defect_count"]) for row in tables["defects"]]


def test_counters_alone_show_their_dispatches_once(tmp_path: Path) -> None:
    rows = [f"{n},{n},Agent 1,7,7,gemm,{name},5,{1000 * n},{1000 * n + 50}" for n in (1, 2) for name in ("A", "B")]
    tables = read(table(tmp_path / "a_counter_collection.csv", COUNTS, *rows))
    assert not isinstance(tables, str)
    assert [(op["name"], op["start_ns"], op["dur_ns"]) for op in tables["gpu_ops"]] == [
        ("gemm", 1000, 50),
        ("gemm", 2000, 50),
    ]
    assert len(tables["counters"]) == 4
    assert "serialised-by-counters" in {row["defect"] for row in tables["defects"]}


@pytest.mark.parametrize("apart_ns", [0, 500])
def test_kernels_are_serialised_by_counters_of_their_own_pass_alone(tmp_path: Path, apart_ns: int) -> None:
    starts = (1000, 2000)
    kernels = [f"KERNEL_DISPATCH,Agent 1,1,1,gemm,{at},{at},{at + 50}" for at in starts]
    counts = [f"1,1,Agent 1,7,7,gemm,A,5,{at + apart_ns},{at + apart_ns + 50}" for at in starts]
    table(tmp_path / "a_counter_collection.csv", COUNTS, *counts)
    tables = read(table(tmp_path / "a_kernel_trace.csv", KERNELS, *kernels))
    assert not isinstance(tables, str)
    assert ("serialised-by-counters" in {row["defect"] for row in tables["defects"]}) == (apart_ns == 0)


@pytest.mark.check
def test_json_and_rpd_have_a_trace_for_each_process(tmp_path: Path) -> None:
    both = [tool(), tool(metadata={"pid": 8, "node": {"hostname": "host0"}})]
    file = tmp_path / "a_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": both}))
    assert launches_of_each(file) == [2, 2]
    assert launches_of_each(rpd(tmp_path)) == [1, 1]
    with open_run(tmp_path / "a.rpd", store=tmp_path / "store", attribution=False) as run:
        assert run.sql("SELECT event_count FROM traces ORDER BY trace").fetchall() == [(3,), (2,)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("other", "gpu_count", "sharing"),
    [
        ({}, 1, [2, 2]),
        ({"drm_render_minor": 129}, 2, []),  # another partition
        ({"location_id": 5376}, 2, []),
        ({"domain": 1}, 2, []),
        ({"location_id": 0}, 2, []),  # not recorded
    ],
)
def test_processes_share_a_gpu_at_one_place_of_one_machine(
    other: dict[str, int], gpu_count: int, sharing: list[int], tmp_path: Path
) -> None:
    place = {"domain": 0, "location_id": 29952, "drm_render_minor": 128}
    (agent,) = tool()["agents"]
    second = {"pid": 8, "node": {"hostname": "host0"}}
    both = [tool(agents=[agent | place]), tool(agents=[agent | place | other], metadata=second)]
    file = tmp_path / "a_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": both}))
    with open_run(file, store=tmp_path / "store") as run:
        assert run.sql("SELECT process_count FROM shared_gpus").fetchall() == [(count,) for count in sharing]
    said = CliRunner().invoke(cli, ["info", str(file), "--store", str(tmp_path / "store")]).output
    assert f"{gpu_count} of {gpu_count}{', shared' * bool(sharing)} " in said


@pytest.mark.parametrize("behind", ["", ", null, {}]}", " nothing"])
def test_json_that_is_cut_behind_a_process_says_so(tmp_path: Path, behind: str) -> None:
    file = tmp_path / "a_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [tool()]}).removesuffix("]}") + behind)
    tables = read(file)
    assert not isinstance(tables, str)
    assert len(tables["gpu_ops"]) == 2
    assert ("unreadable-rows", 1) in [(row["defect"], row["defect_count"]) for row in tables["defects"]]


def launches_of_each(file: Path) -> list[int]:
    with open_run(file, store=file.parent / "store", attribution=False) as run:
        query = "SELECT count(launch_id) FROM gpu_ops GROUP BY trace_id ORDER BY trace_id"
        return [count for (count,) in run.sql(query).fetchall()]


@pytest.mark.check
@pytest.mark.parametrize("same_host", [True, False])
def test_clocks_of_two_machines_are_not_aligned_and_it_is_said(tmp_path: Path, same_host: bool) -> None:
    folder, target = tmp_path / "run", tmp_path / "a.tar"
    paths = simulate_job({"device": "MI300X", "ranks": 2, "steps": 3, "kernels": 6, "comm_us": 400}).write_rocpd(folder)
    with closing(sqlite3.connect(paths[1])) as connection:
        (node,) = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name.startswith("rocpd_info_node")
        ]
        connection.execute(f"UPDATE {node} SET hostname = ?", ["host0" if same_host else "other"])
        connection.commit()
    with closing(sqlite3.connect(paths[0])) as connection:
        connection.execute(f"UPDATE {node} SET hostname = 'host0'")
        connection.commit()
    command = ["export", "perfetto", str(folder), "-o", str(target), "--store", str(tmp_path / "store"), "-q"]
    answer = CliRunner().invoke(cli, command)
    assert answer.exit_code == 0, answer.output
    with tarfile.open(target) as archive:
        manifest = json.load(archive.extractfile("perfetto_manifest.json"))  # type: ignore[arg-type]
    name = manifest["perfetto_manifest"]["files"][1]["machine"]["name"]
    assert ("clock cannot be compared" in name) is not same_host
    with open_run(folder, store=tmp_path / "store") as run:
        assert run.sql("SELECT count(*) FROM canonical.defects WHERE defect = 'clock-since-boot'").fetchall() == [(2,)]
        assert run.sql("SELECT DISTINCT session FROM recordings").fetchall() == [(1,)]


@pytest.mark.filterwarnings("error")
def test_bytes_that_are_no_text_cost_their_letters_and_a_short_row_itself(tmp_path: Path) -> None:
    file = tmp_path / "a_kernel_trace.csv"
    rows = ["KERNEL_DISPATCH,Agent 1,1,1,caf\xe9,1,1000,1050", "KERNEL_DISPATCH,Agent 1,\xe9", ""]
    file.write_bytes("\r\n".join(["\ufeff".encode().decode("latin-1") + KERNELS, *rows]).encode("latin-1"))
    tables = read(file)
    assert not isinstance(tables, str)
    assert [op["name"] for op in tables["gpu_ops"]] == ["caf\ufffd"]
    defects = {row["defect"]: row["defect_count"] for row in tables["defects"]}
    assert (defects["invalid-utf8"], defects["unreadable-record"]) == (2, 1)


ALLOCATIONS = "Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,Start_Timestamp,End_Timestamp"


@pytest.mark.parametrize("beside", [True, False])
def test_tables_of_allocations_say_what_was_held_and_where(tmp_path: Path, beside: bool) -> None:
    rows = [
        "MEMORY_ALLOCATION,MEMORY_ALLOCATION_FREE,,0,0x7f10,2,1900,1950",
        "MEMORY_ALLOCATION,MEMORY_ALLOCATION_ALLOCATE,Agent 2,4096,0x0000000000007f10,1,1000,1050",
        "MEMORY_ALLOCATION,MEMORY_ALLOCATION_ALLOCATE,Agent 0,64,0x20,3,1000,1060",
        "MEMORY_ALLOCATION,MEMORY_ALLOCATION_ALLOCATE,Agent 2,64,nowhere,3,1000,1060",
    ]
    file = table(tmp_path / "a_memory_allocation_trace.csv", ALLOCATIONS, *rows)
    table(tmp_path / "a_agent_info.csv", "Node_Id,Agent_Type,Name", "0,CPU,cpu", "1,GPU,gfx942", "2,GPU,gfx942")
    if beside:
        file = table(tmp_path / "a_kernel_trace.csv", KERNELS, "KERNEL_DISPATCH,Agent 1,1,1,gemm,1,1000,1050")
    tables = read(file)
    assert not isinstance(tables, str)
    events = [(row["kind"], row["start_ns"], row["device"], row["size_bytes"]) for row in tables["memory_events"]]
    assert sorted(events) == [("alloc", 1050, 1, 4096), ("alloc", 1060, -1, 64), ("free", 1950, 1, -4096)]
    assert ("unreadable-record", 1) in [(row["defect"], row["defect_count"]) for row in tables["defects"]]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("memory_copy_trace", "Kind,Direction,Source_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp"),
        ("hip_api_trace", "Domain,Function,Correlation_Id,Start_Timestamp,End_Timestamp"),
        ("marker_api_trace", ""),
        ("scratch_memory_trace", None),
    ],
)
def test_a_table_beside_others_that_cannot_be_read_is_one_defect(tmp_path: Path, name: str, head: str | None) -> None:
    table(tmp_path / f"a_{name}.csv", head if head is not None else "Kind,Operation,Agent_Id,Queue_Id")
    tables = read(table(tmp_path / "a_kernel_trace.csv", KERNELS, "KERNEL_DISPATCH,Agent 1,1,1,gemm,1,1000,1050"))
    assert not isinstance(tables, str)
    assert len(tables["gpu_ops"]) == 1
    found = [row["example"] for row in tables["defects"] if row["defect"] == "unreadable-table"]
    assert found == ([] if head is None else [f"a_{name}.csv"])
