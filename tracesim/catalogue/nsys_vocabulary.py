"""The numbers and spellings that Nsight Systems exports, by version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NsysSchema = Literal["2024.5", "2026.2"]
GraphMode = Literal["node", "graph"]

# CUPTI's mark for 'no stream' and 'no event'.
NONE = 0xFFFF_FFFF
COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "PtoP": 10}
MEMORY_KINDS = {"pageable": 0, "pinned": 1, "device": 2}
MIGRATION_KINDS = {"HtoD": 11, "DtoH": 12}
MIGRATION_CAUSES = {"user prefetch": 1, "page fault": 2, "speculative prefetch": 3}
UNKNOWN_MEMORY = 7
PUSH_POP, RUNTIME_CLASS, OSRT_CLASS, OVERHEAD_CLASS = 59, 0, 27, 103
WARNING = 2
# The runtime's entry points carry the version in which their signature last changed.
_API_VERSIONS = {
    "cudaLaunchKernel": 7000,
    "cudaLaunchKernelExC": 11060,
    "cudaGraphLaunch": 10000,
    "cudaHostAlloc": 3020,
    "cudaMemPrefetchAsync": 8000,
    "cudaStreamBeginCapture": 10000,
    "cudaStreamEndCapture": 10000,
    "cudaGraphInstantiateWithFlags": 11040,
}
_DEFAULT_API_VERSION = 3020
# Overheads that CUPTI reports about the driver; the profiler's own go to another table under other names.
DRIVER_OVERHEADS = {"Runtime Triggered Module Loading": 6, "Lazy Function Loading": 7, "Command Buffer Full": 8}
PROFILER_OVERHEADS = {
    "Buffer Flush": ("CUPTI Buffer flush", 3),
    "Instrumentation": ("CUPTI Instrumentation", 4),
    "Resource": ("CUPTI Resource Management", 5),
}
ENUMS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "ENUM_CUDA_MEMCPY_OPER": (
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        (12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
    ),
    "ENUM_CUDA_MEM_KIND": (
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        (7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    ),
    "ENUM_CUPTI_SYNC_TYPE": (
        (1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        (2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        (3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        (4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    ),
}


@dataclass(frozen=True)
class Version:
    """One exporter: what it calls itself, how it numbers synchronisations, and the columns it did not have yet."""

    product: str
    schema: str
    sync_types: dict[str, int]
    unknown_columns: Mapping[str, frozenset[str]]  # by table


def _columns(names: str) -> frozenset[str]:
    return frozenset(names.split())


VERSIONS: dict[NsysSchema, Version] = {
    "2026.2": Version("2026.2.1.210", "3.25.0", {"event": 1, "stream_wait": 2, "stream": 3, "device": 4}, {}),
    # Whatever its own enumeration says, this is what it wrote.
    "2024.5": Version(
        "2024.5.1.113",
        "3.13.2",
        {"device": 1, "event": 2, "stream": 3, "stream_wait": 3},
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": _columns(
                "graphId qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone clusterX clusterY clusterZ "
                "clusterSchedulingPolicy maxPotentialClusterSize maxActiveClusters sharedMemoryRequestedPercentage "
                "tensorSizeMinusOneElements"
            ),
            "CUPTI_ACTIVITY_KIND_MEMCPY": _columns("copyCount"),
            "CUPTI_ACTIVITY_KIND_MEMSET": _columns("greenContextId"),
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": _columns("deprecatedSyncType eventSyncId"),
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT": _columns("timestamp greenContextId eventSyncId"),
            "NVTX_EVENTS": _columns("binaryData"),
            "OSRT_API": _columns("argumentsId"),
            "TARGET_INFO_SESSION_START_TIME": _columns("systemClockNs"),
        },
    ),
}


def api_name(name: str) -> str:
    """Return a runtime call's name as nsys writes it: `cudaLaunchKernel_v7000`."""
    return f"{name}_v{_API_VERSIONS.get(name, _DEFAULT_API_VERSION)}"
