"""Writes metrics of a run as files: each computed once, on all cores, while attribution is computed beside them."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path
from types import MappingProxyType

import duckdb

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.metrics import Metric, metrics, with_those_below
from traceanalyzer.process import unfinished
from traceanalyzer.query import engine
from traceanalyzer.store.inputs import NcuTable, StoredTrace
from traceanalyzer.text.visible import cell_sql, literal

LAYOUTS = {"parquet": "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2", "csv": "FORMAT csv, HEADER"}
_ATTRIBUTION = "attribution"
# Parquet has no such integers: DuckDB would write them as DOUBLE.
_WIDE = ("HUGEINT", "UHUGEINT")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Take = Callable[[duckdb.DuckDBPyConnection, str, str], None]


def export_metrics(
    traces: Sequence[StoredTrace],
    attribute: Callable[[], Path],
    folder: Path,
    names: Sequence[str] = (),
    layout: str = "parquet",
    jobs: int | None = None,
    replaced: Mapping[str, str] = MappingProxyType({}),
    ncu_tables: Sequence[NcuTable] = (),
    captures: Sequence[StoredTrace] = (),
) -> dict[str, Path]:
    """Write metrics into a folder, all of them unless `names` names some; return the file of each.

    All files appear at the end and replace those of an earlier export; none appears where one cannot be computed.
    `attribute`, `jobs`, `replaced`, `ncu_tables` and `captures` are as in `compute_metrics`. Raises TraceAnalyzerError
    where the folder cannot be written.
    """
    wanted = list(names) or list(metrics())
    files = {name: folder / f"{name}.{layout}" for name in wanted}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as scratch, unfinished(Path(scratch)):
            parts = {name: Path(scratch) / file.name for name, file in files.items()}

            def write(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
                query = _as_written(metrics()[name], query, layout)
                connection.execute(f"COPY ({query}) TO {literal(parts[name])} ({LAYOUTS[layout]})")

            compute_metrics(traces, attribute, wanted, write, jobs, replaced, ncu_tables, captures)
            for name, part in parts.items():
                part.replace(files[name])
    except (OSError, duckdb.IOException) as error:
        # DuckDB gives the system's reason somewhere in its text.
        full = next((cause for cause in map(os.strerror, _FULL) if cause in str(error)), None)
        what = full or (error.strerror if isinstance(error, OSError) else None) or error
        hint = "make room there, or name another folder" if full else "name another folder"
        raise TraceAnalyzerError(f"metrics cannot be written: {what}", folder, hint) from error
    return files


def _as_written(metric: Metric, query: str, layout: str) -> str:
    """Return the query of a metric with the columns that a file cannot hold as they are."""
    replaced = {column.name: f'"{column.name}"::DECIMAL(38, 0)' for column in metric.columns if column.type in _WIDE}
    if layout == "csv":
        replaced |= {column.name: cell_sql(f'"{column.name}"') for column in metric.columns if column.type == "VARCHAR"}
    terms = ", ".join(f'{term} AS "{name}"' for name, term in replaced.items())
    return f"SELECT * REPLACE ({terms}) FROM ({query})" if terms else query


def compute_metrics(
    traces: Sequence[StoredTrace],
    attribute: Callable[[], Path],
    names: Sequence[str],
    take: Take,
    jobs: int | None = None,
    replaced: Mapping[str, str] = MappingProxyType({}),
    ncu_tables: Sequence[NcuTable] = (),
    captures: Sequence[StoredTrace] = (),
) -> None:
    """Compute metrics and pass each to `take`: a connection, the metric's name, and the query that returns its rows.

    A metric that others read is computed once. `attribute` returns the folder of the attribution tables; it is called
    only where a metric needs them, while the other metrics are computed. `jobs` is the number of cores to use, all by
    default; that many threads call `take`. `replaced` are queries that take the place of metrics', by name;
    `ncu_tables` are tables that lie beside the traces, and `captures` are of the graphs that these replay.
    """
    workers = jobs or os.cpu_count() or 1
    wanted = with_those_below(names)
    read = {other for metric in wanted.values() for other in metric.reads}
    waits_for: dict[str, frozenset[str]] = {}
    if any(metric.needs_attribution for metric in wanted.values()):
        waits_for[_ATTRIBUTION] = frozenset()  # first, because it takes longest
    for name, metric in wanted.items():
        waits_for[name] = metric.reads | ({_ATTRIBUTION} if metric.needs_attribution else frozenset())
    with engine.connect_unattributed(traces, ncu_tables, captures) as connection, ThreadPoolExecutor(workers) as pool:
        # Many queries at once use the cores better than one query on many.
        connection.execute("SET threads = 1")

        def compute(name: str) -> None:
            with connection.cursor() as own:
                if name == _ATTRIBUTION:
                    engine.add_attribution(own, attribute())
                    return
                query = replaced.get(name, metrics()[name].sql)
                if name in read:
                    engine.define_metric(own, name, "TABLE", replaced)
                    query = f"FROM main.{name}"
                if name in names:
                    take(own, name, query)

        _in_turn(waits_for, compute, pool)


def _in_turn(waits_for: Mapping[str, Iterable[str]], do: Callable[[str], None], pool: ThreadPoolExecutor) -> None:
    """Do each task once those that it waits for are done."""
    tasks = TopologicalSorter(waits_for)
    tasks.prepare()
    running: dict[Future[None], str] = {}
    while tasks.is_active():
        running |= {pool.submit(do, name): name for name in tasks.get_ready()}
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for task in done:
            task.result()
            tasks.done(running.pop(task))
