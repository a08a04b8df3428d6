"""PyTorch of Moore Threads and Cambricon, whose profilers are forks of Kineto with names of their own.

As written by MooreThreads/kineto (ActivityType.cpp, MuptiActivity.cpp) and Cambricon/torch_mlu (kineto_mlu:
ActivityType.cpp, CnperfActivity.cpp, ApiListCommon.cpp, MluDeviceProperties.cpp), read in 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty_programs import copying_from_pageable_memory, launching_small_kernels, reading_values
from program_findings import diagnosed, lead_of, words
from torch_program import A100, Gpu, TorchProgram
from trace_event_tables import Tables, read

ADD = "at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >"
_MLU_CALLS = {
    "cudaLaunchKernel": "cnInvokeKernel",
    "cudaMemcpyAsync": "cnMemcpyAsync_V3",
    "cudaStreamSynchronize": "cnrtQueueSync",
    "cudaDeviceSynchronize": "cnrtSyncDevice",
    "cudaLaunchKernelExC": "cnInvokeKernelEx",
}
_MLU_CATEGORIES = {"cuda_runtime": "mlu_runtime", "gpu_memcpy": "mlu_memcpy", "ac2g": "async_cpu_to_mlu"}


def on_musa(document: dict[str, Any]) -> dict[str, Any]:
    """Write a trace of CUDA as the profiler of Moore Threads does."""
    for event in document["traceEvents"]:
        event["name"] = (
            re.sub(r"^cuda(?=[A-Z])", "musa", event["name"]).replace("Memcpy ", "Memcpy1 ").replace("nccl", "mccl")
        )
        event["cat"] = event.get("cat", "").replace("cuda_", "musa_")
    document["deviceProperties"][0]["name"] = "MTT S5000"
    return {key: value for key, value in document.items() if not key.startswith("cu")}


def on_mlu(document: dict[str, Any]) -> dict[str, Any]:
    """Write a trace of CUDA as the profiler of Cambricon does."""
    for event in document["traceEvents"]:
        event["name"] = _MLU_CALLS.get(event["name"], event["name"]).replace("nccl", "cncl")
        event["cat"] = _MLU_CATEGORIES.get(event.get("cat", ""), event.get("cat", ""))
        if event["cat"] in ("kernel", "mlu_memcpy"):
            kept = ("device", "context", "stream", "correlation", "External id", "bytes")
            event["args"] = {key: event["args"][key] for key in kept if key in event["args"]}
            event["args"] |= {"tasktopo": 0, "tasktopo node": 0, "is_async": 1}
    document["deviceProperties"] = [{"id": 0, "name": "MLU590-M9", "totalMem(MiB)": 81_920, "clusterCount": 8}]
    return {key: value for key, value in document.items() if not key.startswith("cu")}


FORKS = {"musa": on_musa, "mlu": on_mlu}


PROGRAMS: dict[str, tuple[Callable[[Gpu, str], TorchProgram], str, str]] = {
    "values": (reading_values, "sync-in-step", "value_cpu.copy_(value, non_blocking=True)"),
    "batches": (copying_from_pageable_memory, "h2d-pageable", 'batch.to("{}", non_blocking=True)'),
    "small kernels": (launching_small_kernels, "launch-bound", "torch.compile"),
}


@pytest.mark.check
@pytest.mark.parametrize("fork", FORKS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_lead_is_that_of_the_same_program_on_cuda_in_the_words_of_its_device(
    fork: str, name: str, tmp_path: Path
) -> None:
    program, rule, says = PROGRAMS[name]
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(FORKS[fork](program(A100, ADD).document())))
    leading = lead_of(diagnosed(trace))
    plain = tmp_path / "cuda" / "trace.json"
    on_cuda = lead_of(diagnosed(program(A100, ADD).write(plain)))
    assert (leading.rule, on_cuda.rule) == (rule, rule)
    assert says.format(fork) in words(leading)
    assert not re.search(r"torch\.cuda|\"cuda|nsys|nvidia", words(leading))
    if fork == "musa":  # Cambricon's copies do not say what memory they are of
        assert leading.saving_share == pytest.approx(on_cuda.saving_share, abs=0.001)


def tables_of(fork: str) -> Tables:
    program = TorchProgram(A100)
    program.run("aten::add", ADD, 4)
    program.copy("HtoD", 1_000, 10)
    program.synchronize()
    document = FORKS[fork](program.document())
    return read(json.dumps(document))


@pytest.mark.parametrize("fork", FORKS)
def test_work_and_calls_are_those_of_the_device(fork: str) -> None:
    tables = tables_of(fork)
    assert [(op["kind"], op["copy_kind"], op["size_bytes"], op["graph_id"]) for op in tables["gpu_ops"]] == [
        ("kernel", None, None, None),
        ("memcpy", "HtoD", 1_000, None),
    ]
    assert all(op["launch_id"] is not None for op in tables["gpu_ops"])
    calls = [row["name"] for row in tables["host_slices"] if row["category"] == "runtime"]
    assert len(calls) == 3 and not [name for name in calls if name.startswith("cuda")]
    (trace,) = tables["traces"]
    assert trace["vendor"] == {"musa": "moore_threads", "mlu": "cambricon"}[fork]


# Where the first words of calls stand: one macro, what attribution reads them by, and lists of other calls.
OF_ALL_VENDORS = {
    "macros/calls_to.sql",
    "attribution/host/blocking_calls.py",
    "attribution/host/host_states.py",
    "ingest/trace_events/host_order.py",
    "rules/trace_quality/tq-empty-profile.yaml",
    "rules/trace_quality/tq-missing-gpu-activity.yaml",
}
# Recordings of XLA are of NVIDIA's and AMD's devices alone; the others are no calls.
OF_TWO_VENDORS = {
    "ingest/xla/naming.py (?:cuda|hip)",
    "exports/replay.py (cuda|hip|cpu|xpu)",
    "ingest/trace_events/sql/macros.sql (hip|cuda)",
    "ingest/unread_formats.py (gpu|cuda|hip|npu)",
}
PREFIXES = re.compile(r"\([?:]*(?=[\w|]*\bcuda\b)(?=[\w|]*\bhip\b)[\w|]+\)")


def test_whatever_reads_names_of_calls_knows_the_same_vendors(root: Path) -> None:
    sources = [path for folder in ("traceanalyzer", "rules") for path in (root / folder).rglob("*.*")]
    found = {
        f"{path.relative_to(root).as_posix().removeprefix('traceanalyzer/')} {prefixes}"
        for path in sources
        if path.suffix in (".py", ".sql", ".yaml")
        for prefixes in PREFIXES.findall(path.read_text(encoding="utf-8"))
    }
    assert {seen for seen in found if "musa" not in seen} == OF_TWO_VENDORS
    assert {seen.partition(" ")[0] for seen in found - OF_TWO_VENDORS} == OF_ALL_VENDORS


@pytest.mark.parametrize(
    ("category", "call", "blocks"),
    [
        ("cuda_runtime", "hipExtModuleLaunchKernel", (2, 4, 1)),
        ("cuda_runtime", "hipLaunchKernel", (511, 4, 1)),
        ("hip_api", "hipExtModuleLaunchKernel", (511, 4, 1)),  # rocprofv3, whose reader counts blocks
    ],
)
def test_grids_that_kineto_writes_in_threads_are_in_blocks(category: str, call: str, blocks: tuple[int, ...]) -> None:
    """hipExtModuleLaunchKernel takes its grid in threads; Kineto (PyTorch 2.0 to 2.9 for ROCm) writes it as it is."""
    shared = {"ph": "X", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
    launch = {**shared, "cat": category, "name": call, "args": {"correlation": 7}}
    args = {"device": 0, "stream": 0, "correlation": 7, "grid": [511, 4, 1], "block": [256, 1, 1]}
    kernel = {**shared, "cat": "kernel", "name": "Cijk", "pid": 0, "ts": 20, "args": args}
    (op,) = read(json.dumps({"schemaVersion": 1, "traceEvents": [launch, kernel]}))["gpu_ops"]
    assert (op["grid_x"], op["grid_y"], op["grid_z"]) == blocks
    assert (op["block_x"], op["launch_id"] is not None) == (256, True)
