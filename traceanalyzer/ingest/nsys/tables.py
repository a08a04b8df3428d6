"""The tables and columns of an export that are read, and their spellings in each schema version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

_ARROW_TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "real": pa.float64(),
    "text": pa.string(),
    "blob": pa.binary(),
}
# Texts of more bytes than tools write: names are many, and their longest is that of a trace's other formats.
_LONGEST_NAME, _LONGEST = 2**16, 2**20
_VERSIONED = re.compile(r"^(?P<name>.+?)(?:_V(?P<version>\d{1,4}))?$")


@dataclass(frozen=True)
class ColumnSpec:
    """One column that is read: its type, its other spellings, and whether rows need it."""

    name: str
    type: str = "int"
    aliases: tuple[str, ...] = ()
    required: bool = False
    missed: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        """Return the type in which the column reaches the mapping, whatever the file stores."""
        return _ARROW_TYPES[self.type]


@dataclass(frozen=True)
class NsysTable:
    """One table that is read: its name in the mapping's SQL, in the export, and older names of it."""

    relation: str
    name: str
    columns: tuple[ColumnSpec, ...]
    aliases: tuple[str, ...] = ()

    @property
    def longest(self) -> int:
        """Return how many bytes of a text or a blob are read."""
        return _LONGEST_NAME if self.relation == "string_ids" else _LONGEST

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns the mapping sees: the row's id in the trace, then every column, present or not."""
        return pa.schema([pa.field("event_id", pa.int64()), *(pa.field(c.name, c.arrow_type) for c in self.columns)])


@dataclass(frozen=True)
class TableLayout:
    """The layout of one table of an export: the columns that it has (ours → theirs) and those that it lacks."""

    table: NsysTable
    stored_name: str
    stored: Mapping[str, str]

    @property
    def absent(self) -> tuple[str, ...]:
        """Return the columns that the export lacks and that are read as NULL."""
        return tuple(column.name for column in self.table.columns if column.name not in self.stored)

    @property
    def missed(self) -> tuple[str, ...]:
        """Return the columns that the export lacks and that an analysis would miss."""
        return tuple(column.name for column in self.table.columns if column.missed and column.name not in self.stored)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Return the required columns that the export lacks."""
        return tuple(column.name for column in self.table.columns if column.required and column.name not in self.stored)


def table_of(relation: str, name: str, columns: str, *aliases: str) -> NsysTable:
    """Build a table from 'name name! name* name:text now|then': ! is required, * is missed, | separates spellings."""
    parsed = []
    for word in columns.split():
        spellings, _, kind = word.rstrip("!*").partition(":")
        name_now, *older = spellings.split("|")
        parsed.append(ColumnSpec(name_now, kind or "int", tuple(older), word.endswith("!"), word.endswith("*")))
    return NsysTable(relation, name, tuple(parsed), aliases)


_CUPTI = "CUPTI_ACTIVITY_KIND_"
_WHERE = "deviceId* contextId streamId* correlationId* globalPid*"
_MPI = "start! end! globalTid textId|nameId commHandle"

# The order gives every row its id: rows are numbered through the tables in this order.
TABLES = (
    table_of("string_ids", "StringIds", "id! value:text!"),
    table_of(
        "kernel",
        _CUPTI + "KERNEL",
        f"start! end! {_WHERE} demangledName* shortName graphNodeId graphId registersPerThread gridX gridY gridZ "
        "blockX blockY blockZ staticSharedMemory dynamicSharedMemory launchType localMemoryPerThread "
        "greenContextId clusterX clusterY clusterZ",
        _CUPTI + "CONCURRENT_KERNEL",
    ),
    table_of(
        "memcpy",
        _CUPTI + "MEMCPY",
        f"start! end! {_WHERE} bytes* copyKind* srcKind* dstKind* graphNodeId migrationCause",
    ),
    table_of("memset", _CUPTI + "MEMSET", f"start! end! {_WHERE} bytes value memKind graphNodeId"),
    table_of("graph_trace", _CUPTI + "GRAPH_TRACE", f"start! end! {_WHERE} graphId graphExecId"),
    # Before the calls: of a range and a call of the same times the range is the outer one.
    table_of(
        "nvtx",
        "NVTX_EVENTS",
        "start! end eventType rangeId category text:text globalTid endGlobalTid textId domainId uint64Value "
        "int64Value doubleValue:real uint32Value int32Value floatValue:real jsonTextId jsonText:text "
        "binaryData:blob",
    ),
    table_of("runtime", _CUPTI + "RUNTIME", "start! end! eventClass globalTid* correlationId* nameId* returnValue"),
    table_of("sync", _CUPTI + "SYNCHRONIZATION", f"start! end! {_WHERE} syncType eventId eventSyncId"),
    table_of("cuda_event", _CUPTI + "CUDA_EVENT", f"{_WHERE} eventId eventSyncId"),
    table_of("cuda_stream", "TARGET_INFO_CUDA_STREAM", "processId contextId streamId flag"),
    table_of("overhead", _CUPTI + "OVERHEAD", "start! end! globalTid correlationId nameId overheadType"),
    table_of("profiler_overhead", "PROFILER_OVERHEAD", "start! end! globalTid nameId overheadType|returnValue"),
    table_of("osrt", "OSRT_API", "start! end! eventClass globalTid nameId returnValue nestingLevel"),
    table_of("syscall", "SYSCALL", "start! end! globalTid nameId returnValue", "SYSCALL_API"),
    table_of("sched", "SCHED_EVENTS", "start! cpu isSchedIn globalTid threadState threadBlock"),
    table_of("mpi_p2p", "MPI_P2P_EVENTS", f"{_MPI} tag remoteRank size requestHandle"),
    table_of("mpi_collective", "MPI_COLLECTIVES_EVENTS", f"{_MPI} rootRank size recvSize"),
    table_of("mpi_wait", "MPI_START_WAIT_EVENTS", "start! end! globalTid textId|nameId requestHandle"),
    table_of("mpi_other", "MPI_OTHER_EVENTS", "start! end! globalTid textId|nameId"),
    table_of("cudnn", "CUDNN_EVENTS", "start! end! globalTid nameId"),
    table_of("cublas", "CUBLAS_EVENTS", "start! end! globalTid nameId"),
    table_of("graph_event", "CUDA_GRAPH_EVENTS", "start! end! globalTid nameId graphId graphExecId"),
    table_of("graph_node_event", "CUDA_GRAPH_NODE_EVENTS", "start! end! globalTid nameId graphNodeId"),
    table_of("openacc_data", _CUPTI + "OPENACC_DATA", "start! end! globalTid nameId"),
    table_of("openacc_launch", _CUPTI + "OPENACC_LAUNCH", "start! end! globalTid nameId"),
    table_of("openacc_other", _CUPTI + "OPENACC_OTHER", "start! end! globalTid nameId"),
    table_of(
        "memory_usage",
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "start! globalPid deviceId address bytes memKind memoryOperationType name|nameId correlationId",
    ),
    table_of("cpu_page_fault", "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "start! globalPid address CpuInstruction"),
    table_of(
        "gpu_page_fault", "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "start! end! globalPid deviceId address numberOfPageFaults"
    ),
    table_of("gpu_metric", "GPU_METRICS", "timestamp|rawTimestamp! typeId metricId! value:real!"),
    table_of("gpu_metric_name", "TARGET_INFO_GPU_METRICS", "typeId metricId! typeName:text metricName:text!"),
    table_of("nic_metric", "NET_NIC_METRIC", "start! end globalId portNumber metricsListId metricsIdx! value:real!"),
    table_of("ib_switch_metric", "NET_IB_SWITCH_METRIC", "start! globalId metricsListId metricsIdx! value:real!"),
    table_of("eth_switch_metric", "NET_ETH_SWITCH_METRIC", "start! globalId metricsListId metricsIdx! value:real!"),
    table_of("net_metric_name", "TARGET_INFO_NETWORK_METRICS", "metricsListId metricsIdx! name:text!"),
    table_of("mpi_rank", "MPI_RANKS", "globalTid! rank!"),
    table_of("diagnostic", "DIAGNOSTIC_EVENT", "timestamp source severity text:text! globalPid"),
    table_of("process", "PROCESSES", "globalPid! pid name:text"),
    table_of("thread_name", "ThreadNames", "globalTid! nameId!"),
    table_of(
        "gpu",
        "TARGET_INFO_GPU",
        "id|deviceId! name:text cuDevice totalMemory smCount computeMajor computeMinor "
        "threadsPerWarp maxWarpsPerSm busLocation:text isDiscrete uuid:text",
    ),
    table_of("cuda_device", "TARGET_INFO_CUDA_DEVICE", "gpuId! cudaId! pid! uuid:text"),
    table_of(
        "cuda_context", "TARGET_INFO_CUDA_CONTEXT_INFO", "processId contextId deviceId", "TARGET_INFO_CUDA_NULL_STREAM"
    ),
    table_of("session", "TARGET_INFO_SESSION_START_TIME", "utcEpochNs!"),
    table_of("capture_span", "ANALYSIS_DETAILS", "duration startTime stopTime"),
    table_of("system_env", "TARGET_INFO_SYSTEM_ENV", "name:text! value:text devStateName:text"),
    table_of("capture_option", "META_DATA_CAPTURE", "name:text! value:text"),
    table_of("export_fact", "META_DATA_EXPORT", "name:text! value:text", "EXPORT_META_DATA"),
    table_of("payload_entry", "NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId schemaId! idx type name:text offset"),
    table_of("process_stream", "ProcessStreams", "globalPid filenameId! contentId!"),
    # Not named `start`, because samples do not count as events.
    table_of("cpu_sample", "COMPOSITE_EVENTS", "id! taken|start! globalTid"),
    table_of("sample_frame", "SAMPLING_CALLCHAINS", "id! symbol! module stackDepth! kernelMode"),
)

BY_RELATION = {table.relation: table for table in TABLES}
_BY_NAME = {name: table for table in TABLES for name in (table.name, *table.aliases)}

GPU_RELATIONS = ("kernel", "memcpy", "memset", "graph_trace")


def lay_out(stored_columns: Mapping[str, list[str]], row_counts: Mapping[str, int]) -> dict[str, TableLayout]:
    """Match an export's tables (name → columns) with ours, by relation; a table with rows wins over an empty one.

    Names are matched without a `_V2` suffix; of several versions of a table the newest with rows is read.
    """
    found: dict[str, tuple[tuple[bool, int], TableLayout]] = {}
    for stored_name, columns in stored_columns.items():
        match = _VERSIONED.match(stored_name)
        table = _BY_NAME.get(stored_name) or (_BY_NAME.get(match["name"]) if match else None)
        if table is None:
            continue
        version = int(match["version"] or 1) if match and stored_name not in _BY_NAME else 1
        rank = (row_counts.get(stored_name, 0) > 0, version)
        layout = TableLayout(table, stored_name, match_columns(table, columns))
        if table.relation not in found or rank > found[table.relation][0]:
            found[table.relation] = (rank, layout)
    return {table.relation: found[table.relation][1] for table in TABLES if table.relation in found}


def match_columns(table: NsysTable, columns: list[str]) -> dict[str, str]:
    """Pair our columns with theirs; SQLite names are case-insensitive, and users add columns of their own."""
    of_export = {column.lower(): column for column in reversed(columns)}
    stored = {}
    for column in table.columns:
        for spelling in (column.name, *column.aliases):
            if spelling.lower() in of_export:
                stored[column.name] = of_export[spelling.lower()]
                break
    return stored
