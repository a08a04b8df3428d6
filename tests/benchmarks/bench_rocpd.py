"""Time the ingest of a large database of rocprofv3 against that of an Nsight Systems export with as many kernels.

    python tests/benchmarks/bench_rocpd.py [KERNEL_ROWS] [FOLDER]

Both hold so many kernels (1,000,000), each with its launching call, and a range around every tenth. The bar is as many
CPU seconds as the export takes, in the same run. Each is measured in a process of its own.
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

from bench_nsys import ingest as ingest_export
from bench_nsys import write_export

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.amd import AmdIngester
from tracesim import simulate

_ROUNDS = 2
_SUFFIX = "_0000cffb_c705_7dba_a6bc_8787feeb5e5b"
_CALL, _KERNEL, _RANGE = 901, 902, 903
_ROWS = "WITH RECURSIVE row (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM row WHERE i < {count} - 1)"
# A call and its kernel follow each other, as events are numbered when they end.
_STATEMENTS = (
    f"""INSERT INTO rocpd_event{{s}} (id, category_id, stack_id, extdata)
        SELECT 1 + 2 * i, {_CALL}, i + 1, '{{{{}}}}' FROM row""",
    f"""INSERT INTO rocpd_event{{s}} (id, category_id, stack_id, extdata)
        SELECT 2 + 2 * i, {_KERNEL}, i + 1, '{{{{}}}}' FROM row""",
    """INSERT INTO rocpd_region{s} (nid, pid, tid, start, "end", name_id, event_id)
        SELECT 1, 7, 7, 999950000 + i * 10000, 999954000 + i * 10000 + i * 31 % 2000, 904, 1 + 2 * i FROM row""",
    """INSERT INTO rocpd_kernel_dispatch{s} (nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id,
        start, "end", private_segment_size, group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z,
        grid_size_x, grid_size_y, grid_size_z, event_id)
        SELECT 1, 7, 7, 2, 1000 + i % 399, i, 1, 1, 1000000000 + i * 10000, 1000007000 + i * 10000 + i * 7919 % 2500,
        0, i % 4 * 1024, 128, 1, 1, (i * 31 % 4096 + 1) * 128, 1, 1, 2 + 2 * i FROM row""",
)
_RANGES = (
    f"""INSERT INTO rocpd_event{{s}} (id, category_id, stack_id, extdata) SELECT {{first}} + i, {_RANGE}, {{first}} + i,
        '{{{{"message": "aten::linear, seq = ' || i || ', op_id = ' || i || '"}}}}' FROM row""",
    """INSERT INTO rocpd_region{s} (nid, pid, tid, start, "end", name_id, event_id)
        SELECT 1, 7, 7, 999949000 + i * 100000, 1000040000 + i * 100000, 905, {first} + i FROM row""",
)


def write_database(path: Path, kernel_count: int) -> None:
    """Write the database, with the tables and the agents of a simulated one."""
    simulate({"device": "MI300X", "steps": 1, "kernels": 1}).write_rocpd(path)
    texts = {_CALL: "HIP_RUNTIME_API_EXT", _KERNEL: "KERNEL_DISPATCH", _RANGE: "MARKER_CORE_RANGE_API"}
    texts |= {904: "hipLaunchKernel", 905: "roctxThreadRangeA"}
    names = [
        f"void at::native::vectorized_elementwise_kernel<{i}, at::native::Functor<float>>(int)" for i in range(399)
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for kind in ("event", "region", "kernel_dispatch", "memory_copy"):
            connection.execute(f"DELETE FROM rocpd_{kind}{_SUFFIX}")
        connection.executemany(f"INSERT INTO rocpd_string{_SUFFIX} (id, string) VALUES (?, ?)", texts.items())
        symbols = f"INSERT INTO rocpd_info_kernel_symbol{_SUFFIX} (id, display_name, arch_vgpr_count) VALUES (?, ?, 32)"
        connection.executemany(symbols, enumerate(names, 1000))
        for count, statements in ((kernel_count, _STATEMENTS), (kernel_count // 10, _RANGES)):
            for statement in statements:
                text = statement.format(s=_SUFFIX, first=2 * kernel_count + 1)
                into, _, select = text.partition("SELECT")
                connection.execute(f"{into}{_ROWS.format(count=count)} SELECT{select}")
        connection.commit()


def ingest_database(path: Path) -> None:
    """Ingest the database into a folder beside it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        AmdIngester().ingest(path, Path(folder), IngestOptions(jobs=2))


_MEASURED = {"export": ingest_export, "database": ingest_database}


def _measure(what: str, path: Path) -> tuple[float, float, float]:
    """Run one of the two in a process of its own; return CPU seconds, seconds and peak memory in MB."""
    done = subprocess.run([sys.executable, __file__, what, str(path)], check=True, capture_output=True, text=True)
    cpu_seconds, seconds, peak = (float(number) for number in done.stdout.split())
    return cpu_seconds, seconds, peak


def main(kernel_count: int, folder: Path) -> None:
    """Print the table."""
    paths = {"export": folder / f"bench_{kernel_count}.sqlite", "database": folder / f"bench_{kernel_count}_results.db"}
    for what, write in (("export", write_export), ("database", write_database)):
        if not paths[what].exists():
            write(paths[what], kernel_count)
    # In turn, so that what else the machine does falls on both.
    rounds = [{what: _measure(what, path) for what, path in paths.items()} for _ in range(_ROUNDS)]
    best = {what: min(measured[what] for measured in rounds) for what in paths}
    lines = [f"{kernel_count:,} kernels", "", "| | MB | CPU s | wall s | peak MB |", "|---|---:|---:|---:|---:|"]
    for what, (cpu_seconds, seconds, peak) in best.items():
        size = paths[what].stat().st_size / 1e6
        lines.append(f"| {what} | {size:,.0f} | {cpu_seconds:.2f} | {seconds:.2f} | {peak:.0f} |")
    lines.append(f"\nCPU of the database / CPU of the export: {best['database'][0] / best['export'][0]:.2f}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] in (["export"], ["database"]):
        began = time.perf_counter()
        _MEASURED[sys.argv[1]](Path(sys.argv[2]))
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_SELF)
        sys.stdout.write(f"{used.ru_utime + used.ru_stime} {seconds} {used.ru_maxrss / 1024}\n")
    else:
        where = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.gettempdir())
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, where)
