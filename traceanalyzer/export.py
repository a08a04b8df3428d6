"""Every metric of a run as a file: each computed once, on all cores, beside the attribution that some build on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import duckdb

from traceanalyzer import engine
from traceanalyzer.engine import StoredTrace
from traceanalyzer.errors import TraceAnalyzerError

LAYOUTS = {"parquet": "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2", "csv": "FORMAT csv, HEADER"}
_ATTRIBUTION = "attribution"

Take = Callable[[duckdb.DuckDBPyConnection, str, str], None]


def export_metrics(
    traces: Sequence[StoredTrace],
    attribute: Callable[[], Path],
    folder: Path,
    names: Sequence[str] = (),
    layout: str = "parquet",
    jobs: int | None = None,
) -> dict[str, Path]:
    """Write metrics, all unless some are named, into a folder; return the file of each.

    All files appear at the end, in place of those of an earlier export, and none where one cannot be computed.
    `attribute` and `jobs` are as in `compute_metrics`. Raises TraceAnalyzerError where the folder cannot be written.
    """
    wanted = list(names) or list(engine.metrics())
    files = {name: folder / f"{name}.{layout}" for name in wanted}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as scratch:
            parts = {name: Path(scratch) / file.name for name, file in files.items()}

            def write(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
                connection.execute(f"COPY ({query}) TO {engine.literal(parts[name])} ({LAYOUTS[layout]})")

            compute_metrics(traces, attribute, wanted, write, jobs)
            for name, part in parts.items():
                part.replace(files[name])
    except (OSError, duckdb.IOException) as error:
        what = (error.strerror if isinstance(error, OSError) else None) or error
        raise TraceAnalyzerError(f"metrics cannot be written: {what}", folder, "name another folder") from error
    return files


def compute_metrics(
    traces: Sequence[StoredTrace],
    attribute: Callable[[], Path],
    names: Sequence[str],
    take: Take,
    jobs: int | None = None,
) -> None:
    """Compute metrics and hand each over: a connection, its name, and the query that gives its rows there.

    What several of them read is computed once. `attribute` returns the folder of the attribution tables; it is asked,
    where some need them, while metrics that can do without are computed. `jobs` is the number of cores to use, all by
    default; `take` is called from that many threads.
    """
    workers = jobs or os.cpu_count() or 1
    order = engine.after_what_they_read(names)
    read = {other for name in order for other in engine.reads(name)}
    attributed = [name for name in order if engine.needs_attribution(name)]
    waiting: dict[str, set[str]] = {_ATTRIBUTION: set()} if attributed else {}
    waiting |= {name: set(engine.reads(name)) for name in order}
    for name in attributed:
        waiting[name].add(_ATTRIBUTION)
    with engine.connect_unattributed(traces) as connection, ThreadPoolExecutor(workers) as pool:
        # Many queries at once use the cores better than one query on many.
        connection.execute("SET threads = 1")

        def compute(name: str) -> None:
            with connection.cursor() as own:
                if name == _ATTRIBUTION:
                    engine.add_attribution(own, attribute())
                    return
                query = engine.metrics()[name].sql
                if name in read:
                    own.execute(f"CREATE TABLE main.{name} AS {query}")
                    query = f"FROM main.{name}"
                if name in names:
                    take(own, name, query)

        _in_turn(waiting, compute, pool)


def _in_turn(waiting: dict[str, set[str]], do: Callable[[str], None], pool: ThreadPoolExecutor) -> None:
    """Do each of some tasks once those that it waits for are done."""
    running: dict[Future[None], str] = {}
    while waiting or running:
        for name in [name for name, others in waiting.items() if not others]:
            del waiting[name]
            running[pool.submit(do, name)] = name
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for task in done:
            task.result()
            name = running.pop(task)
            for others in waiting.values():
                others.discard(name)
