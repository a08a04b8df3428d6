"""Small Nsight Systems exports, written row by row: columns are what the rows name, as in the schema version meant."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.nsys import NsysIngester

Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, Rows]

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

NAMES = (
    "cudaLaunchKernel_v7000",
    "gemm_kernel",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "cudaMemcpyAsync_v3020",
    "cudaDeviceSynchronize_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaEventSynchronize_v3020",
    "cudaStreamWaitEvent_v3020",
    "cudaEventQuery_v3020",
    "cudaEventRecord_v3020",
    "cudaGraphLaunch_v10000",
    "forward",
    "nanosleep",
    "MPI_Allreduce",
    "main",
)


def global_pid(pid: int) -> int:
    """Return a process as nsys numbers it: hardware, virtual machine, process."""
    return 1 << 48 | pid << 24


def global_tid(pid: int, tid: int | None = None) -> int:
    """Return a thread as nsys numbers it; the main thread without `tid`."""
    return global_pid(pid) | (pid if tid is None else tid)


def name_id(name: str) -> int:
    """Return the id of one of NAMES."""
    return NAMES.index(name) + 1


STRINGS: Rows = [{"id": place + 1, "value": name} for place, name in enumerate(NAMES)]


def kernel(start: int, end: int, correlation: int, *, pid: int = 10, **more: Any) -> dict[str, Any]:
    """Return a kernel row."""
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": global_pid(pid),
        "demangledName": name_id("gemm_kernel"),
        "graphNodeId": None,
    } | more


def call(
    start: int, end: int, correlation: int, name: str = "cudaLaunchKernel_v7000", *, pid: int = 10, **more: Any
) -> dict[str, Any]:
    """Return an API row."""
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": global_tid(pid),
        "correlationId": correlation,
        "nameId": name_id(name),
        "returnValue": 0,
    } | more


def launched(count: int = 2, *, pid: int = 10) -> dict[str, Rows]:
    """Return a program that launches some kernels."""
    return {
        "StringIds": STRINGS,
        KERNEL: [kernel(1000 * i + 500, 1000 * i + 900, i + 1, pid=pid) for i in range(count)],
        RUNTIME: [call(1000 * i + 100, 1000 * i + 200, i + 1, pid=pid) for i in range(count)],
    }


def nvtx(start: int, end: int | None, text: str | None = None, *, pid: int = 10, **more: Any) -> dict[str, Any]:
    """Return a push/pop range."""
    return {
        "start": start,
        "end": end,
        "eventType": 59,
        "text": text,
        "globalTid": global_tid(pid),
        "endGlobalTid": None,
        "textId": None,
        "domainId": 0,
    } | more


def write_sqlite(path: Path, tables: Tables, statements: Sequence[str] = ()) -> Path:
    """Write an export; every column of a table is taken from its first row, values keep their type."""
    with closing(sqlite3.connect(path)) as connection:
        for name, rows in tables.items():
            columns = ", ".join(f'"{column}"' for column in rows[0])
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', [tuple(row.values()) for row in rows])
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def write_parquet_folder(folder: Path, tables: Tables) -> Path:
    """Write the same as `nsys export --type parquetdir`."""
    folder.mkdir()
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), folder / f"{name}.parquet")
    return folder


class Ingested:
    """The canonical tables of an ingested file, by trace."""

    def __init__(self, path: Path, folder: Path) -> None:
        NsysIngester().ingest(path, folder, IngestOptions())
        self.names = sorted(trace.parent.name for trace in folder.glob("*/traces.parquet"))
        self._folder = folder

    def rows(self, table: str, trace: str | None = None) -> list[dict[str, Any]]:
        """Return a table's rows, of one trace or of the only one."""
        if trace is None:
            (trace,) = self.names
        files = sorted((self._folder / trace).glob(f"{table}.parquet")) + sorted(
            (self._folder / trace).glob(f"{table}-*.parquet")
        )
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]

    def column(self, table: str, column: str, trace: str | None = None) -> list[Any]:
        """Return one column."""
        return [row[column] for row in self.rows(table, trace)]

    def defects(self, trace: str | None = None) -> dict[str, int]:
        """Return how often each defect was met, notes left out."""
        return {row["defect"]: row["defect_count"] for row in self.rows("defects", trace) if row["severity"] != "note"}

    def notes(self, trace: str | None = None) -> dict[str, str | None]:
        """Return the notes with their examples."""
        return {row["defect"]: row["example"] for row in self.rows("defects", trace) if row["severity"] == "note"}


def ingest(tmp_path: Path, tables: Tables, statements: Sequence[str] = ()) -> Ingested:
    """Write an export and ingest it."""
    return Ingested(write_sqlite(tmp_path / "report.sqlite", tables, statements), tmp_path / "store")
