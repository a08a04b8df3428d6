"""CSV tables of rocprof 1 and 2 and of ROCm Compute Profiler: kernels, with a column for each counter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_amd_bad_input import read
from test_amd_processes import table

from traceanalyzer.discovery import find_run
from traceanalyzer.errors import TraceAnalyzerError

ROCPROF1 = (
    '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr","accum_vgpr",'
    '"sgpr","wave_size","sig","obj"'
)
TIMES1 = '"DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"'
ROCPROF2 = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES,GPUBusy"
)
COMPUTE = (
    "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,"
    "Wave_Size,Kernel_Name,Correlation_ID,Kernel_ID,SQ_WAVES,Kernel_ID_1,GPUBusy,Start_Timestamp,End_Timestamp"
)
ROWS = {
    "rocprof 1": (
        f"{ROCPROF1},{TIMES1}",
        '0,"k(float*, int) [clone .kd]",1,4,0,7,9,1024,256,512,0,24,4,16,64,"0x0","0x7f",900,1000,1070,1090,70',
    ),
    "rocprof 2": (ROCPROF2, '1,1,4,7,9,1024,256,512,0,24,4,16,64,"k(float*, int) (.kd)",1000,1070,7,16.0,99.5'),
    "ROCm Compute Profiler": (COMPUTE, '0,1,1024,256,512,0,24,4,16,64,"k(float*, int)",0,3,16,3,99.5,1000,1070'),
}


def tables_of(file: Path) -> dict[str, Any]:
    tables = read(file)
    assert not isinstance(tables, str), tables
    return tables


@pytest.mark.parametrize("recorder", ROWS)
def test_kernels_of_earlier_recorders_are_read(recorder: str, tmp_path: Path) -> None:
    tables = tables_of(table(tmp_path / "results.csv", *ROWS[recorder]))
    (kernel,) = tables["gpu_ops"]
    assert kernel["name"].startswith("k(float*, int)")
    assert [kernel[key] for key in ("device", "start_ns", "dur_ns")] == [1, 1000, 70]
    # Both are products of their sides.
    assert [kernel[f"{side}_{axis}"] for side in ("grid", "block") for axis in "xyz"] == [4, 1, 1, 256, 1, 1]
    assert [kernel[key] for key in ("registers_per_thread", "shared_memory_bytes")] == [24, 512]
    counted = [(row["name"], row["value"], row["start_ns"]) for row in tables["counters"]]
    has_counters = recorder != "rocprof 1"
    assert sorted(counted) == ([("GPUBusy", 99.5, 1000), ("SQ_WAVES", 16.0, 1000)] if has_counters else [])
    assert {row["defect"] for row in tables["defects"]} == {"clock-since-boot"} | (
        {"serialised-by-counters"} if has_counters else set()
    )


def test_the_first_versions_of_rocprofv3_name_segments(tmp_path: Path) -> None:
    head = "Kind,Agent_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Private_Segment_Size,Group_Segment_Size"
    tables = tables_of(table(tmp_path / "7_kernel_trace.csv", head, "KERNEL_DISPATCH,1,k,1000,1070,32,4096"))
    assert [kernel["shared_memory_bytes"] for kernel in tables["gpu_ops"]] == [4096]


def test_kernels_of_rocprof_1_count_once_beside_its_json(tmp_path: Path) -> None:
    results = table(tmp_path / "results.csv", *ROWS["rocprof 1"])
    (tmp_path / "results.json").write_text('{"traceEvents": [{}]}')
    assert [source.name for source, _ in find_run([tmp_path]).sources] == ["results.json"]
    with pytest.raises(TraceAnalyzerError, match="the JSON of rocprof beside it"):
        find_run([results])


@pytest.mark.parametrize("head", [f"{ROCPROF1},SQ_WAVES", ROCPROF2.replace("Start_Timestamp,End_Timestamp,", "")])
def test_counters_without_times_say_so(head: str, tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="a table of counters without times"):
        find_run([table(tmp_path / "results.csv", head)])
