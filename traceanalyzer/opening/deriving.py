"""Attribution of a run, from the store or computed: where it lies there, nothing that computes is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

from traceanalyzer.attribution.options import AttributionOptions
from traceanalyzer.settings.settings import SettingsFile
from traceanalyzer.store.inputs import StoredTrace
from traceanalyzer.store.store import Store


def with_names(options: AttributionOptions, settings_file: SettingsFile) -> AttributionOptions:
    """Return options with the names in the project's settings, unless they have some."""
    return options if options.names is not None else replace(options, names=settings_file.read().names)


def derived_place(
    opened_store: Store,
    traces: Sequence[StoredTrace],
    options: AttributionOptions,
    captures: Sequence[StoredTrace] = (),
) -> Path:
    """Return where the attribution tables of some traces lie, once they are there."""
    # Ranks, and which traces are recordings of one, may come from the files' names, on which no trace's folder depends.
    ranks = [trace.trace if trace.rank is None else trace.rank for trace in traces]
    asked = f"{options.key()} {ranks}"
    if captures:
        asked += f" captures {[capture.rank for capture in captures]}"
    return opened_store.derived_place([trace.folder for trace in (*traces, *captures)], asked)


def derived_of(
    opened_store: Store,
    traces: Sequence[StoredTrace],
    options: AttributionOptions,
    jobs: int | None,
    executor: Executor | None = None,
    captures: Sequence[StoredTrace] = (),
) -> Path:
    """Return the folder of the attribution tables of some traces, computed if the store lacks them.

    An `executor` runs the tasks, by default threads of this process.
    """
    target = derived_place(opened_store, traces, options, captures)

    def compute(scratch: Path) -> None:
        import pyarrow.parquet as pq

        from traceanalyzer.attribution.replay.bounds import HELD_DEVICES
        from traceanalyzer.opening.attributing import in_processes, in_threads, kept_matched
        from traceanalyzer.opening.screening import scans_of_run
        from traceanalyzer.query import engine
        from traceanalyzer.query.canonical import connect_canonical
        from traceanalyzer.schema.parquet_files import parquet_options

        matched, attributed = kept_matched(opened_store, target.name), None
        if executor is not None:
            attributed = in_processes(opened_store, target.name, traces, options, executor)
        elif len(traces) > 1 or matched is not None:
            attributed = in_threads(opened_store, target.name, traces, options, jobs or os.cpu_count() or 1)
        with connect_canonical(traces, captures=captures) as connection:
            folder = scratch if len(traces) > HELD_DEVICES else None
            scans_of = scans_of_run(scratch, executor, opened_store.place, target.name)
            tables = engine.compute_derived(connection, options, matched, attributed, folder, scans_of)
            for name, table in tables.items():
                pq.write_table(table, scratch / f"{name}.parquet", **parquet_options(table.schema))

    return opened_store.derived_folder(target, [trace.folder for trace in (*traces, *captures)], compute)
