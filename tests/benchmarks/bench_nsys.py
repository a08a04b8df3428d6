"""Time the ingest of a large Nsight Systems export against Python's sqlite3 reading the same columns alone.

    python tests/benchmarks/bench_nsys.py [KERNEL_ROWS] [FOLDER]

The export holds so many kernels (3,000,000), each with its launching call, and a range around every tenth. Ingest
reads, nests, links and writes Parquet; the reading alone only fetches rows. Each is measured in a process of its own.
"""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.nsys import NsysIngester
from traceanalyzer.ingest.nsys.source import SqliteSource

_GLOBAL_PID = 281477392629760
_KERNEL_NAMES = 400
_KERNEL_COLUMNS = (
    "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName "
    "launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory "
    "dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId "
    "sharedMemoryLimitConfig qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY clusterZ "
    "clusterSchedulingPolicy maxPotentialClusterSize maxActiveClusters sharedMemoryRequestedPercentage"
)
_KERNELS = f"""
WITH RECURSIVE row (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM row WHERE i < ? - 1)
SELECT
    1000000000 + i * 10000, 1000007000 + i * 10000 + i * 7919 % 2500, 0, 1, 0, 7, i * 3 + 1000, {_GLOBAL_PID},
    1 + i % 399, 1 + i % 399, 1 + i % 399, 1, 0, 32 + i % 64, i * 31 % 4096 + 1, 1, 1, 128, 1, 1, 0, i % 4 * 1024, 0,
    61341696, i, 32768, NULL, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL
FROM row
"""
_CALLS = f"""
WITH RECURSIVE row (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM row WHERE i < ? - 1)
SELECT 999950000 + i * 10000, 999954000 + i * 10000 + i * 31 % 2000, 0, {_GLOBAL_PID + 144}, i * 3 + 1000, 0, 0, NULL
FROM row
"""
_RANGES = f"""
WITH RECURSIVE row (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM row WHERE i < ? / 10 - 1)
SELECT
    999949000 + i * 100000, 1000040000 + i * 100000, 59, 'aten::linear, seq = ' || i || ', op_id = ' || i,
    {_GLOBAL_PID + 144}, NULL, 0
FROM row
"""


def write_export(path: Path, kernel_count: int) -> None:
    """Write the export."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        columns = ", ".join(f"{column} INTEGER" for column in _KERNEL_COLUMNS.split())
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
        connection.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, "
            "globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER)"
        )
        connection.execute(
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, "
            "textId INTEGER, domainId INTEGER)"
        )
        names = [
            f"void at::native::vectorized_elementwise_kernel<{i}, at::native::Functor<float>>(int)" for i in range(400)
        ]
        connection.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", [(0, "cudaLaunchKernel_v7000"), *enumerate(names, 1)]
        )
        for table, query in (("KERNEL", _KERNELS), ("RUNTIME", _CALLS)):
            connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} {query}", (kernel_count,))
        connection.execute(f"INSERT INTO NVTX_EVENTS {_RANGES}", (kernel_count,))
        connection.commit()


def read_alone(path: Path) -> None:
    """Fetch the columns that ingest reads, and do nothing with them."""
    source = SqliteSource(path)
    with closing(sqlite3.connect(path)) as connection:
        for layout in source.layouts.values():
            columns = ", ".join(f'"{column}"' for column in layout.stored.values())
            cursor = connection.execute(f'SELECT {columns} FROM "{layout.stored_name}"')
            while cursor.fetchmany(16_384):
                pass
    source.close()


def ingest(path: Path) -> None:
    """Ingest the export into a folder beside it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        NsysIngester().ingest(path, Path(folder), IngestOptions(jobs=2))


def _measure(what: str, path: Path) -> tuple[float, float, float]:
    """Run one of the two in a process of its own; return seconds, CPU seconds and peak memory in MB."""
    done = subprocess.run([sys.executable, __file__, what, str(path)], check=True, capture_output=True, text=True)
    seconds, cpu_seconds, peak = (float(number) for number in done.stdout.split())
    return seconds, cpu_seconds, peak


def main(kernel_count: int, folder: Path) -> None:
    """Print the table."""
    path = folder / f"bench_{kernel_count}.sqlite"
    if not path.exists():
        write_export(path, kernel_count)
    lines = [f"{kernel_count:,} kernels, {path.stat().st_size / 1e6:,.0f} MB"]
    measured = {what: min(_measure(what, path) for _ in range(3)) for what in ("read_alone", "ingest")}
    for what, (seconds, cpu_seconds, peak) in measured.items():
        rate = kernel_count / seconds / 1e6
        lines.append(
            f"{what:12} {seconds:7.2f} s  {cpu_seconds:7.2f} s CPU  {peak:6.0f} MB peak  {rate:5.2f} M kernels/s"
        )
    lines.append(f"ingest / reading alone: {measured['ingest'][0] / measured['read_alone'][0]:.2f}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] in (["read_alone"], ["ingest"]):
        began = time.perf_counter()
        {"read_alone": read_alone, "ingest": ingest}[sys.argv[1]](Path(sys.argv[2]))
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_SELF)
        sys.stdout.write(f"{seconds} {used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}\n")
    else:
        where = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.gettempdir())
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000, where)
